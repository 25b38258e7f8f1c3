"""Idioms: the standard library and the language around tensor code."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import logging
import os
import threading
import time
import uuid
import warnings

import torch

from zoo.idioms import idiom

_lock, _reentrant = threading.Lock(), threading.RLock()
_scale = contextvars.ContextVar("scale", default=1)
_log = logging.getLogger("zoo.idioms")
_log.setLevel(logging.WARNING)


class Table(collections.defaultdict):
    pass


class Tally(collections.Counter):
    pass


class Ordered(collections.OrderedDict):
    pass


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


class Way(enum.Flag):
    UP = 1
    DOWN = 2


@dataclasses.dataclass
class Pair:
    a: torch.Tensor
    b: int = 2


@dataclasses.dataclass(frozen=True)
class Setting:
    n: int = 1


Named = collections.namedtuple("Named", "n m")
_setting, _named = Setting(), Named(1, 2)


@functools.cache
def _factor(key):
    return 2 if key is Color.RED else getattr(key, "n", 2) + 1


class Noted:
    known: list = []

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        Noted.known.append(cls.__name__)


class Doubled:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.name) * 2

    def __set__(self, instance, value):
        setattr(instance, self.name, value + 1)


class Held:
    value = Doubled()


class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.k = 3
        return made


class Made(metaclass=Meta):
    def __init__(self, t):
        self.t = t


@functools.singledispatch
def _twice(a):
    return a


_twice.register(torch.Tensor)(lambda a: a * 2)
_twice.register(list)(lambda a: sum(_twice(b) for b in a))


@idiom
def lock(self, x):
    with _lock:
        y = self.layer(x)
    return y * 2


@idiom
def reentrant_lock(self, x):
    with _reentrant:
        y = self.layer(x)
    return y * 2


@idiom
def copied_context(self, x):
    return contextvars.copy_context().run(lambda y: self.layer(y) * _scale.get(), x) + 1


@idiom
def dict_of_lists_of_a_class(self, x):
    table = Table(list)
    table["a"].append(self.layer(x))
    table["b"].append(x + 1)
    return sum([sum(parts) for parts in table.values()])


@idiom
def dict_of_lists(self, x):
    table = collections.defaultdict(list)
    for n, row in enumerate(self.layer(x).unbind(1)):
        table[n % 2].append(row)
    return {key: torch.stack(rows) for key, rows in table.items()}


@idiom
def counter_of_a_class(self, x):
    tally = Tally("abca")
    tally.update("a")
    return self.layer(x) * tally["a"]


@idiom
def ordered_dict_of_a_class(self, x):
    ordered = Ordered(a=self.layer(x), b=x)
    ordered.move_to_end("a")
    return list(ordered.values())[0] * 2


@idiom
def decimals(self, x):
    return self.layer(x) * float(decimal.Decimal("1.5") * 2)


@idiom
def fractions_of_numbers(self, x):
    return self.layer(x) * float(fractions.Fraction(1, 3) + 1)


@idiom
def time_of_day(self, x):
    start = datetime.datetime.now()
    y = self.layer(x)
    self.seconds = (datetime.datetime.now() - start).total_seconds()
    return y


@idiom
def stop_watch(self, x):
    start = time.perf_counter()
    y = self.layer(x)
    self.seconds = time.perf_counter() - start
    return y


@idiom
def unique_name(self, x):
    self.label = str(uuid.uuid4())
    return self.layer(x)


@idiom
def environment(self, x):
    return self.layer(x) * 2 if os.environ.get("FF_NOBODY_SETS_THIS", "0") == "0" else x


@idiom
def logged(self, x):
    _log.debug("x %s", x.shape)
    _log.info("called")
    if _log.isEnabledFor(logging.DEBUG):
        _log.debug("more")
    return self.layer(x)


@idiom
def warned(self, x):
    y = self.layer(x)
    warnings.warn("careful", stacklevel=2)
    return y * 2


@idiom
def dispatched_by_type(self, x):
    return _twice([self.layer(x), x])


@idiom
def stack_of_contexts(self, x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.callback(lambda: None)
        y = x * 2
    return self.layer(y) + 1


@idiom
def dataclass_replaced(self, x):
    pair = dataclasses.replace(Pair(self.layer(x)), b=3)
    return pair.a * pair.b


@idiom
def dataclass_as_a_dict(self, x):
    fields = dataclasses.asdict(Pair(x.detach()))
    return self.layer(fields["a"]) * fields["b"]


@idiom
def flags(self, x):
    way = Way.UP | Way.DOWN
    return self.layer(x) * 2 if Way.UP in way and way & Way.DOWN else x


@idiom
def matched_shapes(self, x):
    match x.shape:
        case (_, n, 8):
            return self.layer(x) * n
        case _:
            return x


@idiom
def matched_classes(self, x):
    match Pair(self.layer(x), 3):
        case Pair(a=t, b=3):
            return t * 3
        case _:
            return x


@idiom
def descriptors(self, x):
    held = Held()
    held.value = self.layer(x)
    return held.value


@idiom
def metaclasses(self, x):
    made = Made(self.layer(x))
    return made.t * made.k


@idiom
def subclass_that_is_noted(self, x):
    class Own(Noted):
        def go(self, y):
            return y + 1

    return Own().go(self.layer(x)), len(Noted.known) > 0


@idiom
def generators_of_generators(self, x):
    def steps(y):
        for n in range(3):
            yield y + n

    def first_and_rest(numbers):
        return next(numbers) + sum(numbers)

    return first_and_rest(y * 2 for y in steps(self.layer(x)))


@idiom
def cached_by_a_member(self, x):
    return self.layer(x) * _factor(Color.RED) + _factor(Color.BLUE)


@idiom
def cached_by_a_dataclass(self, x):
    return self.layer(x) * _factor(_setting)


@idiom
def cached_by_a_new_dataclass(self, x):
    return self.layer(x) * _factor(Setting(3))


@idiom
def cached_by_a_named_tuple(self, x):
    return self.layer(x) * _factor(_named)
