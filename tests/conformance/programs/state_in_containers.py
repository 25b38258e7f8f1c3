"""State held in containers, and aliasing: changed between calls in every way a guard must see."""

import collections
import types

from conformance.program import Args, Case, program
from conformance.sample import vector


@program
def list_items():
    items = [1, 2.5, vector()]

    def f(x):
        return x * items[0] + items[-2] + items[2]

    return Case(
        f,
        vector(),
        then=[
            lambda: items.__setitem__(0, 3),
            lambda: items.insert(1, 7),
            lambda: items.__setitem__(-1, 0),
            items.reverse,
        ],
    )


@program
def list_type_changes():
    o = types.SimpleNamespace(items=[1, 2])

    def f(x):
        return x * sum(o.items), type(o.items).__name__

    class MyList(list):
        pass

    return Case(
        f,
        vector(),
        then=[lambda v=v: setattr(o, "items", v) for v in ((1, 2), MyList([1, 2]), collections.deque([1, 2]), [1, 2])],
    )


@program
def dict_items_and_order():
    d = {"a": 1, "b": 2}

    def f(x):
        for k, v in d.items():
            x = x * v + len(k)
        return x

    def reorder():
        d["a"] = d.pop("a")

    return Case(f, vector(), then=[reorder, lambda: d.update(a=5), lambda: d.update(c=1), d.clear])


@program
def dict_missing_key():
    d = {}

    def f(x):
        return x * d.get("n", 1), "n" in d, len(d)

    return Case(f, vector(), then=[lambda: d.update(n=4), lambda: d.update(m=4), lambda: d.pop("n")])


@program
def dict_key_type():
    d = {1: "int"}

    def f(x):
        (key,) = d
        return x * key, d[1], type(key).__name__

    def change(key):
        d.clear()
        d[key] = "other"

    return Case(f, vector(), then=[lambda: change(True), lambda: change(1.0), lambda: change(1)])


@program
def nested_containers():
    state = {"layers": [{"scale": 1, "on": True}, {"scale": 2, "on": False}]}

    def f(x):
        for layer in state["layers"]:
            if layer["on"]:
                x = x * layer["scale"]
        return x

    return Case(
        f,
        vector(),
        then=[
            lambda: state["layers"][1].update(on=True),
            lambda: state["layers"].append({"scale": 5, "on": 1}),
            lambda: state["layers"][0].update(scale=0.5),
            lambda: state.update(layers=[]),
        ],
    )


@program
def set_members():
    s = {"a"}

    def f(x):
        return x * len(s), "b" in s, x + ("a" in s)

    return Case(f, vector(), then=[lambda: s.add("b"), lambda: s.discard("a"), s.clear])


@program
def tuple_of_numbers():
    o = types.SimpleNamespace(t=(1, 2))

    def f(x):
        a, b = o.t
        return x * a + b

    return Case(f, vector(), then=[lambda v=v: setattr(o, "t", v) for v in ((1, 3), (1.0, 3), [4, 5], (vector(), 0))])


@program
def aliasing_of_arguments():
    def f(a, b):
        if a is b:
            return a * 2
        return a + b

    x = vector()
    return Case(f, x, x, then=[lambda: Args(x, vector()), lambda: Args(vector(), x), lambda: Args(x, x)])


@program
def aliasing_of_attributes():
    shared = vector()
    o = types.SimpleNamespace(a=shared, b=shared)

    def f(x):
        o.a.add_(x)
        return o.b * 2, o.a is o.b

    return Case(f, vector(), observe=o, then=[lambda: setattr(o, "b", vector()), lambda: setattr(o, "b", o.a)])


@program
def aliasing_of_lists():
    shared = [1]
    o = types.SimpleNamespace(a=shared, b=shared)

    def f(x):
        o.a.append(2)
        return x * len(o.b)

    return Case(f, vector(), observe=o, then=[lambda: setattr(o, "b", [1]), lambda: setattr(o, "b", o.a)])


class Holder:
    """Attributes in a dict of its own."""


@program
def truth_of_a_dict_that_another_name_writes():
    def f(o, written, x):
        written["key"] = 1
        if o.hooks:
            return x + 1
        return x - 1

    def args(one_object):
        o = Holder()
        o.hooks = {}
        return Args(o, o.hooks if one_object else {}, vector())

    first = args(False)
    return Case(f, *first.args, then=[lambda one=one: args(one) for one in (True, False, True)])


@program
def truth_of_a_dict_before_and_after_a_write():
    def f(o, other, x):
        if o.hooks:
            x = x * 2
        other.hooks["key"] = 1
        if o.hooks and other.hooks:
            return x + 1
        return x - 1

    def args(one_object, filled=()):
        o, other = Holder(), Holder()
        o.hooks = dict(filled)
        other.hooks = o.hooks if one_object else {}
        return Args(o, other, vector())

    first = args(True)
    then = [lambda one=one, filled=filled: args(one, filled) for one, filled in ((0, ()), (1, ()), (1, {2: 3}), (0, ()))]
    return Case(f, *first.args, then=then)


@program
def overlapping_storage():
    base = vector(6)
    o = types.SimpleNamespace(a=base[:3], b=base[3:])

    def f():
        o.a.mul_(2)
        return o.b + 1

    return Case(
        f,
        observe=[o, base],
        versions=True,
        then=[lambda: setattr(o, "b", base[1:4]), lambda: setattr(o, "b", base[:3]), lambda: setattr(o, "b", vector())],
    )


@program
def length_through_len_and_bool():
    o = types.SimpleNamespace(items=[1], text="ab", d={})

    def f(x):
        y = x * len(o.items)
        if o.d:
            y = y + 1
        if not o.text:
            y = y - 1
        return y

    return Case(
        f,
        vector(),
        then=[lambda: o.items.append(2), lambda: o.d.update(k=1), lambda: setattr(o, "text", ""), o.items.clear],
    )

class Part:
    def __init__(self, t, n):
        self.t = t
        self.n = n


@program
def part_that_comes_back():
    first, second = Part(vector(), 2), Part(vector(3, 9.0), 5)
    whole = types.SimpleNamespace(part=first, table={"part": {"t": first.t, "n": 2}})
    tables = {2: whole.table["part"], 5: {"t": second.t, "n": 5}}

    def put(part):
        whole.part = part
        whole.table["part"] = tables[part.n]

    def f(x):
        return (x + whole.part.t) * whole.part.n, (x - whole.table["part"]["t"]) * whole.table["part"]["n"]

    return Case(f, vector(), then=[lambda p=p: put(p) for p in (second, first, second, second, first, first)])
