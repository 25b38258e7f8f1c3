"""Classes that a captured frame defines: instances, methods, attributes and bases."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, vector


class Plain:
    offset = 1.0

    def shift(self, x):
        return x + self.offset


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


# Once torch._dynamo is imported, which other programs do, the constructor of modules keeps them by their addresses.
@program(whole=False)
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
