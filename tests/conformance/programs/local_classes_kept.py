"""Classes that a captured frame defines and that live on after it, or across a break."""

import abc
import dataclasses
import gc
import types

import torch

import framefuse
from conformance.program import Case, program
from conformance.sample import leaf, vector


class Plain:
    offset = 1.0

    def shift(self, x):
        return x + self.offset


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self, x): ...

    def double(self, x):
        return self.area(x) * 2


@program
def class_is_returned():
    kept = []

    def f(x):
        y = x * 2

        class C(Plain):
            value = y

            def run(self, x):
                return super().shift(x) * self.value

            @staticmethod
            def plain():
                return C

            @property
            def both(self):
                return self.value, __class__

            @classmethod
            def make(cls):
                return cls()

        kept[:] = [C]
        return y + 1

    def look():
        (cls,) = kept
        c = cls.make()
        return c.run(torch.ones(3)), c.both[0], c.both[1] is cls, cls.plain() is cls, cls.__mro__[1] is Plain, cls.__qualname__

    return Case(f, vector(), look=look)


@program
def function_is_returned():
    kept = []

    def f(x):
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                ctx.save_for_backward(a)
                return a * a

            @staticmethod
            def backward(ctx, gradient):
                (a,) = ctx.saved_tensors
                return gradient * 5 * a

        kept[:] = [Square]
        return Square.apply(x)

    def look():
        x = leaf()
        kept[0].apply(x).sum().backward()
        return x.grad, kept[0]._backward_cls.__name__

    return Case(f, leaf(), look=look)


@program
def abstract_class_is_kept():
    kept = []

    def f(x):
        class Square(Shape):
            side = x + 1

            def area(self, x):
                return x * self.side

        kept[:] = [Square()]
        return x * 2

    def look():
        return kept[0].double(torch.ones(3)), isinstance(kept[0], Shape), type(kept[0]).__abstractmethods__

    return Case(f, vector(), look=look)


@program
def method_that_escapes_with_its_class():
    kept = []

    def f(x):
        class Box:
            def __init__(self, value):
                self.value = value

            def run(self):
                return self.value, Box, box

        box = Box(x * 2)
        kept[:] = [box.run]
        return x + 1

    def look():
        value, cls, box = kept[0]()
        return value, type(box) is cls, box is kept[0].__self__

    return Case(f, vector(), look=look)


@program(whole=False)
def dataclass_is_kept():
    kept = []

    def f(x):
        y = x * 2

        @dataclasses.dataclass
        class Pair:
            left: torch.Tensor
            right: float = 2.0

        kept[:] = [Pair(y)]
        return y + 1

    def look():
        return kept[0].left, dataclasses.asdict(kept[0])["right"], dataclasses.fields(kept[0])[0].default is dataclasses.MISSING

    return Case(f, vector(), look=look)


@program(whole=False)
def class_survives_a_break():
    def f(x):
        y = x * 2

        class C:
            value = 3.0
            table = {"a": [1, 2]}

            def run(self, x):
                return x * self.value + y

            def me(self):
                return __class__

            def other(self):
                return C

        c = C()
        c.mark = y + 1
        torch._dynamo.graph_break()
        return c.run(x), c.mark, c.me() is C, c.other() is C, type(c) is C, C.table

    return Case(f, leaf())


@program(whole=False)
def function_of_a_class_survives_a_break():
    def f(x):
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                ctx.save_for_backward(a)
                return a * a

            @staticmethod
            def backward(ctx, gradient):
                (a,) = ctx.saved_tensors
                return gradient * 5 * a

        y = x + 1
        torch._dynamo.graph_break()
        return Square.apply(y)

    return Case(f, leaf())


@program
def class_is_stored():
    class Holder:
        pass

    holder = Holder()
    table = {}

    def f(x):
        class C:
            value = x * 2

        holder.cls = C
        table["c"] = C()
        return x + 1

    return Case(f, vector(), look=lambda: (holder.cls.value, type(table["c"]) is holder.cls))


@program(whole=False)
def subclasses_are_counted():
    class Parent:
        pass

    def f(x):
        class Child(Parent):
            pass

        y = x * 2
        return y, len(Parent.__subclasses__()), Child.__name__

    import gc

    return Case(f, vector(), then=[lambda: gc.collect() and None])


@program(whole=False)
def break_inside_a_body():
    def f(x):
        y = x * 2

        class C:
            first = y + 1
            torch._dynamo.graph_break()
            second = first * 2

        return C.second

    return Case(f, vector())


@program
def method_outlives_its_frame():
    def make(x):
        class C:
            def run(self, y):
                return y + x

        return C().run

    def f(x):
        run = make(x * 2)
        return run(x)

    return Case(f, vector())


@program(whole=False)
def class_that_a_branch_writes():
    def f(x):
        class C:
            scale = 1.0

        def yes(v):
            C.scale = 3.0
            return v + 1

        def no(v):
            return v - 1

        try:
            y = framefuse.cond(x.sum() > 0, yes, no, (x,))
        except Exception:
            y = x
        return y.shape[0] * C.scale

    return Case(f, vector())


@program(whole=False)
def builtin_methods_of_classes_that_are_bound_at_a_break():
    def f(x):
        class Table(dict):
            made = 0

            def __setitem__(self, key, value):
                super().__setitem__(key, (value, type(self).made))

        class Count(int):
            def __new__(cls, value):
                return super().__new__(cls, value + 1)

        table = Table.fromkeys(["a", "b"], 2)
        counts = [Count.from_bytes(b"\x05", "big"), Count.from_bytes(b"\x02", "big")]
        later = Table.fromkeys, Count.__subclasses__
        torch._dynamo.graph_break()
        return x * counts[0], dict(table), counts[1] + 0, type(table).__name__, dict(later[0]("c")), later[1]()

    return Case(f, vector())


class Listed(type):
    """A metaclass from outside that makes its classes in Python."""

    def __new__(mcls, name, bases, namespace):
        return super().__new__(mcls, name, bases, {"listed": name.lower(), **namespace})


@program(whole=False)
def classes_that_calls_of_metaclasses_make():
    made = []

    def f(x):
        class Counted(type):
            def __new__(mcls, name, bases, namespace):
                return super().__new__(mcls, name, bases, namespace)

            def double(cls):
                return cls.size * 2

        kinds = [type.__new__(type, "Plain", (), {}), Counted("Sized", (), {"size": 2}), Listed("Kept", (list,), {})]
        again = [kind in made for kind in kinds]
        made.extend(kinds)
        return x + kinds[1].double(), again, kinds[2].listed, [type(kind).__name__ for kind in kinds], len(made)

    return Case(f, vector())


@program(whole=False)
def modules_of_classes_made_in_the_frame():
    def f(x):
        class Settings(types.ModuleType):
            def __setattr__(self, name, value):
                super().__setattr__(name, value * 2)

        settings = Settings("settings")
        settings.size = 3
        plain = types.ModuleType("plain")
        plain.size = settings.size
        return x + settings.size, plain, settings.__name__

    kept = []
    return Case(lambda x: kept.append(f(x)) or (len(kept), kept[-1][0], kept[-1][1].size, len({id(k[1]) for k in kept})), vector())


@program(whole=False)
def bases_made_by_a_class_that_goes():
    def f(x):
        def with_metaclass(meta, *bases):
            class Temporary(type):
                def __new__(cls, name, this_bases, namespace):
                    return meta(name, bases, namespace)

            return type.__new__(Temporary, "temporary", (), {})

        class A:
            size = 4

        class B(with_metaclass(abc.ABCMeta, A)):
            pass

        return x + B.size, type(B).__name__, [base.__name__ for base in B.__mro__]

    return Case(f, vector())


@program(whole=False)
def abstract_classes_whose_methods_change():
    def f(x):
        class Shape(abc.ABC):
            @abc.abstractmethod
            def area(self):
                pass

            def name(self):
                return "shape"

        class Square(Shape):
            pass

        del Shape.area
        Square.name = abc.abstractmethod(Shape.name)
        torch._dynamo.graph_break()
        abstract = sorted(Shape.__abstractmethods__), sorted(Square.__abstractmethods__), hasattr(Shape, "area")
        try:
            made = Square()
        except TypeError as error:
            made = str(error)
        return x + 1, abstract, made

    return Case(f, vector())
