"""What tests of random programs compare: facts with numbers to a few places, and whether they are equal."""

import pytest


def numbers(t):
    return None if t is None else [round(v, 4) for v in t.detach().flatten().tolist()]


def same(left, right):
    if isinstance(left, (list, tuple)):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return left == pytest.approx(right, rel=2e-3, abs=2e-3, nan_ok=True)
    return left == right


def is_tame(seen):
    """Whether no last bit is the difference between large numbers."""
    if isinstance(seen, (list, tuple)):
        return all(map(is_tame, seen))
    return not isinstance(seen, float) or abs(seen) < 1e4
