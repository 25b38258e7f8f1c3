"""What is deleted and put back in one call: the order changes, and what is absent in between is absent.

A compiler that keeps only the last value of a name, and writes it over the old one, leaves the old order.
"""

import collections
import types

import torch
from torch import nn

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector

KEPT = 5


@program
def key_of_a_dict():
    table = {"a": 1, "b": 2, "c": 3}

    def f(x):
        value = table["a"]
        del table["a"]
        x = x * len(table)
        table["a"] = value
        return x + table["a"], list(table)

    return Case(f, vector(), observe=table, then=[lambda: table.update(b=7), lambda: table.pop("b") and None])


@program
def key_of_a_dict_popped():
    table = {"a": 1, "b": 2, "c": 3}

    def f(x):
        table["a"] = table.pop("a")
        first = next(iter(table))
        table[first] = table.pop(first) + 1
        return x * table["a"], tuple(table.items()), [*table.values()]

    return Case(f, vector(), observe=table, then=[lambda: None, lambda: table.update(d=4)])


@program
def tensor_in_a_dict():
    table = {"w": vector(), "b": vector(3, 9.0)}

    def f(x):
        w = table.pop("w")
        absent = "w" in table
        table["w"] = w * 2
        return x + sum(table.values()), absent, list(table)

    return Case(f, vector(), observe=table, then=[lambda: None])


@program
def key_deleted_twice():
    table = {"a": 1, "b": 2}

    def f(x):
        del table["a"]
        table["a"] = 10
        del table["a"]
        table["a"] = 11
        del table["b"]
        try:
            del table["b"]
        except KeyError as error:
            x = x + len(error.args)
        table["b"] = 3
        return x * table["a"], list(table)

    return Case(f, vector(), observe=table, then=[lambda: None])


@program
def new_key_deleted_again():
    table = {"a": 1}

    def f(x):
        table["new"] = 5
        x = x * table["new"]
        del table["new"]
        table["other"] = 6
        table["new"] = 7
        del table["other"]
        return x, list(table), len(table)

    return Case(f, vector(), observe=table, then=[lambda: table.pop("new") and None])


@program
def last_item_popped_and_set():
    table = {"a": 1, "b": 2, "c": 3}

    def f(x):
        name, value = table.popitem()
        table["z"] = value
        table[name] = value + 1
        return x * value, list(table.items())

    return Case(f, vector(), observe=table, then=[lambda: table.pop("z") and None])


@program
def whole_dict_cleared_and_filled():
    table = {"a": 1, "b": 2}

    def f(x):
        kept = dict(table)
        table.clear()
        empty = len(table)
        table.update(reversed(kept.items()))
        return x * table["a"], empty, list(table)

    return Case(f, vector(), observe=table, then=[lambda: table.update(c=3)])


@program(whole=False)
def key_while_its_views_are_held():
    table = {"a": 1, "b": 2}
    keys, values = table.keys(), table.values()

    def f(x):
        del table["a"]
        table["a"] = 4
        return x + sum(values), list(keys), "a" in keys

    return Case(f, vector(), observe=[table, keys], then=[lambda: table.update(c=1)])


@program
def key_of_an_ordered_dict():
    table = collections.OrderedDict(a=1, b=2, c=3)

    def f(x):
        value = table.pop("b")
        table["b"] = value * 2
        table.move_to_end("a")
        return x * table["b"], list(table), next(reversed(table))

    return Case(f, vector(), observe=table, then=[lambda: table.update(d=1)])


@program
def key_of_a_default_dict():
    table = collections.defaultdict(list, a=[1], b=[2])

    def f(x):
        del table["a"]
        table["a"].append(3)
        return x * len(table["a"]), list(table), table["a"]

    return Case(f, vector(), observe=table, then=[lambda: table["a"].append(1)])


@program(whole=False)
def attribute_of_an_object():
    o = types.SimpleNamespace(a=1, b=2, c=3)

    def f(x):
        value = o.a
        del o.a
        absent = hasattr(o, "a")
        o.a = value + 1
        return x * o.a, absent, list(vars(o))

    return Case(f, vector(), observe=o, then=[lambda: setattr(o, "b", 5), lambda: delattr(o, "b")])


class WithDefault:
    a = 100

    def __init__(self):
        self.a, self.b = 1, 2


@program(whole=False)
def attribute_that_uncovers_the_class():
    o = WithDefault()

    def f(x):
        before = o.a
        del o.a
        between = o.a
        o.a = between + before
        return x * o.a, between, list(vars(o))

    return Case(f, vector(), observe=o, then=[lambda: setattr(o, "b", 5), lambda: setattr(o, "a", 3)])


class Slots:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a, self.b = 1, 2


@program
def slot():
    o = Slots()

    def f(x):
        value = o.a
        del o.a
        absent = hasattr(o, "a")
        o.a = value * 2
        del o.b
        return x * o.a, absent, hasattr(o, "b")

    return Case(f, vector(), observe=o, then=[lambda: setattr(o, "b", 5), lambda: setattr(o, "b", 6)])


@program(whole=False)
def attribute_of_a_module():
    m = nn.Module()
    m.scale, m.shift = 2, 3

    def f(x):
        scale = m.scale
        del m.scale
        m.scale = scale + 1
        return x * m.scale + m.shift, [name for name in vars(m) if not name.startswith("_")]

    return Case(f, vector(), observe=m, then=[lambda: None])


@program(whole=False)
def parameter_of_a_module():
    m = nn.Linear(3, 2)
    with torch.no_grad():
        m.weight.fill_(0.5)
        m.bias.fill_(1.0)

    def f(x):
        weight = m.weight
        del m.weight
        absent = hasattr(m, "weight")
        m.weight = weight
        return m(x), absent, [name for name, _ in m.named_parameters()]

    return Case(f, matrix(), observe=m, then=[lambda: None])


@program
def buffer_and_child_of_a_module():
    m = nn.Module()
    m.register_buffer("first", vector())
    m.register_buffer("second", vector(3, 5.0))
    m.child = nn.ReLU()
    m.other = nn.Tanh()

    def f(x):
        first, child = m.first, m.child
        del m.first, m.child
        m.register_buffer("first", first * 2)
        m.child = child
        return m.child(x - m.first), [n for n, _ in m.named_buffers()], [n for n, _ in m.named_children()]

    return Case(f, vector(), observe=m, then=[lambda: None])


@program
def member_of_a_set():
    s = {1, 2, 3}

    def f(x):
        s.remove(2)
        absent = 2 in s
        s.add(2)
        s.discard(9)
        return x * len(s), absent, sorted(s)

    return Case(f, vector(), observe=s, then=[lambda: s.add(4)])


@program
def item_of_a_list():
    items = [1, 2, 3]

    def f(x):
        items.remove(1)
        items.append(1)
        first = items.pop(0)
        items.insert(1, first)
        del items[0]
        items[:0] = [9]
        return x * items[0], items.index(first)

    return Case(f, vector(), observe=items, then=[lambda: items.append(1), lambda: items.insert(0, 1)])


@program(whole=False)
def global_name():
    globals()["KEPT"] = 5

    def f(x):
        global KEPT
        value = KEPT
        del KEPT
        try:
            x = x + KEPT
        except NameError:
            x = x - 1
        KEPT = value + 1
        return x * KEPT

    return Case(f, vector(), look=lambda: KEPT, then=[lambda: None])


@program(whole=False)
def local_name_and_cell():
    def f(x):
        n, m = 2, 3

        def read():
            return n

        del m, n
        try:
            x = x + read()
        except NameError as error:
            x = x - len(error.args)
        n = 5
        m = read() + 1
        return x * n + m

    return Case(f, vector())


@program(whole=False)
def with_a_break_in_between():
    table, o = {"a": 1, "b": 2}, types.SimpleNamespace(a=1, b=2)

    def f(x):
        del table["a"], o.a
        print(list(table), list(vars(o)))
        table["a"] = o.a = 3
        print(list(table), list(vars(o)))
        return x * table["a"] * o.a

    return Case(f, vector(), observe=[table, o], then=[lambda: table.update(b=4)])


@program
def before_an_error():
    table = {"a": 1, "b": 2}

    def f(x, fails):
        del table["a"]
        if fails:
            raise ValueError(list(table))
        table["a"] = 3
        return x * 2

    put_back = lambda: table.update(a=1)
    return Case(f, vector(), False, observe=table, then=[lambda: Args(vector(), True), put_back, lambda: Args(vector(), False)])
