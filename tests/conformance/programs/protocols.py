"""Operator overloading with reflected forms; truth, length, call, index and conversion protocols."""

import functools

import torch

from conformance.program import Case, program
from conformance.sample import matrix, vector


class Quantity:
    """Logs each special method that runs."""

    def __init__(self, value, log):
        self.value = value
        self.log = log

    def _made(self, name, value):
        self.log.append(name)
        return Quantity(value, self.log)

    def __add__(self, other):
        return self._made("add", self.value + getattr(other, "value", other))

    def __radd__(self, other):
        return self._made("radd", other + self.value)

    def __mul__(self, other):
        if isinstance(other, str):
            return NotImplemented
        return self._made("mul", self.value * getattr(other, "value", other))

    __rmul__ = __mul__

    def __iadd__(self, other):
        self.log.append("iadd")
        self.value = self.value + other
        return self

    def __neg__(self):
        return self._made("neg", -self.value)

    def __lt__(self, other):
        self.log.append("lt")
        return self.value < other.value


@program
def arithmetic_overloads():
    log = []

    def f(x):
        a = Quantity(2, log)
        b = a + 3 + a
        c = 1 + b
        d = -(c * 2)
        return x * d.value

    return Case(f, vector())


@program
def in_place_overload():
    log = []

    def f(x):
        a = Quantity(x, log)
        same = a
        a += 1
        a *= 2
        return same.value, a.value, same is a

    return Case(f, vector())


@program
def reflected_with_tensor():
    log = []

    def f(x):
        q = Quantity(x, log)
        return (q + x).value, (q * 2).value, (3 * q).value

    return Case(f, vector())


@program
def subclass_reflected_first():
    class Base:
        def __add__(self, other):
            return "base add"

        def __radd__(self, other):
            return "base radd"

    class Derived(Base):
        def __radd__(self, other):
            return "derived radd"

    def f(x):
        return x, Base() + Derived(), Derived() + Base(), Base() + Base(), 1 + Base()

    return Case(f, vector())


@program
def not_implemented_raises_type_error():
    log = []

    def f(x):
        try:
            Quantity(1, log) * "s"
        except TypeError as error:
            return x, str(error)

    return Case(f, vector())


@program
def rich_comparison_and_sorting():
    log = []

    def f(x):
        items = sorted([Quantity(3, log), Quantity(1, log), Quantity(2, log)])
        return x * items[0].value, [q.value for q in items], Quantity(1, log) > Quantity(0, log)

    return Case(f, vector())


@program
def total_ordering():
    @functools.total_ordering
    class Version:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return self.n == other.n

        def __lt__(self, other):
            return self.n < other.n

    def f(x):
        a, b = Version(1), Version(2)
        return x, a <= b, a >= b, a > b, a != b, max(a, b).n, min([b, a]).n

    return Case(f, vector())


@program
def equality_not_returning_bool():
    class Wild:
        def __eq__(self, other):
            return [other]

    def f(x):
        return x, Wild() == 3, 3 == Wild(), Wild() != 3, 3 in [Wild()]

    return Case(f, vector())


@program
def truth_by_bool_and_len():
    log = []

    class Truthy:
        def __init__(self, value):
            self.value = value

        def __bool__(self):
            log.append("bool")
            return self.value

    class Sized:
        def __init__(self, n):
            self.n = n

        def __len__(self):
            log.append("len")
            return self.n

    def f(x):
        if Truthy(True) and not Sized(0) and Sized(2):
            x = x * 2
        return x, bool(Truthy(False)), len(Sized(4)), not Truthy(True), Truthy(False) or 3

    return Case(f, vector())


@program
def bad_bool_and_len():
    class BadBool:
        def __bool__(self):
            return 3

    class BadLen:
        def __len__(self):
            return "three"

    def f(x):
        texts = []
        for attempt in (lambda: bool(BadBool()), lambda: len(BadLen()), lambda: bool(BadLen())):
            try:
                attempt()
            except TypeError as error:
                texts.append(str(error))
        return x, texts

    return Case(f, vector())


@program
def call_protocol_on_class_not_instance():
    class Odd:
        def __call__(self, x):
            return x * 2

    o = Odd()
    o.__call__ = lambda x: x * 100

    def f(x):
        return o(x), o.__call__(x)

    return Case(f, vector())


@program
def index_int_float_protocols():
    class Number:
        def __index__(self):
            return 2

        def __int__(self):
            return 5

        def __float__(self):
            return 2.5

    def f(x):
        n = Number()
        return x * int(n), float(n), [1, 2, 3][n], list(range(n)), "ab" * n, bin(n), x[n]

    return Case(f, vector())


@program
def hash_protocol():
    class Key:
        def __hash__(self):
            return 7

        def __eq__(self, other):
            return True

    class Unhashable:
        __hash__ = None

    def f(x):
        try:
            {Unhashable(): 1}
        except TypeError as error:
            text = str(error)
        return x * len({Key(), Key()}), hash(Key()), text

    return Case(f, vector())


@program
def round_divmod_abs_pow():
    class Number:
        def __init__(self, n):
            self.n = n

        def __round__(self, digits=None):
            return ("round", digits)

        def __divmod__(self, other):
            return ("divmod", other)

        def __abs__(self):
            return abs(self.n)

        def __pow__(self, other, modulus=None):
            return ("pow", other, modulus)

        def __floor__(self):
            return 1

    def f(x):
        import math

        n = Number(-3)
        return x * abs(n), round(n), round(n, 2), divmod(n, 2), pow(n, 2, 5), n**2, math.floor(n)

    return Case(f, vector())


@program
def dir_sizeof_and_repr_recursion():
    class Node:
        def __init__(self):
            self.next = self

        def __dir__(self):
            return ["b", "a"]

        def __repr__(self):
            return "Node()"

    def f(x):
        items = [1]
        items.append(items)
        return x, dir(Node()), repr(Node()), repr(items)

    return Case(f, vector())


@program
def matmul_and_divisions_overloaded():
    class Op:
        def __matmul__(self, o):
            return "matmul"

        def __rmatmul__(self, o):
            return "rmatmul"

        def __truediv__(self, o):
            return "truediv"

        def __floordiv__(self, o):
            return "floordiv"

        def __mod__(self, o):
            return "mod"

        def __lshift__(self, o):
            return "lshift"

        def __and__(self, o):
            return "and"

        def __invert__(self):
            return "invert"

        def __imatmul__(self, o):
            return "imatmul"

    def f(x):
        o = Op()
        out = [o @ 1, 1 @ o, o / 1, o // 1, o % 1, o << 1, o & 1, ~o]
        o @= 1
        return x, out, o

    return Case(f, vector())


@program
def tensor_subclass_torch_function():
    class Tagged(torch.Tensor):
        calls = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls.append(getattr(func, "__name__", "?"))
            return super().__torch_function__(func, types, args, kwargs or {})

    Tagged.calls.clear()

    def f(x):
        y = x + 1
        return y * 2, type(y).__name__

    return Case(f, matrix().as_subclass(Tagged), forward_only=True)


@program
def object_with_torch_function():
    class Wrapper:
        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            inner = [a.inner if isinstance(a, Wrapper) else a for a in args]
            return Wrapper(func(*inner, **(kwargs or {})))

    def f(x):
        w = Wrapper(x)
        return torch.add(w, 2).inner, torch.sin(w).inner

    return Case(f, vector())


@program(whole=False)
def special_method_is_an_object_that_counts():
    class Counter:
        def __init__(self, answer):
            self.answer = answer
            self.calls = []

        def __call__(self):
            self.calls.append(len(self.calls))
            return self.answer

    class Thing:
        __hash__ = Counter(5)
        __len__ = Counter(2)

    thing = Thing()

    def f(x):
        return x * len(thing), hash((thing, 1)) == hash((thing, 1)), len({thing: 1})

    return Case(f, vector(), observe=[Thing.__hash__, Thing.__len__])


@program(whole=False)
def special_methods_of_math_change():
    class Number:
        def __round__(self):
            return 1

        def __divmod__(self, other):
            return (2, other)

    n = Number()

    def f(x):
        return x * round(n), divmod(n, 3)

    def change():
        Number.__round__ = lambda self: 7
        Number.__divmod__ = lambda self, other: (8, other)

    return Case(f, vector(), then=[change])
