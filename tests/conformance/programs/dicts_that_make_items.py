"""defaultdict, classes derived from it, and dicts with a __missing__: what is asked for and not there is made."""

import collections
import copy
import operator

from conformance.program import Case, program
from conformance.sample import vector


class Table(collections.defaultdict):
    """With attributes."""


class Keyed(collections.defaultdict):
    """Its factory gets the key."""

    def __missing__(self, key):
        self[key] = made = self.default_factory(key)
        return made


class Noting(collections.defaultdict):
    """Asks the native methods, and notes what it is asked."""

    def __init__(self, *args, **kwargs):
        self.asked = []
        super().__init__(*args, **kwargs)

    def __getitem__(self, key):
        self.asked.append(key)
        return super().__getitem__(key)

    def __missing__(self, key):
        return super().__missing__(key) or key


class Doubling(dict):
    """Keeps nothing of what it makes."""

    def __missing__(self, key):
        return key * 2


@program
def made_and_gone():
    def f(x):
        table, keyed = Table(list), Keyed(lambda key: x * key)
        table["a"].append(x)
        table["b"].append(x + 1)
        total = sum([sum(parts) for parts in table.values()])
        return total + keyed[2] + keyed[3], len(keyed), table.default_factory is list

    return Case(f, vector())


@program
def made_and_given_back():
    def f(x):
        table = Table(lambda: [x])
        table["a"].append(2)
        table.name = "t"
        nested = Table(lambda: Table(int))
        nested["a"]["b"] += 3
        noting = Noting(list, a=1)
        return table, table["b"], nested, noting["a"], noting["c"], noting

    return Case(f, vector())


@program
def without_a_factory():
    def f(x):
        table = Table()
        try:
            table["a"]
        except KeyError as error:
            x = x + 1
            text = str(error)
        table.default_factory = list
        table["b"].append(x)
        del table.default_factory
        return x, text, table, table.default_factory, "a" in table

    return Case(f, vector())


@program
def copies_and_comparisons():
    def f(x):
        table = Table(list, {"a": [x]}, b=[1])
        copied, again = table.copy(), copy.copy(table)
        copied["c"].append(2)
        return copied, again["d"], again, table | {"z": 1}, copied == table, {**table}, len(table)

    return Case(f, vector())


@program
def read_from_outside():
    table = Table(list, a=2, b=3)
    table.scale = 5

    def f(x):
        seen = ("a" in table, table.get("zz"), list(table), table.default_factory is list, len(table))
        return x * table["a"] * table.scale + table["b"], seen

    def change():
        table["b"] = 7

    return Case(f, vector(), observe=table, then=[change, lambda: setattr(table, "scale", 2), lambda: table.pop("a")])


@program
def made_in_one_from_outside():
    table, keyed, noting = Table(list), Keyed(lambda key: [key]), Noting(list)

    def f(x):
        table["a"].append(x)
        keyed["q"].append(2)
        noting["r"].append(3) if isinstance(noting["r"], list) else None
        return x + len(table), keyed["z"], len(noting.asked)

    def clear():
        table.clear()
        noting.clear()

    return Case(f, vector(), observe=(table, keyed, noting), then=[lambda: None, clear])


@program
def the_factory_from_outside_is_another():
    plain, table = collections.defaultdict(list), Table(list)

    def f(x):
        plain["a"]
        return x + len(plain["a"]) + len(table["a"]), plain["a"], table["b"], plain.default_factory

    def change():
        plain.clear()
        table.clear()
        plain.default_factory = dict
        table.default_factory = lambda: [5, 6]

    def gone():
        plain.default_factory = None

    return Case(f, vector(), observe=(plain, table), then=[lambda: None, change, gone])


@program
def the_factory_is_written():
    plain, table = collections.defaultdict(list), Table(list)

    def f(x):
        plain.default_factory = table.default_factory = int
        plain["n"] += 2
        table["n"] += 3
        table.default_factory = None
        return x + plain["n"] + table["n"], table.default_factory, plain.default_factory

    def change():
        table.default_factory = dict

    return Case(f, vector(), observe=(plain, table), then=[lambda: None, change])


@program
def asked_by_c_code():
    plain, table = collections.defaultdict(int, a=1), Table(lambda: 4)

    def f(x):
        first = operator.itemgetter("b")(plain), plain.__getitem__("c"), operator.getitem(table, "d")
        text = "{t[e]} {u}".format(t=table, u="{f}".format_map(plain))
        return x + sum(first), text, dict.__getitem__(table, "g"), len(plain), len(table)

    def clear():
        plain.clear()
        table.clear()

    return Case(f, vector(), observe=(plain, table), then=[lambda: None, clear])


@program
def native_writes():
    table = Table(list, a=[1])

    def f(x):
        table.update(b=[x])
        table.setdefault("y", []).append(2)
        return x + len(table), table.pop("b"), table.popitem(), sorted(table)

    return Case(f, vector(), observe=table, then=[lambda: None])


@program
def made_by_a_class():
    class Part:
        def __init__(self):
            self.n = 2

    table = collections.defaultdict(Part)

    def f(x):
        table["a"].n += 1
        return x * table["a"].n + table["b"].n

    def change():
        def init(self):
            self.n = 10

        Part.__init__ = init
        table.clear()

    return Case(f, vector(), observe=table, then=[lambda: None, change])


@program
def not_kept():
    table = Doubling(a=1)

    def f(x):
        own = Doubling(b=2)
        return x * table[3] + table["a"] + own[4], table.get(5), own["b"], len(table), len(own)

    def change():
        table[3] = 1

    return Case(f, vector(), observe=table, then=[change])


@program
def classes_that_c_code_calls():
    class Part:
        def __init__(self, n):
            self.n = n

    def f(x, *numbers):
        return x * sum([part.n for part in map(Part, numbers)])

    def change():
        def init(self, n):
            self.n = n * 10

        Part.__init__ = init

    return Case(f, vector(), 1, 2, then=[lambda: None, change])


@program
def initialised_again():
    table, plain = Table(list), collections.defaultdict(dict)

    def f(x):
        table.__init__(int, a=1)
        plain.__init__()
        table["n"] += 2
        return x + table["n"] + table["a"], plain.default_factory, table.default_factory

    def change():
        plain.default_factory = dict
        table.default_factory = lambda: 4

    return Case(f, vector(), observe=(table, plain), then=[change])
