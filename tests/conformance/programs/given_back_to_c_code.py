"""What Python frames return or yield to C code that called them, and that looks at it."""

import collections
import functools
import itertools
import math
import operator

from conformance.program import Args, Case, program
from conformance.sample import vector


def rows_that_change(rows):
    """State changes of two rows: one grows twice, both become alike, one changes its items, one becomes empty."""

    def grow():
        rows[0].append(1)

    def alike():
        rows[0][:], rows[1][:] = [1, 2], [1, 2]

    def others():
        rows[0][:], rows[1][:] = [7, 1, 2], [9] * 5

    def empty():
        rows[0].clear()

    return [grow, grow, alike, others, empty, grow]


def or_error(function):
    try:
        return function()
    except (TypeError, ValueError, IndexError) as e:
        return type(e).__name__


@program
def containers_that_a_generator_yields():
    rows = [[2, 1], [1, 3]]

    def f(x):
        return (
            x + 1,
            sum((a for a in rows), []),
            any(a for a in rows),
            all(a for a in rows),
            sorted(a for a in rows),
            max(a for a in rows),
            sorted((a, i) for i, a in enumerate(rows)),
            functools.reduce(operator.add, (a for a in rows)),
            list(itertools.accumulate(a for a in rows)),
            list(itertools.chain.from_iterable(a for a in rows)),
            [n for n in itertools.chain.from_iterable(a for a in rows)],
            [n for n in itertools.starmap(operator.add, ((a, [1]) for a in rows))],
        )

    return Case(f, vector(), then=rows_that_change(rows))


@program
def containers_that_a_key_function_returns():
    rows = [[2, 1], [1, 3]]

    def f(x):
        order = [1, 2, 3]
        order.sort(key=lambda i: rows[i % 2])
        return (
            x + 1,
            sorted([1, 2, 3], key=lambda i: rows[0] if i == 1 else rows[1]),
            max([1, 2, 3], key=lambda i: rows[i % 2]),
            order,
            [list(g) for _, g in itertools.groupby([1, 2, 3], key=lambda i: rows[i // 2])],
            list(filter(lambda i: rows[i % 2], [1, 2, 3])),
        )

    return Case(f, vector(), then=rows_that_change(rows))


@program
def lengths_that_a_generator_yields():
    rows = [[2, 1], [1, 3]]

    def f(x):
        return (
            x + 1,
            sum(len(a) * 3 for a in rows),
            sum((len(a) * 0.5 for a in rows), 0.25),
            math.prod(len(a) for a in rows),
            max((len(a), i) for i, a in enumerate(rows)),
            sorted((len(a), i) for i, a in enumerate(rows)),
            set(len(a) for a in rows),
            3 in (len(a) for a in rows),
            functools.reduce(operator.add, (len(a) for a in rows)),
            bytes(len(a) for a in rows),
            {2}.issubset(len(a) for a in rows),
            {7}.union(len(a) for a in rows),
            len(collections.Counter(len(a) for a in rows)),
            sum(len(a) * len(b) for a, b in itertools.product(rows, rows)),
        )

    return Case(f, vector(), then=rows_that_change(rows))


@program
def lengths_that_iterators_of_c_code_look_at():
    rows = [[2, 1], [1, 3]]

    def f(x):
        return (
            x + 1,
            [n for n in itertools.accumulate(len(a) for a in rows)],
            [n for n in zip(itertools.accumulate(len(a) for a in rows), "ab")],
            [n for n in map(pow, (len(a) for a in rows), (2, 3))],
            list(map(operator.add, (len(a) for a in rows), (1, 2))),
            [n for n in filter(None, (len(a) - 2 for a in rows))],
            list(itertools.compress("ab", (len(a) - 2 for a in rows))),
            [k for k, _ in itertools.groupby(len(a) // 2 for a in rows)],
            list(itertools.takewhile(lambda a: len(a) - 2, (a for a in rows))),
            list(itertools.starmap(pow, ((len(a), 2) for a in rows))),
            list(itertools.islice(iter(lambda: len(rows[0]), 4), 3)),
        )

    return Case(f, vector(), then=rows_that_change(rows))


class Counted:
    """Its special methods return what depends on how long the first row is."""

    def __init__(self, rows):
        self.rows = rows

    def __index__(self):
        return len(self.rows[0])

    __hash__ = __index__

    def __float__(self):
        return len(self.rows[0]) * 0.5

    def __len__(self):
        return len(self.rows[0])

    def __eq__(self, other):
        return len(self.rows[0]) - other if isinstance(other, int) else NotImplemented

    def __getitem__(self, i):
        if i >= len(self.rows[0]):
            raise IndexError(i)
        return len(self.rows[0]) - i


@program
def numbers_that_special_methods_return():
    rows = [[2, 1], [1, 3]]

    def f(x):
        n = Counted(rows)
        text, digits = "abcdefgh", [1, 2, 3, 4, 5, 6, 7, 8]
        return (
            x + 1,
            text[n],
            digits[:n],
            text[1:3] * n,
            [0] * n,
            range(20)[n],
            list(range(n)),
            bin(n),
            "%d" % n,
            "x".rjust(n),
            "a b c d e f".split(" ", n),
            digits.pop(n),
            or_error(lambda: int("11", n)),
            math.sqrt(n),
            math.factorial(n),
            round(2.123456789, n),
            complex(n),
            bytes([n]),
        )

    return Case(f, vector(), then=rows_that_change(rows))


@program
def answers_that_special_methods_give_to_c_code():
    rows = [[2, 1], [1, 3]]

    def f(x):
        n = Counted(rows)
        return (
            x + 1,
            bool(n),
            n in [3],
            [n] == [3],
            3 in [n],
            [3, 4, 2].count(n),
            or_error(lambda: [n].index(3)),
            list(reversed(n)),
            operator.indexOf(n, 1) if len(n) else None,
            4 in n,
            hash(n),
            list(itertools.repeat(2, n)),
            list(itertools.islice("abcdefgh", n)),
        )

    return Case(f, vector(), then=rows_that_change(rows))


@program
def lengths_that_are_handed_on():
    rows = [[2, 1], [1, 3]]

    def lengths():
        for a in rows:
            yield len(a)

    def f(x):
        first, second = lengths()
        kept = [0]
        kept.extend(lengths())
        return (
            x.new_zeros(first + second + 1).sum() + x,
            list(lengths()),
            tuple(n + 1 for n in lengths()),
            [*lengths()],
            [(i, n) for i, n in enumerate(lengths())],
            list(map(lambda a: len(a) * 2, rows)),
            [n for n, _ in zip(lengths(), "ab")],
            kept,
            (lambda *a: a)(*lengths()),
            next(lengths()),
        )

    return Case(f, vector(), then=rows_that_change(rows))


@program
def iterators_over_lists_that_grow_behind_them():
    rows = [[2, 1], [1, 3]]

    def f(x):
        lists, numbers, truths, summands, chained = [[1]], [1], [[1]], [1, 2], [[4]]
        iterators = (
            itertools.accumulate(lists),
            itertools.accumulate(numbers),
            filter(None, truths),
            map(operator.add, summands, [1, 2, 3]),
            itertools.chain.from_iterable(chained),
        )
        for grown in (lists, truths, chained):
            grown.append(rows[0])
        numbers.append(len(rows[0]))
        summands.append(len(rows[0]))
        return x + 1, list(iterators[0]), [list(it) for it in iterators[1:]]

    return Case(f, vector(), then=rows_that_change(rows))


@program
def iterators_that_are_used_up_in_part():
    rows = [[2, 1], [1, 3]]

    def f(x):
        longest = itertools.zip_longest([1, 2, 3], rows, fillvalue=rows[0])
        total = [n * len(row) for n, row in longest]
        longest = itertools.zip_longest(rows[0], [1, 2, 3, 4])
        first = [next(longest), next(longest), next(longest)]
        chained = itertools.chain(rows[0], (len(a) for a in rows))
        return x + 1, total, first, any(longest), [n for n in chained]

    return Case(f, vector(), then=rows_that_change(rows))


@program
def numbers_of_a_generator_that_are_summed_up():
    rows = [[2, 1], [1, 3]]
    start = [0.5, 7]

    def f(x):
        total = sum(len(a) for a in rows)
        return (
            x * total + max(len(a) for a in rows) - min(len(a) + 1 for a in rows),
            x.new_zeros(total).sum(),
            sum((len(a) for a in rows), start[1]),
            sum((len(a) * start[0] for a in rows), start[0]),
            math.prod(len(a) for a in rows),
            sum((x * len(a) for a in rows), start=x),
            sum(n if n else x for n in (len(a) for a in rows)),
            sum(len(a) > 1 for a in rows),
            sum(a[0] for a in rows if a),
            or_error(lambda: max(len(a) for a in rows if len(a) > 9)),
            or_error(lambda: sum(a if len(a) == 5 else 1 for a in rows)),
        )

    return Case(f, vector(), then=[*rows_that_change(rows), lambda: start.insert(0, 1.5)])


@program
def numbers_of_tensors_that_a_generator_yields():
    def f(x):
        parts = x.split(1)
        found = sum(p.isinf().sum().item() for p in parts)
        if not found:
            return x * 2, found
        return x + found, found

    steps = [vector(), vector() + 1, vector() * float("inf"), vector()]
    return Case(f, vector(), then=[lambda x=x: Args(x) for x in steps], forward_only=True)
