"""Dicts and sets with classes, functions, modules and objects as keys: where the graph breaks, and when it is made anew."""

import enum

import framefuse
import pytest
import torch
from torch import nn


class Plain:
    pass


class Derived(Plain):
    pass


class Kind(enum.Enum):
    ONE = 1


def double(x):
    return x * 2


X = torch.arange(3.0)
LAYER = nn.Linear(3, 3)
REGISTRY = {Plain: double, int: torch.sin, float: torch.cos}


def _of_classes(x):
    table = {cls: x + i for i, cls in enumerate(REGISTRY)}
    group = set(REGISTRY)
    framefuse.graph_break()
    return table[int] + len(group & {Plain, int}), list(table), Plain in group


def _of_functions_and_modules(x):
    table = {double: 1, LAYER: x, torch.sin: 2, Kind.ONE: 3, x.size: 4}
    framefuse.graph_break()
    return table[LAYER] * table[double] + table[Kind.ONE], list(table)[:4]


def _of_objects(x):
    first, second = Plain(), Plain()
    table = {first: x, second: 2}
    framefuse.graph_break()
    return table[first] * table[second], [key is first for key in table]


def _of_a_metaclass(x):
    table = {cls: x for cls in (Derived, Kind)}
    framefuse.graph_break()
    return table[Kind] * 2, list(table)


@pytest.mark.parametrize("function", [_of_classes, _of_functions_and_modules, _of_objects, _of_a_metaclass])
def test_only_the_break_that_was_asked_for(function):
    framefuse.reset()
    report = framefuse.explain(function)(X)
    assert [reason.reason.split(":")[0] for reason in report.break_reasons] == ["graph_break() was called"]
    assert str(framefuse.compile(function)(X)) == str(function(X))


def test_what_stands_under_other_classes_does_not_matter():
    """As with other keys: what is there for a class is a guard, and what is not there, too."""
    registry = {Plain: double}

    def f(x, value):
        if type(value) not in registry:
            return x
        return registry[type(value)](x) if Derived not in registry else registry.get(Derived)(x)

    framefuse.reset()
    compiled = framefuse.compile(f)
    assert compiled(X, Plain()).tolist() == [0, 2, 4]
    before = framefuse.statistics()["captures"]
    registry[float] = torch.sin
    registry[LAYER] = torch.cos
    assert compiled(X, Plain()).tolist() == [0, 2, 4]
    assert framefuse.statistics()["captures"] == before
    registry[Derived] = lambda x: x * 3
    assert compiled(X, Plain()).tolist() == [0, 3, 6]
    registry[Plain] = None
    del registry[Derived]
    with pytest.raises(TypeError, match="not callable"):
        compiled(X, Plain())
    del registry[Plain]
    assert compiled(X, Plain()).tolist() == [0, 1, 2]


def test_a_local_class_that_is_a_key_may_end():
    import gc
    import weakref

    registry = {}

    def f(x, value):
        registry[type(value)] = registry.get(type(value), 0) + 1
        return x * registry[type(value)]

    compiled = framefuse.compile(f)

    def use():
        class Local:
            pass

        assert compiled(X, Local()).tolist() == X.tolist()
        return weakref.ref(Local)

    ended = use()
    registry.clear()
    gc.collect()
    assert ended() is None
