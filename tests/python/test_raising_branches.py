"""Branches on values of tensors of which one way only raises: what an entry counts and says."""

import pytest
import torch
from test_eager_fallbacks import fallbacks

import framefuse


def test_a_branch_that_raises_and_is_caught():
    def f(x):
        try:
            if x.sum() < 0:
                raise ValueError("negative")
            return x + 1
        except ValueError:
            return x - 1

    compiled = framefuse.compile(f)
    breaks = framefuse.statistics()["graph_breaks"]
    with fallbacks() as (kinds, texts):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
        assert framefuse.statistics()["graph_breaks"] == breaks
        for sign in (-1, 1, -1, 1):  # after the first it is captured again, with a break there
            assert torch.equal(compiled(sign * torch.ones(2)), f(sign * torch.ones(2)))
    assert kinds == {"other_way": 1} and framefuse.statistics()["graph_breaks"] > breaks
    assert f"{__file__}:{f.__code__.co_firstlineno + 2}" in texts[0]


def test_a_branch_that_raises_and_is_not_caught():
    def f(x):
        if not (x > 0).all():
            raise ValueError(x.sum().item())
        return x + 1

    compiled = framefuse.compile(f, fullgraph=True)
    captures = framefuse.statistics()["captures"]
    with fallbacks() as (kinds, _):
        for _ in range(3):
            assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
            with pytest.raises(ValueError, match="-2.0"):
                compiled(-torch.ones(2))
    assert kinds == {"raises": 3} and framefuse.statistics()["captures"] == captures + 1
