"""Classes that a captured frame defines: the hooks, decorators and metaclasses that make them."""

import abc
import collections
import dataclasses
import enum
import typing
import unittest.mock

import torch

from conformance.program import Case, program
from conformance.sample import vector


class Plain:
    offset = 1.0

    def shift(self, x):
        return x + self.offset


class Registering:
    registry: list = []

    def __init_subclass__(cls, tag=None, **rest):
        super().__init_subclass__(**rest)
        Registering.registry.append(tag)


class Keeping:
    registry: list = []

    def __init_subclass__(cls, **rest):
        super().__init_subclass__(**rest)
        Keeping.registry.append(cls)


class Named:
    def __set_name__(self, owner, name):
        self.name = name
        self.owner = owner.__name__

    def __get__(self, instance, owner=None):
        return 2.0 if instance is None else float(len(self.name))


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self, x): ...

    def double(self, x):
        return self.area(x) * 2


@dataclasses.dataclass
class Point:
    left: torch.Tensor
    right: float = 2.0


@program
def decorated_class():
    def doubled(cls):
        cls.value = cls.value * 2
        return cls

    def replaced(value):
        return lambda cls: {"class": cls.__name__, "value": value}

    def f(x):
        @doubled
        class C:
            value = x + 1

        @replaced(3)
        class D:
            pass

        return C.value, D

    return Case(f, vector())


@program
def set_name_of_a_descriptor():
    def f(x):
        class C:
            long_name = Named()
            short = Named()

        return x * C().long_name + C.short

    return Case(f, vector())


@program
def init_subclass_with_effects():
    def f(x):
        class C(Registering, tag=x.shape[0]):
            value = 2.0

        return x * C.value

    Registering.registry.clear()
    return Case(f, vector(), observe=Registering.registry)


@program(whole=False)
def init_subclass_that_keeps_the_class():
    def f(x):
        y = x * 2

        class C(Keeping):
            value = 2.0

        return y * C.value

    Keeping.registry.clear()
    return Case(f, vector(), look=lambda: [c.__name__ for c in Keeping.registry])


@program
def abstract_classes():
    def f(x, side):
        class Square(Shape):
            def area(self, x):
                return x * side

        class Still(Shape):
            pass

        try:
            Still()
        except TypeError:
            refused = True
        else:
            refused = False
        return Square().double(x), refused, isinstance(Square(), Shape), issubclass(Still, Shape), isinstance(x, Shape)

    return Case(f, vector(), 3.0)


@program
def dataclass_in_a_function():
    def f(x):
        @dataclasses.dataclass
        class Pair:
            left: torch.Tensor
            right: float = 2.0
            rest: list = dataclasses.field(default_factory=list)

            def both(self):
                return self.left * self.right

        p = Pair(x + 1)
        p.rest.append(3)
        return p.both(), p.rest, Pair(1, 2) == Pair(1, 2), [field.name for field in dataclasses.fields(p)]

    return Case(f, vector())


@program
def dataclass_with_a_base():
    def f(x):
        @dataclasses.dataclass(order=True)
        class More(Point):
            third: int = 3

        m = More(x * 2)
        return m.left * m.right + m.third

    return Case(f, vector())


@program
def named_tuple_in_a_function():
    def f(x):
        class Pair(typing.NamedTuple):
            left: torch.Tensor
            right: float = 2.0

            def both(self):
                return self.left * self.right

        p = Pair(x)
        left, right = p
        return p.both(), left + right, p.right, p[1], Pair._fields

    return Case(f, vector())


@program
def named_tuple_by_call():
    def f(x):
        Pair = collections.namedtuple("Pair", ["left", "right"])
        p = Pair(x, 2)
        return p.left * p.right

    return Case(f, vector())


@program
def enumeration_in_a_function():
    def f(x):
        class Mode(enum.Enum):
            FAST = 1
            SLOW = enum.auto()

            def factor(self):
                return self.value * 2

        m = Mode.SLOW
        return x * m.factor(), m.name, m is Mode.SLOW, len(Mode), Mode(1) is Mode.FAST

    return Case(f, vector())


@program(whole=False)
def unknown_metaclass():
    log = []

    class Meta(type):
        def __new__(mcls, name, bases, namespace):
            log.append(name)
            return super().__new__(mcls, name, bases, namespace)

    def f(x):
        class C(metaclass=Meta):
            value = 2.0

        return x * C.value

    return Case(f, vector(), observe=log)


@program
def item_of_a_class():
    class Parent:
        def __class_getitem__(cls, item):
            return cls.__name__, item

    def f(x):
        class Child(Parent):
            pass

        return x * 2, Child[3]

    return Case(f, vector())


@program
def base_gets_hooks_later():
    log = []

    class Parent:
        pass

    class Descriptor:
        pass

    descriptor = Descriptor()

    def f(x):
        class Child(Parent):
            own = Descriptor()
            other = descriptor

        return x * 2, isinstance(Child.own, Descriptor)

    def hook(cls):
        log.append(cls.__name__)

    def add_hook():
        Parent.__init_subclass__ = classmethod(hook)

    def add_set_name():
        Descriptor.__set_name__ = lambda self, owner, name: log.append((owner.__name__, name))

    return Case(f, vector(), then=[add_hook, add_set_name], observe=log)


@program
def bases_that_change():
    class Other:
        offset = 10.0

        def shift(self, x):
            return x - self.offset

    bases = [Plain]

    def f(x):
        class Child(bases[0]):
            pass

        return Child().shift(x), Child.__mro__[1].__name__

    return Case(f, vector(), then=[lambda: bases.__setitem__(0, Other), lambda: bases.__setitem__(0, Plain)])


@program(whole=False)
def cell_of_an_earlier_statement_is_filled_later():
    namespaces = []

    def look():
        cls = namespaces[-1]["own"].__func__()
        return cls.__name__, cls.__mro__[1], sorted(vars(cls)), cls().own() is cls

    def f(x):
        kept = None

        class Meta(type):
            def __new__(cls, name, bases, namespace):
                nonlocal kept
                kept = namespace

        class Lost(metaclass=Meta):
            @staticmethod
            def own():
                return __class__

        made = type("Made", (), kept)
        namespaces.append(kept)
        return x + 1, Lost is None, made.own() is made

    return Case(f, vector(), look=look)


@program(whole=False)
def default_that_is_told_its_class_by_the_library():
    class Default:
        pass

    Default.__set_name__ = unittest.mock.Mock()

    def f(x):
        @dataclasses.dataclass
        class Box:
            size: float = dataclasses.field(default=Default(), init=False)

        return x + 1, Default.__set_name__.call_count

    return Case(f, vector())
