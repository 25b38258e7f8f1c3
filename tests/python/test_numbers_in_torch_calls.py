"""Numbers that change by call and go into functions of torch and of Python: few captures, and what eager gives."""

import math

import framefuse
import pytest
import torch
import torch.nn.functional as F

X = torch.linspace(-2, 2.5, 240).reshape(10, 24)
FLOATS = (0.3, 1.5, 2.7, 0.9, 3.3, 1.1, 4.6, 2.2, 5.1, 0.4, 6.8, 7.7)
INTEGERS = (3, 4, 5, 6, 7, 8, 9, 10, 2, 5, 3, 8)


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    framefuse.reset()


def _run(f, x, number, seed):
    torch.manual_seed(seed)
    x = x.clone().requires_grad_()
    result = f(x, number)
    tensors = [r for r in (result if isinstance(result, tuple) else (result,)) if isinstance(r, torch.Tensor) and r.requires_grad]
    gradient = torch.autograd.grad(sum(t.sin().sum() for t in tensors), x) if tensors else ()
    return result, gradient, torch.get_rng_state()


def _captures(f, numbers, x=X, backend="fuse"):
    """How many captures all calls took: each has eager's result, gradient and random state, and none ran as Python."""
    compiled = framefuse.compile(f, backend=backend)
    before = framefuse.statistics()
    for seed, number in enumerate(numbers):
        (expected, gradient, state), (result, actual, after) = _run(f, x, number, seed), _run(compiled, x, number, seed)
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(actual, gradient)
        assert torch.equal(after, state)
        for a, b in zip(*[r if isinstance(r, tuple) else (r,) for r in (result, expected)]):
            assert type(a) is type(b)
    now = framefuse.statistics()
    assert now["eager_fallbacks"] == before["eager_fallbacks"] and now["graph_breaks"] == before["graph_breaks"]
    return now["captures"] - before["captures"]


OF_FLOATS = {
    "dropout": lambda x, f: F.dropout(x, f / 10) * 2,
    "dropout of channels": lambda x, f: F.dropout2d(x.view(2, 5, 4, 6), f / 10) + f,
    "dropout that drops nothing": lambda x, f: F.dropout(x, f / 10, False) * 2,
    "a uniform draw": lambda x, f: x * torch.empty(24).uniform_(-f, f),
    "a normal draw": lambda x, f: x * torch.empty(24).normal_(0.5, f),
    "a draw of truths": lambda x, f: x * torch.empty(24).bernoulli_(f / 10),
    "celu": lambda x, f: F.celu(x, f),
    "a threshold of a loss": lambda x, f: F.huber_loss(x, x.detach().cos(), delta=f),
    "a smooth loss": lambda x, f: F.smooth_l1_loss(x, x.detach().cos(), reduction="none", beta=f),
    "padding": lambda x, f: F.pad(x, (1, 2), value=f) * 2,
    "a power": lambda x, f: ((x.detach().abs() / 3) ** f * 2, x * 2),
    "a remainder": lambda x, f: torch.fmod(x, f) + torch.remainder(x, f),
    "what is divided": lambda x, f: torch.remainder(f, x.detach() + 9) * x,
    "a list": lambda x, f: torch.tensor([f, 1.0, f * 2]) * x.sum(),
    "a list of a type": lambda x, f: x.new_tensor([f, 1.0]) * x.sum(),
    "rounded": lambda x, f: (x * round(f, 1), round(f * 1.137, 2), round(f)),
    "divmod": lambda x, f: (x * 2, *divmod(f, 0.7), *divmod(-f, 0.7)),
    "questions": lambda x, f: x * f if math.isfinite(f) and not math.isnan(f) and not math.isinf(f) else x,
    "signs": lambda x, f: (x * +f, +f, -f),
    "among floats": lambda x, f: x * 2 if f in (0.25, 1, None) else x * f,
}
OF_INTEGERS = {
    "windows": lambda x, n: x.unfold(1, n, 2) * 2,
    "windows by other steps": lambda x, n: (x.detach() * 2).unfold(-1, 4, n) * 2,
    "a diagonal": lambda x, n: x.diagonal(n) * 2,
    "a diagonal below": lambda x, n: torch.diagonal(x * 2, -n + 1, 1, 0) * 2,
    "a diagonal of its own": lambda x, n: torch.diag(x, n) * 2,
    "a list": lambda x, n: torch.tensor([n, 2]) * x.sum(),
    "shifts": lambda x, n: (x * (n << 2), (n - 6) >> 1, (n - 6) & 7, 3 & n, ~n, +n),
    "a power and a remainder": lambda x, n: (x * pow(n, 2, 5), pow(n, 3, 7)),
    "in a range": lambda x, n: x * 2 if n in range(0, 100, 2) else x * n,
    "out of a range": lambda x, n: x * 2 if n in range(20, 40) else x * n,
    "the length in bits": lambda x, n: (x * n, int.bit_length(n)),
}


@pytest.mark.parametrize("name", OF_FLOATS)
def test_floats(name):
    assert _captures(OF_FLOATS[name], FLOATS) <= 3


@pytest.mark.parametrize("name", OF_INTEGERS)
def test_integers(name):
    assert _captures(OF_INTEGERS[name], INTEGERS) <= 3


def test_rounding_is_pythons():
    """The nearest decimal of the exact value, and the even one of two."""
    numbers = (2.675, 2.5, 0.125, 1.005, -0.001, 1e300, 123456.785, -2.675, 0.375)
    assert _captures(lambda x, f: (x * 2, round(f, 2), round(f, 0)), numbers) == 2


@pytest.mark.parametrize("backend", ["fuse", "aten"])
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_a_size_that_follows_from_a_float(mode, backend):
    """Metadata that is found by examples: the examples have to move the float, too, and each new one is checked."""

    def f(x, scale):
        y = F.interpolate(x.view(2, 5, 4, 6), scale_factor=scale, mode=mode, recompute_scale_factor=True)
        return y, y.shape[2], y.stride(1)

    assert _captures(f, (2.0, 1.5, 0.5, 3.0, 2.5, 1.25, 4.0, 3.0, 3.0, 3.0, 2.5), backend=backend) == 2
