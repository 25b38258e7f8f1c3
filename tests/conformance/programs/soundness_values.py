"""Soundness rules 6 to 11 (values and journals), each with programs that a naive capture gets wrong."""

import contextlib
import types

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


@program(rule=6)
def one_representative_an_object():
    o = types.SimpleNamespace(n=1)
    table = {"a": o, "b": [o]}

    def f(x):
        table["a"].n = 5
        table["b"][0].m = table["a"].n + 1
        return x * o.m, table["a"] is table["b"][0], o is table["a"]

    return Case(f, vector(), observe=table, then=[lambda: table.update(a=types.SimpleNamespace(n=0, m=2))])


@program(rule=7)
def number_stored_then_changed():
    state = {"n": 3}
    out = []

    def f(x):
        out.append(state["n"])
        return x + 1

    return Case(
        f,
        vector(),
        observe=out,
        then=[lambda: state.update(n=4), lambda: state.update(n=4.0), lambda: state.update(n=True)],
    )


@program(rule=7)
def argument_number_stored_in_object():
    o = types.SimpleNamespace()

    def f(x, n):
        o.last = n
        o.text = str(n)
        return x + 1

    return Case(
        f,
        vector(),
        3,
        observe=o,
        then=[lambda: Args(vector(), 4), lambda: Args(vector(), 4.0), lambda: Args(vector(), False)],
    )


@program(rule=7)
def returned_number_is_the_live_one():
    state = types.SimpleNamespace(n=1)

    def f(x, k):
        return x, k, state.n, [k, state.n]

    return Case(f, vector(), 5, then=[lambda: setattr(state, "n", 2), lambda: Args(vector(), "six")])


@program(rule=7, whole=False)
def identity_of_numbers_and_strings():
    def f(x, a, b):
        return x + 1, a is b, a == b

    big = 10**20
    return Case(f, vector(), big, big, then=[lambda: Args(vector(), 10**20, int("1" + "0" * 20))])


@program(rule=8)
def size_looks_like_an_int():
    def f(x):
        n = x.shape[0]
        return (
            x * n,
            type(n) is int,
            isinstance(n, int),
            hash(n) == hash(int(str(n))),
            f"{n}",
            n is x.size(0),
            {n: 1}[n],
        )

    return Case(f, vector(), then=[lambda: Args(vector(5)), lambda: Args(vector(6)), lambda: Args(vector(7))])


@program(rule=8)
def size_given_to_c_code():
    def f(x):
        n = x.shape[0]
        return x.sum(), list(range(n)), "a" * n, [0] * n, bytes(n), n.bit_length(), "abcdefgh"[n - 1]

    return Case(f, vector(), then=[lambda: Args(vector(4)), lambda: Args(vector(6)), lambda: Args(vector(8))])


@program(rule=9)
def overwritten_value_still_needed():
    state = [1, vector()]

    def f(x):
        first, second = state
        state[0] = first + 1
        state[1] = second + x
        state.reverse()
        return first, second, state[0] * 2

    return Case(f, vector(), then=[lambda: state.reverse()])


@program(rule=9)
def swap_of_attributes():
    o = types.SimpleNamespace(a=vector(), b=vector(3, 7.0))

    def f(x):
        o.a, o.b = o.b, o.a
        x.grad_holder = o.a
        return o.a * 2 + x, o.b

    return Case(f, vector(), observe=o, then=[lambda: None])


@program(rule=9)
def tensor_metadata_written_in_native_code():
    def f(x):
        x.t_()
        x.unsqueeze_(0)
        return x * 2, x.shape

    return Case(f, matrix(), versions=True)


@program(rule=10)
def list_read_into_a_constant():
    table = [[1, 2], [3, 4]]

    def f(x):
        return x @ torch.tensor(table, dtype=torch.float32)

    return Case(f, matrix(2, 2), then=[lambda: table[1].__setitem__(0, 30), lambda: table[0].reverse()])


@program(rule=10)
def tensor_in_global_namespace_changes():
    state = types.SimpleNamespace(t=vector())

    def f(x):
        return x + state.t

    return Case(
        f,
        vector(),
        then=[lambda: state.t.mul_(10), lambda: setattr(state, "t", vector(3, 7.0)), lambda: setattr(state, "t", 5)],
    )


@program(rule=10, whole=False)
def dispatch_mode_active():
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Spy(TorchDispatchMode):
        def __torch_dispatch__(self, func, kinds, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    def f(x):
        return x * 2 + 1

    def outer(x, spy):
        with Spy() if spy else contextlib.nullcontext():
            return f(x)

    return Case(outer, vector(), False, observe=seen, then=[lambda: Args(vector(), True)])


@program(rule=10, whole=False)
def function_mode_active():
    from torch.overrides import TorchFunctionMode

    class Doubling(TorchFunctionMode):
        def __torch_function__(self, func, kinds, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            return out * 2 if func is torch.sin else out

    def f(x, on):
        with Doubling() if on else contextlib.nullcontext():
            return torch.sin(x)

    return Case(f, vector(), True, then=[lambda: Args(vector(), False)])


@program(rule=10)
def conjugate_and_negative_bits():
    def f(x):
        return x * 2, x.is_conj(), x.is_neg()

    z = torch.complex(vector(), vector())
    return Case(f, z, forward_only=True, then=[lambda: Args(z.conj()), lambda: Args(z.conj().imag), lambda: Args(z)])


@program(rule=10)
def inference_tensor_argument():
    def f(x):
        return x * 2, x.is_inference()

    with torch.inference_mode():
        y = vector()
    return Case(f, vector(), forward_only=True, then=[lambda: Args(y), lambda: Args(vector())])


@program(rule=10, whole=False)
def sparse_argument():
    def f(x):
        return x * 2

    return Case(f, vector(), forward_only=True, then=[lambda: Args(vector().to_sparse())])


@program(rule=11)
def view_of_argument_mutated_then_base_read():
    def f(a):
        v = a[1:]
        v.add_(10)
        w = a.view(2, 2)
        w[0].mul_(3)
        return a * 1, v + 0, w

    return Case(f, vector(4), versions=True)


@program(rule=6)
def structures_that_hold_themselves():
    pair = ([],)
    pair[0].append(pair)

    def f(x, deep):
        own = ([1],)
        own[0].append(own)
        twin = [deep, own]
        return x + len(deep), twin[0] is deep, own[0][1] is own, len(own[0])

    return Case(f, vector(), [[1]], then=[lambda: Args(vector(), pair)])


@program(whole=False)
def instances_called_as_setters():
    class Log:
        def __init__(self):
            self.calls = []

        def __call__(self, *args):
            self.calls.append(len(args))

    log = Log()

    class Descriptor:
        __set__ = log

        def __get__(self, instance, owner):
            return 5

    class Box:
        n = Descriptor()
        m = property(lambda self: 6, log)

    def f(x):
        box = Box()
        box.n = 1
        box.m = 2
        return x * box.n + box.m

    return Case(f, vector(), observe=log)


@program(whole=False)
def module_with_attribute_hook():
    read = []

    class Watched(types.ModuleType):
        scale = 3

        def __getattribute__(self, name):
            read.append(name)
            return types.ModuleType.__getattribute__(self, name)

    watched = Watched("watched")

    def f(x):
        return x * watched.scale

    return Case(f, vector(), observe=read)


@program
def init_of_the_class_that_new_chose():
    class Made:
        def __init__(self, n):
            self.n = n * 10

    class Asked:
        def __new__(cls, n):
            return object.__new__(Other) if n > 2 else object.__new__(cls)

    class Other(Asked):
        def __init__(self, n):
            self.n = n + 1

    def f(x, n):
        made = Asked(n)
        return x * getattr(made, "n", 7), type(made).__name__, Made(n).n

    return Case(f, vector(), 1, then=[lambda: Args(vector(), 3), lambda: Args(vector(), 2)])


@program
def identity_of_equal_sizes_and_devices():
    held = {"size": torch.Size([2, 3]), "device": torch.device("cpu")}

    def f(x, size, device):
        return x * 2 if held["size"] is size else x, held["device"] is device

    def both():
        return Args(vector(), held["size"], held["device"])

    def equal():
        return Args(vector(), torch.Size([2, 3]), torch.device("cpu"))

    return Case(f, *equal().args, then=[both, equal, both])
