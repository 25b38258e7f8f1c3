"""Whether an input is a leaf: guarded where the program depends on it, and nowhere else."""

import copy
import warnings

import pytest
import torch

import framefuse


def leaf():
    return torch.linspace(-1, 1, 6).view(2, 3).requires_grad_()


def no_leaf():
    return leaf() * 1


def captures_of(function, *arguments):
    """How often calls with each of the arguments, in this order, captured."""
    framefuse.reset()
    compiled = framefuse.compile(function, backend="aten")
    before = framefuse.statistics()["captures"]
    for argument in arguments:
        expected, actual = outcome(function, argument()), outcome(compiled, argument())
        assert actual == expected
    return framefuse.statistics()["captures"] - before


def outcome(function, x):
    """What a call gives and leaves behind, in numbers."""
    source = x if x.is_leaf else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = function(x)
    except RuntimeError as error:
        return str(error).partition(".")[0]
    if isinstance(value, torch.Tensor):
        if value.requires_grad:
            value.sum().backward()
        value = value.tolist()
    return value, x.tolist(), x.requires_grad, None if source is None or x.grad is None else x.grad.tolist()


def test_blocks_share_a_graph():
    """Equal blocks: the first gets a leaf, the others what the block before made."""

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            return torch.nn.functional.gelu(self.linear(x)) + x

    torch.manual_seed(0)
    blocks = torch.nn.Sequential(*(Block() for _ in range(6)))
    eager = copy.deepcopy(blocks)

    @framefuse.compile(backend="aten")
    def block(module, x):
        return module(x)

    framefuse.reset()
    before = framefuse.statistics()["captures"]
    x, y = torch.ones(3, 4, requires_grad=True), torch.ones(3, 4, requires_grad=True)
    out = x
    for module in blocks:
        out = block(module, out)
    out.sum().backward()
    eager(y).sum().backward()
    assert torch.equal(x.grad, y.grad)
    for ours, theirs in zip(blocks.parameters(), eager.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)
    assert framefuse.statistics()["captures"] - before == 1


FREE = {
    "arithmetic": lambda x: (x * 2).sin() + x,
    "views": lambda x: x.view(-1)[1:].reshape(5) * x.detach().view(-1)[1:],
    "data": lambda x: x.data + x.requires_grad,
    "write of an intermediate": lambda x: (x * 2).add_(x),
    "fresh leaf": lambda x: torch.zeros(2, 3).copy_(x.detach()) + x,
}


@pytest.mark.parametrize("name", FREE)
def test_not_asked(name):
    assert captures_of(FREE[name], leaf, no_leaf) == 1
    assert captures_of(FREE[name], no_leaf, leaf) == 1


def write(x):
    return x.mul_(2) + 1


def write_handled(x):
    try:
        x.mul_(2)
    except RuntimeError:
        return x - 1
    return x + 1


def operator_handled(x):
    try:
        x += 1
    except RuntimeError:
        return x - 1
    return x + 2


def inplace_flag(x):
    return torch.nn.functional.relu(x, inplace=True) * 2


def backward_inside(x):
    (x * x).sum().backward()
    return x.detach() + 1


def gradient_inside(x):
    return torch.autograd.grad((x * x).sum(), x)[0] * 2


def asks_no_more(x):
    x.requires_grad_(False)
    return x * 2


def copies(x):
    return copy.deepcopy(x) * 2


ASKED = {
    "is_leaf": lambda x: x * 2 if x.is_leaf else x * 3,
    "grad_fn": lambda x: x * 2 if x.grad_fn is None else x * 3,
    "grad": lambda x: x * 2 if x.grad is None else x * 3,
    "retains_grad": lambda x: x * 2 if x.retains_grad else x * 3,
    "out=": lambda x: torch.add(x.detach(), 1, out=x) * 2,
    **{f.__name__: f for f in (write, write_handled, operator_handled, inplace_flag)},
    **{f.__name__: f for f in (backward_inside, gradient_inside, asks_no_more, copies)},
}


@pytest.mark.parametrize("name", ASKED)
def test_asked(name):
    """Right in each order: an entry made for the one does not run for the other where it would be wrong."""
    for order in ((leaf, no_leaf), (no_leaf, leaf), (leaf, no_leaf, leaf, no_leaf)):
        captures_of(ASKED[name], *order)


def test_a_leaf_is_guarded_where_asked():
    assert captures_of(ASKED["is_leaf"], leaf, no_leaf) == 2
    assert captures_of(ASKED["is_leaf"], no_leaf, leaf, leaf, no_leaf) == 2
