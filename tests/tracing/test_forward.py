"""Forward graphs of simple functions, breaks, and that no fake survives."""
import gc

import pytest
import torch

from harness import Broke, check, native, record


@pytest.fixture(autouse=True)
def no_fake_survives():
    yield
    gc.collect()
    assert native.live_fakes() == 0


def test_pointwise_chain():
    closed = check(lambda x, y: torch.sin(x) + torch.cos(y) * 2, torch.randn(4, 5), torch.randn(5))
    assert "aten.sin" in closed.text()


def test_linear_gelu_layer_norm():
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16))
    check(module, torch.randn(3, 8), module=module)


def test_parameters_keep_their_class():
    p = torch.nn.Parameter(torch.randn(3))
    r = record(lambda x: [x * 2] if isinstance(x, torch.nn.Parameter) else [], p)
    assert len(r.outputs) == 1
    del r


def test_same_tensor_same_fake():
    t = native.Tracer()
    x = torch.randn(3)
    assert t.make_input(x, "argument", 0, "x") is t.make_input(x, "argument", 1, "x")
    assert t.real_of(t.make_input(x, "argument", 0, "x")) is x
    t.drop()


@pytest.mark.parametrize("f", [
    lambda x: x.sum().item(),
    lambda x: bool(x.sum() > 0),
    lambda x: x.nonzero(),
    lambda x: x[x > 0],
    lambda x: torch.unique(x),
    lambda x: float(x.sum()),
])
def test_data_dependent_breaks(f):
    with pytest.raises(Broke, match="data-dependent"):
        record(f, torch.randn(3))


def test_break_is_sticky():
    def f(x):
        try:
            x.sum().item()
        except BaseException:
            pass
        return x + 1

    with pytest.raises(Broke):
        record(f, torch.randn(3))


def test_untraced_tensor_breaks():
    other = torch.randn(3)
    with pytest.raises(Broke, match="untraced"):
        record(lambda x: x + other, torch.randn(3))


def test_two_untraced_tensors_break():
    a, b = torch.randn(3), torch.randn(3)
    with pytest.raises(Broke, match="untraced"):
        record(lambda x: a + b, torch.randn(3))


def test_data_cannot_be_read():
    for f in (lambda x: x.tolist(), lambda x: x.numpy(), lambda x: x.data_ptr() and x.untyped_storage().data_ptr()):
        with pytest.raises((RuntimeError, Broke)):
            record(f, torch.randn(3))


def test_errors_are_eagers():
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    with pytest.raises(RuntimeError) as eager:
        a @ b
    with pytest.raises(RuntimeError) as traced:
        record(lambda x, y: x @ y, a, b)
    assert str(eager.value) == str(traced.value)


def test_number_written_by_index_is_a_constant():
    def f(x):
        y = x.clone()
        y[0] = 3.0
        y[1, 2:] = 7
        return y

    check(f, torch.randn(3, 4))


def test_views_share_storage():
    check(lambda x: (x * 2).view(6, 2).t()[1:, :3].unsqueeze(0).expand(4, -1, -1), torch.randn(3, 4))


@pytest.mark.parametrize("swapped", [False, True])
def test_encoder_layer_in_one_operator(swapped):
    layer = torch.nn.TransformerEncoderLayer(8, 2, 12, batch_first=True).eval()

    def f(x):
        with torch.no_grad():
            return layer(x.transpose(0, 1) if swapped else x)

    closed = check(f, torch.randn(2, 3, 8), module=layer)
    assert "_transformer_encoder_layer_fwd" in closed.text()


def test_output_aliases():
    def f(x):
        y = x * 2
        return x, x.view(-1), y, y[0], y

    outputs = check(f, torch.randn(3, 4)).outputs()
    assert [(o["alias"], o["alias_of"]) for o in outputs] == [
        ("input", 0), ("view_of_input", 0), ("fresh", -1), ("view_of_output", 2), ("output", 2)]


def test_hidden_base():
    def f(x):
        y = x * 2
        return y[0], y[1]

    outputs = check(f, torch.randn(3, 4)).outputs()
    assert [o["role"] for o in outputs] == ["user", "user", "hidden"]
    assert [o["alias_of"] for o in outputs] == [2, 2, -1]
