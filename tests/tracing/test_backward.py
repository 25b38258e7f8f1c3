"""Joint graphs: gradients, tangents, what happens to autograd inside the frame."""
import gc

import pytest
import torch
import torch.nn.functional as F

from harness import Broke, Recording, check, native, record


@pytest.fixture(autouse=True)
def no_fake_survives():
    yield
    gc.collect()
    assert native.live_fakes() == 0


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def test_mlp():
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    closed = check(lambda x, y: F.cross_entropy(module(x), y), torch.randn(5, 8), torch.randint(0, 4, (5,)), module=module)
    assert closed.has_backward
    assert [o["role"] for o in closed.outputs()].count("gradient") == 4


def test_no_backward_without_gradients():
    assert not check(lambda x: x.exp(), torch.randn(3)).has_backward


def test_two_outputs_two_tangents():
    closed = check(lambda x, w: (x @ w, (x * 2).sum()), leaf(3, 4), leaf(4, 5))
    assert len([r for r in closed.inputs() if r["tangent_of"] >= 0]) == 2


def test_gradient_of_unused_input_is_left_out():
    closed = check(lambda x, y: x * 2, leaf(3), leaf(3))
    assert [r["index"] for r in closed.inputs() if r["tangent_of"] < 0] == [0]


def test_input_that_is_no_leaf():
    a = leaf(3, 4)
    x = a * 2

    def f(x):
        assert not x.is_leaf and x.requires_grad
        return x.sin()

    r = record(f, x)
    tangents, _ = r.tangents()
    outputs, gradients, mismatches, _ = r.closed.execute(r.real_inputs(), tangents)
    assert not mismatches
    want, = torch.autograd.grad(x.sin(), x, tangents)
    assert torch.equal(gradients[0][1], want)


def test_view_of_input_has_no_tangent():
    closed = check(lambda x: (x.view(-1), x * 2), leaf(3, 4))
    assert [r["tangent_of"] for r in closed.inputs() if r["tangent_of"] >= 0] == [1]


def test_hidden_base_gets_the_tangent():
    def f(x):
        y = x * 2
        return y[0], y[1]

    closed = check(f, leaf(3, 4))
    assert [r["tangent_of"] for r in closed.inputs() if r["tangent_of"] >= 0] == [2]


def test_custom_function():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return g * 2 + x * 0

    check(lambda x: Twice.apply(x).sin(), leaf(3))


def test_no_grad_and_detach():
    def f(x):
        with torch.no_grad():
            y = x * 2
        return y, x.sin().detach(), (x * 3).detach() * x

    outputs = check(f, leaf(3)).outputs()
    assert [o["requires_grad"] for o in outputs[:3]] == [False, False, True]


def test_backward_inside_the_frame():
    model = torch.nn.Linear(4, 3)
    x = torch.randn(5, 4)

    def f(x):
        loss = model(x).pow(2).sum()
        loss.backward()
        return loss.detach(), model.weight.grad * 1

    r = Recording(f, (x,), module=model)
    assert sorted(r.closed.gradient_effects) == [(0, 2), (1, 3)]
    outputs, _, mismatches, _ = r.closed.execute(r.real_inputs())
    assert not mismatches
    model(x).pow(2).sum().backward()
    assert torch.equal(outputs[2], model.weight.grad) and torch.equal(outputs[3], model.bias.grad)
    r.drop()


def test_backward_accumulates_into_existing_gradients():
    w = leaf(3)
    w.grad = torch.ones(3)
    before = w.grad.clone()

    def f(w):
        (w * 2).sum().backward()
        return []

    r = record(f, w)
    assert r.closed.gradients_read == [0]
    grad = w.grad.clone()
    r.closed.execute(r.real_inputs())
    got = w.grad.clone() if not r.closed.gradient_effects else r.closed.execute(r.real_inputs())[0][0]
    assert torch.equal(got, before + 2)
    w.grad = grad
    r.drop()


def test_output_whose_graph_was_consumed():
    def f(x):
        loss = (x * x).sum()
        loss.backward()
        return loss

    r = record(f, leaf(3))
    assert "grad spent" in r.closed.text()
    assert not r.closed.has_backward
    r.drop()


def test_autograd_grad_inside():
    def f(x, y):
        g, = torch.autograd.grad((x * y).sum(), x)
        return g * 2

    check(f, leaf(3), torch.randn(3))


def test_double_backward_inside():
    def f(x):
        g, = torch.autograd.grad((x ** 3).sum(), x, create_graph=True)
        return (g * g).sum()

    check(f, leaf(3))


def test_sgd_step_inside():
    model = torch.nn.Linear(4, 3)
    x = torch.randn(5, 4)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)

    def f(x):
        params = list(model.parameters())
        for p in params:
            p.grad.zero_()
        loss = model(x).pow(2).sum()
        loss.backward()
        with torch.no_grad():
            for p in params:
                p.sub_(p.grad, alpha=0.1)
        return loss.detach()

    r = Recording(f, (x,), module=model)
    import copy
    expected = copy.deepcopy(model)
    loss = expected(x).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        for p in expected.parameters():
            p.sub_(p.grad, alpha=0.1)
    r.closed.execute(r.real_inputs())
    for a, b in zip(model.parameters(), expected.parameters()):
        assert torch.equal(a, b)
    r.drop()


def test_hooked_parameter_breaks():
    w = leaf(3)
    w.register_hook(lambda g: g * 2)
    with pytest.raises(Broke, match="hooks"):
        record(lambda w: [(w * 2).sum().backward()] and [], w)


def test_checkpoint():
    from torch.utils.checkpoint import checkpoint
    check(lambda x, w: checkpoint(lambda a, b: (a @ b).relu().sin(), x, w, use_reentrant=False, preserve_rng_state=False),
          leaf(3, 4), leaf(4, 5))


def test_functorch_transforms():
    check(lambda x: torch.func.grad(lambda a: (a.sin() ** 2).sum())(x), torch.randn(3))
    check(lambda x, y: torch.vmap(torch.dot)(x, y), torch.randn(3, 4), torch.randn(3, 4))
