"""What the guard tests look at, and the check that program, explanation and oracle agree."""

import collections
import types

from description import ABSENT


def target(x, y=None, *, z=None):
    pass


class Plain:
    pass


class Slotted:
    __slots__ = ("n", "__weakref__")


class Point(collections.namedtuple("Point", "a b")):
    __slots__ = ()


def check(guards, program, *slots):
    """The program, its explanation and the oracle agree."""
    holds, values = program.check(guards.function, slots)
    assert holds == guards.holds(slots)
    assert holds == (program.explain(guards.function, slots) == "")
    if holds:
        for number, value in enumerate(values, 1):
            expected = guards.read(number, slots)
            if isinstance(expected, (types.FunctionType, types.MethodType)) or expected is ABSENT:
                continue
            assert value is expected, guards.sources[number - 1]
    return holds


def instance(**attributes):
    obj = Plain()
    for name, value in attributes.items():
        setattr(obj, name, value)
    return obj
