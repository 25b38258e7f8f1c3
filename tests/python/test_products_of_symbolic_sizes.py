"""Products of rows with a matrix, as framefuse writes them for torch versions whose own code takes plain sizes only."""

import subprocess
import sys

import pytest


@pytest.mark.compiles_nothing("in this process")
def test_they_are_captured_once_for_all_sizes():
    program = """
import torch, framefuse
from framefuse import _C
_C.replace_products(True)
_C.set_counts_kinds(True)
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
# Newer versions of torch would do as well: what counts is that none of the six products is theirs, in the capture with a symbolic size.
print(sum(yes for _, kind, yes, _ in _C.kind_counts() if kind == "matmul of symbolic sizes"))
"""
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True).stdout == "[2, 0, 0]\n6\n"
