"""Operators whose kernels, gradients or arguments know no symbolic sizes: two captures all the same, with eager's results and gradients."""

import framefuse
import pytest
import torch
import torch.nn.functional as F
from torch import nn

SIZES = (5, 7, 9, 4, 12, 3, 33, 6)


def tensor(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def with_ties(n):
    """Its extremes come several times."""
    return (tensor(n, 3).mul(2).round(),)


def with_nan(n):
    made = tensor(n, 3)
    made[n // 2, 1] = torch.nan
    return (made,)


layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.25).double()

PROGRAMS = {
    **{
        f"{name} {make.__name__}": (lambda x, name=name: getattr(x, name)() * x, make)
        for name in ("max", "min", "median", "nanmedian")
        for make in (with_ties, with_nan)
    },
    "softmax of attention": (layer, lambda n: (tensor(2, n, 8),)),
    "attention with rows that are masked": (
        lambda q, m: F.scaled_dot_product_attention(q, q, q, m > 0),
        lambda n: (tensor(2, 2, n, 4), tensor(n, n).detach()),
    ),
    "arange by a float": (lambda x: torch.arange(0, x.shape[0], 0.3, dtype=torch.float64).sum() * x, lambda n: (tensor(n),)),
    "arange from a number by a float": (lambda x: torch.arange(1, x.shape[0] + 1, 0.5)[:, None] * x, lambda n: (tensor(n),)),
    "arange by a quotient": (lambda x: torch.arange(0, 1, 1 / x.shape[0]).cos() * x[:1], lambda n: (tensor(n),)),
    "linspace": (lambda x: torch.linspace(-1, 1, x.shape[0]) * x, lambda n: (tensor(n),)),
    "linspace by name": (lambda x: torch.linspace(start=0, end=2.5, steps=x.shape[0] * 2, dtype=torch.float64)[::2] * x, lambda n: (tensor(n),)),
    "linspace to a size": (lambda x: torch.linspace(0, x.shape[0] - 1, 5)[:, None] * x, lambda n: (tensor(n),)),
    "logspace": (lambda x: torch.logspace(0, 1, x.shape[0], base=2.0) * x, lambda n: (tensor(n),)),
    "a permutation": (lambda x: x[torch.randperm(x.shape[0])], lambda n: (tensor(n, 2),)),
    "normal numbers": (lambda x: torch.normal(0.0, 2.0, x.shape) * x, lambda n: (tensor(n, 2),)),
    "a mean in torch's own code": (lambda x, y: F.kl_div(x, y.softmax(-1), reduction="batchmean"), lambda n: (tensor(n, 5), tensor(n, 5))),
}


@pytest.mark.parametrize("backend", ["aten", "fuse"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_two_captures(name, backend):
    f, make = PROGRAMS[name]
    compiled = framefuse.compile(f, backend=backend, fullgraph=True)
    before = framefuse.statistics()["captures"]
    for size in SIZES:
        results = []
        for call in (compiled, f):
            torch.manual_seed(size)
            inputs = [t.requires_grad_() for t in make(size)]
            torch.manual_seed(size)
            result = call(*inputs)
            gradients = torch.autograd.grad(result.square().sum(), inputs, allow_unused=True)
            results.append((result, gradients))
        torch.testing.assert_close(*results, equal_nan=True)
    assert framefuse.statistics()["captures"] - before <= 2


def test_a_second_derivative_of_an_extreme():
    def f(x):
        (gradient,) = torch.autograd.grad((x.max() * x).exp().sum(), x, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), x)[0]

    compiled = framefuse.compile(f, dynamic=True)
    for size in SIZES:
        x = with_ties(size)[0].requires_grad_()
        torch.testing.assert_close(compiled(x), f(x))


def test_steps_that_nobody_can_take():
    """Torch's errors are eager's, and what is left to the binding is done by it."""
    f = lambda x, n: x.sum() + torch.linspace(0, 1, n).sum()  # noqa: E731
    compiled = framefuse.compile(f)
    x = tensor(2)
    for n in (3, 5, 0, 1, 7):
        torch.testing.assert_close(compiled(x, n), f(x, n))
    with pytest.raises(RuntimeError, match="number of steps must be non-negative"):
        compiled(x, -4)
    out = torch.empty(0)
    into = framefuse.compile(lambda x, n: torch.linspace(0, 1, n, out=x).clone())
    for n in (3, 5, 7):
        torch.testing.assert_close(into(out.new_empty(n), n), torch.linspace(0, 1, n))
    asked = framefuse.compile(lambda x, n: torch.linspace(0, 1, n, requires_grad=True) * x)
    for n in (3, 5, 7):
        torch.testing.assert_close(asked(torch.ones(n), n), torch.linspace(0, 1, n))
