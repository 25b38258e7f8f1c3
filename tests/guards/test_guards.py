"""Every source kind and every guard kind: holds on the recorded state, fails on a changed one, explains why."""

import collections
import functools
import math
import types

import pytest
import torch
from description import ABSENT, Guards
from subjects import check, instance, Plain, Point, Slotted, target

import ff_guards_testing


def outer_function(value):
    def inner(a=1, *, b=2):
        return value

    return inner


def with_dict(cls=dict, **attributes):
    obj = Plain()
    obj.__dict__ = cls(attributes)
    return obj


def function_with(**attributes):
    def function():
        pass

    function.__dict__.update(attributes)
    return function


def moved():
    """The same names in another order, while they lie in the object."""
    obj = instance(a=0, b=1)
    del obj.a
    obj.a = 0
    return obj


def empty_cell():
    return types.CellType()


# ---- sources: (make the root, describe the source below local 0, change it)


def change_attr(root):
    root.n = object()


def delete_attr(root):
    del root.n


def replace_dict(root):
    root.__dict__ = {"n": object()}


SOURCES = {
    "instance attribute": (lambda: instance(n=Plain()), lambda g, s: g.attr(s, "n"), change_attr),
    "instance attribute deleted": (lambda: instance(n=Plain()), lambda g, s: g.attr(s, "n"), delete_attr),
    "instance dict replaced": (lambda: instance(n=Plain()), lambda g, s: g.attr(s, "n"), replace_dict),
    "slot": (
        lambda: (lambda o: (setattr(o, "n", Plain()), o)[1])(Slotted()),
        lambda g, s: g.slot(s, Slotted.__dict__["n"]),
        change_attr,
    ),
    "slot deleted": (
        lambda: (lambda o: (setattr(o, "n", Plain()), o)[1])(Slotted()),
        lambda g, s: g.slot(s, Slotted.__dict__["n"]),
        delete_attr,
    ),
    "dict item": (lambda: {"k": Plain()}, lambda g, s: g.item(s, "k"), lambda d: d.update(k=Plain())),
    "dict item removed": (lambda: {"k": Plain()}, lambda g, s: g.item(s, "k"), lambda d: d.pop("k")),
    "dict item, int key": (lambda: {5: Plain()}, lambda g, s: g.item(s, 5), lambda d: d.update({5: Plain()})),
    "dict item, tuple key": (lambda: {(1, "a"): Plain()}, lambda g, s: g.item(s, (1, "a")), lambda d: d.clear()),
    "ordered dict item": (
        lambda: collections.OrderedDict(k=Plain()),
        lambda g, s: g.item(s, "k"),
        lambda d: d.update(k=Plain()),
    ),
    "list item": (lambda: [Plain(), Plain()], lambda g, s: g.item(s, 1), lambda v: v.__setitem__(1, Plain())),
    "list item, from the end": (lambda: [1, Plain()], lambda g, s: g.item(s, -1), lambda v: v.append(Plain())),
    "list item gone": (lambda: [Plain()], lambda g, s: g.item(s, 0), lambda v: v.clear()),
    "deque item": (
        lambda: collections.deque([Plain(), Plain()]),
        lambda g, s: g.item(s, 1),
        lambda v: v.appendleft(Plain()),
    ),
    "cell contents": (
        lambda: types.CellType(Plain()),
        lambda g, s: g.contents(s),
        lambda c: setattr(c, "cell_contents", Plain()),
    ),
    "cell emptied": (
        lambda: types.CellType(Plain()),
        lambda g, s: g.contents(s),
        lambda c: delattr(c, "cell_contents"),
    ),
    "function default": (
        lambda: outer_function(1),
        lambda g, s: g.default(s, 0),
        lambda f: setattr(f, "__defaults__", (Plain(),)),
    ),
    "keyword default": (
        lambda: outer_function(1),
        lambda g, s: g.kw_default(s, "b"),
        lambda f: f.__kwdefaults__.update(b=Plain()),
    ),
    "function cell": (
        lambda: outer_function(Plain()),
        lambda g, s: g.contents(g.function_cell(s, 0)),
        lambda f: setattr(f.__closure__[0], "cell_contents", Plain()),
    ),
    "function code": (
        lambda: outer_function(1),
        lambda g, s: g.function_field(s, "__code__"),
        lambda f: setattr(f, "__code__", (lambda: f).__code__),
    ),
    "module attribute": (
        lambda: (lambda m: (setattr(m, "n", Plain()), m)[1])(types.ModuleType("m")),
        lambda g, s: g.module_attr(s, "n"),
        change_attr,
    ),
    "grad": (
        lambda: (lambda t: (t.sum().backward(), t)[1])(torch.ones(2, requires_grad=True)),
        lambda g, s: g.grad(s),
        lambda t: setattr(t, "grad", torch.zeros(2)),
    ),
    "grad removed": (
        lambda: (lambda t: (t.sum().backward(), t)[1])(torch.ones(2, requires_grad=True)),
        lambda g, s: g.grad(s),
        lambda t: setattr(t, "grad", None),
    ),
    "partial keywords": (
        lambda: functools.partial(target, z=1),
        lambda g, s: g.partial_field(s, "keywords"),
        lambda p: p.__setstate__((target, (), {"z": 2}, {})),
    ),
    "partial arguments": (
        lambda: functools.partial(target, 1),
        lambda g, s: g.partial_field(s, "args"),
        lambda p: p.__setstate__((target, (2,), {}, {})),
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_source(name):
    make, describe, change = SOURCES[name]
    root = make()
    g = Guards(target, "x")
    source = describe(g, g.local(0))
    value = g.read(source, (root,))
    g.identity(source, value)
    program = g.build()
    assert check(g, program, root)
    assert check(g, program, root)
    change(root)
    assert not check(g, program, root)


def test_frame_sources():
    cell_value = Plain()

    def function(x):
        return cell_value

    g = Guards(function, "x")
    cell = g.closure_cell(0)
    contents = g.contents(cell)
    g.identity(contents, cell_value)
    name = g.item(g.globals(), "Plain")
    g.identity(name, Plain)
    builtin = g.item(g.builtins(), "len")
    g.identity(builtin, len)
    g.lacks_key(g.globals(), "len")
    code = g.function_field(g.function_source(), "__code__")
    g.identity(code, function.__code__)
    program = g.build()
    assert check(g, program, 1)
    function.__globals__["len"] = max
    try:
        assert not check(g, program, 1)
        assert "'len' not in G failed" in program.explain(function, (1,))
    finally:
        del function.__globals__["len"]
    assert check(g, program, 1)
    cell_value = Plain()
    assert not check(g, program, 1)


def test_method_parts():
    class C:
        def m(self):
            pass

    c = C()
    g = Guards(target, "x")
    root = g.local(0)
    g.identity(g.method_self(root), c).identity(g.method_function(root), C.m)
    program = g.build()
    assert check(g, program, c.m)
    assert not check(g, program, C().m)
    assert not check(g, program, 3)


def test_type_attributes():
    class Base:
        value = 1

    class Derived(Base):
        pass

    g = Guards(target, "x")
    root = g.local(0)
    kind = g.type(root)
    g.type_is(root, Derived).equals(g.type_attr(kind, "value"), 1)
    g.type_lookup(kind, "missing").type_lookup(kind, "value", 1)
    program = g.build()
    obj = Derived()
    assert check(g, program, obj) and check(g, program, Derived())
    Base.value = 2
    assert not check(g, program, obj)
    Base.value = 1
    assert check(g, program, obj)
    Derived.missing = None
    assert not check(g, program, obj)
    assert "lookup" in program.explain(target, (obj,))
    del Derived.missing
    assert check(g, program, obj)
    obj.__class__ = Base
    assert not check(g, program, obj)


def test_order_of_classes():
    class First:
        pass

    class Second(First):
        pass

    class Other(First):
        pass

    class Derived(Second):
        pass

    for bases in (False, True):
        g = Guards(target, "x")
        g.class_order(g.type(g.local(0)), Derived, bases=bases)
        program = g.build()
        obj = Derived()
        assert check(g, program, obj) and check(g, program, Derived())
        assert not check(g, program, Second()) and not check(g, program, 3)
        Derived.__bases__ = (Other,)
        assert not check(g, program, obj)
        assert ("bases()" if bases else "mro()") in program.explain(target, (obj,))
        Derived.__bases__ = (Second,)
        assert check(g, program, obj)
        Derived.__bases__ = (Second, First)  # the same order
        assert check(g, program, obj) is not bases
        Derived.__bases__ = (Second,)
        Second.__bases__ = (Other,)
        assert check(g, program, obj) is bases
        Second.__bases__ = (First,)


def test_many_look_ups_of_a_type():
    class Base:
        def __len__(self):
            return 0

    class Derived(Base):
        value = 1

    def call(self):
        return 2

    for version in (0, ff_guards_testing.type_version(Derived)):
        g = Guards(target, "x")
        kind = g.type(g.local(0))
        g.type_lookups(kind, {"__len__": Base.__len__, "value": 1}, ["__call__", "__iter__"], version)
        program = g.build()
        obj = Derived()
        assert check(g, program, obj) and check(g, program, Derived())
        assert not check(g, program, Base()) and not check(g, program, 3)
        Derived.other = 1
        assert check(g, program, obj)
        Derived.__call__ = call
        assert not check(g, program, obj)
        assert "'__call__'" in program.explain(target, (obj,))
        del Derived.__call__
        assert check(g, program, obj)
        old, Base.__len__ = Base.__len__, call
        assert not check(g, program, obj)
        Base.__len__ = old
        assert check(g, program, obj)
        del Derived.value
        assert not check(g, program, obj)
        Derived.value = 1
        assert check(g, program, obj)


# ---- guards on values

VALUES = [0, 1, -1, 2**40, -(2**100), True, False, None, 0.0, -0.0, 1.0, math.nan, math.inf, 1j, complex(0.0, -0.0), "", "a"]
VALUES += ["ab", "1", b"", b"a", (), (1,), (True,), (1.0,), (0.0,), (-0.0,), ((1, "x"), None), Point(1, 2), (1, 2), ...]
VALUES += [range(3), range(0, 3, 2), range(0, 4, 2), slice(1, 2), slice(1, None), torch.Size([1, 2])]
VALUES += [torch.device("cpu"), torch.device("cuda:0"), torch.device("cuda:1"), frozenset({1}), frozenset({True})]
VALUES += [torch.float32, torch.int64, torch.strided, torch.channels_last, torch.contiguous_format]


def copy_of(value):
    """An equal object that is another object, where there can be one."""
    if type(value) in (int, float, complex, bytes):
        return type(value)(repr(value)) if type(value) is not bytes else bytes(list(value))
    if type(value) is str:
        return "".join(list(value))
    if type(value) is tuple:
        return tuple([copy_of(v) for v in value])
    return value


@pytest.mark.parametrize("expected", VALUES, ids=repr)
def test_equals_tells_every_value_apart(expected):
    g = Guards(target, "x")
    g.equals(g.local(0), expected)
    program = g.build()
    assert program.check(target, (copy_of(expected),))[0]
    for other in VALUES:
        if other is expected:
            continue
        assert not program.check(target, (other,))[0], other
        assert program.explain(target, (other,)).startswith("L['x'] == ")
    assert not program.check(target, ([],))[0]


def test_explanations():
    def at(x):
        pass

    cases = [
        (lambda g, s: g.equals(s, 3), 4, "L['x'] == 3 failed: 4"),
        (lambda g, s: g.equals(s, "a"), "b", "L['x'] == 'a' failed: 'b'"),
        (lambda g, s: g.type_is(s, int), 1.0, "type(L['x']) is int failed: float"),
        (lambda g, s: g.type_is(s, Plain), 1, "type(L['x']) is subjects.Plain failed: int"),
        (lambda g, s: g.identity(s, None), 1, "L['x'] is None failed: 1"),
        (lambda g, s: g.length(s, 2), [1], "len(L['x']) == 2 failed: 1"),
        (lambda g, s: g.keys(s, ["a"]), {"b": 1}, "list(L['x']) == ['a'] failed: ['b']"),
        (lambda g, s: g.keys(s, list(range(14))), {**dict.fromkeys(range(13)), "z": 1},
         "list(L['x']) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ... 14 in all] failed: 14 keys, number 13 is 'z'"),
        (lambda g, s: g.keys(s, list(range(14))), dict.fromkeys(range(13)),
         "list(L['x']) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ... 14 in all] failed: 13 keys"),
        (lambda g, s: g.has_key(s, "a"), {}, "'a' in L['x'] failed"),
        (lambda g, s: g.lacks_key(s, "a"), {"a": 1}, "'a' not in L['x'] failed"),
        (lambda g, s: g.lacks_attr(s, "n"), instance(n=1), "'n' not in L['x'].__dict__ failed"),
        (lambda g, s: g.own_names(s, ["n"]), instance(m=1), "list(L['x'].__dict__) == ['n'] failed: ['m']"),
        (lambda g, s: g.set_equals(s, [1]), {2}, "list(L['x']) == [1] failed"),
        (lambda g, s: g.cell_empty(s), types.CellType(1), "is_empty(L['x']) failed"),
        (lambda g, s: g.identity(g.attr(s, "n"), 1), Plain(), "L['x'].n is missing"),
        (lambda g, s: g.equals(g.item(g.attr(s, "n"), "k"), 1), instance(n={"k": 2}), "L['x'].n['k'] == 1 failed: 2"),
        (lambda g, s: g.tensor(s, torch.zeros(10, 3)), torch.zeros(12, 3),
         "tensor 'L['x']' size mismatch at dim 0: expected 10, actual 12"),
        (lambda g, s: g.tensor(s, torch.zeros(2, 3)), torch.zeros(3, 2).T,
         "tensor 'L['x']' stride mismatch at dim 0: expected 3, actual 1"),
        (lambda g, s: g.tensor(s, torch.zeros(2)), torch.zeros(2, 1), "tensor 'L['x']' rank mismatch: expected 1, actual 2"),
        (lambda g, s: g.tensor(s, torch.zeros(2)), torch.zeros(2, dtype=torch.float64),
         "tensor 'L['x']' dtype mismatch: expected Float, actual Double"),
        (lambda g, s: g.tensor(s, torch.zeros(2)), torch.zeros(2, requires_grad=True),
         "tensor 'L['x']' requires_grad mismatch: expected False, actual True"),
        (lambda g, s: g.tensor(s, torch.zeros(2)), torch.nn.Parameter(torch.zeros(2)),
         "tensor 'L['x']' type mismatch: expected Tensor, actual Parameter"),
    ]  # fmt: skip
    for describe, value, text in cases:
        g = Guards(at, "x")
        describe(g, g.local(0))
        program = g.build()
        expected = f"{text} (test_guards.py:{at.__code__.co_firstlineno})"
        assert program.explain(at, (value,)) == expected
        assert not program.check(at, (value,))[0]


CONTAINER_GUARDS = {
    "length": (lambda g, s: g.length(s, 2), [[1, 2], (3, 4), {1, 2}, {1: 2, 3: 4}, "ab", collections.deque([1, 2])],
               [[1], (), {1}, {}, "abc", collections.deque(), 5]),
    "keys": (lambda g, s: g.keys(s, ["a", 1]), [{"a": 0, 1: 0}, collections.OrderedDict({"a": 0, 1: 0})],
             [{1: 0, "a": 0}, {"a": 0}, {"a": 0, True: 0}, {"a": 0, 1: 0, 2: 0}, {"a": 0, 1.0: 0}, ["a", 1]]),
    "own names": (lambda g, s: g.own_names(s, ["a", "b"]), [instance(a=0, b=1), with_dict(a=0, b=1), function_with(a=0, b=1)],
                  [instance(b=0, a=1), instance(a=0), instance(a=0, b=1, c=2), instance(), with_dict(b=0, a=1), with_dict(a=0),
                   with_dict(collections.OrderedDict, a=0, b=1), with_dict(a=0, b=1, c=2), moved(), function_with(), 5]),
    "no names": (lambda g, s: g.own_names(s, []), [instance(), with_dict(), function_with(), 5], [instance(a=1), with_dict(a=1)]),
    "has key": (lambda g, s: g.has_key(s, "a"), [{"a": 0}, {"a": 0, 1: 2}, collections.OrderedDict(a=1)], [{}, {1: 2}, ["a"]]),
    "lacks key": (lambda g, s: g.lacks_key(s, "a"), [{}, {1: 2}, {"b": 0}], [{"a": 0}, {"a": 0, 1: 2}, []]),
    "has int key": (lambda g, s: g.has_key(s, 1), [{1: 0}, {True: 0}, {1.0: 0}, {1: 0, "a": 1}], [{}, {"1": 0}, {2: 0}]),
    "set": (lambda g, s: g.set_equals(s, {1, 2}), [{1, 2}, frozenset({1, 2})], [{1}, {1, 3}, {1.0, 2}, {True, 2}, [1, 2]]),
    "null": (lambda g, s: g.null(s), [ABSENT], [None, 0]),
    "cell": (lambda g, s: g.cell_empty(s), [empty_cell()], [types.CellType(1), 0]),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTAINER_GUARDS)
def test_container_guard(name):
    describe, good, bad = CONTAINER_GUARDS[name]
    g = Guards(target, "x")
    describe(g, g.local(0))
    program = g.build()
    for value in good:
        assert check(g, program, value), value
    for value in bad:
        assert not program.check(target, (value,))[0], value
        assert program.explain(target, (value,)) != ""


def test_relations():
    a, b = [], []
    g = Guards(target, "x", "y")
    x, y = g.local(0), g.local(1)
    g.same_as(x, y)
    program = g.build()
    assert check(g, program, a, a) and not check(g, program, a, b)
    assert program.explain(target, (a, b)).startswith("L['x'] is L['y'] failed")
    g = Guards(target, "x", "y")
    x, y = g.local(0), g.local(1)
    g.distinct_from(x, y)
    program = g.build()
    assert check(g, program, a, b) and not check(g, program, a, a)


def test_written_objects_are_no_others():
    g = Guards(target, "a", "b", "c")
    a, b, c = (g.local(i) for i in range(3))
    g.distinct([(a, False)], [(b, False), (c, True)])
    program = g.build()
    owner, x, y = instance(n=1), {}, {}
    assert vars(owner) and check(g, program, x, y, owner)
    assert not check(g, program, x, x, owner)
    assert program.explain(target, (x, x, owner)) == "L['b'] is not L['a'] failed"
    assert not check(g, program, vars(owner), y, owner)
    assert program.explain(target, (vars(owner), y, owner)) == "vars(L['c']) is not L['a'] failed"
    assert check(g, program, x, vars(owner), owner)  # both are only read
    assert "distinct([L['a']], [L['b'], vars(L['c'])])" in program.text("guards")


def test_many_written_objects():
    g = Guards(target, *(f"x{i}" for i in range(60)))
    sources = [(g.local(i), False) for i in range(60)]
    g.distinct(sources[:40], sources[40:])
    program = g.build()
    objects = [[] for _ in range(60)]
    assert check(g, program, *objects)
    for i, j in ((0, 39), (3, 4), (7, 40), (39, 59), (0, 50)):
        one = list(objects)
        one[j] = one[i]
        assert not check(g, program, *one), (i, j)
    read_twice = list(objects)
    read_twice[59] = read_twice[41]
    assert check(g, program, *read_twice)


def test_malformed_guards_are_refused():
    class Odd:
        __hash__ = None

        def __eq__(self, other):
            return True

    for describe in (
        lambda g, s: g.equals(s, [1]),
        lambda g, s: g.lacks_key(s, Odd()),
        lambda g, s: g.attr(s, 5),
        lambda g, s: g.function_field(s, "nonsense"),
        lambda g, s: g.slot(s, 5),
    ):
        g = Guards(target, "x")
        source = describe(g, g.local(0))
        if isinstance(source, int):
            g.identity(source, None)
        with pytest.raises(ValueError):
            g.build()
