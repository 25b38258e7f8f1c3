"""Self-checks of the judge: objects that differ in one thing that snapshot.py must see, and what lives by frames."""

import array
import collections
import enum
import functools
import random
import types

import numpy as np
import torch

from conformance.checks import as_program, check
from conformance.program import Case


def seen(value, **settings):
    """A program whose state is `value`."""
    return Case(lambda: None, observe=value, forward_only=True, **settings)


def either(name, one, other):
    """A check whose two forms hold the objects that two functions make."""

    def build(differs):
        return seen(other() if differs else one())

    build.__name__ = name
    check(build)


class Empty:
    pass


class Other:
    pass


class Slots:
    __slots__ = ("a",)

    def __init__(self, *values):
        if values:
            self.a = values[0]


class Number(int):
    pass


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def with_attributes(made, **attributes):
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def ones(**settings):
    return torch.ones(2, **settings)


def inference():
    with torch.inference_mode():
        return ones()


either("value of a number", lambda: 1, lambda: 2)
either("type of a number", lambda: 1, lambda: True)
either("zeros with signs", lambda: 0.0, lambda: -0.0)
either("type as a value", lambda: torch.float32, lambda: torch.float64)
either("type of an object", Empty, Other)
either("identity of an object", lambda: [[1]] * 2, lambda: [[1], [1]])
either("identity with another object", lambda: [a := [1], [1], a], lambda: [[1], b := [1], b])
either("identity of equal numbers is nothing to see", lambda: [1000, 1001], lambda: [1000, 1002])

# Tensors.
either("dtype", ones, lambda: ones(dtype=torch.float64))
either("dtype of an empty tensor", lambda: torch.ones(0), lambda: torch.ones(0, dtype=torch.int64))
either("requires_grad", ones, lambda: ones(requires_grad=True))
either("leaf that is a view", lambda: torch.ones(4)[:2].requires_grad_(), lambda: torch.ones(2).requires_grad_())
either("conjugated view", lambda: ones(dtype=torch.complex64).conj_physical(), lambda: ones(dtype=torch.complex64).conj())
either("negated view", lambda: -ones(), lambda: torch._neg_view(ones()))
either("tensor of inference mode", ones, inference)
either("layout", lambda: torch.eye(2).to_sparse(), lambda: torch.eye(2).to_sparse_csr())
either("data of a sparse tensor", lambda: torch.eye(2).to_sparse(), lambda: torch.eye(2).mul(2).to_sparse())
either("shape", lambda: torch.ones(2, 3), lambda: torch.ones(3, 2))
either("shape of an empty tensor", lambda: torch.empty_strided((0, 3), (3, 1)), lambda: torch.empty_strided((0, 4), (3, 1)))
either("strides", lambda: torch.ones(2, 3), lambda: torch.ones(3, 2).t())
either("storage offset", lambda: torch.ones(3)[:2], lambda: torch.ones(3)[1:])
either("data", ones, lambda: ones() * 2)
either("last bit of the data", ones, lambda: ones() * (1 + 2**-23))
either("NaN in the data", lambda: ones() * float("nan"), ones)
either("sign of a zero in the data", lambda: ones() * 0.0, lambda: ones() * -0.0)
either(".grad", lambda: with_attributes(ones(requires_grad=True), grad=ones()), lambda: ones(requires_grad=True))
either(
    "data of .grad",
    lambda: with_attributes(ones(requires_grad=True), grad=ones()),
    lambda: with_attributes(ones(requires_grad=True), grad=ones() * 2),
)
either("attribute of a tensor", lambda: with_attributes(ones(), tag=1), lambda: with_attributes(ones(), tag=2))
either(
    "strides of a gradient",
    lambda: with_attributes(torch.ones(2, 3, requires_grad=True), grad=torch.ones(2, 3)),
    lambda: with_attributes(torch.ones(2, 3, requires_grad=True), grad=torch.ones(3, 2).t()),
)
either("class of a tensor", lambda: ones(requires_grad=True), lambda: torch.nn.Parameter(ones()))


@check
def shared_storage(differs):
    x = torch.ones(3)
    return seen([x, x[:2] if differs else torch.ones(2)])


@check
def is_leaf(differs):
    x = ones(requires_grad=True)
    return seen(x * 1 if differs else x, named=False)


@check
def name_of_a_history(differs):
    x = ones(requires_grad=True)
    return seen(x * 1 if differs else x + 0)


@check
def shared_storage_with_another(differs):
    x, y = torch.ones(3), torch.ones(3)
    return seen([x, y, (y if differs else x)[:2]])


@check
def hooks_of_a_tensor(differs):
    x = ones(requires_grad=True)
    for _ in range(1 + differs):
        x.register_hook(lambda g: g)
    return seen(x)


@check
def version_of_a_tensor(differs):
    x = ones()
    if differs:
        x.add_(0)
    return seen(x, versions=True)


# Arrays of numpy.
def read_only():
    made = np.ones(2)
    made.flags.writeable = False
    return made


either("dtype of an array", lambda: np.ones(2, np.int64), lambda: np.ones(2, np.uint64))
either("shape of an array", lambda: np.ones((0, 2)), lambda: np.ones((0, 3)))
either("strides of an array", lambda: np.ones((2, 2)), lambda: np.ones((2, 2), order="F"))
either("data of an array", lambda: np.ones(2), lambda: np.zeros(2))
either("read-only array", lambda: np.ones(2), read_only)
either("array that is a view", lambda: np.ones(2), lambda: np.ones(2)[:])


# What can be called.
def function(name="f", default=1, keyword=2, cell=3, **attributes):
    def f(a=default, *, b=keyword):
        return a, b, cell

    f.__qualname__ = name
    f.__dict__.update(attributes)
    return as_program(f)


either("function behind a partial", lambda: functools.partial(len, 1), lambda: functools.partial(abs, 1))
either("arguments of a partial", lambda: functools.partial(len, 1), lambda: functools.partial(len, 2))
either("keywords of a partial", lambda: functools.partial(len, a=1), lambda: functools.partial(len, a=2))
either("object of a method", lambda: types.MethodType(len, [1]), lambda: types.MethodType(len, [2]))
either("function of a method", lambda: types.MethodType(len, [1]), lambda: types.MethodType(abs, [1]))
either("builtin", lambda: len, lambda: abs)
either("object of a builtin method", lambda: [1].append, lambda: [2].append)
either("name of a function", function, lambda: function("g"))
either("defaults of a function", function, lambda: function(default=9))
either("keyword defaults of a function", function, lambda: function(keyword=9))
either("cell of a function", function, lambda: function(cell=9))
either("attribute of a function", lambda: function(tag=1), lambda: function(tag=2))


# Classes, modules, enums.
def made_class(module="<fuzz check>", **names):
    return type("Made", (), {"__module__": module, **names})


either("name of a class", lambda: Empty, lambda: Other)
either("attribute of a class", lambda: made_class(n=1), lambda: made_class(n=2))
either("method of a class", lambda: made_class(__len__=function()), lambda: made_class(__len__=function(default=9)))
either("module", lambda: random, lambda: types)
either("member of an enum", lambda: Colour.RED, lambda: Colour.BLUE)


# Exceptions.
def error(kind=ValueError, *args, **attributes):
    return with_attributes(kind(*args), **attributes)


def stopped(value):
    made = StopIteration(1)
    made.value = value
    return made


def caught(f):
    try:
        f()
    except Exception as raised:
        return raised.with_traceback(raised.__traceback__)


def raising(further):
    def f():
        if further:
            raise ValueError("e")
        raise ValueError("e")

    return caught(as_program(f))


def unbound(between):
    """A name is read that is deleted: in new code, or in code that is warm, which has other instructions."""
    made = {}
    exec(compile(f"def f(r, name=0):\n del name\n {between}\n return name", "<fuzz check>", "exec"), made)
    _runs.append(1)
    return [caught(lambda: made["f"](1)) for _ in range(10 if len(_runs) % 2 else 1)][-1]


_runs: list[int] = []


def noted(*notes):
    made = ValueError("e")
    for note in notes:
        made.add_note(note)
    return made


def itself(differs):
    made = ValueError()
    made.me = ValueError() if differs else made
    if differs:
        made.me.me = made.me
    return made


class Same(Exception):
    pass


class SameNamed(Exception):
    pass


SameNamed.__qualname__, SameNamed.__module__ = Same.__qualname__, "elsewhere"

either("arguments of an exception", lambda: error(ValueError, 1), lambda: error(ValueError, 2))
either("type of an exception's argument", lambda: error(ValueError, 1), lambda: error(ValueError, "1"))
either("class of an exception", Same, SameNamed)
either("notes", lambda: noted("a"), lambda: noted("a", "b"))
either("no notes", noted, lambda: noted("a"))
either("line of an unbound name", lambda: unbound("r = 1"), lambda: unbound("del name"))
either("lines of a traceback", lambda: raising(True), lambda: raising(False))
either(
    "cause",
    lambda: with_attributes(error(), __cause__=error(KeyError)),
    lambda: with_attributes(error(), __cause__=error(TypeError)),
)
either(
    "context",
    lambda: error(ValueError, __context__=error(KeyError)),
    lambda: error(ValueError, __context__=error(TypeError)),
)
either("suppressed context", lambda: error(), lambda: error(ValueError, __suppress_context__=True))
either("value of a StopIteration", lambda: stopped(1), lambda: stopped(2))
either("attribute of an exception", lambda: error(ValueError, tag=1), lambda: error(ValueError, tag=2))
either(
    "exceptions of a group",
    lambda: ExceptionGroup("g", [ValueError(1)]).derive([ValueError(1)]),
    lambda: with_attributes(ExceptionGroup("g", [TypeError(1)]), args=("g", [ValueError(1)])),
)


@check
def raised_exception_that_holds_itself(differs):
    def f():
        raise itself(differs)

    return Case(f)  # no code of a program: neither of the two exceptions has lines


# Generators, cells, iterators, random states.
def generator(steps, held=1, name="g"):
    def g(held):
        yield held
        yield held

    g.__qualname__ = name
    made = as_program(g)(held)
    for _ in range(steps):
        next(made, None)
    return made


either("line of a generator", lambda: generator(1), lambda: generator(2))
either("finished generator", lambda: generator(2), lambda: generator(3))
either("locals of a generator", lambda: generator(1), lambda: generator(1, held=2))
either("name of a generator", generator.__get__(1), lambda: generator(1, name="h"))
either("content of a cell", lambda: types.CellType(1), lambda: types.CellType(2))
either("empty cell", lambda: types.CellType(), lambda: types.CellType("empty"))
either("rest of an iterator", lambda: iter([1, 2]), lambda: (i := iter([1, 2]), next(i))[0])
either("random state of Python's", lambda: random.Random(1), lambda: random.Random(2))
either("random state of torch's", lambda: torch.Generator().manual_seed(1), lambda: torch.Generator().manual_seed(2))
either("random state of numpy's", lambda: np.random.default_rng(1), lambda: np.random.default_rng(2))
either("old random state of numpy's", lambda: np.random.RandomState(1), lambda: np.random.RandomState(2))


# Containers.
def ordered(*last):
    made = collections.OrderedDict(a=1, b=2)
    for key in last:
        made.move_to_end(key)
    return made


either("item of a list", lambda: [1], lambda: [2])
either("length of a list", lambda: [1], lambda: [1, 1])
either("item of a tuple", lambda: (1,), lambda: (2,))
either("value in a dict", lambda: {"a": 1}, lambda: {"a": 2})
either("key in a dict", lambda: {"a": 1}, lambda: {"b": 1})
either("type of a key", lambda: {1: 1}, lambda: {True: 1})
either("order of a dict", lambda: {"a": 1, "b": 2}, lambda: {"b": 2, "a": 1})
either("order of equal values in a dict", lambda: {"a": 1, "b": 1}, lambda: {"b": 1, "a": 1})
either("order of an ordered dict", ordered, lambda: ordered("a"))
either("key that is an object", lambda: {Colour.RED: 1}, lambda: {Colour.BLUE: 1})
either("value of a key that is an object", lambda: {Colour.RED: 1}, lambda: {Colour.RED: 2})
either("default of a dict", lambda: collections.defaultdict(list), lambda: collections.defaultdict(dict))
either("elements of a set", lambda: {1}, lambda: {2})
either("order of a set", lambda: set(range(1, 3)) | {9}, lambda: {9, 1} | {2})
either("objects in a set", lambda: {Empty()}, lambda: {Other()})
either("elements of a frozen set", lambda: frozenset({1}), lambda: frozenset({2}))
either("longest deque", lambda: collections.deque([1]), lambda: collections.deque([1], 3))
either("item of a deque", lambda: collections.deque([1]), lambda: collections.deque([2]))
either("keys of a dict", lambda: {"a": 1}.keys(), lambda: {"b": 1}.keys())
either("read-only view of a dict", lambda: types.MappingProxyType({"a": 1}), lambda: types.MappingProxyType({"b": 1}))
either("bytes", lambda: bytearray(b"a"), lambda: bytearray(b"b"))
either("numbers of an array", lambda: array.array("i", [1]), lambda: array.array("i", [2]))
either("subclass of a number", lambda: Number(1), lambda: Number(2))
either("attribute of an object", lambda: with_attributes(Empty(), a=1), lambda: with_attributes(Empty(), a=2))
either("one attribute more", Empty, lambda: with_attributes(Empty(), a=1))
either("one attribute less", lambda: with_attributes(Empty(), a=1), Empty)
either("order of attributes", lambda: with_attributes(Empty(), a=1, b=1), lambda: with_attributes(Empty(), b=1, a=1))
either("slot", lambda: Slots(1), lambda: Slots(2))
either("empty slot", lambda: Slots(), lambda: Slots("unset"))


@check(way="sizes")
def frames_of_what_is_raised_end(differs):
    log = []

    def left():
        try:
            yield
        finally:
            log.append(differs)

    def f():
        generator = left()
        next(generator)
        raise ValueError(generator.__name__)

    return Case(as_program(f), observe=log, forward_only=True)
