"""functools.singledispatch and singledispatchmethod."""

import collections.abc
import functools

import torch

from conformance.program import Case, program
from conformance.sample import leaf, vector


@program
def by_class_and_base_class():
    class Base:
        pass

    class Derived(Base):
        scale = 4

    @functools.singledispatch
    def scaled(value, x):
        return x

    @scaled.register
    def _(value: Base, x):
        return x * 3

    @scaled.register(int)
    @scaled.register(float)
    def _(value, x):
        return x * value

    @scaled.register(torch.Tensor)
    def _(value, x, bias=1):
        return x * value + bias

    def f(x):
        return scaled(Derived(), x), scaled(True, x), scaled(2.5, x), scaled("text", x), scaled(x, x, bias=2)

    return Case(f, leaf())


@program
def functions_registered_between_calls():
    @functools.singledispatch
    def scaled(value, x):
        return x

    def f(x):
        return scaled(3, x), scaled("a", x)

    return Case(
        f,
        vector(),
        then=[
            lambda: scaled.register(int, lambda value, x: x * value),
            lambda: scaled.register(str, lambda value, x: x - 1),
            lambda: scaled.register(int, lambda value, x: x * value * 2),
        ],
    )


@program
def methods_and_errors():
    class Layer:
        @functools.singledispatchmethod
        def apply(self, value):
            raise TypeError("no such kind")

        @apply.register
        def _(self, value: int):
            return value + 1

        @apply.register
        def _(self, value: torch.Tensor):
            return value * 2

    layer = Layer()

    @functools.singledispatch
    def needs_one(value):
        return value

    def f(x):
        try:
            layer.apply("text")
        except TypeError as error:
            text = str(error)
        try:
            needs_one()
        except TypeError as error:
            text += str(error)
        return layer.apply(x), layer.apply(3), text

    return Case(f, vector())


@program(whole=False)
def by_abstract_class():
    @functools.singledispatch
    def count(value):
        return 0

    @count.register
    def _(value: collections.abc.Sized):
        return len(value)

    @count.register
    def _(value: collections.abc.Mapping):
        return -len(value)

    class Own:
        def __len__(self):
            return 5

    def f(x):
        return x * count([1, 2]), count({1: 2}), count(Own()), count(3)

    return Case(f, vector())
