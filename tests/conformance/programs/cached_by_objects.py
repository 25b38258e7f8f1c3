"""functools.lru_cache with keys that hash and compare in Python: members of enumerations, frozen dataclasses, dicts."""

import dataclasses
import enum
import functools

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


class Color(enum.Enum):
    RED = 2
    BLUE = 3


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Way(enum.Flag):
    UP = enum.auto()
    DOWN = enum.auto()


@dataclasses.dataclass(frozen=True)
class Setting:
    heads: int
    color: Color = Color.RED


class FrozenDict(dict):
    def __hash__(self):
        return hash(frozenset(self.items()))


class Named:
    """Hashes by a name that can change."""

    def __init__(self, name, n):
        self.name = name
        self.n = n

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return isinstance(other, Named) and self.name == other.name


def info(function):
    return lambda: tuple(function.cache_info())


@program
def members_of_enumerations():
    @functools.lru_cache(maxsize=8)
    def scale(color, level=Level.LOW, *, way=Way.UP):
        return torch.full((3,), float(color.value * level + way.value))

    def f(x, color):
        first = scale(color)
        same = first is scale(color), first is scale(Color.RED), scale(Color.BLUE, Level.HIGH) is scale(Color.BLUE, 2)
        return x * first + scale(color, way=Way.UP | Way.DOWN), same

    given = [Color.RED, Color.BLUE, Color.RED]
    return Case(f, vector(3), Color.RED, then=[lambda c=c: Args(vector(3), c) for c in given], look=info(scale))


@program
def frozen_dataclasses():
    @functools.cache
    def table(setting):
        return torch.arange(3.0) * setting.heads + setting.color.value

    kept = Setting(4)

    def f(x, setting):
        made = Setting(setting.heads)
        same = table(made) is table(Setting(setting.heads)), table(kept) is table(Setting(4)), table(setting) is table(made)
        return x + table(setting) + table(kept), same

    given = [Setting(2), Setting(2, Color.BLUE), Setting(4), Setting(2)]
    return Case(f, vector(3), Setting(2), then=[lambda g=g: Args(vector(3), g) for g in given], look=info(table))


@program
def dicts_and_tuples_of_members():
    @functools.lru_cache(maxsize=None)
    def total(options, pair=()):
        return sum(options.values()) + len(pair)

    def f(x, n):
        return x * total(FrozenDict(a=1, b=n)) + total(FrozenDict(b=n, a=1), (Color.RED, n))

    return Case(f, vector(3), 2, then=[lambda: Args(vector(3), n) for n in (2,)] + [total.cache_clear], look=info(total))


@program
def dicts_of_classes():
    @functools.cache
    def size(options):
        return len(options) + options["n"]

    box = [Named]

    def f(x, color):
        return x * size(FrozenDict(a=box[0], color=color, n=2)), size(FrozenDict(color=color, a=box[0], n=2))

    given = [Color.RED, Color.BLUE]
    changes = [lambda c=c: Args(vector(3), c) for c in given] + [lambda: box.__setitem__(0, Setting)]
    return Case(f, vector(3), Color.RED, then=changes, look=info(size))


@program
def one_whose_hash_changes():
    @functools.cache
    def size(named):
        return named.n

    named, twin = Named("a", 2), Named("b", 3)

    def f(x):
        return x * size(named) + size(twin)

    def rename(text):
        return lambda: setattr(named, "name", text)

    changes = [lambda: None, rename("b"), rename("c"), rename("a"), lambda: setattr(named, "n", 9)]
    return Case(f, vector(3), then=changes, look=info(size), observe=(named, twin))


@program
def a_key_of_another_object():
    @functools.cache
    def size(named):
        return named.n

    def f(x, named):
        return x * size(named), size(named) is size(Named(named.name, 5))

    given = [Named("a", 7), Named("b", 4), Named("a", 2)]
    return Case(f, vector(3), Named("a", 3), then=[lambda g=g: Args(vector(3), g) for g in given], look=info(size))


@program(whole=False)
def unequal_ones_with_one_hash():
    class Odd(Named):
        def __hash__(self):
            return 5

    @functools.cache
    def size(named):
        return named.n

    def f(x, named):
        return x * size(named)

    given = [Odd("b", 7), Odd("a", 4), Odd("b", 2)]
    return Case(f, vector(3), Odd("a", 3), then=[lambda g=g: Args(vector(3), g) for g in given], look=info(size))


@program(whole=False)
def a_hash_that_writes():
    class Counted(Named):
        asked = 0

        def __hash__(self):
            self.n += 1
            return hash(self.name)

    @functools.cache
    def size(named):
        return named.n

    named = Counted("a", 1)

    def f(x):
        return x * size(named)

    return Case(f, vector(3), then=[lambda: None, lambda: None], look=info(size), observe=named)


@program
def the_hash_of_the_class_is_another():
    class Own(Named):
        pass

    @functools.cache
    def size(named):
        return named.n

    named = Own("a", 2)

    def f(x):
        return x * size(named)

    def change():
        Own.__hash__ = lambda self: 7

    return Case(f, vector(3), then=[lambda: None, change, lambda: setattr(named, "n", 4)], look=info(size))


@program
def cleared_and_filled_again():
    @functools.lru_cache(maxsize=2)
    def size(setting):
        return setting.heads

    kept = Setting(2)

    def f(x):
        return x * size(kept)

    def again():
        size.cache_clear()
        size(Setting(2))

    return Case(f, vector(3), then=[lambda: None, size.cache_clear, lambda: None, again], look=info(size))
