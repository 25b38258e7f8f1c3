"""`resize_` takes what memory there is behind a tensor: an entry holds for storages of the size that it saw."""

import framefuse
import pytest
import torch


def itself(x):
    x.resize_(4)
    return x * 2


def a_view_of_it(x):
    return x[1:].resize_(3) * 2


@pytest.mark.parametrize("f", [itself, a_view_of_it])
def test_memory_behind_a_part_of_it(f):
    framefuse.reset()
    compiled = framefuse.compile(f)
    before = framefuse.statistics()
    for size in (8, 6, 8, 12):
        x, y = (torch.arange(float(size))[2:4] for _ in range(2))
        assert torch.equal(compiled(x), f(y)) and x.shape == y.shape
    after = framefuse.statistics()
    assert {name: after[name] - before[name] for name in ("captures", "eager_fallbacks")} == {"captures": 3, "eager_fallbacks": 0}
