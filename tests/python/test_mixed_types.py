"""Reductions of operands of several types that are the same along some dimensions: what is converted once for a stretch of a row."""

import itertools

import framefuse
import pytest
import torch

_TYPES = [torch.int64, torch.int32, torch.bool, torch.float64, torch.float32, torch.bfloat16]
_DIMENSIONS = [(0, 1, 2), (1, 2), (0, 2), (0, 1), (2,)]
_SHAPES = [(2, 1, 1), (2, 3, 1), (1, 3, 1), (2, 1, 40)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("other", _TYPES, ids=str)
def test_sums_of_small_whole_numbers(dtype, other):
    def program(x, operands):
        mixed = [(x - y * 1, y * x, torch.where(y > 0, x, 0)) for y in operands]
        sums = [m.sum(dims) for three, dims in itertools.product(mixed, _DIMENSIONS) for m in three]
        return sums + [m.amax((1, 2)) for three in mixed for m in three] + [m.sum() for three in mixed for m in three]

    generator = torch.Generator().manual_seed(0)
    operands = [torch.randint(0, 3, shape, generator=generator).to(other) for shape in _SHAPES]
    framefuse.reset()
    compiled = framefuse.compile(program, fullgraph=True)
    for _ in range(2):
        x = torch.randint(-2, 3, (2, 3, 40), generator=generator).to(dtype)
        for got, expected in zip(compiled(x, operands), program(x, operands), strict=True):
            assert got.dtype == expected.dtype and torch.equal(got, expected)


@pytest.mark.parametrize("other", _TYPES, ids=str)
@pytest.mark.parametrize("dims", _DIMENSIONS, ids=str)
def test_one_sum(dims, other):
    """A kernel of its own: more of its registers are free for copies of the loop."""
    for shape, columns in itertools.product(_SHAPES, (4, 40)):
        framefuse.reset()
        x = torch.randint(-2, 3, (2, 3, columns)).double()
        y = torch.randint(-2, 3, (*shape[:-1], columns if shape[-1] > 1 else 1)).to(other)
        program = lambda x, y: (x - y * 1).sum(dims)
        assert torch.equal(framefuse.compile(program, fullgraph=True)(x, y), program(x, y))
