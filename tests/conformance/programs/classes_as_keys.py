"""Classes, functions, modules and members of enumerations as keys of dicts that are made, written and kept over breaks."""

import collections
import enum

import torch
from torch import nn

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


class Thing:
    scale = 2


class Other(Thing):
    scale = 3


class Registry:
    """As libraries keep what they do for a class."""

    def __init__(self):
        self.handlers = {Thing: lambda x: x * 2, int: lambda x: x + 1}

    def handle(self, value, x):
        for cls in type(value).__mro__:
            if cls in self.handlers:
                return self.handlers[cls](x)
        return x


class Kind(enum.Enum):
    PLAIN = "plain"
    SMOOTH = "smooth"


class Doubling(type):
    def doubled(cls):
        return cls.scale * 2


class First(metaclass=Doubling):
    scale = 4


class Alike(type):
    def __eq__(cls, other):
        return isinstance(other, Alike)

    def __hash__(cls):
        return 7


class One(metaclass=Alike):
    scale = 5


class Two(metaclass=Alike):
    scale = 6


def double(x):
    return x * 2


def shifted(x):
    return x + 1


@program
def what_is_done_for_a_class():
    registry = Registry()

    def f(x, value):
        y = registry.handle(value, x)
        return y, type(value) in registry.handlers

    def add():
        registry.handlers[str] = lambda x: x - 1
        return Args(vector(), "a")

    def replace():
        registry.handlers[int] = lambda x: x * 7
        return Args(vector(), 3)

    return Case(f, vector(), 3, then=[lambda: Args(vector(), Other()), lambda: Args(vector(), "a"), add, replace])


@program
def a_table_that_is_made_and_returned():
    def f(x):
        table = {int: 1, Thing: x * 2, torch.Tensor: x.sum(), torch.float32: 3, First: 4, type(x): x}
        return table, {**table, Other: 5}

    return Case(f, vector())


@program(whole=False)
def tables_over_a_break():
    net = nn.Linear(3, 3)
    with torch.no_grad():
        net.weight.fill_(0.5)
        net.bias.fill_(0.25)

    def f(x, value):
        by_class = {int: 2, Thing: x * 2, First: 3, type(net): x}
        by_function = {double: 1, torch.sin: x + 1, shifted: 2}
        by_module = {net: x - 1, torch: 2}
        by_member = {Kind.PLAIN: x * 3}
        groups = {int, float}, frozenset([Thing, First]), {Kind.SMOOTH}, {double}
        torch._dynamo.graph_break()
        y = by_class[Thing] + by_class[type(value)] + by_function[torch.sin] + by_module[net] + by_member[Kind.PLAIN]
        for function in by_function:
            y = function(y)
        return net(y), by_class[nn.Linear], [type(value) in g for g in groups], First in groups[1], list(by_class)

    return Case(f, vector(), 1, then=[lambda: Args(vector(), First()), lambda: Args(vector(), Thing())])


@program
def a_table_is_written():
    table = {Thing: 1}
    counts = collections.defaultdict(int)
    order = collections.OrderedDict({Thing: 1, int: 2})

    def f(x, value):
        table[type(value)] = len(table)
        counts[type(value)] += 1
        order.move_to_end(Thing)
        order[First] = 3
        table.pop(bool, None)
        table.setdefault(list, 8)
        return x * table[type(value)] + counts[type(value)], len(table)

    return Case(
        f,
        vector(),
        1,
        observe=[table, counts, order],
        look=lambda: (list(table.items()), dict(counts), list(order.items())),
        then=[lambda: Args(vector(), 1.5), lambda: Args(vector(), Other()), table.clear],
    )


@program(whole=False)
def a_table_is_written_before_a_break():
    table, seen = {Thing: 1}, set()

    def f(x, value):
        table[type(value)] = x.sum()
        seen.add(type(value))
        torch._dynamo.graph_break()
        seen.discard(int)
        del table[Thing]
        return x * len(table), Thing in table, type(value) in seen

    def put_back():
        table[Thing] = 2
        return Args(vector(), 2.5)

    return Case(
        f,
        vector(),
        1,
        observe=table,
        look=lambda: (list(table), sorted(c.__name__ for c in seen)),
        then=[put_back, put_back],
    )


@program
def attributes_of_classes_that_are_keys():
    table = {Thing: 1.5, Other: 2, First: 3}
    before = Thing.scale

    def f(x):
        for cls, n in table.items():
            x = x * cls.scale + n
        return x, sorted(table.values()), [c.__name__ for c in table], max(table.items(), key=lambda p: p[1])[0].scale

    def change():
        Thing.scale = 9

    def restore():
        Thing.scale = before

    return Case(f, vector(), then=[lambda: None, change, restore, lambda: table.pop(Other) and None])


@program
def tables_in_tables():
    table = {Thing: {int: 2, float: 3}, (int, First): 4}

    def f(x, value):
        inner = table.get(Thing, {})
        made = {key: n for key, n in inner.items() if issubclass(key, (int, float))}
        made[(Thing, type(value))] = x
        return x * inner[type(value)] + table[(int, First)], made, table.get((float, First))

    return Case(
        f,
        vector(),
        1,
        then=[lambda: Args(vector(), 1.5), lambda: table[Thing].update({int: 5}) or Args(vector(), 1)],
    )


@program(whole=False)
def classes_that_compare_themselves():
    table = {One: 1}

    def f(x, value):
        made = {Two: x}
        group = {One}
        torch._dynamo.graph_break()
        return x * table[type(value)], made[One], Two in group, len({One: 1, Two: 2}), int in table

    return Case(f, vector(), One(), then=[lambda: Args(vector(), Two())])


@program(whole=False)
def classes_that_the_frame_makes():
    def f(x):
        class Local:
            scale = 3

        table = {Local: x * 2, int: 1}
        torch._dynamo.graph_break()
        return table[Local] * Local.scale, [c.__name__ for c in table], Local in table, len(table)

    return Case(f, vector())


@program(whole=False)
def objects_of_the_frame_as_keys():
    def f(x):
        a, b = Thing(), Thing()
        a.n = 2
        table = {a: x * 2, b: x, (a, 1): 3}
        torch._dynamo.graph_break()
        return table[a] * a.n + table[b], [k is a for k in table], table[(a, 1)], Thing() in table, len(table)

    return Case(f, vector())


@program
def a_class_is_in_a_set():
    numbers, things = {int, float, Thing}, frozenset([Thing, First, bool])

    def f(x, value):
        if type(value) in numbers:
            x = x * 2
        if value.__class__ in things:
            x = x + 1
        return x, type(value) in {int, str}, numbers & things, things | {int}, len(numbers - {int})

    return Case(
        f,
        vector(),
        1,
        then=[lambda: Args(vector(), Thing()), lambda: Args(vector(), True), lambda: numbers.discard(Thing)],
    )


@program(whole=False)
def modules_as_keys_of_what_is_kept():
    layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
    with torch.no_grad():
        for p in layers.parameters():
            p.fill_(0.5)
    seen = {}

    def f(x):
        results = {}
        for layer in layers:
            x = results[layer] = layer(x)
            seen[layer] = x.shape[0]
        torch._dynamo.graph_break()
        return [results[layer] for layer in reversed(layers)], len(seen), results

    return Case(f, matrix(), look=lambda: [seen.get(layer) for layer in layers], then=[lambda: seen.clear()])
