"""Classes that a captured frame defines: what their bodies read, what is made of them, and where they go."""

import abc
import collections
import dataclasses
import enum
import typing

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, vector

FACTOR = 3.0


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


class Base(torch.autograd.Function):
    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.slope


# ---------------------------------------------------------------- autograd


@program
def function_with_backward():
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

        return Square.apply(x).sum() + x.sum()

    return Case(f, leaf())


@program
def function_that_is_not_applied():
    def f(x, apply):
        def helper(a):
            return torch.where(a > 0, a, 0.0)

        class Combine(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                return helper(a)

            @staticmethod
            def backward(ctx, gradient):
                return gradient

        return Combine.apply(x) if apply else helper(x)

    x = leaf()
    return Case(f, x, False, then=[lambda: Args(x, True), lambda: Args(x, False)])


@program
def function_closing_over_locals():
    def f(x, slope):
        scaled = x * 2

        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                ctx.scale = slope
                return a * slope + scaled.detach()

            @staticmethod
            def backward(ctx, gradient):
                return gradient * ctx.scale * 10

        return Scale.apply(x) * scaled

    return Case(f, leaf(), 3.0)


@program
def function_with_an_inherited_backward():
    def f(x):
        class Slope(Base):
            @staticmethod
            def forward(ctx, a):
                ctx.slope = 7.0
                return a * 2

        return Slope.apply(x)

    def change():
        Base.backward = staticmethod(lambda ctx, gradient: gradient * ctx.slope * 2)

    original = Base.__dict__["backward"]

    def restore():
        Base.backward = original

    return Case(f, leaf(), then=[change, restore])


@program
def two_functions_of_one_name():
    def make(slope):
        class Made(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                return a.clone()

            @staticmethod
            def backward(ctx, gradient):
                return gradient * slope

        return Made

    def f(x):
        return make(2.0).apply(x) + make(5.0).apply(x)

    return Case(f, leaf())


# ---------------------------------------------------------------- what bodies read


@program
def attributes_from_locals_and_globals():
    def f(x, local):
        class C:
            first = FACTOR
            second = local * 2
            third = x.shape[0]
            FACTOR = FACTOR + second

        return x * C.first + C.second + C.third + C.FACTOR

    def change():
        global FACTOR
        FACTOR = 4.0

    def back():
        global FACTOR
        FACTOR = 3.0

    x = vector()
    return Case(f, x, 2.0, then=[change, back, lambda: Args(x, 5.0)])


@program
def body_reads_a_cell_or_its_own_name():
    scale = [2.0]

    def f(x):
        value = x.sum()

        class C:
            value = value * scale[0]
            other = value + 1

        return C.value, C.other, value

    return Case(f, vector(), then=[lambda: scale.__setitem__(0, 5.0)])


@program
def loops_and_conditions_in_a_body():
    def f(x, count):
        class C:
            total = 0
            for i in range(count):
                total += i
            if total > 3:
                big = True
            else:
                big = False
            squares = [j * j for j in range(count)]
            del i

        return x * C.total + sum(C.squares), C.big, hasattr(C, "i")

    x = vector()
    return Case(f, x, 3, then=[lambda: Args(x, 5)])


@program
def body_with_effects():
    log = []
    table = {}

    def f(x):
        class C:
            log.append("begun")
            table["x"] = x * 2
            value = len(log)

        return x + C.value

    return Case(f, vector(), observe=(log, table))


@program
def annotations_of_a_class():
    def f(x):
        class C:
            a: int
            b: float = 2.0
            c: "list[int]" = None

        return x * C.b, sorted(C.__annotations__), C.__annotations__["a"] is int

    return Case(f, vector())


@program
def names_of_a_class():
    def f(x):
        class C:
            """What it is."""

            class Inner:
                pass

        return x + 1, C.__name__, C.__qualname__.split(".")[-1], C.__doc__, C.__module__ == __name__, C.Inner.__qualname__[-7:]

    return Case(f, vector())


@program
def error_in_a_body():
    def f(x, bad):
        y = x * 2
        try:

            class C:
                value = [1, 2][bad]

        except IndexError as e:
            return y, str(e)
        return y * C.value

    x = vector()
    return Case(f, x, 0, then=[lambda: Args(x, 5)])


@program
def error_that_leaves_a_body():
    log = []

    def f(x):
        log.append("before")
        x.mul_(2)

        class C:
            value = {}["missing"]

        return x

    return Case(f, vector(), observe=log)


@program(whole=False)
def metaclasses_that_conflict():
    class Meta(type):
        pass

    class Other(metaclass=Meta):
        pass

    def f(x):
        try:

            class C(Other, Shape):
                pass

        except TypeError as e:
            return x * 2, str(e)[:18]
        return x

    return Case(f, vector())


# ---------------------------------------------------------------- instances, methods, super


@program
def methods_over_tensors():
    def f(x, y):
        z = x * y

        class C:
            def __init__(self, scale):
                self.scale = scale

            def __call__(self, a):
                return a * self.scale + z

            @property
            def both(self):
                return self.scale + z

            @classmethod
            def make(cls, scale):
                return cls(scale * 2)

            @staticmethod
            def plain(a):
                return a - z

        c = C.make(3)
        return c(x), c.both, C.plain(y), isinstance(c, C), type(c) is C

    return Case(f, leaf(), vector())


@program
def zero_argument_super_and_class_cell():
    def f(x):
        class Child(Plain):
            def shift(self, x):
                return super().shift(x) * 2

            def me(self):
                return __class__

        class Grandchild(Child):
            offset = 5.0

            def shift(self, x):
                return super().shift(x) + 1

        c = Grandchild()
        return c.shift(x), c.me() is Child, Grandchild.__mro__[-2] is Plain, issubclass(Grandchild, Plain)

    return Case(f, vector(), then=[lambda: setattr(Plain, "offset", 2.0), lambda: setattr(Plain, "offset", 1.0)])


@program
def inherited_method_is_replaced():
    class Parent:
        def run(self, x):
            return x + 1

    def f(x):
        class Child(Parent):
            pass

        return Child().run(x)

    def replace():
        Parent.run = lambda self, x: x * 10

    def add():
        Parent.__getattr__ = lambda self, name: 3

    return Case(f, vector(), then=[replace, add])


@program
def base_gains_an_attribute():
    class Parent:
        pass

    def f(x):
        class Child(Parent):
            pass

        return x * getattr(Child, "extra", 2.0), hasattr(Child(), "extra")

    return Case(f, vector(), then=[lambda: setattr(Parent, "extra", 7.0), lambda: delattr(Parent, "extra")])


@program
def operators_of_a_class():
    def f(x):
        class Box:
            def __init__(self, value):
                self.value = value

            def __add__(self, other):
                return Box(self.value + other.value)

            def __eq__(self, other):
                return isinstance(other, Box)

            def __len__(self):
                return 4

            def __getitem__(self, i):
                return self.value * i

            def __iter__(self):
                return iter([self.value, self.value + 1])

            def __bool__(self):
                return False

        b = Box(x) + Box(x * 2)
        first, second = b
        return b.value, b == Box(x), len(b), b[3], first + second, bool(b)

    return Case(f, vector())


@program
def subclasses_of_builtins():
    def f(x):
        class Numbers(list):
            def total(self):
                return sum(self)

        class Table(dict):
            def __missing__(self, key):
                return key * 2

        class Scaled(float):
            def times(self, x):
                return x * self

        n = Numbers([1, 2, 3])
        n.append(4)
        t = Table(a=5)
        return x * n.total(), t["a"], t["b"], Scaled(2.5).times(x), len(n)

    return Case(f, vector())


@program
def exception_class():
    def f(x, bad):
        class Local(ValueError):
            def __init__(self, text, value):
                super().__init__(text)
                self.value = value

        try:
            if bad:
                raise Local("no", x * 2)
        except Local as e:
            return e.value, str(e), isinstance(e, ValueError)
        return x, "", False

    x = vector()
    return Case(f, x, True, then=[lambda: Args(x, False)])


@program(whole=False)
def exception_of_a_local_class_leaves():
    def f(x):
        class Local(ValueError):
            pass

        raise Local("gone")

    return Case(f, vector())


@program
def module_class():
    def f(x):
        class Layer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = 3

            def forward(self, x):
                return x * self.scale

        return Layer()(x)

    return Case(f, vector())


@program
def attributes_are_set_and_deleted():
    def f(x):
        class C:
            a = 1.0
            b = 2.0

        C.c = x * 2
        C.a = 5.0
        del C.b
        setattr(C, "d", C.a + 1)
        return C.c + C.a + C.d, hasattr(C, "b")

    return Case(f, vector())


@program
def slots_of_a_class():
    def f(x):
        class C:
            __slots__ = ("a", "b")

            def __init__(self, a):
                self.a = a

        c = C(x * 2)
        try:
            c.other = 1
        except AttributeError:
            missing = True
        else:
            missing = False
        return c.a, hasattr(c, "b"), missing

    return Case(f, vector())


@program
def class_made_by_type():
    def f(x):
        C = type("C", (Plain,), {"offset": 4.0, "twice": lambda self, x: x * 2})
        return C().shift(x), C().twice(x), C.__name__

    return Case(f, vector(), then=[lambda: setattr(Plain, "shift", Plain.shift)])


@program
def class_in_a_loop():
    def f(x):
        for i in range(3):

            class C:
                index = i

                def add(self, x):
                    return x + self.index

            x = C().add(x)
        return x

    return Case(f, vector())


# ---------------------------------------------------------------- hooks and decorators


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


# ---------------------------------------------------------------- classes that live on


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
