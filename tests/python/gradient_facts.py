"""What tests of gradients compare: plain facts that eager and compiled runs collect, and whether they are equal."""

import framefuse


def aten(f):
    return framefuse.compile(f, backend="aten", fullgraph=True)


def numbers(t):
    return None if t is None else t.flatten().tolist()


def same(a, b):
    """Equal lists of facts; numbers up to rounding."""
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return isinstance(b, float) and (abs(a - b) <= 1e-4 * max(1, abs(a)) or a == b)
    return a == b
