"""The operators of operator_table.py by changing sizes, forward and backward: two captures, and eager's results, strides and gradients."""

import framefuse
import operator_table
import pytest
import torch
from torch.utils import _pytree


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    framefuse.reset()


def _outcome(call, given):
    inputs = [x.clone().requires_grad_() if x.is_floating_point() else x for x in given]
    torch.manual_seed(1)
    outputs = _pytree.tree_leaves(call(*inputs))
    differentiable = [o for o in outputs if o.requires_grad]
    weighted = [(o * torch.arange(1, o.numel() + 1, dtype=o.dtype).cos().view(o.shape)).sum() for o in differentiable]
    wanted = [x for x in inputs if x.requires_grad]
    gradients = torch.autograd.grad(sum(weighted), wanted, allow_unused=True) if weighted else ()
    return [o.detach() for o in outputs], [o.stride() for o in outputs], gradients


@pytest.mark.parametrize("name", operator_table.TABLE)
def test_two_captures(name):
    function, make, sizes = operator_table.TABLE[name]
    compiled = framefuse.compile(function)
    before = framefuse.statistics()["captures"]
    for i, size in enumerate(sizes):
        torch.manual_seed(i)
        given = make(size)
        (outputs, strides, gradients), expected = _outcome(compiled, given), _outcome(function, given)
        torch.testing.assert_close(outputs, expected[0], equal_nan=True)
        torch.testing.assert_close(gradients, expected[2], equal_nan=True)
        assert strides == expected[1]
        # A size of 0 or 1 may be an entry of its own.
        assert framefuse.statistics()["captures"] - before <= (2 if size not in (0, 1) else 4)
