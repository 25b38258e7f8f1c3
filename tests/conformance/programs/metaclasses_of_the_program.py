"""Class statements in a frame whose metaclass is written by the program: its hooks see what they see eagerly."""

import typing

import torch

from conformance.program import Case, program
from conformance.sample import vector


class Fields(type):
    """Collects what stands in the body, in order."""

    def __new__(mcls, name, bases, namespace, **options):
        cls = super().__new__(mcls, name, bases, namespace)
        cls.fields = [key for key, value in namespace.items() if not key.startswith("__")]
        cls.size = len(namespace)
        cls.options = sorted(options)
        return cls

    def __init__(cls, name, bases, namespace, **options):
        super().__init__(name, bases, namespace)
        cls.ready = True


class Base(metaclass=Fields):
    scale = 2

    def twice(self, x):
        return x * self.scale


@program
def namespace_as_its_body_left_it():
    def f(x):
        class Local(metaclass=Fields, option=1):
            b = 2
            a = 1

            def go(self, x):
                return x + self.a

        return Local().go(x), Local.fields, Local.size, Local.options, Local.ready, type(Local) is Fields

    return Case(f, vector())


@program
def metaclass_of_a_base():
    def f(x):
        class Local(Base):
            scale = 3

            def twice(self, x):
                return super().twice(x) + 1

        return Local().twice(x), Local.fields, isinstance(Local(), Base), Local.__mro__[1] is Base

    return Case(f, vector(), then=[lambda: setattr(Base, "scale", 5)])


@program
def metaclass_changed_between_calls():
    class Meta(type):
        def __init__(cls, name, bases, namespace):
            cls.by = 2

    def other(cls, name, bases, namespace):
        cls.by = 7

    def f(x):
        class Local(metaclass=Meta):
            pass

        return x * Local.by

    return Case(f, vector(), then=[lambda: setattr(Meta, "__init__", other), lambda: delattr(Meta, "__init__")])


@program
def names_added_by_the_metaclass():
    log = []

    class Named:
        def __set_name__(self, owner, name):
            log.append((owner.__name__, name))

    class Meta(type):
        def __new__(mcls, name, bases, namespace):
            namespace = {"first": Named(), **namespace, "last": Named()}
            return type.__new__(mcls, name + "X", bases, namespace)

    def f(x):
        class Local(metaclass=Meta):
            middle = Named()

        return x, Local.__name__, [hasattr(Local, k) for k in ("first", "middle", "last", "<first name>")]

    return Case(f, vector(), observe=log)


@program
def calls_of_the_class_counted():
    class Meta(type):
        made = 0

        def __call__(cls, *args):
            Meta.made += 1
            return super().__call__(*args)

    def f(x):
        class Local(metaclass=Meta):
            def __init__(self, n):
                self.n = n

        return x * Local(2).n * Local(3).n, Meta.made

    return Case(f, vector(), then=[lambda: None])


@program
def error_of_the_metaclass():
    log = []

    class Meta(type):
        def __new__(mcls, name, bases, namespace):
            log.append(name)
            if "bad" in namespace:
                raise ValueError("bad name")
            return super().__new__(mcls, name, bases, namespace)

    def f(x):
        try:

            class Local(metaclass=Meta):
                bad = 1

        except ValueError as error:
            x = x + len(str(error))

        class Good(metaclass=Meta):
            n = 2

        return x * Good.n

    return Case(f, vector(), observe=log)


@program
def base_with_init_subclass():
    seen = []

    class Meta(type):
        def __new__(mcls, name, bases, namespace, **options):
            return super().__new__(mcls, name, bases, namespace, **options)

        def __init__(cls, name, bases, namespace, **options):
            super().__init__(name, bases, namespace)

    class Parent(metaclass=Meta):
        def __init_subclass__(cls, tag="none"):
            seen.append((cls.__name__, tag))

    def f(x):
        class Child(Parent, tag="t"):
            pass

        return x * len(seen), Child.__base__ is Parent

    return Case(f, vector(), observe=seen)


@program(whole=False)
def metaclass_that_gives_another_object():
    class Existing:
        n = 4

    class Meta(type):
        def __new__(mcls, name, bases, namespace):
            return Existing if "again" in namespace else 5

    def f(x):
        class Local(metaclass=Meta):
            again = True

        class Number(metaclass=Meta):
            pass

        return x * Local.n * Number, Local is Existing

    return Case(f, vector(), then=[lambda: setattr(Existing, "n", 6)])


@program
def order_of_bases_changed_between_calls():
    class Meta(type):
        pass

    class A:
        n = 2

    class B:
        n = 3

    def f(x):
        class Local(A, B, metaclass=Meta):
            pass

        return x * Local.n, [base.__name__ for base in Local.__mro__]

    def other(cls):
        return [cls, B, A, object]

    return Case(f, vector(), then=[lambda: setattr(Meta, "mro", other)])


@program(whole=False)
def metaclass_of_the_library():
    def f(x):
        class Local(typing.TypedDict):
            n: int

        return x * Local(n=2)["n"], sorted(Local.__required_keys__)

    return Case(f, vector())


@program(whole=False)
def namespace_from_outside():
    table = {"given": 3}

    class Meta(type):
        @classmethod
        def __prepare__(mcls, name, bases):
            return table

        def __new__(mcls, name, bases, namespace):
            return super().__new__(mcls, name, bases, dict(namespace))

    def f(x):
        class Local(metaclass=Meta):
            own = 2

        return x * Local.given * Local.own, sorted(k for k in table if not k.startswith("__"))

    return Case(f, vector(), then=[lambda: table.__setitem__("given", 5)])


@program(whole=False)
def namespace_of_a_class_of_its_own():
    class Names(dict):
        def __setitem__(self, key, value):
            super().__setitem__(key, value)
            order.append(key)

    order = []

    class Meta(type):
        @classmethod
        def __prepare__(mcls, name, bases):
            return Names()

    def f(x):
        class Local(metaclass=Meta):
            a = 1
            b = 2

        return x * Local.b

    return Case(f, vector(), look=lambda: [k for k in order if not k.startswith("__")])


@program(whole=False)
def class_that_lives_on():
    kept = []

    class Meta(type):
        def __init__(cls, name, bases, namespace):
            kept.append(cls)

    def f(x):
        class Local(metaclass=Meta):
            n = 3

        return x * kept[-1].n, kept[-1] is Local

    return Case(f, vector(), look=lambda: len(set(kept)))


@program(whole=False)
def two_classes_of_one_statement():
    class Meta(type):
        def __new__(mcls, name, bases, namespace):
            helper = type.__new__(mcls, name + "Helper", (), {"n": 2})
            cls = type.__new__(mcls, name, bases, namespace)
            cls.helper = helper
            return cls

    def f(x):
        class Local(metaclass=Meta):
            n = 5

        return x * Local.n * Local.helper.n, Local.helper.__name__

    return Case(f, vector())


@program(whole=False)
def type_called_with_a_base_of_the_metaclass():
    def f(x):
        made = type("Made", (Base,), {"scale": 4})
        return made().twice(x), made.fields, type(made) is Fields

    return Case(f, vector())


@program
def namespace_that_init_gets():
    class Meta(type):
        def __init__(cls, name, bases, namespace):
            cls.names = [key for key in namespace if not key.startswith("__")]
            cls.count = len(namespace)

    class Named:
        def __set_name__(self, owner, name):
            self.seen = (owner.__name__, name, type(owner) is Meta)

    def f(x):
        class Local(metaclass=Meta):
            b = Named()
            a = 2

        return x * Local.a, Local.names, Local.count, Local.b.seen

    return Case(f, vector())


@program(whole=False)
def namespace_prepared_and_nothing_else():
    class Meta(type):
        @classmethod
        def __prepare__(mcls, name, bases):
            mcls.prepared = {"given": 3}
            return mcls.prepared

        def count(cls):
            return len(cls.prepared)

    def f(x):
        class Local(metaclass=Meta):
            seen = list(Meta.prepared)

        return x * Local.given, Local.seen, Local.count()

    return Case(f, vector())


@program
def tensors_in_the_namespace():
    class Meta(type):
        @classmethod
        def __prepare__(mcls, name, bases):
            return {"zero": torch.zeros(3)}

        def __new__(mcls, name, bases, namespace):
            return super().__new__(mcls, name, bases, namespace)

    def f(x):
        class Local(metaclass=Meta):
            doubled = x * 2
            sum = zero + doubled  # noqa: F821

        return Local.sum - Local.zero, x

    return Case(f, vector())
