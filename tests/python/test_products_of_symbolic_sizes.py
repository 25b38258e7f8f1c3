"""Products of rows with a matrix, as framefuse writes them for torch versions whose own code takes plain sizes only."""

import re
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
    "one of one": lambda: torch.randn(1, 3, 6),
    "one in the middle": lambda: torch.randn(2, 1, 4, 6),
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
        linear, bias = (_sized_calls._linear, F.linear), torch.randn(5, requires_grad=weight_grad)
        for (ours, theirs), *others in ((linear, w), (linear, w, bias), ((_sized_calls._matmul, torch.matmul), w.t())):
            names, result = calls_of(ours, x, *others)
            expected_names, expected = calls_of(theirs, x, *others)
            assert names == expected_names and torch.equal(result, expected) and result.stride() == expected.stride()


OTHERS = {
    "a matrix": lambda: torch.randn(6, 5),
    "a matrix, turned": lambda: torch.randn(5, 6).t(),
    "as many": lambda: torch.randn(2, 6, 5),
    "one": lambda: torch.randn(1, 6, 5),
    "lists of lists": lambda: torch.randn(2, 3, 6, 5),
    "lists of lists, exchanged": lambda: torch.randn(2, 6, 3, 5).transpose(1, 2),
    "a list of one": lambda: torch.randn(2, 1, 6, 5),
    "more than there are": lambda: torch.randn(3, 6, 5),
    "a vector": lambda: torch.randn(6),
}


@pytest.mark.compiles_nothing("about the functions themselves")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("grads", [(False, False), (True, False), (False, True), (True, True)])
def test_lists_of_matrices(layout, other, grads):
    x, y = (made().requires_grad_(grad) for made, grad in zip((LAYOUTS[layout], OTHERS[other]), grads))
    try:
        expected_names, expected = calls_of(torch.matmul, x, y)
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match=re.escape(str(error))):
            _sized_calls._matmul(x, y)
    else:
        names, result = calls_of(_sized_calls._matmul, x, y)
        assert names == expected_names and torch.equal(result, expected) and result.stride() == expected.stride()


@pytest.mark.compiles_nothing("in this process")
def test_they_are_captured_once_for_all_sizes():
    program = """
import torch, framefuse
from framefuse import _sized_calls
_sized_calls.install(products=True)
linear, biased = torch.nn.Linear(6, 5, bias=False), torch.nn.Linear(6, 5)
def f(x):
    scores = (x @ x.mT).softmax(-1) @ x + biased(x.mT.contiguous().mT)[..., :1]
    return linear(scores).relu().matmul(linear.weight), torch.matmul(x, linear.weight.t()).sum()
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
