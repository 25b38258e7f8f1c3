"""The soundness rules of the design, each with programs that a naive capture gets wrong."""

import collections
import contextlib
import copy
import functools
import gc
import importlib
import operator
import sys
import types
import weakref

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


@program(rule=1)
def zero_argument_super_and_class_cell():
    class Base:
        def go(self, x):
            return x + 1

    class Derived(Base):
        def go(self, x):
            parts = [super(Derived, self).go(x) for _ in range(2)]
            return super().go(x) + parts[0], __class__.__name__

    d = Derived()

    def f(x):
        return d.go(x)

    return Case(f, vector())


@program(rule=1, whole=False)
def locals_eval_see_the_right_frame():
    def helper(value):
        inner = value + 1  # noqa: F841
        return sorted(locals()), eval("inner * 2")

    def f(x):
        names, n = helper(3)
        return x * n, names

    return Case(f, vector())


@program(rule=2, whole=False)
def finaliser_runs_natively():
    log = []

    class Dying:
        def __init__(self, name):
            self.name = name

        def __del__(self):
            log.append(self.name)

    def f(x):
        d = Dying("first")
        y = x + 1
        d = Dying("second")
        y = y * 2
        del d
        return y * len(log)

    return Case(f, vector(), then=[log.clear])


@program(rule=6, whole=False)
def finaliser_of_existing_object():
    log = []

    class Dying:
        def __del__(self):
            log.append("died")

    holder = {"d": Dying()}

    def f(x):
        y = x + 1
        del holder["d"]
        return y * 2, len(log)

    def again():
        holder["d"] = Dying()

    return Case(f, vector(), then=[again])


@program(rule=2, whole=False)
def weak_reference_callback():
    log = []

    class Node:
        pass

    def f(x):
        node = Node()
        ref = weakref.ref(node, lambda r: log.append("gone"))
        y = x * 2
        del node
        return y, ref() is None, len(log)

    return Case(f, vector())


@program(rule=3)
def attrgetter_alone():
    class State:
        n = 3

    state = State()
    get = operator.attrgetter("n")

    def f(x):
        return x * get(state)

    return Case(f, vector(), then=[lambda: setattr(state, "n", 8)])


@program(rule=3)
def list_sorted_by_attrgetter_after_write():
    class Item:
        def __init__(self, rank):
            self.rank = rank

    items = [Item(3), Item(1), Item(2)]

    def f(x):
        items[0].rank = 0
        ordered = sorted(items, key=operator.attrgetter("rank"))
        return x * ordered[0].rank, [i.rank for i in ordered], ordered[0] is items[0]

    return Case(f, vector(), then=[lambda: setattr(items[1], "rank", -5)])


@program(rule=3)
def attrgetter_in_map():
    class Item:
        def __init__(self, value):
            self.value = value

    items = [Item(vector()), Item(vector(3, 4.0))]

    def f(x):
        items[0].value = x
        return sum(map(operator.attrgetter("value"), items))

    return Case(f, vector(), then=[lambda: setattr(items[1], "value", vector())])


@program(rule=3)
def vars_after_write():
    class Bag:
        pass

    bag = Bag()
    bag.a = 1

    def f(x):
        bag.b = x
        return x * len(vars(bag)), "b" in vars(bag), list(bag.__dict__)

    return Case(f, vector(), then=[lambda: setattr(bag, "c", 0)])


@program(rule=3)
def copy_after_write():
    class Bag:
        pass

    bag = Bag()
    bag.items = [1]

    def f(x):
        bag.n = 5
        bag.items.append(x)
        other = copy.copy(bag)
        return x * other.n, other.items is bag.items, len(copy.copy(bag.items))

    return Case(f, vector(), observe=bag, then=[lambda: bag.items.clear()])


@program(rule=3)
def deque_append_after_read():
    d = collections.deque([1])

    def f(x):
        n = len(d)
        d.append(x)
        return x * n * len(d)

    return Case(f, vector(), then=[lambda: d.clear()])


@program(rule=3, whole=False)
def pre_existing_iterator_advanced():
    it = iter(range(100))

    def f(x):
        return x * next(it) + next(it)

    return Case(f, vector(), then=[lambda: next(it) and None])


@program(rule=3, whole=False)
def first_import_inside_the_frame():
    sys.modules.pop("colorsys", None)

    def f(x):
        y = x + 1
        late = importlib.import_module("colorsys")
        return y * late.ONE_THIRD, "colorsys" in sys.modules

    return Case(f, vector())


@program(rule=3, whole=False)
def module_never_imported_before():
    sys.modules.pop("nturl2path", None)

    def f(x):
        import nturl2path

        y = x + len(nturl2path.__name__)
        return y, "nturl2path" in sys.modules

    return Case(f, vector())


@program(rule=3)
def shadowed_builtin():
    name = "len"

    def f(x):
        return x * len([1, 2, 3])

    def shadow():
        globals()[name] = lambda items: 100

    def unshadow():
        globals().pop(name, None)

    unshadow()
    return Case(f, vector(), then=[shadow, unshadow])


@program(rule=3)
def builtin_shadowed_before_and_deleted():
    globals()["abs"] = lambda v: v * 10

    def f(x):
        return x * abs(-2)

    def unshadow():
        globals().pop("abs", None)

    return Case(f, vector(), then=[unshadow])


@program(rule=4)
def c_trampolines():
    class Meta(type):
        def __call__(cls, *args):
            made = super().__call__(*args)
            made.log.append("meta call")
            return made

    class Model(metaclass=Meta):
        def __init__(self, n):
            self.log = ["init"]
            self.n = n

        def __call__(self, x):
            self.log.append("call")
            return x * self.n

    def f(x):
        m = Model(3)
        p = functools.partial(m, x)
        bound = types.MethodType(lambda self, v: v + self.n, m)
        return p(), bound(x), m.log

    return Case(f, vector())


@program(rule=4, whole=False)
def break_inside_sort_key():
    def key(v):
        print("key", v)
        return -v

    def f(x, items):
        y = x + 1
        items.sort(key=key)
        return y * items[0]

    return Case(f, vector(), [1, 3, 2])


@program(rule=4, whole=False)
def break_inside_property_and_getattr():
    class Model:
        @property
        def n(self):
            print("property")
            return 3

        def __getattr__(self, name):
            print("getattr", name)
            return 4

    m = Model()

    def f(x):
        y = x + 1
        return y * m.n + m.other

    return Case(f, vector())


@program(rule=4, whole=False)
def hasattr_around_a_break():
    class Model:
        def __getattr__(self, name):
            print("asked", name)
            if name == "yes":
                return 1
            raise AttributeError(name)

    m = Model()

    def f(x):
        y = x + 1
        found = hasattr(m, "yes"), hasattr(m, "no"), getattr(m, "never", 5)
        return y * 2, found

    return Case(f, vector())


@program(rule=5, whole=False)
def compiled_function_not_kept_in_capture():
    seen = []

    def spy(x):
        seen.append(type(x).__name__)
        return x.sum().item()

    def f(x):
        y = x * 2
        n = spy(y)
        return y * n

    return Case(f, vector(), observe=seen)


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

    return Case(f, vector(), observe=out, then=[lambda: state.update(n=4), lambda: state.update(n=4.0), lambda: state.update(n=True)])


@program(rule=7)
def argument_number_stored_in_object():
    o = types.SimpleNamespace()

    def f(x, n):
        o.last = n
        o.text = str(n)
        return x + 1

    return Case(f, vector(), 3, observe=o, then=[lambda: Args(vector(), 4), lambda: Args(vector(), 4.0), lambda: Args(vector(), False)])


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
        return x * n, type(n) is int, isinstance(n, int), hash(n) == hash(int(str(n))), f"{n}", n is x.size(0), {n: 1}[n]

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

    return Case(f, vector(), then=[lambda: state.t.mul_(10), lambda: setattr(state, "t", vector(3, 7.0)), lambda: setattr(state, "t", 5)])


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


@program(rule=12, whole=False)
def break_swallowed_by_except():
    def f(x):
        y = x + 1
        try:
            if y.sum() > 0:
                y = y * 2
        except BaseException:
            y = y * 100
        return y

    return Case(f, vector(), then=[lambda: Args(vector(3, -9.0))])


@program(rule=12, whole=False)
def break_swallowed_by_getattr_default():
    class Model:
        def __getattr__(self, name):
            return torch.ones(2).sum().item()

    m = Model()

    def f(x):
        return x * getattr(m, "n", 100)

    return Case(f, vector())


@program(rule=13, whole=False)
def break_with_live_iterators():
    def f(x, items):
        total = x
        for i, (a, b) in enumerate(zip(items, reversed(items))):
            total = total + a * b
            print(i)
            total = total * 2
        return total

    return Case(f, vector(), [1, 2, 3])


@program(rule=13, whole=False)
def break_with_live_dict_iterator():
    def f(x, d):
        total = x
        for k, v in d.items():
            print(k)
            total = total + v
        return total, [k for k in map(str.upper, d) if print(k) is None]

    return Case(f, vector(), {"a": 1, "b": 2})


@program(rule=13, whole=False)
def break_with_half_consumed_generator_alive():
    def numbers(x):
        for i in range(4):
            yield x * i

    def f(x):
        g = numbers(x)
        first = next(g)
        print("between")
        return first + next(g), list(g)

    return Case(f, vector())


@program(rule=14, whole=False)
def effects_happen_once_around_a_break():
    log = []

    def f(x):
        log.append("before")
        x.add_(1)
        print("break")
        log.append("after")
        x.mul_(2)
        print("again")
        return x + len(log)

    return Case(f, vector(), versions=True, then=[log.clear])


@program(rule=14, whole=False)
def escaping_exception_after_graph_and_effects():
    log = []

    def f(x):
        y = x * 2
        x.add_(1)
        log.append("once")
        raise ValueError("end")
        return y

    return Case(f, vector(), versions=True)


@program(rule=15, whole=False)
def break_inside_with_in_try_in_loop():
    log = []

    @contextlib.contextmanager
    def noted(i):
        log.append(("in", i))
        try:
            yield i
        finally:
            log.append(("out", i))

    def f(x):
        for i in range(3):
            try:
                with noted(i) as n:
                    x = x + n
                    print(n)
                    if n == 1:
                        raise KeyError(n)
                    x = x * 2
            except KeyError:
                x = x - 100
            finally:
                log.append("f")
        return x

    return Case(f, vector())


@program(rule=16)
def guards_do_not_materialise_dict():
    class Light:
        def __init__(self):
            self.a = 1
            self.b = vector()

    o = Light()

    def f(x):
        return x * o.a + o.b

    return Case(f, vector(), then=[lambda: setattr(o, "a", 2), lambda: setattr(o, "b", vector(3, 5.0)), lambda: o.__dict__.update(a=9)])


@program(rule=16)
def one_key_of_a_big_dict():
    big = {str(i): i for i in range(1000)}

    def f(x):
        return x * big["500"]

    return Case(f, vector(), then=[lambda: big.update(new=1), lambda: big.pop("3"), lambda: big.update({"500": 7})])


@program(rule=16)
def equality_of_user_key_not_called_by_guards():
    calls = []

    class Key:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return 1

        def __eq__(self, other):
            calls.append("eq")
            return self.n == other.n

    a, b = Key(1), Key(2)
    table = {a: 10, b: 20}

    def f(x):
        return x * table[b]

    return Case(f, vector(), then=[lambda: table.__setitem__(b, 5)])


@program(rule=17)
def two_functions_share_code():
    def make(scale):
        def g(x):
            return x * scale

        return g

    first, second = make(2), make(5)

    def f(x):
        return first(x), second(x)

    return Case(f, vector())


@program(rule=17)
def equal_blocks_with_different_weights():
    class Block(torch.nn.Module):
        def __init__(self, value):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.full((3,), value))

        def forward(self, x):
            return x * self.weight

    model = torch.nn.Sequential(Block(1.0), Block(2.0), Block(3.0))
    return Case(model, vector(), then=[lambda: setattr(model[1], "weight", torch.nn.Parameter(torch.zeros(3)))])


@program(rule=17, whole=False, not_ways=("breaks", "breaks-inlined"))
def tracing_is_on():
    lines = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name == "traced":
            lines.append((event, frame.f_lineno - frame.f_code.co_firstlineno))
            return tracer
        return None

    def traced(x):
        y = x + 1
        return y * 2

    def f(x, on):
        if on:
            sys.settrace(tracer)
        try:
            return traced(x)
        finally:
            sys.settrace(None)

    return Case(f, vector(), False, observe=lines, then=[lambda: Args(vector(), True)])


@program(rule=18, whole=False)
def backward_with_print():
    class Loud(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, g):
            print("backward", g.shape)
            return g * 3

    def f(x):
        return Loud.apply(x)

    return Case(f, leaf())


@program(rule=19)
def parameter_changed_between_forward_and_backward():
    w = leaf()

    def g(x):
        return (x * w.detach()).sin() * w

    def f(x):
        y = g(x)
        return y.sum()

    def outer(x):
        loss = f(x)
        with torch.no_grad():
            x.mul_(1)
        return loss

    return Case(outer, vector(), observe=w)


@program(rule=20)
def outputs_own_their_memory():
    kept = []

    def f(x):
        y = x * 2
        z = y + 1
        return y[0], z

    def keep():
        kept.append(f(vector(3, 9.0)))

    return Case(f, vector(), observe=kept, then=[keep, keep])


@program(rule=20, whole=False)
def error_after_a_mutation():
    def f(x, y):
        x.add_(1)
        return x @ y

    return Case(f, vector(3), vector(3), versions=True, then=[lambda: Args(vector(3), vector(4))])


@program(rule=22, whole=False)
def index_out_of_bounds():
    def f(x, i):
        x.add_(1)
        return x[i] * 2

    return Case(f, vector(3), torch.tensor([0, 2]), versions=True, then=[lambda: Args(vector(3), torch.tensor([0, 7]))])


@program(rule=22, whole=False)
def embedding_out_of_bounds():
    table = torch.nn.Embedding(3, 2)
    with torch.no_grad():
        table.weight.fill_(0.5)

    def f(i):
        return table(i) + 1

    return Case(f, torch.tensor([0, 1]), then=[lambda: Args(torch.tensor([1, 3]))])


@program(rule=2)
def collector_runs_between():
    class Node:
        pass

    def f(x):
        for _ in range(3):
            a, b = Node(), Node()
            a.b, b.a = b, a
        return x + 1

    return Case(f, vector(), then=[lambda: gc.collect() and None])
