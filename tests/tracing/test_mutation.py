"""In-place operators, mutated inputs, batch norm, dropout and other random operators."""
import gc

import pytest
import torch
import torch.nn.functional as F

from harness import Broke, check, native, record


@pytest.fixture(autouse=True)
def no_fake_survives():
    yield
    gc.collect()
    assert native.live_fakes() == 0


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def test_in_place_on_fresh():
    check(lambda x: (x * 2).add_(1).mul_(x).relu_(), torch.randn(3, 4))


def test_in_place_with_gradient():
    check(lambda x: (x * 2).sin_().mul_(x), leaf(3, 4))


def test_write_through_a_view():
    def f(x):
        y = x * 2
        y[1].add_(1)
        y.t()[2:] *= 3
        return y, y.view(-1)

    check(f, leaf(3, 4))


def test_mutated_input():
    closed = check(lambda x, y: x.add_(y).sin(), torch.randn(3), torch.randn(3))
    assert [r["mutated"] for r in closed.inputs()] == [True, False]
    assert closed.inputs()[0]["mutated_without_grad"]


def test_mutation_through_a_view_of_an_input():
    def f(x):
        x.view(-1)[2:4].zero_()
        return x + 1

    check(f, torch.randn(3, 4))


def test_overlapping_inputs():
    a = torch.randn(12)
    closed = check(lambda a, b: (a.add_(1), b * 2)[1], a, a.view(3, 4))
    assert [r["overlap_class"] for r in closed.inputs()] == [1, 1]


def test_input_that_starts_to_require_grad():
    closed = check(lambda x, w: x.mul_(w), torch.randn(3), leaf(3))
    row = closed.inputs()[0]
    assert row["mutated"] and not row["mutated_without_grad"]


def test_leaf_in_place_error_is_eagers():
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        record(lambda x: x.add_(1), leaf(3))


def test_saved_tensor_modified_error_is_eagers():
    def f(x):
        y = x.exp()
        z = y * 2
        y.add_(1)
        return torch.autograd.grad(y.sum() + z.sum(), x)

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        record(f, leaf(3))


@pytest.mark.parametrize("f", [
    lambda x: x.resize_(5, 5),  # more than there is memory for
    lambda x: x.set_(),
    lambda x: [setattr(x, "data", x * 2)],
])
def test_metadata_mutation_of_an_input_breaks(f):
    with pytest.raises(Broke, match="metadata|requires_grad"):
        record(f, torch.randn(3, 4))


@pytest.mark.parametrize("f, sizes", [
    (lambda x: x.t_() * 2, [4, 3]),
    (lambda x: x.unsqueeze_(0) + 1, [1, 3, 4]),
    (lambda x: x.resize_(2, 2) + 1, [2, 2]),
])
def test_sizes_of_an_input_that_change_are_seen_by_what_follows(f, sizes):
    recording = record(f, torch.randn(3, 4))  # the input itself is changed behind the graph, which has no form for it
    assert [output["sizes"] for output in recording.closed.outputs()] == [sizes]
    recording.drop()


def test_metadata_mutation_of_a_fresh_tensor():
    def f(x):
        y = x * 2
        y.t_()
        y.unsqueeze_(0)
        return y + 1, y

    check(f, torch.randn(3, 4))


def test_out_argument():
    def f(x):
        out = torch.empty(3, 4)
        torch.add(x, 1, out=out)
        return out * 2

    check(f, torch.randn(3, 4))


def test_constant_is_never_written():
    t = native.Tracer()
    c = t.register_constant(torch.ones(3), False)
    t.begin()
    try:
        with pytest.raises(BaseException):
            c.add_(1)
    finally:
        t.end()
    assert t.pending_break()[0] == "mutation"
    del c
    t.drop()


def test_fresh_host_data_is_a_new_tensor_on_each_run():
    host = torch.tensor([1.0, 2.0, 3.0])
    t = native.Tracer()
    x = t.make_input(torch.ones(3), "argument", 0, "x")
    t.begin()
    try:
        c = t.register_constant(host, True)
        c.add_(x)
    finally:
        t.end()
    closed = t.close([c])
    host.zero_()
    for _ in range(2):
        assert closed.execute([torch.ones(3)], [])[0][0].tolist() == [2, 3, 4]
    del c, x
    t.drop()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("track", [True, False])
def test_batch_norm(training, track):
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4, track_running_stats=track),
                                 torch.nn.ReLU()).train(training)
    closed = check(module, torch.randn(2, 3, 6, 6), module=module)
    mutated = [r for r in closed.inputs() if r["mutated"]]
    assert len(mutated) == (3 if training and track else 0)


def test_batch_norm_channels_last():
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(),
                                 torch.nn.MaxPool2d(2)).to(memory_format=torch.channels_last)
    check(module, torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last), module=module)


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_dropout(p):
    check(lambda x: F.dropout(x, p, True).sin(), leaf(5, 6))


def test_random_operators_run_in_order():
    def f(x):
        a = torch.rand(3, 4)
        b = torch.randn_like(x)
        c = torch.empty(3, 4).uniform_(0, 2)
        d = torch.randint(0, 5, (3, 4))
        e = torch.bernoulli(torch.sigmoid(x))
        return a + b + c + d + e + torch.nn.init.normal_(torch.empty(3, 4))

    check(f, torch.randn(3, 4))


def test_tracing_consumes_no_random_numbers():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    r = record(lambda x: x + torch.rand(3), torch.zeros(3))
    assert torch.equal(before, torch.get_rng_state())
    r.drop()


def test_a_generator_is_drawn_from_later():
    generator = torch.Generator().manual_seed(3)
    before = generator.get_state()
    r = record(lambda x: torch.rand(3, generator=generator) + x, torch.zeros(3))
    assert torch.equal(before, generator.get_state())
    r.drop()


def test_versions_of_real_tensors_stay():
    x = torch.randn(3)
    r = record(lambda x: x.add_(1), x)
    assert x._version == 0
    r.drop()


def test_mutated_input_that_is_no_leaf():
    a, w = leaf(3), leaf(3)
    x = a * 2
    r = record(lambda x, w: x.mul_(w), x, w)
    row = r.closed.inputs()[0]
    assert row["mutated"] and not row["mutated_without_grad"] and row["version_bumps"] == 1
    tangents, _ = r.tangents()
    before = x.detach().clone()
    _, gradients, mismatches, _ = r.closed.execute([x, w], tangents)
    assert not mismatches
    assert torch.equal(dict(gradients)[0], tangents[0] * w) and torch.equal(dict(gradients)[1], tangents[0] * before)
    r.drop()


def test_detach_in_place_of_an_input_breaks():
    x = leaf(3) * 2
    with pytest.raises(Broke, match="history"):
        record(lambda x: [x.detach_()], x)
