"""inspect.signature of functions and methods: what it says follows from code, defaults and annotations, which may change."""

import functools
import inspect
import typing

import torch

from conformance.program import Case, program
from conformance.sample import vector


def plain(x: torch.Tensor, n: int = 2, *rest: float, k: typing.Optional[int] = None) -> torch.Tensor:
    return x * n


class Layer:
    scale = 3

    def forward(self, x: torch.Tensor, n: int = 1):
        return x * n * self.scale

    @staticmethod
    def of(a, b="text"):
        return a

    @classmethod
    def build(cls, a: "int", b=None):
        return cls()


def described(f):
    signature = inspect.signature(f)
    return [(p.name, str(p.kind), p.default is p.empty or p.default, p.annotation) for p in signature.parameters.values()]


@program
def number_of_parameters():
    def f(x, layer, g):
        n = len(inspect.signature(layer.forward).parameters)
        return layer.forward(x) * n, "n" in inspect.signature(g).parameters

    def h(y):
        return y

    return Case(f, vector(), Layer(), h, forward_only=True)


@program(whole=False)
def what_it_says():
    def f(x, layer):
        return x + 1, described(layer.forward), described(Layer.of), described(Layer.build)

    return Case(f, vector(), Layer())


@program
def with_keyword_defaults():
    def f(x):
        return x + 1, described(plain), inspect.signature(plain).return_annotation

    return Case(f, vector())


@program
def of_a_function_whose_facts_change():
    def g(a, b: int = 1):
        return a

    def f(x):
        signature = inspect.signature(g)
        return x * len(signature.parameters), signature.parameters["b"].annotation, signature.parameters["b"].default

    def other(a, b: float = 2, c=3):
        return a

    def set_default():
        g.__defaults__ = (5,)

    def set_annotation():
        g.__annotations__["b"] = float

    def replace_annotations():
        g.__annotations__ = {"b": str}

    def set_code():
        g.__code__ = other.__code__
        g.__defaults__ = (1, 2)

    return Case(f, vector(), then=[set_default, set_annotation, replace_annotations, set_code])


@program
def of_a_function_that_wraps_another():
    def g(a, b, c):
        return a

    def w(*args):
        return g(*args)

    def f(x):
        return x * len(inspect.signature(w).parameters)

    def wrap():
        w.__wrapped__ = g

    return Case(f, vector(), then=[wrap, lambda: delattr(w, "__wrapped__")])


@program
def of_a_decorated_function():
    def counted(f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            return f(*args, **kwargs)

        return inner

    @counted
    @counted
    def g(a, b=1, *, c=2):
        return a

    def f(x):
        return x * len(inspect.signature(g).parameters), inspect.signature(counted(g)).parameters["c"].default

    def set_default():
        g.__wrapped__.__wrapped__.__kwdefaults__["c"] = 7

    def skip_one():
        g.__wrapped__ = g.__wrapped__.__wrapped__

    def say_so():
        g.__signature__ = inspect.Signature()

    return Case(f, vector(), then=[set_default, skip_one, say_so])


@program
def of_a_class():
    class Base:
        def __init__(self, a, b: int = 1):
            self.a = a

    class Derived(Base):
        pass

    def f(x):
        parameters = inspect.signature(Derived).parameters
        return x * len(parameters), [(p.name, p.default is p.empty or p.default) for p in parameters.values()]

    def own_init():
        Derived.__init__ = lambda self, q=3: None

    def other_default():
        Derived.__init__.__defaults__ = (4,)

    def own_new():
        Derived.__new__ = lambda cls, z: object.__new__(cls)

    return Case(f, vector(), then=[own_init, other_default, own_new])


@program
def of_annotations_that_are_unions():
    def g(a: int | None, b: "Tensor" = 1):  # noqa: F821
        return a

    def f(x):
        named = [p.name for p in inspect.signature(g).parameters.values() if p.annotation == "Tensor"]
        return x * len(named), named

    def other():
        g.__annotations__["a"] = str | None

    return Case(f, vector(), then=[other])


@program(whole=False)
def of_a_class_with_a_metaclass():
    class Meta(type):
        def __call__(cls, one, two):
            return super().__call__()

    class Made(metaclass=Meta):
        def __init__(self):
            pass

    def f(x):
        return x * len(inspect.signature(Made).parameters), str(inspect.signature(torch.nn.Linear))

    return Case(f, vector())


@program(whole=False)
def of_a_method_made_of_another():
    class Scaled:
        def scale(self, x, k=1):
            return x * k

        twice = functools.partialmethod(scale, k=2)

    s = Scaled()

    def f(x):
        return s.twice(x), str(inspect.signature(s.twice)), str(inspect.signature(Scaled.twice))

    return Case(f, vector())


@program(whole=False)
def of_a_mutable_default():
    def g(a, b=[1]):  # noqa: B006
        return a

    def f(x):
        default = inspect.signature(g).parameters["b"].default
        default.append(2)
        return x * len(default)

    return Case(f, vector(), observe=g, then=[lambda: None])


@program(whole=False)
def that_raises():
    def f(x):
        try:
            inspect.signature(3)
        except TypeError as error:
            return x, str(error)

    return Case(f, vector())
