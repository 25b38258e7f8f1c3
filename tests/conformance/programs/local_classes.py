"""Classes that a captured frame defines: autograd functions, and what the bodies read and do."""

import abc

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, vector

FACTOR = 3.0


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self, x): ...

    def double(self, x):
        return self.area(x) * 2


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
