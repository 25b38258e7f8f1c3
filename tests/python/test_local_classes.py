"""Classes that compiled code defines: an entry that hits makes none, none of a capture is left, and nothing leaks."""

import abc
import contextlib
import dataclasses
import enum
import gc
import sys
import typing
import weakref

import framefuse
import pytest
import torch

from test_leaks import CALLS, bytes_in_use, left_behind


class Base:
    offset = 2.0


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...


def autograd_function(x):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        def backward(ctx, gradient):
            (a,) = ctx.saved_tensors
            return gradient * 5 * a

    return Square.apply(x)


def derived(x):
    class Child(Base):
        scale = x * 2

        def run(self, x):
            return x * self.scale + self.offset + __class__.offset

    return Child().run(x)


def abstract(x):
    class Square(Shape):
        def area(self):
            return x * 2

    return Square().area() * isinstance(Square(), Shape)


def data(x):
    @dataclasses.dataclass
    class Pair:
        left: torch.Tensor
        right: float = 2.0

    return Pair(x).left * Pair(x).right


def tuple_with_names(x):
    class Pair(typing.NamedTuple):
        left: torch.Tensor
        right: float = 2.0

    return Pair(x).left * Pair(x).right


def enumeration(x):
    class Mode(enum.Enum):
        FAST = 1
        SLOW = 2

    return x * Mode.SLOW.value


def kept_for_a_while(x):
    class Child(Base):
        scale = x * 2

        def me(self):
            return __class__

    return Child().me().scale, Child


PROGRAMS = [autograd_function, derived, abstract, data, tuple_with_names, enumeration, kept_for_a_while]


def first(result):
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_call_that_hits_captures_nothing(program):
    f = framefuse.compile(program, fullgraph=program is not kept_for_a_while)
    x = torch.arange(3.0, requires_grad=True)
    want = first(program(x))
    f(x)
    before = framefuse.statistics()
    for _ in range(20):
        torch.testing.assert_close(first(f(x)), want)
    after = framefuse.statistics()
    assert after["captures"] == before["captures"] and after["attempts"] == before["attempts"]
    assert after["hits"] - before["hits"] == 20


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_nothing_is_left_behind(program):
    x = torch.arange(3.0, requires_grad=True)
    f = framefuse.compile(program, backend="aten")
    blocks, size = left_behind(lambda: f(x))
    assert blocks < CALLS // 10, f"{blocks} blocks of Python's after {CALLS} calls"
    assert size < CALLS * 16, f"{size} bytes after {CALLS} calls"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_captures_leave_nothing_behind(program):
    x = torch.arange(3.0, requires_grad=True)

    def capture():
        # The copy of the code has no entries.
        code = program.__code__.replace(co_firstlineno=program.__code__.co_firstlineno)
        f = type(program)(code, program.__globals__, closure=program.__closure__)
        framefuse.compile(f, backend="aten")(x)

    # Caches that the process shares grow over the first captures.
    for _ in range(60):
        capture()
    gc.collect()
    captures = framefuse.statistics()["captures"]
    blocks, size = sys.getallocatedblocks(), bytes_in_use()
    for _ in range(20):
        capture()
    gc.collect()
    assert framefuse.statistics()["captures"] - captures == 20
    # A class that stayed would be some thirty blocks; the capture of any autograd.Function leaves up to five.
    assert sys.getallocatedblocks() - blocks < 20 * 8
    assert bytes_in_use() - size < 20 * 2048


@contextlib.contextmanager
def without_collections():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_no_class_of_a_capture_is_seen():
    """Not even before a collection."""
    for program, base in ((derived, Base), (autograd_function, torch.autograd.Function), (abstract, Shape)):
        with without_collections():
            known = set(base.__subclasses__())
            framefuse.compile(program, fullgraph=True)(torch.ones(3))
            assert set(base.__subclasses__()) == known


def test_a_class_that_lives_on_is_new_each_time():
    f = framefuse.compile(kept_for_a_while)
    x, y = torch.ones(3), torch.full((3,), 2.0)
    (_, one), (_, two) = f(x), f(y)
    assert one is not two and one.__name__ == "Child" and one.__mro__[1] is Base
    torch.testing.assert_close(one.scale, x * 2)
    torch.testing.assert_close(two.scale, y * 2)
    assert one().me() is one
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None


def test_the_reason_names_the_metaclass():
    class Meta(abc.ABCMeta):
        pass

    def f(x):
        class C(metaclass=Meta):
            pass

        return x * 2

    with pytest.raises(framefuse.Unsupported, match="its metaclass is Meta"):
        framefuse.compile(f, fullgraph=True)(torch.ones(3))


def test_an_error_of_a_class_made_in_the_frame():
    def f(x):
        class Local(ValueError):
            pass

        if x.shape[0] > 2:
            raise Local("too long")
        return x * 2

    compiled = framefuse.compile(f, fullgraph=True)
    with pytest.raises(ValueError, match="too long") as raised:
        compiled(torch.ones(3))
    assert type(raised.value).__name__ == "Local"
    torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 2.0))


def test_replaced_build_class():
    """What stands in builtins is called."""
    import builtins

    original = builtins.__build_class__
    seen = []

    def counting(*args, **kwargs):
        seen.append(args[1])
        return original(*args, **kwargs)

    f = framefuse.compile(derived)
    x = torch.ones(3)
    want = f(x)
    builtins.__build_class__ = counting
    try:
        torch.testing.assert_close(f(x), want)
    finally:
        builtins.__build_class__ = original
    assert seen == ["Child"]
    torch.testing.assert_close(f(x), want)
    assert seen == ["Child"]
