"""State read through every kind of source and changed in every way between calls: what a guard must see."""

import functools
import types

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector

LEVEL = 2
TENSOR = vector()


def set_globals(**values):
    globals().update(values)


@program
def global_number():
    set_globals(LEVEL=2)

    def f(x):
        return x * LEVEL

    return Case(f, vector(), then=[lambda v=v: set_globals(LEVEL=v) for v in (3, 2.5, True, -1, 10**12)])


@program
def global_type_changes():
    set_globals(LEVEL=2)

    def f(x):
        return x * LEVEL if isinstance(LEVEL, (int, float)) else x + len(LEVEL)

    return Case(f, vector(), then=[lambda v=v: set_globals(LEVEL=v) for v in ("ab", [1, 2, 3], 2)])


@program
def global_tensor():
    set_globals(TENSOR=vector())

    def f(x):
        return x * TENSOR

    return Case(
        f,
        vector(),
        then=[lambda v=v: set_globals(TENSOR=v) for v in (vector(3, 9.0), matrix(2, 3), vector().double(), leaf(), 4)],
    )


@program
def global_deleted_falls_to_builtin():
    set_globals(max=lambda *a: 100)

    def f(x):
        return x * max(1, 2)

    return Case(f, vector(), then=[lambda: globals().pop("max") and None, lambda: set_globals(max=lambda *a: -1)])


@program
def local_argument_numbers():
    def f(x, n):
        return x * n

    return Case(
        f, vector(), 1, then=[lambda v=v: Args(vector(), v) for v in (2, 2.0, True, -3, 0, 1.5, float("inf"), 1)]
    )


@program
def local_argument_nan():
    def f(x, n):
        return x * n, n == n

    nan = float("nan")
    return Case(
        f,
        vector(),
        nan,
        then=[lambda: Args(vector(), nan), lambda: Args(vector(), float("nan")), lambda: Args(vector(), 1.0)],
    )


@program
def negative_zero():
    def f(x, n):
        return x * n, 1 / x * n, str(n)

    return Case(
        f, vector(), 0.0, then=[lambda: Args(vector(), -0.0), lambda: Args(vector(), 0), lambda: Args(vector(), False)]
    )


@program
def local_argument_strings_and_none():
    def f(x, mode):
        if mode is None:
            return x
        if mode == "double":
            return x * 2
        return x + len(mode)

    return Case(
        f,
        vector(),
        None,
        then=[lambda v=v: Args(vector(), v) for v in ("double", "dou" + "ble", "x", b"bytes", (), None)],
    )


@program
def cell_values():
    value = 2

    def f(x):
        return x * value

    def put(new):
        nonlocal value
        value = new

    return Case(f, vector(), then=[lambda v=v: put(v) for v in (3, 2.5, True, vector(), matrix(2, 3))])


@program
def positional_defaults():
    def f(x, n=2, t=TENSOR):
        return x * n + t

    def put(*values):
        f.__defaults__ = values

    return Case(f, vector(), then=[lambda: put(3, vector()), lambda: put(2.5, 1), lambda: put(True, vector(3, 8.0))])


@program
def keyword_defaults():
    def f(x, *, n=2):
        return x * n

    def put(**values):
        f.__kwdefaults__ = values

    return Case(f, vector(), then=[lambda: put(n=3), lambda: f.__kwdefaults__.update(n=7), lambda: put(n=2.0)])


@program
def instance_attribute_values():
    o = types.SimpleNamespace(n=2)

    def f(x):
        return x * o.n

    return Case(f, vector(), then=[lambda v=v: setattr(o, "n", v) for v in (3, 2.5, True, vector(), 2)])


@program
def nested_attributes():
    o = types.SimpleNamespace(a=types.SimpleNamespace(b=types.SimpleNamespace(c=2)))

    def f(x):
        return x * o.a.b.c

    def replace_middle():
        o.a = types.SimpleNamespace(b=types.SimpleNamespace(c=50))

    return Case(f, vector(), then=[lambda: setattr(o.a.b, "c", 3), replace_middle, lambda: setattr(o.a.b, "c", 4)])


@program
def attribute_appears_and_disappears():
    class Bag:
        pass

    o = Bag()

    def f(x):
        return x * getattr(o, "n", 1), hasattr(o, "m"), x + len(o.__dict__)

    return Case(
        f,
        vector(),
        then=[lambda: setattr(o, "n", 3), lambda: setattr(o, "m", 1), lambda: delattr(o, "n"), o.__dict__.clear],
    )


@program
def class_attribute_on_base():
    class Base:
        n = 2

    class Middle(Base):
        pass

    class Derived(Middle):
        pass

    o = Derived()

    def f(x):
        return x * o.n

    return Case(
        f,
        vector(),
        then=[
            lambda: setattr(Base, "n", 3),
            lambda: setattr(Middle, "n", 4),
            lambda: setattr(Derived, "n", 5),
            lambda: setattr(o, "n", 6),
            lambda: delattr(o, "n"),
            lambda: delattr(Derived, "n"),
            lambda: delattr(Middle, "n"),
        ],
    )


@program
def slot_attribute():
    class Slotted:
        __slots__ = ("n", "m")

    o = Slotted()
    o.n = 2

    def f(x):
        return x * o.n, hasattr(o, "m")

    return Case(f, vector(), then=[lambda: setattr(o, "n", 3), lambda: setattr(o, "m", 1), lambda: delattr(o, "m")])


@program
def property_depends_on_hidden_state():
    class Model:
        hidden = 2

        @property
        def n(self):
            return self.hidden * len(STATE)

    o = Model()
    STATE.clear()
    STATE.append(1)

    def f(x):
        return x * o.n

    return Case(
        f, vector(), then=[lambda: setattr(o, "hidden", 3), lambda: STATE.append(2), lambda: setattr(Model, "n", 11)]
    )


STATE: list = []


@program
def descriptor_reads_a_dict():
    table = {"n": 2}

    class Field:
        def __get__(self, o, owner=None):
            return table["n"]

    class Model:
        n = Field()

    o = Model()

    def f(x):
        return x * o.n

    return Case(f, vector(), then=[lambda: table.update(n=5), lambda: setattr(Field, "__get__", lambda *a: 9)])


@program
def function_in_a_cell():
    scale = 2

    def g(x):
        return x * scale

    def f(x):
        return g(x)

    def change():
        nonlocal g

        def g(x):
            return x + 100

    def change_inner():
        nonlocal scale
        scale = 7

    return Case(f, vector(), then=[change_inner, change, change_inner])


@program
def code_and_globals_of_function():
    def g(x):
        return x * 2

    def f(x):
        return g(x)

    def put(code):
        g.__code__ = code

    return Case(f, vector(), then=[lambda: put((lambda x: x - 1).__code__), lambda: put((lambda x: x).__code__)])


@program
def bound_self_changes():
    class Model:
        def __init__(self, n):
            self.n = n

        def go(self, x):
            return x * self.n

    o = types.SimpleNamespace(go=Model(2).go)

    def f(x):
        return o.go(x)

    return Case(f, vector(), then=[lambda: setattr(o, "go", Model(3).go), lambda: setattr(o.go.__self__, "n", 9)])


@program
def partial_arguments_change():
    o = types.SimpleNamespace(p=functools.partial(torch.mul, 2))

    def f(x):
        return o.p(x)

    return Case(
        f,
        vector(),
        then=[
            lambda v=v: setattr(o, "p", functools.partial(*v))
            for v in ((torch.mul, 3), (torch.add, 3), (torch.add, vector()))
        ],
    )


@program
def object_type_changes():
    class A:
        n = 2

    class B:
        n = 3

    o = types.SimpleNamespace(inner=A())

    def f(x):
        return x * o.inner.n, isinstance(o.inner, A)

    return Case(
        f,
        vector(),
        then=[lambda: setattr(o, "inner", B()), lambda: setattr(o.inner, "__class__", A), lambda: setattr(A, "n", 8)],
    )


@program
def tensor_shape_dtype_stride_grad():
    def f(x):
        return x * 2 + x.dim(), x.stride(), x.dtype, x.requires_grad

    changes = (
        vector(4),
        matrix(),
        matrix().t(),
        matrix().double(),
        leaf(),
        vector(6)[::2],
        torch.ones(1),
        torch.ones(()),
        torch.ones(0),
        torch.ones(3, dtype=torch.int64),
        torch.ones(3, dtype=torch.bool),
        vector(),
    )
    return Case(f, vector(), then=[lambda v=v: Args(v) for v in changes])


@program
def tensor_becomes_parameter_or_number():
    def f(x):
        return x * 2, type(x).__name__

    return Case(f, vector(), then=[lambda: Args(torch.nn.Parameter(vector())), lambda: Args(3), lambda: Args(vector())])


@program
def tensor_broadcast_dimension_one():
    def f(x, y):
        return x + y, (x * y).shape

    return Case(
        f,
        matrix(),
        matrix(),
        then=[
            lambda: Args(matrix(1, 3), matrix()),
            lambda: Args(matrix(2, 1), matrix()),
            lambda: Args(matrix(), vector()),
        ],
    )


@program
def grad_mode_and_default_dtype():
    def f(x):
        return x * 2 + torch.ones(3), torch.is_grad_enabled()

    return Case(
        f,
        leaf(),
        then=[
            lambda: torch._C._set_grad_enabled(False),
            lambda: torch.set_default_dtype(torch.float64),
            lambda: torch._C._set_grad_enabled(True),
        ],
    )


@program
def module_flag_and_submodule():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.ReLU()
            self.scale = 2

        def forward(self, x):
            return self.inner(x - 1.5) * self.scale if self.training else x

    net = Net()
    return Case(
        net,
        vector(),
        then=[
            net.eval,
            net.train,
            lambda: setattr(net, "inner", torch.nn.Tanh()),
            lambda: setattr(net, "scale", 3.5),
            lambda: net.register_buffer("b", vector()),
        ],
    )


@program
def recompile_limit_is_passed():
    """The truth machine sets it to 64; each name is compiled in."""
    o = types.SimpleNamespace(name="a")

    def f(x):
        return x * o.name.count("a"), o.name.upper()

    return Case(f, vector(), then=[lambda v=v: setattr(o, "name", "ba" * v) for v in range(1, 70)])


@program
def many_shapes_then_back():
    def f(x):
        return x.sum() * x.shape[0], x.reshape(1, -1)

    return Case(f, vector(1), then=[lambda n=n: Args(vector(n)) for n in (2, 3, 4, 5, 8, 1, 0, 3)])


@program
def number_becomes_dynamic():
    def f(x, n):
        if n > 5:
            return x[:n] * n
        return x + n

    return Case(f, vector(12), 2, then=[lambda n=n: Args(vector(12), n) for n in (3, 4, 6, 7, 5, 0, 12, 1)])


@program
def float_argument_changes():
    def f(x, v):
        return x * v + round(v, 1), v > 1

    return Case(f, vector(), 0.5, then=[lambda v=v: Args(vector(), v) for v in (0.25, 1.5, 2.0, 1.0, -1.5)])
