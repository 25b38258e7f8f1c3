"""Products of rows with a matrix, as framefuse writes them for torch versions whose own code takes plain sizes only."""

import re
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from framefuse import _sized_calls
from torch.utils._python_dispatch import TorchDispatchMode

@pytest.mark.compiles_nothing("in this process")
def test_they_are_captured_once_for_all_sizes():
    program = """
import torch, framefuse
from framefuse import _C
_C.replace_products(True)
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
