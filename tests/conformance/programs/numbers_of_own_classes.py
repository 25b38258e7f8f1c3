"""Objects of classes derived from int, float and str, as C code meets them: keys, elements, arguments, text."""

import math
import sys

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


class Count(int):
    pass


class Share(float):
    pass


class Name(str):
    pass


class Loud(int):
    """Says something of its own where C code asks."""

    asked = []

    def __hash__(self):
        Loud.asked.append("hash")
        return int.__hash__(self)

    def __eq__(self, other):
        Loud.asked.append("eq")
        return int.__eq__(self, other)

    def __index__(self):
        Loud.asked.append("index")
        return 7


@program
def as_keys_and_elements():
    table = {(int, "a", Count(3)): 2.0, (str, Name("b"), 0): 5.0}

    def f(x, count, name):
        found = table[int, "a", count] + table.get((str, name, Count(0)), 1.0)
        return x * found, count in [1, 3], name in ("b", "c"), {count, 3, Count(3)} == {3}

    others = [lambda: Args(vector(), Count(3), Name("b")), lambda: Args(vector(), Count(3), Name("z"))]
    return Case(f, vector(), Count(3), Name("b"), then=others)


@program(whole=False)
def as_arguments_of_builtins():
    def f(x, count, share, name):
        numbers = max(count, 2), sorted([count, 1, share]), abs(share), math.floor(share), divmod(count, 2)
        text = name.upper(), f"{count:>4}|{share:.2f}|{name:-<5}", "%d %s" % (count, name), ",".join([name, "x"])
        return x * count + share, numbers, text, repr(count), str(name), [type(n).__name__ for n in (count, share, name)]

    others = [lambda: Args(vector(), Count(4), Share(0.5), Name("abc")), lambda: Args(vector(), Count(5), Share(2.5), Name("d"))]
    return Case(f, vector(), Count(4), Share(0.5), Name("abc"), then=others)


@program
def with_attributes_of_their_own():
    count = Count(3)
    count.unit = "m"
    seen = {}

    def f(x):
        seen[count] = count.unit
        return x * count, f"{count}{count.unit}"

    return Case(f, vector(), observe=seen, then=[lambda: setattr(count, "unit", "km")])


@program(whole=False)
def that_say_something_of_their_own():
    Loud.asked.clear()
    loud = Loud(3)
    table = {3: "three"}

    def f(x):
        return x * 2, table.get(loud), [10, 11, 12, 13, 14, 15, 16, 17][loud]

    return Case(f, vector(), observe=Loud.asked)


@program(whole=False)
def whose_class_learns_to_say_something():
    class Learning(int):
        pass

    key, table = Learning(3), {3: "three", 4: "four"}

    def f(x):
        return x * 2, table.get(key, "none")

    def learn():
        Learning.__hash__ = lambda self: hash(4)
        Learning.__eq__ = lambda self, other: other == 4

    return Case(f, vector(), then=[learn])


@program
def the_exception_that_is_handled():
    def f(x, number):
        seen = [sys.exception()]
        try:
            1 // number
        except ZeroDivisionError as error:
            seen.append(sys.exception() is error)
            try:
                [][number]
            except IndexError:
                seen.append(type(sys.exception()).__name__)
            seen.append(sys.exception() is error)
        seen.append(sys.exception())
        return x + len(seen), seen

    return Case(f, vector(), 0, then=[lambda: Args(vector(), 1)])


class ByName(type):
    """Classes that are equal to others of their name."""

    def __eq__(cls, other):
        return cls.__name__ == getattr(other, "__name__", None)

    def __hash__(cls):
        return hash(cls.__name__)


@program
def frozen_sets_of_classes():
    known = frozenset({int, float, Count})

    def f(x, value):
        inside = type(value) in known
        return x + inside, sorted(c.__name__ for c in known), len(known & {int, str})

    return Case(f, vector(), Count(1), then=[lambda: Args(vector(), 1), lambda: Args(vector(), "a")])


@program(whole=False)
def frozen_sets_of_classes_equal_to_others():
    made = [ByName("A", (), {}), ByName("A", (), {})]
    known = frozenset({made[0], int})

    def f(x):
        return x + (made[1] in known), len(known | {made[1]})

    return Case(f, vector(), then=[lambda: made.__setitem__(1, ByName("B", (), {}))])


@program
def methods_of_texts_and_numbers():
    def f(x, name, count):
        parts = [name.upper(), name.startswith("a"), name.split("-"), name.replace("a", count.bit_length() * "b")]
        return x * len(name) * count.conjugate(), parts, "-".join([name, name]), name[1:], count.to_bytes(2, "big")

    return Case(f, vector(), Name("a-b"), Count(3), then=[lambda: Args(vector(), Name("c-a"), Count(8))])


class Labelled(tuple):
    """With attributes beside its items."""

    def first(self):
        return self[0]


@program(whole=False, graphs=2)
def made_here_and_used_after_a_break():
    def f(x, n):
        count, share, name = Count(n), Share(0.5), Name("ab")
        count.unit = "m"
        pair = Labelled((x * 2, n))
        pair.label = name
        torch._dynamo.graph_break()
        return pair.first() * count * share, name.upper(), count.unit, pair.label is name, pair

    return Case(f, vector(), 3, then=[lambda: Args(vector(), 4)])


@program
def returned_to_the_caller():
    def f(x, n):
        count = Count(n + 1)
        return x * count, count, Name(f"n{n}"), [Share(0.25), count]

    return Case(f, vector(), 3, then=[lambda: Args(vector(), 4)])
