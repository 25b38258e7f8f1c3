"""operator.attrgetter and operator.methodcaller that C code calls."""

import functools
import itertools
import operator

from conformance.program import Case, program
from conformance.sample import leaf, vector


class Item:
    def __init__(self, rank, name="a", inner=None):
        self.rank = rank
        self.name = name
        self.inner = inner

    @property
    def doubled(self):
        return self.rank * 2

    def plus(self, n, times=1):
        return (self.rank + n) * times


def _items():
    return [Item(3, "c"), Item(1, "b", Item(7)), Item(2, "a")]


@program
def keys_of_sorting_and_choosing():
    items = _items()
    by_rank = operator.attrgetter("rank")

    def f(x):
        items[0].rank = 0
        items.sort(key=by_rank, reverse=True)
        least, most = min(items, key=by_rank), max(items, key=operator.attrgetter("doubled"))
        return x * least.rank, most.name, [i.name for i in sorted(items, key=operator.attrgetter("name", "rank"))]

    return Case(f, vector(), observe=items, then=[lambda: setattr(items[1], "rank", -5)])


@program
def tensors_behind_getters():
    items = [Item(leaf()), Item(leaf(3, 2.0))]

    def f(x):
        items[0].rank = x * 2
        total = functools.reduce(operator.mul, map(operator.attrgetter("rank"), items))
        return total + sum(map(operator.methodcaller("plus", 1, 2), items))

    return Case(f, leaf(3, 0.5), then=[lambda: setattr(items[1], "rank", leaf(3, 4.0))])


@program
def dotted_names_and_groups():
    items = [Item(1, "a", Item(5)), Item(2, "a", Item(6)), Item(3, "b", Item(7))]

    def f(x):
        items[1].inner.rank = 9
        groups = [(k, [i.rank for i in g]) for k, g in itertools.groupby(items, operator.attrgetter("name"))]
        inner = list(map(operator.attrgetter("inner.rank", "name"), items))
        kept = list(filter(operator.methodcaller("plus", -1), items))
        return x * inner[1][0], groups, inner, len(kept)

    return Case(f, vector(), observe=items, then=[lambda: setattr(items[0].inner, "rank", 50)])


@program
def getters_that_fail():
    items = _items()

    def f(x):
        try:
            sorted(items, key=operator.attrgetter("inner.rank"))
        except AttributeError as error:
            text = str(error)
        try:
            list(map(operator.methodcaller("nothing", 1), items))
        except AttributeError as error:
            text += str(error)
        return x * 2, text

    return Case(f, vector(), then=[lambda: setattr(items[0], "inner", Item(0)), lambda: setattr(items[2], "inner", Item(1))])


@program
def getters_replaced_between_calls():
    table = {"key": operator.attrgetter("rank"), "call": operator.methodcaller("plus", 4)}
    items = _items()

    def f(x):
        return x * max(items, key=table["key"]).rank, list(map(table["call"], items))

    return Case(
        f,
        vector(),
        then=[
            lambda: table.update(key=operator.attrgetter("name")),
            lambda: table.update(call=operator.methodcaller("plus", 5)),
        ],
    )


@program(whole=False)
def getters_that_are_shown():
    items = _items()

    def f(x):
        get = operator.attrgetter("rank")
        bound = functools.partial(get, items[0])
        call = operator.methodcaller("plus", 1, times=3)
        return x * bound(), bound.func is get, list(map(call, items)), repr(get)

    return Case(f, vector())
