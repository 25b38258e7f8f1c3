"""Iteration, containment and unpacking of user-defined containers."""

import array
import collections
import datetime
import itertools
import operator
import re

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


@program
def iterators_over_nested_containers_given_to_c_code():
    nested = [[2, 1], [1, 3]]
    table = {"b": [4], "a": [5, 6]}

    def f(x):
        total = sum(itertools.chain.from_iterable(nested)) + sum(map(sum, zip(*nested)))
        largest = max(enumerate(nested), key=operator.itemgetter(1))
        return (
            x * total,
            largest[0],
            sorted(iter(nested)),
            sorted(zip(nested, range(9))),
            dict(zip(("k", "l"), nested)) == {"k": [2, 1], "l": [1, 3]},
            [1, 3] in iter(nested),
            max(itertools.islice(table.values(), 2)),
            sorted(reversed(list(table.items()))),
            list(itertools.accumulate(itertools.chain(nested, table.values()))),
            sum(len(a) * len(b) for a, b in itertools.product(nested, table.values())),
        )

    def grow():
        nested[1].append(7)
        nested.append([0])

    def swap():
        nested[0], nested[1] = nested[1], nested[0]
        table["a"].pop()

    return Case(f, vector(), then=[grow, swap, lambda: table.update(c=[1]), lambda: nested[0].clear()])


@program
def iterators_kept_while_what_they_walk_is_written():
    nested = [[1], [2], [3]]

    def f(x):
        pairs = zip(nested, enumerate(nested))
        first, (n, same) = next(pairs)
        first.append(5)
        nested[1].append(6)
        nested.append([4])
        return x * n, first is same, [(a, b) for a, (_, b) in pairs], sorted(iter(nested))

    return Case(f, vector(), observe=nested, then=[lambda: nested.pop(0), lambda: None])


@program
def containers_of_what_cannot_be_read_are_walked():
    patterns = [re.compile("a"), re.compile("b")]
    steps = {"day": datetime.timedelta(1), "hour": datetime.timedelta(hours=1)}
    row = (array.array("i", [1, 2]), 3)

    def f(x):
        found = [p for p in patterns]
        names = [name for name, _ in steps.items()]
        first, *rest = patterns
        _, number = row
        for i, (p, q) in enumerate(zip(patterns, reversed(patterns))):
            x = x + i
        same = found[0] is first
        return x * number, found, names, rest, same, list(steps.values()), [*patterns, *row]

    def replace():
        patterns[1] = re.compile("c")
        steps["minute"] = datetime.timedelta(minutes=1)

    return Case(f, vector(), then=[lambda: patterns.append(re.compile("d")), replace])


@program
def ranges_and_slices_from_outside():
    class Layout:
        pass

    layout = Layout()
    layout.part = slice(0, 2)
    layout.rows = range(1, 4)
    layout.parts = [slice(0, 1), slice(1, None), slice(None, None, 2)]
    of_slice = layout.part

    def f(x, layout, last=slice(-1, None)):
        for i in layout.rows:
            x = x + i
        pieces = [x[s] for s in layout.parts]
        x[layout.part] = x[last] * 2
        rows = layout.rows
        return (
            x,
            pieces,
            layout.part,
            layout.part is of_slice,
            rows is layout.rows,
            layout.part.start,
            layout.part.indices(5),
            layout.part == slice(0, 2),
            (len(rows), rows[1], rows[1:], 2 in rows, rows.index(3), rows.count(9), rows.step, sum(rows), bool(rows)),
            list(reversed(rows)),
            rows == range(1, 4, 1),
            hash(rows) == hash(range(1, 4)),
            isinstance(rows, range),
            f"{layout.part} {rows!r}",
            [10, 20, 30][layout.part],
        )

    def other():
        layout.rows = range(0)

    return Case(
        f,
        vector(),
        layout,
        then=[
            lambda: setattr(layout, "part", slice(1, 3)),
            lambda: setattr(layout, "part", slice(1, 3)),
            lambda: setattr(layout, "part", slice(True, 3)),
            lambda: layout.parts.pop(),
            lambda: setattr(layout, "rows", range(1, 4)),
            other,
        ],
    )


@program(whole=False)
def a_slice_of_what_is_no_number():
    class Index:
        n = 1

        def __index__(self):
            return self.n

        def __repr__(self):
            return "Index"

    index = Index()
    part = slice(index, None)

    def f(x):
        return x * 2, part.start is index

    return Case(f, vector(), then=[lambda: setattr(index, "n", 2)])
