"""What has other values in each call, or other classes after the first, is compiled a few times and then no more."""

import numpy as np
import pytest
import torch
from torch import nn

import framefuse


def compilations(f, calls):
    """How many captures each call took; results are those of Python."""
    compiled = framefuse.compile(f)
    counts = []
    for args in calls:
        before = framefuse.statistics()["captures"]
        result, expected = compiled(*args), f(*args)
        torch.testing.assert_close(result, expected, rtol=0, atol=0)
        counts.append(framefuse.statistics()["captures"] - before)
    return counts


def arrays(*sizes, count=9):
    return [(np.random.default_rng(seed).standard_normal(sizes), torch.ones(3)) for seed in range(count)]


def elementwise(a, x):
    return np.maximum(a, 0), np.clip(a * 2.0 - 1, -1, 1)[:, 0], x * 2


def to_a_tensor(a, x):
    return torch.from_numpy(a.transpose(1, 0)) * x[0]


def a_number(a, x):
    return x * float(a.max())


@pytest.mark.parametrize("f", [elementwise, to_a_tensor, a_number])
def test_arrays_with_other_numbers(f):
    assert sum(compilations(f, arrays(4, 3))[-2:]) == 0


def test_sizes_of_arrays_are_read_without_their_numbers():
    assert sum(compilations(lambda a, x: x * a.shape[0] + len(a), arrays(4, 3))[1:]) == 0


def test_large_arrays_are_captured_once():
    assert compilations(elementwise, arrays(200, 80, count=3)) == [1, 0, 0]


def test_lazy_modules_are_compiled_from_the_second_call_on():
    model = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2))
    compiled = framefuse.compile(model)
    compiled(torch.ones(3, 5))
    before = framefuse.statistics()
    for _ in range(3):
        compiled(torch.ones(3, 5))
    after = framefuse.statistics()
    assert after["captures"] - before["captures"] == 1
    assert after["graph_breaks"] == before["graph_breaks"]
    assert after["eager_fallbacks"] == before["eager_fallbacks"]
