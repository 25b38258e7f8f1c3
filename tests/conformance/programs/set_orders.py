"""The order in which a set gives its elements: it follows from what was added and discarded before, and in which order.

`worn()` gives 2 before 9, a set that is made of its elements 9 before 2.
"""

import itertools

from conformance.program import Args, Case, program
from conformance.sample import vector


def worn():
    s = {1}
    s.add(2)
    s.add(9)
    s.discard(1)
    return s


def wide():
    """The same order, in a larger table."""
    s = set(range(40))
    for k in range(40):
        if k not in (2, 9):
            s.discard(k)
    return s


def _again():
    return Args(vector(), worn())


def _other_table():
    return Args(vector(), wide())


@program
def of_an_argument():
    def f(x, s):
        return x + 1, list(s), [k for k in s], repr(s), dict.fromkeys(s), sorted(s, key=lambda k: 0), next(iter(s))

    return Case(f, vector(), worn(), then=[_again, lambda: Args(vector(), {2, 9})])


@program
def of_sums_of_floats():
    def f(x, s):
        total = 0.0
        for k in s:
            total = total + 0.1**k
        return x * total, sum(0.3**k for k in s)

    return Case(f, vector(), worn(), then=[_again, _other_table, _again])


@program
def of_what_is_made_of_it():
    def f(x, s):
        return x + 1, [list(t) for t in (s.copy(), set(s), frozenset(s), s | {0}, s - {77}, s & {2, 9, 4}, s ^ {17}, {*s, 25})]

    return Case(f, vector(), worn(), then=[_again, _other_table, _again])


@program
def after_single_writes():
    def f(x, s):
        s.add(17)
        s.discard(2)
        s.add(2)
        s.remove(9)
        s.add(25)
        return x + 1

    return Case(lambda x, s: (f(x, s), list(s)), vector(), worn(), then=[_again], observe=[])


@program
def after_writes_of_many():
    def f(x, s):
        s.update([17, 25])
        s -= {9}
        s.update(k for k in (33, 9))
        s ^= {2, 4}
        s |= {41, 9}
        return x + 1, list(s)

    return Case(f, vector(), worn(), then=[_again, _other_table, _again])


@program
def after_many_additions():
    def f(x, s):
        for i in range(40):
            s.add(i * 3)
        for i in range(38):
            s.discard(i * 3)
        return x + 1

    def both(x, s):
        return f(x, s), list(s)

    return Case(both, vector(), worn(), then=[_again, _other_table, _again])


@program
def of_a_set_that_stays():
    kept = worn()

    def f(x):
        kept.add(17)
        kept.add(10)
        kept.discard(17)
        return x + 1

    def order():
        return list(kept)

    return Case(lambda x: (f(x), order()), vector(), then=[lambda: Args(vector())] * 5)


@program
def of_a_set_that_is_made():
    def f(x):
        s = {1}
        s.add(2)
        s.add(9)
        s.discard(1)
        empty = set(range(30))
        empty.clear()
        return x + 1, s, frozenset(s), empty

    def orders(x):
        y, s, frozen, empty = f(x)
        empty.update((9, 1, 17))
        s.add(17)
        return y, list(s), list(frozen), list(empty)

    return Case(orders, vector(), then=[lambda: Args(vector())])


@program
def of_what_pop_gives():
    def f(x, s):
        first = s.pop()
        s.add(33)
        return x + 1, first, s.pop(), list(s)

    return Case(f, vector(), worn(), then=[_again, lambda: Args(vector(), {2, 9})])


@program(whole=False)
def of_a_graph_break_between():
    def f(x, s):
        s.add(17)
        y = x + 1
        print(list(s))
        s.discard(2)
        s.add(2)
        return y * 2, list(s)

    return Case(f, vector(), worn(), then=[_again, _other_table, _again])


def _name_of_slot(slot):
    """Where a text stands in a set goes by the seed of its process; how often a program compiles may not."""
    return next(text for text in map(str, itertools.count()) if hash(text) % 8 == slot)


@program
def of_names():
    names = set()
    a, b, c, d = map(_name_of_slot, (5, 2, 6, 1))

    def f(x, name):
        names.add(name)
        names.discard(a)
        return x + len(names)

    return Case(
        lambda x, name: (f(x, name), list(names)),
        vector(),
        a,
        then=[lambda n=n: Args(vector(), n) for n in (b, c, a, d, b)],
    )


@program
def signs_of_zeros_in_sets_and_dicts():
    def f(x, s, d):
        s.discard(0.0)
        s.add(-0.0)
        del d[0.0]
        d[-0.0] = 2
        return x + 1

    return Case(f, vector(), {0.0}, {0.0: 1}, then=[lambda: Args(vector(), {0.0}, {0.0: 1})])


@program
def of_an_argument_after_single_writes():
    def f(x, s):
        s.add(17)
        s.add(33)
        s.discard(2)
        s.add(2)
        return x + 1

    return Case(f, vector(), worn(), then=[_again, _other_table, _again])


@program
def of_sets_that_are_returned():
    def f(x):
        s = {1}
        s.add(2)
        s.add(9)
        s.discard(1)
        return x + 1, s, frozenset(s), {"a": [s]}

    return Case(f, vector(), then=[lambda: Args(vector())])
