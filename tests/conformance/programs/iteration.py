"""Iteration, containment and unpacking of user-defined containers."""

import collections

from conformance.program import Args, Case, program
from conformance.sample import vector


@program
def iterator_protocol():
    class Countdown:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

    countdown = Countdown(3)

    def f(x, c):
        total = x
        for n in c:
            total = total + n
        return total, list(Countdown(2)), list(c)

    return Case(f, vector(), countdown, then=[lambda: setattr(countdown, "n", 4)])


@program
def sequence_protocol_iteration():
    class Squares:
        def __init__(self, n):
            self.n = n

        def __len__(self):
            return self.n

        def __getitem__(self, i):
            if i >= self.n:
                raise IndexError(i)
            return i * i

    def f(x):
        s = Squares(4)
        a, b, *rest = s
        return x * sum(s), rest, 9 in s, list(reversed(s)), [*s]

    return Case(f, vector())


@program
def container_protocol():
    log = []

    class Grid:
        def __init__(self):
            self.cells = {}

        def __getitem__(self, key):
            log.append(("get", key))
            return self.cells[key]

        def __setitem__(self, key, value):
            log.append(("set", key))
            self.cells[key] = value

        def __delitem__(self, key):
            log.append(("delete", key))
            del self.cells[key]

        def __contains__(self, key):
            log.append(("in", key))
            return key in self.cells

    g = Grid()

    def f(x):
        g[1, 2] = x * 2
        g[0:1:2, ...] = 3
        g[1, 2] += 1
        y = g[1, 2]
        del g[0:1:2, ...]
        return y, (1, 2) in g, 5 not in g

    return Case(f, vector())


@program
def length_hint_and_reversed():
    class Items:
        def __reversed__(self):
            return iter([3, 2, 1])

        def __iter__(self):
            return iter([1, 2, 3])

        def __length_hint__(self):
            return 3

    def f(x):
        return x, list(reversed(Items())), list(Items()), sum(Items())

    return Case(f, vector())


@program
def iterating_over_changed_containers():
    def f(x):
        items = [1, 2, 3]
        seen = []
        for item in items:
            seen.append(item)
            if item == 1:
                items.append(10)
        table = {"a": 1}
        try:
            for key in table:
                table[key + "x"] = 2
        except RuntimeError as error:
            text = str(error)
        return x * len(seen), seen, text

    return Case(f, vector())


@program
def iter_with_sentinel():
    def f(x):
        values = [1, 2, 0, 5]
        return [x * v for v in iter(lambda: values.pop(0), 0)], values

    return Case(f, vector())


@program
def unpack_from_getitem_and_custom_keys():
    class Options:
        def keys(self):
            return ["by", "shift"]

        def __getitem__(self, key):
            return {"by": 2, "shift": 7}[key]

    def g(x, by, shift):
        return x * by + shift

    def f(x):
        return g(x, **Options()), dict(Options()), {**Options()}

    return Case(f, vector(), then=[lambda: Args(vector(5))])


@program
def iterators_alive_across_a_write():
    items = collections.deque([1, 2, 3])
    table = {"a": 1, "b": 2}

    def f(x):
        for i in range(len(items)):
            items[i] = i * 2
        table.update({"a": 3})
        return x + sum(items) + table["a"]

    held = [iter(items), iter(table)]
    return Case(f, vector(), observe=[items, table], look=lambda: [next(it, None) for it in held])


@program
def reversed_asks_for_the_length_once():
    class Row:
        def __init__(self):
            self.asked = 0

        def __len__(self):
            self.asked += 1
            return 3

        def __getitem__(self, i):
            return i

    def f(x):
        row = Row()
        items = reversed(row)
        first = next(items)
        x = x * first
        return x + sum(items), row.asked

    return Case(f, vector())
