"""Objects, tuples and members of enumerations as keys of dicts and elements of sets: what is read of them may change."""

import collections
import enum
import typing

import torch
from torch import nn

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


class Thing:
    def __init__(self, n):
        self.n = n

    def scaled(self, x):
        return x * self.n


class Other(Thing):
    extra = 10


class Kind(enum.Enum):
    PLAIN = "plain"
    SMOOTH = "smooth"
    NONE = "none"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Name(str, enum.Enum):
    FIRST = "first"
    LAST = "last"


Point = collections.namedtuple("Point", "a b")


@program
def attributes_of_keys_change():
    a, b = Thing(2), Thing(3)
    table = {a: 1.5, b: 2}

    def f(x):
        for key, value in table.items():
            x = x * key.n + value
        a.n += 1
        return x, [key is a for key in table], a in table, table[b]

    def other():
        b.n = 7

    return Case(f, vector(), observe=[a, b], then=[lambda: None, other, lambda: table.pop(a) and None])


@program
def objects_in_tuples_as_keys():
    thing = Thing(2)
    table = {(1, thing): 3, (2, "x"): 4}

    def f(x):
        for number, what in table:
            x = x * number + (0 if isinstance(what, str) else what.n)
        thing.n += 1
        return x, sorted(table.values())

    def change():
        thing.n = 9

    return Case(f, vector(), observe=thing, then=[lambda: None, change])


@program(whole=False)
def which_tuple_a_key_is():
    key = (1, 2)
    table = {key: 3}

    def f(x):
        return x * table[key], [k is key for k in table], [k == key for k in table]

    return Case(f, vector(), then=[lambda: None])


@program
def bound_methods_as_keys():
    kept = [1]
    thing = Thing(2)
    table = {kept.copy: 1, thing.scaled: 2}

    def f(x):
        for key, value in table.items():
            x = x * len(key()) if value == 1 else key(x)
        return x

    return Case(f, vector(), then=[lambda: kept.append(1), lambda: setattr(thing, "n", 5), lambda: kept.append(1)])


@program
def functions_as_keys():
    scale = 2

    def double(x):
        return x * scale

    table = {double: 1, torch.sin: 2}

    def f(x):
        for function, times in table.items():
            for _ in range(times):
                x = function(x)
        return x

    def change():
        nonlocal scale
        scale = 3

    return Case(f, vector(), then=[change])


@program
def class_of_a_key_changes():
    thing = Thing(2)
    table = {thing: 1}

    def f(x):
        for key in table:
            x = x * getattr(key, "extra", 1)
        return x, [isinstance(key, Other) for key in table]

    def change():
        thing.__class__ = Other

    return Case(f, vector(), then=[change])


@program
def members_of_enumerations_in_sets():
    some, frozen = {Kind.PLAIN, Kind.SMOOTH}, frozenset([Kind.SMOOTH, Kind.NONE])

    def f(x, kind):
        if kind in some and kind not in frozen:
            x = x.relu()
        elif kind in some:
            x = torch.nn.functional.gelu(x)
        return x, len(some), {k.value for k in some & frozen}, kind in {Kind.PLAIN}

    return Case(
        f,
        vector(),
        Kind.PLAIN,
        then=[
            lambda: Args(vector(), Kind.SMOOTH),
            lambda: Args(vector(), Kind.NONE),
            lambda: some.discard(Kind.SMOOTH) or Args(vector(), Kind.SMOOTH),
        ],
    )


@program
def members_that_are_numbers_and_texts():
    levels, names = {Level.LOW: 3, Level.HIGH: 4}, {Name.FIRST: 2}
    known = {Level.LOW, 5}

    def f(x, level):
        for key, value in levels.items():
            x = x * value + key
        return x * names[Name.FIRST], level in levels, level in known, [key.name for key in levels]

    return Case(f, vector(), Level.LOW, then=[lambda: Args(vector(), Level.HIGH), lambda: known.add(Level.HIGH)])


@program
def sets_of_tuples():
    edges = {(0, 1), (1, 2)}

    def f(x):
        for a, b in sorted(edges):
            x = x + a * b
        edges.add((2, 3))
        return x, (1, 2) in edges, len(edges - {(0, 1)}), frozenset([1]) in edges

    def change():
        edges.discard((0, 1))

    return Case(f, vector(), observe=edges, then=[lambda: None, change, edges.clear])


@program
def sets_of_many_kinds():
    mixed = {None, 2.5, b"x", (1, ("b", None)), frozenset([1, "a"]), torch.float32, Point(1, 2), int}

    def f(x):
        found = [None in mixed, (1, ("b", None)) in mixed, frozenset(["a", 1]) in mixed, x.dtype in mixed]
        return x, found, Point(1, 2) in mixed, (1, 2) in mixed, int in mixed, mixed | {3}, list(mixed)

    return Case(f, vector(), then=[lambda: mixed.discard(None), lambda: mixed.add((1, 2))])


@program
def named_tuples_as_keys():
    table = {Point(1, 2): 3, Point(2, 2): 4}

    def f(x):
        for point, value in table.items():
            x = x * value + point.a
        return x, table[Point(1, 2)], table[(2, 2)], Point(5, 5) in table

    return Case(f, vector(), then=[lambda: table.update({Point(5, 5): 1})])


@program
def elements_that_are_objects():
    a, b = Thing(2), Thing(3)
    group = {a}

    def f(x, thing):
        for element in group:
            x = x * element.n
        a.n += 1
        return x, thing in group, a in group, len(group)

    def change():
        a.n = 5

    return Case(f, vector(), b, observe=a, then=[lambda: Args(vector(), a), change, lambda: group.remove(a)])


@program
def frozen_modules():
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    frozen = frozenset([first])

    def f(x):
        for layer in (first, second):
            x = layer(x) if layer in frozen else layer(x).relu()
        return x, [m.out_features for m in frozen], [m.training for m in frozen]

    return Case(f, matrix(), then=[lambda: first.eval() and None])


@program
def objects_are_added_and_taken_out():
    a, b = Thing(2), Thing(3)
    seen = {a}

    def f(x):
        for thing in (a, b, a):
            if thing in seen:
                continue
            seen.add(thing)
            x = x * thing.n
        seen.discard(a)
        return x, len(seen)

    return Case(f, vector(), observe=[a, b], look=lambda: [t in seen for t in (a, b)], then=[lambda: None, seen.clear])


@program
def members_are_added():
    kinds = {Kind.PLAIN}

    def f(x, kind):
        kinds.add(kind)
        return x * len(kinds), kind in kinds

    return Case(
        f,
        vector(),
        Kind.SMOOTH,
        look=lambda: sorted(k.value for k in kinds),
        then=[lambda: Args(vector(), Kind.PLAIN), kinds.clear],
    )


@program(whole=False)
def sets_of_objects_around_a_break():
    a, b = Thing(2), Thing(3)
    kept = {Kind.PLAIN, Kind.SMOOTH}

    def f(x):
        chosen = {a, b}
        kinds = {Kind.PLAIN}
        frozen = frozenset([Kind.NONE, (1, 2)])
        torch._dynamo.graph_break()
        for element in kept & kinds:
            x = x * len(element.value)
        return x * len(chosen), a in chosen, Kind.NONE in frozen, (1, 2) in frozen

    return Case(f, vector(), then=[lambda: kept.discard(Kind.PLAIN)])


@program(whole=False)
def a_frozenset_that_is_not_looked_into():
    class Odd:
        def __eq__(self, other):
            return self is other

        def __hash__(self):
            return 1

    odd = Odd()
    group = frozenset([odd])

    def f(x):
        y = x * 2
        return y + 1, len(group), odd in group

    return Case(f, vector())


@program
def elements_that_end():
    group, table = set(), {}

    def fill(n):
        group.clear()
        table.clear()
        thing = Thing(n)
        group.add(thing)
        table[thing] = n

    def f(x):
        for thing in group:
            x = x * thing.n
        for thing, n in table.items():
            x = x + thing.n * n
        return x

    fill(1)
    return Case(f, vector(), then=[lambda: fill(2), lambda: fill(2), lambda: fill(3)])


class Settings(typing.TypedDict, total=False):
    scale: float
    shift: int


@program
def a_typed_dict_is_a_dict():
    def f(x):
        made = Settings(scale=2.0)
        also: Settings = {"scale": 2.0}
        made["shift"] = 1
        return x * made["scale"] + made["shift"], type(made) is dict, made == also, made

    return Case(f, vector())


class CountsCalls(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.called = True
        return made


class Made(metaclass=CountsCalls):
    def __init__(self, n):
        self.n = n


class Partly(type):
    __call__ = staticmethod(lambda *args: list(args))


class Listed(metaclass=Partly):
    pass


@program(whole=False)
def metaclasses_with_calls_of_their_own():
    def f(x):
        made = Made(2)
        return x * made.n, made.called, Listed(1, 2)

    return Case(f, vector())


@program(break_step=3)
def parameters_in_sets():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    decayed = {p for p in net.parameters() if p.dim() > 1}
    frozen = frozenset([net[0].bias])

    def f(x):
        total = x.sum() * 0
        for p in net.parameters():
            if p in decayed:
                total = total + p.square().sum()
            elif p not in frozen:
                total = total + p.abs().sum()
        return net(x).sum() + total, len(decayed)

    with torch.no_grad():
        for p in net.parameters():
            p.fill_(0.5)
    return Case(f, matrix(), then=[lambda: decayed.discard(net[0].weight), lambda: decayed.add(net[1].bias)])


@program
def parameters_of_a_set():
    weights = {nn.Parameter(vector(3, float(i))) for i in range(3)}
    other = nn.Parameter(vector())

    def f(x):
        total = x * 0
        for p in weights:
            total = total + p * x
        return total.sum(), other in weights, x in weights

    def change():
        weights.add(other)

    return Case(f, vector(), then=[lambda: None, change, weights.clear])


@program(whole=False)
def parameters_are_added():
    seen = set()
    shared = nn.Parameter(vector())

    def f(x):
        total = x.sum() * 0
        for p in (shared, shared):
            if p in seen:
                continue
            seen.add(p)
            total = total + (p * x).sum()
        return total, len(seen)

    return Case(f, vector(), look=lambda: shared in seen, then=[lambda: None, seen.clear])


@program
def a_hash_of_a_tuple_with_an_object():
    class Part:
        pass

    box = [Part()]

    def f(x):
        return x + 1, hash((box[0], 1)) == hash((box[0], 1)), hash((box[0], (2,)))

    return Case(lambda x: (lambda y, same, h: (y, same, h == hash((box[0], (2,)))))(*f(x)), vector(), then=[lambda: box.__setitem__(0, Part())])
