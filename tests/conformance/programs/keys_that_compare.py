"""Keys of dicts and elements of sets from outside whose class has an __eq__ and __hash__ of its own."""

import dataclasses

from conformance.program import Args, Case, program
from conformance.sample import vector


@dataclasses.dataclass(frozen=True)
class Shape:
    rows: int
    name: str = "a"


class Key:
    compared = 0

    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        type(self).compared += 1
        return isinstance(other, Key) and self.n == other.n

    def __hash__(self):
        return hash(self.n)


@program
def value_of_an_equal_key():
    table = {Shape(1): 2.0, Shape(2): 3.0}

    def f(x, n):
        return x * table[Shape(n)], table.get(Shape(n, "b"), 7), Shape(n) in table

    def change():
        table[Shape(1)] = 5.0

    def rename():
        object.__setattr__(next(iter(table)), "name", "c")

    return Case(
        f,
        vector(),
        1,
        then=[change, lambda: Args(vector(), 2), lambda: table.update({Shape(2, "b"): 9}), lambda: table.pop(Shape(1)) and None],
    )


@program
def a_key_that_is_not_there():
    table = {Shape(1): 2.0, Shape(2): 3.0}

    def f(x, n):
        try:
            return x * table[Shape(n)]
        except KeyError as error:
            return x * 2, error.args[0] == Shape(n)

    return Case(f, vector(), 7, then=[lambda: table.update({Shape(7): 5.0}), lambda: Args(vector(), 3)])


@program
def a_key_that_was_changed_in_its_place():
    table = {Key(1): 2.0, Key(2): 3.0}

    def f(x):
        return x * table.get(Key(1), 10), len(table), [key.n for key in table]

    def change():
        next(iter(table)).n = 4

    def back():
        next(iter(table)).n = 1

    return Case(f, vector(), then=[change, back])


@program
def comparisons_are_counted():
    first, second = Key(1), Key(2)
    table = {first: 2.0, second: 3.0}

    def f(x, key):
        y = x * table[key]
        return y * table[Key(1)], Key.compared

    def start():
        Key.compared = 0

    start()
    return Case(
        f,
        vector(),
        first,
        look=lambda: Key.compared,
        then=[start, lambda: Args(vector(), Key(1)), lambda: Args(vector(), second), lambda: Args(vector(), first)],
    )


@program
def keys_and_values_are_walked():
    table = {Shape(3, "x"): 2.0, Shape(1, "y"): 3.0}

    def f(x):
        for key, value in table.items():
            x = x * value + key.rows
        return x, [key.name for key in table], sorted(table, key=lambda key: key.rows)[0].name

    def move():
        table[Shape(3, "x")] = table.pop(Shape(3, "x"))

    return Case(f, vector(), then=[move, lambda: table.clear()])


@program
def elements_of_a_set():
    group = {Shape(1), Shape(2)}
    frozen = frozenset([Key(5), Key(6)])

    def f(x, n):
        return x * (Shape(n) in group), Key(n) in frozen, len(group), {Shape(1), Shape(9)} & group == {Shape(1)}

    return Case(f, vector(), 2, then=[lambda: group.add(Shape(5)), lambda: Args(vector(), 5), lambda: group.discard(Shape(1))])


@program
def a_comparison_that_raises():
    class Odd:
        broken = False

        def __hash__(self):
            return 3

        def __eq__(self, other):
            if self.broken or other.broken:
                raise ValueError("not comparable")
            return True

    odd = Odd()
    table = {odd: 2.0}

    def f(x):
        try:
            return x * table[Odd()]
        except ValueError as error:
            return x + 1, str(error)

    def change():
        odd.broken = not odd.broken

    return Case(f, vector(), then=[change, change])


@program(whole=False)
def a_table_that_is_filled():
    table, seen = {}, set()

    def f(x, n):
        key = Shape(n)
        if key not in table:
            table[key] = n * 2.0
        y = x * table[key]
        seen.add(key)
        return y + len(seen)

    return Case(
        f,
        vector(),
        1,
        look=lambda: (list(table.items()), seen == {Shape(1)}),
        then=[lambda: None, lambda: Args(vector(), 2), lambda: Args(vector(), 1)],
    )


@program(whole=False)
def keys_of_one_hash():
    class Odd(Key):
        def __hash__(self):
            return 3

        __eq__ = Key.__eq__

    table = {Odd(1): 2.0, Odd(2): 3.0}

    def f(x):
        return x * table[Odd(2)]

    return Case(f, vector(), then=[lambda: table.pop(Odd(1)) and None])
