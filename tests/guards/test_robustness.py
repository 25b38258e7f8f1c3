"""Guard programs run no Python, keep nothing alive, leak nothing and refuse nothing that they should take."""

import gc
import sys
import types
import weakref

import torch
from description import Guards
from subjects import check, instance, Plain, target


def test_no_python_runs():
    class Loud:
        def __hash__(self):
            raise AssertionError("hashed")

        def __eq__(self, other):
            raise AssertionError("compared")

        def __len__(self):
            raise AssertionError("measured")

        def __getattr__(self, name):
            raise AssertionError("asked for " + name)

        def __repr__(self):
            raise AssertionError("printed")

    class LoudKey(str):
        __hash__ = str.__hash__
        armed = False

        def __eq__(self, other):
            if LoudKey.armed:
                raise AssertionError("compared")
            return str.__eq__(self, other)

    loud, key = Loud(), LoudKey("k")
    mixed = {key: 1}
    g = Guards(target, "x", "y")
    x, y = g.local(0), g.local(1)
    g.identity(x, loud).length(y, 1)
    program = g.build()
    assert program.check(target, (loud, mixed))[0]
    for slots in ((Loud(), mixed), (loud, loud), (loud, 3)):
        assert not program.check(target, slots)[0]
        assert program.explain(target, slots) != ""
    for describe in (lambda g, s: g.equals(g.item(s, "k"), 1), lambda g, s: g.has_key(s, "k"), lambda g, s: g.lacks_key(s, "k")):
        g = Guards(target, "x")
        describe(g, g.local(0))
        program = g.build()
        LoudKey.armed = True
        try:
            # What Python would find depends on LoudKey.__eq__: such a guard never holds.
            assert not program.check(target, (mixed,))[0]
        finally:
            LoudKey.armed = False


def test_object_keys_are_found_by_identity():
    key, other = Plain(), Plain()
    d = {key: Plain(), other: Plain(), "a": 1}
    g = Guards(target, "x")
    source = g.local(0)
    g.identity(g.item(source, key), d[key]).has_key(source, other).lacks_key(source, Plain)
    program = g.build()
    assert check(g, program, d)
    d[key] = Plain()
    assert not check(g, program, d)


def test_instances_are_held_weakly():
    class Node:
        pass

    root, child = Node(), Node()
    root.child = child
    g = Guards(target, "x")
    source = g.attr(g.local(0), "child")
    g.identity(source, child)
    program = g.build()
    del g
    assert program.check(target, (root,))[0]
    seen = weakref.ref(child)
    root.child = None
    del child
    gc.collect()
    assert seen() is None
    assert not program.check(target, (root,))[0]
    for _ in range(50):  # at the old address, perhaps
        root.child = Node()
        assert not program.check(target, (root,))[0]
    assert "gone" in program.explain(target, (root,))


def test_a_program_does_not_keep_its_code_alive():
    def make():
        copy = types.FunctionType(target.__code__.replace(co_name="copy"), {})
        g = Guards(copy, "x")
        g.equals(g.local(0), 3)
        return g.build(), weakref.ref(copy.__code__)

    program, code = make()
    gc.collect()
    assert code() is None
    assert program.explain(target, (4,)).startswith("L['x'] == 3 failed: 4 (subjects.py:")


def test_nothing_leaks():
    child, key = Plain(), Plain()
    root = instance(a=child, d={"k": [child], key: 1}, t=torch.zeros(2, requires_grad=True))
    root.t.sum().backward()

    def run():
        g = Guards(target, "x")
        x = g.local(0)
        g.identity(g.attr(x, "a"), child).type_is(x, Plain).has_key(g.attr(x, "d"), key)
        g.tensor(g.attr(x, "t"), root.t).tensor(g.grad(g.attr(x, "t")), root.t.grad)
        program = g.build()
        for _ in range(3):
            assert program.check(target, (root,))[0]
        assert not program.check(target, (child,))[0]
        return program.explain(target, (child,))

    watched = [root, child, key, Plain, torch.Tensor, root.d, root.t, root.t.grad, target, target.__code__]
    run()
    before = [sys.getrefcount(o) for o in watched]
    for _ in range(50):
        run()
    assert [sys.getrefcount(o) for o in watched] == before


def test_inline_values_are_not_materialised():
    class Inline:
        def __init__(self):
            self.a, self.b = 1, 2

    obj = Inline()
    g = Guards(target, "x")
    source = g.local(0)
    g.equals(g.attr(source, "a"), 1).lacks_attr(source, "c")
    program = g.build()
    size = obj.__sizeof__()
    before = gc.get_referents(obj)
    assert program.check(target, (obj,))[0]
    assert gc.get_referents(obj) == before and obj.__sizeof__() == size
    assert not any(isinstance(r, dict) for r in gc.get_referents(obj))
    obj.a = 3
    assert not program.check(target, (obj,))[0]
    obj.a = 1
    obj.__dict__  # materialised now
    assert program.check(target, (obj,))[0]
    obj.c = 1
    assert not program.check(target, (obj,))[0]
    del obj.c
    assert program.check(target, (obj,))[0]
    obj.__dict__ = {"a": 1}
    assert program.check(target, (obj,))[0]
    obj.__dict__ = {"a": 2}
    assert not program.check(target, (obj,))[0]


def test_one_program_serves_several_objects():
    def model(value):
        m = torch.nn.Module()
        m.value, m.sub = value, torch.nn.Module()
        m.sub.weight = torch.nn.Parameter(torch.ones(2))
        return m

    first = model(1)
    g = Guards(target, "self")
    self = g.local(0)
    g.type_is(self, torch.nn.Module).equals(g.attr(self, "value"), 1)
    modules = g.attr(self, "_modules")
    g.type_is(modules, dict).keys(modules, ["sub"])
    parameters = g.attr(g.item(modules, "sub"), "_parameters")
    weight = g.item(parameters, "weight")
    g.tensor(weight, first.sub.weight).resolve(weight)
    program = g.build()
    models = [first] + [model(1) for _ in range(40)]
    for _ in range(3):
        for m in models:
            holds, values = program.check(target, (m,))
            assert holds and values[weight - 1] is m.sub.weight
    odd = model(2)
    for m in models:
        assert not program.check(target, (odd,))[0]
        assert program.check(target, (m,))[1][weight - 1] is m.sub.weight
    # Dicts change hands: contents decide, not the objects they hang on.
    a, b = models[0], models[1]
    a.__dict__, b.__dict__ = b.__dict__, a.__dict__
    for m in (a, b):
        assert program.check(target, (m,))[1][weight - 1] is m.sub.weight
    a.__dict__["value"] = 2
    assert not program.check(target, (a,))[0] and program.check(target, (b,))[0]


def test_a_failed_check_leaves_nothing_behind():
    # The failing dict's values must not be taken for those of the one that was remembered.
    good, bad = {"a": 1, "b": 2, "c": Plain()}, {"a": 1, "b": 3, "c": Plain()}
    holder = Plain()
    holder.d = good
    g = Guards(target, "x")
    d = g.attr(g.local(0), "d")
    c = g.item(d, "c")
    g.equals(g.item(d, "a"), 1).resolve(c).equals(g.item(d, "b"), 2)
    program = g.build()
    for _ in range(3):
        holder.d = good
        assert program.check(target, (holder,))[1][c - 1] is good["c"]
        holder.d = bad
        assert not program.check(target, (holder,))[0]


def test_program_text():
    def fn(x, n):
        return x + n

    g = Guards(fn, "x", "n")
    x, n = g.local(0), g.local(1)
    g.tensor(x, torch.zeros(2, 3)).equals(n, 3).global_state()
    text = g.build().text("guards_fn")
    lines = text.splitlines()
    assert lines[0] == "def guards_fn(L, G, B, function):" and lines[-1] == "    return True"
    location = f"test_robustness.py:{fn.__code__.co_firstlineno}"
    assert f"    if not (L['n'] == 3): return False  # {location}" in lines
    assert any("is_tensor(L['x'], torch.Tensor, 'Float[2, 3] strides [3, 1] cpu')" in line for line in lines)
