"""Products of rows with a matrix, as framefuse writes them for torch versions whose own code takes plain sizes only."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from framefuse import _sized_calls
from torch.utils._python_dispatch import TorchDispatchMode

LAYOUTS = {
    "plain": lambda: torch.randn(2, 3, 6),
    "four dimensions": lambda: torch.randn(2, 3, 4, 6),
    "rows exchanged": lambda: torch.randn(3, 2, 6).transpose(0, 1),
    "columns exchanged": lambda: torch.randn(2, 6, 3).transpose(1, 2),
    "every second row": lambda: torch.randn(1, 4, 6)[:, ::2],
    "the first rows": lambda: torch.randn(2, 8, 6)[:, :3],
    "no elements": lambda: torch.randn(0, 3, 6),
    "a matrix": lambda: torch.randn(2, 6),
    "a vector": lambda: torch.randn(6),
}


class Calls(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def calls_of(f, *args):
    with Calls() as calls:
        result = f(*args)
    return calls.names, result


@pytest.mark.compiles_nothing("about the functions themselves")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("weight_grad", [False, True])
@pytest.mark.parametrize("input_grad", [False, True])
@pytest.mark.parametrize("records", [False, True])
def test_they_call_what_torch_calls(layout, weight_grad, input_grad, records):
    x, w = LAYOUTS[layout]().requires_grad_(input_grad), torch.randn(5, 6, requires_grad=weight_grad)
    with torch.set_grad_enabled(records):
        for ours, theirs, other in ((_sized_calls._linear, F.linear, w), (_sized_calls._matmul, torch.matmul, w.t())):
            names, result = calls_of(ours, x, other)
            expected_names, expected = calls_of(theirs, x, other)
            assert names == expected_names and torch.equal(result, expected) and result.stride() == expected.stride()


@pytest.mark.compiles_nothing("in this process")
def test_they_are_captured_once_for_all_sizes():
    program = """
import torch, framefuse
from framefuse import _sized_calls
_sized_calls.install(products=True)
linear = torch.nn.Linear(6, 5, bias=False)
def f(x):
    return linear(x).relu().matmul(linear.weight), torch.matmul(x, linear.weight.t()).sum()
compiled, before = framefuse.compile(f), framefuse.statistics()
for n in range(2, 12):
    x = torch.randn(3, n, 6)
    results, expected = compiled(x), f(x)
    grads = [torch.autograd.grad(r[0].sum() + r[1], linear.weight)[0] for r in (results, expected)]
    torch.testing.assert_close(results, expected)
    torch.testing.assert_close(*grads)
after = framefuse.statistics()
print([after[name] - before[name] for name in ("captures", "graph_breaks", "eager_fallbacks")])
"""
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True).stdout == "[2, 0, 0]\n"
