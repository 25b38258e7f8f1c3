"""Metaclasses, class creation, __new__, abstract base classes, overridden instance checks."""

import abc

import torch

from conformance.program import Case, program
from conformance.sample import vector


@program
def metaclass_attributes_and_methods():
    class Meta(type):
        scale = 4

        def build(cls, x):
            return x * cls.scale

        @property
        def tag(cls):
            return cls.__name__ + "!"

    class Model(metaclass=Meta):
        pass

    def f(x):
        return Model.build(x), Model.tag, type(Model) is Meta, isinstance(Model, Meta)

    return Case(f, vector(), then=[lambda: setattr(Meta, "scale", 9)])


@program
def metaclass_prepare_and_new():
    log = []

    class Meta(type):
        @classmethod
        def __prepare__(mcls, name, bases, **options):
            log.append(("prepare", sorted(options)))
            return {"prepared": 3}

        def __new__(mcls, name, bases, namespace, **options):
            return super().__new__(mcls, name, bases, dict(namespace))

        def __init__(cls, name, bases, namespace, **options):
            super().__init__(name, bases, namespace)

    def f(x):
        class Local(metaclass=Meta, option=1):
            value = 2

        return x * Local.prepared * Local.value

    return Case(f, vector())


@program
def init_subclass_and_class_getitem():
    registry = []

    class Base:
        def __init_subclass__(cls, tag=None, **rest):
            super().__init_subclass__(**rest)
            registry.append(tag)

        def __class_getitem__(cls, item):
            return (cls.__name__, item)

    def f(x):
        class Sub(Base, tag="t"):
            pass

        return x * len(registry), Sub[3]

    return Case(f, vector())


@program
def new_and_init():
    class Singleton:
        made = None

        def __new__(cls, *args):
            if cls.made is None:
                cls.made = super().__new__(cls)
            return cls.made

        def __init__(self, n):
            self.n = n

    def f(x):
        a = Singleton(1)
        b = Singleton(5)
        return x * a.n, a is b

    return Case(f, vector(), observe=Singleton, then=[lambda: setattr(Singleton, "made", None)])


@program
def new_returning_other_type():
    class Odd:
        def __new__(cls, n):
            return n * 2

        def __init__(self, n):
            raise AssertionError("must not run")

    def f(x):
        return x * Odd(3)

    return Case(f, vector())


@program
def abstract_base_class():
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self, x):
            """Of the shape."""

        def twice(self, x):
            return self.area(x) * 2

    class Square(Shape):
        def area(self, x):
            return x * x

    def f(x):
        try:
            Shape()
        except TypeError as error:
            text = type(error).__name__
        s = Square()
        return s.twice(x), isinstance(s, Shape), issubclass(Square, Shape), text

    return Case(f, vector())


@program
def abc_register_and_subclasshook():
    class Sized(abc.ABC):
        @classmethod
        def __subclasshook__(cls, other):
            return hasattr(other, "size")

    def f(x):
        return x + 1, isinstance(x, Sized), isinstance(3, Sized), issubclass(torch.nn.Module, Sized)

    return Case(f, vector())


@program
def instance_check_overridden():
    log = []

    class Meta(type):
        def __instancecheck__(cls, o):
            log.append("check")
            return o == 3

    class Three(metaclass=Meta):
        pass

    def f(x):
        return x * 2 if isinstance(3, Three) else x, isinstance(4, Three)

    return Case(f, vector())


@program
def type_called_and_three_argument_type():
    def f(x):
        made = type("Made", (dict,), {"scale": 3, "go": lambda self, v: v * self.scale})
        o = made(a=1)
        return o.go(x), o["a"], type(o).__name__, type(3) is int, made.__bases__ == (dict,)

    return Case(f, vector())


class _AsksItsBase(type):
    def __instancecheck__(cls, o):
        return super().__instancecheck__(o) or getattr(o, "stands_for", None) is cls


@program
def instance_check_that_asks_its_base():
    class Thing(metaclass=_AsksItsBase):
        pass

    class Derived(Thing):
        pass

    class Other:
        def __init__(self, stands_for=None):
            self.stands_for = stands_for

    def f(x, things, number):
        kinds = [isinstance(o, Thing) for o in things]
        kinds += [isinstance(number, Thing), isinstance(x, Thing), isinstance(None, Thing), isinstance(Derived(), Derived)]
        return x * sum(kinds), kinds

    return Case(f, vector(), [Thing(), Derived(), Other(), Other(Thing), Other(Derived)], 3)


@program(whole=False)
def instance_check_of_what_says_it_is_of_another_class():
    class Thing(metaclass=_AsksItsBase):
        pass

    class Pretender:
        @property
        def __class__(self):
            return Thing

    def f(x, pretender):
        return x * 2 if isinstance(pretender, Thing) else x

    return Case(f, vector(), Pretender())
