"""Programs whose FX graphs once were wrong, missing or not to be made: each gives an FX backend what Python computes."""

import collections
import enum
import functools
import gc
import operator
import weakref

import framefuse
import numpy as np
import pytest
import torch
from kept_graphs import graphs, no_graphs, run_graph, same, targets  # noqa: F401

both_backends = pytest.mark.parametrize("backend", [run_graph, "aot_eager"])


def vector():
    return torch.arange(4.0) + 1


def leaf():
    return vector().requires_grad_()


def compare(f, *makers, fullgraph=True, calls=2, backend=run_graph):
    """Results and gradients of the compiled function are Python's, in every call."""
    compiled = framefuse.compile(f, backend=backend, fullgraph=fullgraph)
    for _ in range(calls):
        arguments, plain = [make() for make in makers], [make() for make in makers]
        got, wanted = compiled(*arguments), f(*plain)
        same(got, wanted)
        for a, b in zip(arguments, plain, strict=True):
            if isinstance(a, torch.Tensor):
                same(a.detach(), b.detach())
        if isinstance(wanted, torch.Tensor) and wanted.requires_grad:
            got.sum().backward()
            wanted.sum().backward()
            for a, b in zip(arguments, plain, strict=True):
                if isinstance(a, torch.Tensor):
                    same(a.grad, b.grad)


# ---------------------------------------------------------------- each operator once


def test_an_in_place_power_is_applied_once():
    def f(a, b):
        a = a * 1
        a **= b
        return a

    compare(f, vector, vector)
    assert targets().count("pow_") + targets().count(operator.ipow) == 1


@pytest.mark.parametrize(
    "f",
    [
        lambda t: abs(t) + 1,
        lambda t: operator.add(t, t) * 2,
        lambda t: sum([t, t * 2]),
        lambda t: functools.reduce(operator.mul, [t, t + 1, t + 2]),
        lambda t: functools.reduce(lambda a, b: a * b + 1, [t, t + 1, t + 2]),
        lambda t: pow(t, 2) + max([t * 2], key=lambda x: 1),
        lambda t: list(map(torch.sin, [t, t + 1])),
        lambda t: tuple(x * 2 for x in t),
        lambda t: [x + y for x, y in zip(t, t * 2, strict=True)],
        lambda t: torch.stack(list(t)) + torch.stack([*reversed(list(t))]),
        lambda t: next(iter(t)) + 1,
        lambda t: operator.itemgetter(1)([t, t + 1]),
        lambda t: 2**t + 2 / t - (2 - t),
        lambda t: t.T + t.mT if t.dim() == 2 else t.real,
    ],
)
@pytest.mark.parametrize("make", [vector, leaf])
def test_c_functions_on_tensors(f, make):
    compare(f, make)


def test_unpacking_a_tensor():
    def f(t):
        a, b, *rest = t
        first, (second, *_), _, _ = t, t * 2, 1, 2
        return a * b + rest[0] + first + second

    compare(f, leaf)


def test_a_number_that_tensors_are_added_to():
    def f(t, u):
        s = 0
        for x in (t, u):
            s += x
        p = 1
        p *= t
        return s, p

    compare(f, vector, vector)


class Pair(collections.namedtuple("Pair", "first second")):
    pass


def test_namedtuples():
    def f(t):
        pair = Pair(t + 1, t * 2)
        first, second = pair
        return torch.stack(pair) + pair.first + second, Pair._make([first, second]).second

    compare(f, vector)
    assert not any(getattr(target, "__name__", "") == "__new__" for target in targets())


def test_printing_a_tensor(capsys):
    def f(t):
        u = t + 1
        print(u)
        return u * 2

    compare(f, vector, fullgraph=False)
    assert capsys.readouterr().out.count("tensor([2., 3., 4., 5.])") == 4


def test_checks_of_types_are_no_calls():
    def f(t, w):
        if isinstance(w, torch.nn.Parameter) and not isinstance(t, torch.nn.Parameter) and len(t) == 4:
            return t * w.size(0) + w.numel()
        return t

    compare(f, vector, lambda: torch.nn.Parameter(torch.ones(4)))
    assert set(targets()) <= {operator.mul, operator.add}


# ---------------------------------------------------------------- arguments that FX cannot print


class Index:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


class Width(enum.IntEnum):
    TWO = 2


def test_numbers_of_other_types():
    def f(t):
        n = np.int64(2)
        return t * np.float32(3) + t.sum(np.int64(0)) + t.expand(n, 4)[Index(1)] + torch.zeros(Index(4)) + t.narrow(0, 0, 4) * Width.TWO

    compare(f, vector)


def test_numbers_from_outside():
    def f(t, n, x, width):
        return t.reshape(n, width) * x + t.view(width, n).sum()

    compare(f, vector, lambda: np.int64(2), lambda: np.float64(1.5), lambda: Width.TWO)


@pytest.mark.parametrize(
    "f",
    [
        lambda t: t.to(torch.float64) + torch.zeros(t.shape, dtype=torch.double),
        lambda t: t.new_zeros(torch.Size([4])) + t.reshape(torch.Size([2, 2]))[:, 1:].sum(),
        lambda t: t[(slice(None, None, 2),)] + t[..., slice(0, 4, 2)] + t[torch.tensor([0, 1])] + t[[1, 2]],
        lambda t: torch.full((4,), float("inf")) + t * float("nan") + torch.full((4,), -float("inf")),
        lambda t: t.to(torch.device("cpu"), memory_format=torch.contiguous_format) * complex(1, 2),
        lambda t: torch.stack(torch.max(t.reshape(2, 2), 0)[:1]) + torch.sort(t)[0].reshape(2, 2),
        lambda t: torch.einsum("i,i->i", t, t) + torch.nn.functional.pad(t, (1, 1), "constant", 0.5)[1:5],
        lambda t: t.type(torch.DoubleTensor).double() + t.as_subclass(torch.Tensor),
    ],
)
def test_constants(f):
    compare(f, vector, fullgraph=False)


def test_tensors_of_numbers_and_constants_are_new_in_each_call():
    def f(t):
        c = torch.tensor([1.0, 2.0, 3.0, 4.0])
        c += t
        return c * torch.as_tensor(2)

    compare(f, vector, calls=3)


# ---------------------------------------------------------------- what is written to tensors


@both_backends
@pytest.mark.parametrize("make", [vector, leaf])
def test_data_is_an_alias_without_history(make, backend):
    def f(t):
        return t * 2 + t.data * 3 + t.detach()

    compare(f, make, backend=backend)


@both_backends
def test_replaced_data(backend):
    def f(t, u):
        y = t + 1
        y.data = u
        return y * 2

    compare(f, vector, vector, fullgraph=False, backend=backend)


@both_backends
@pytest.mark.parametrize("way", ["attribute", "method", "argument", "parameter"])
def test_a_fresh_tensor_that_requires_grad(way, backend):
    def f(t):
        y = t + 1
        z = None
        if way == "attribute":
            y.requires_grad = True
        elif way == "method":
            y.requires_grad_()
        elif way == "argument":
            y = torch.ones(4, requires_grad=True)
        else:
            y = z = torch.nn.Parameter(y)
        return y, y * t, z is y

    compare(f, vector, fullgraph=False, backend=backend)


def test_a_gradient_is_set():
    def f(t, w):
        y = t * 2
        w.grad = y
        return w * w.grad

    def g(t, w):
        w.grad = None
        return t + 1, w.grad

    for program in (f, g):
        compiled = framefuse.compile(program, backend=run_graph)
        for _ in range(2):
            w, v = leaf(), leaf()
            w.grad, v.grad = torch.ones(4), torch.ones(4)
            same(compiled(vector(), w), program(vector(), v))
            same(w.grad, v.grad)


@both_backends
def test_the_gradient_of_an_input_is_read(backend):
    def f(w):
        return w.grad * 2 + 1

    compiled = framefuse.compile(f, backend=backend, fullgraph=True)
    for scale in (1.0, 3.0):
        w = leaf()
        w.grad = torch.full((4,), scale)
        same(compiled(w), f(w))


@both_backends
def test_a_hook_on_an_intermediate_result(backend):
    def f(t):
        y = t * 2
        y.register_hook(lambda gradient: gradient * 10)
        return y * t

    compare(f, leaf, fullgraph=False, backend=backend)


@both_backends
def test_retained_gradients(backend):
    def f(t):
        y = t * 2
        y.retain_grad()
        return y, y * 3

    compiled = framefuse.compile(f, backend=backend)
    y, z = compiled(leaf())
    z.sum().backward()
    same(y.grad, torch.full((4,), 3.0))


def test_a_function_mode_of_the_programs_own():
    class Doubling(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, kinds, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            return out * 2 if func is torch.sin else out

    def f(t):
        with Doubling():
            return torch.sin(t)

    compare(f, vector, fullgraph=False)


# ---------------------------------------------------------------- what a backend is given


def test_example_inputs_are_fake_and_keep_nothing_alive():
    kept = []

    def backend(gm, examples):
        kept.append((gm, examples))
        return gm.forward

    model = torch.nn.Linear(4, 4)
    compiled = framefuse.compile(lambda m, t: m(t) + 1, backend=backend)
    t = torch.randn(2, 4)
    same(compiled(model, t), model(t) + 1)
    dead = [weakref.ref(t), weakref.ref(model.weight)]
    del t, model
    gc.collect()
    assert [ref() for ref in dead] == [None, None]
    ((gm, examples),) = kept
    assert all(isinstance(e, torch._subclasses.FakeTensor) for e in examples) and len(examples) == 3
    assert [tuple(n.meta["example_value"].shape) for n in gm.graph.nodes if n.op == "placeholder"] == [tuple(e.shape) for e in examples]
    assert sum(e.requires_grad for e in examples) == 2


def test_the_journal_keeps_no_fakes():
    before = framefuse.statistics()["live_fakes"]
    compare(lambda t: abs(t) + t.data, vector)
    assert framefuse.statistics()["live_fakes"] == before


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_backends_of_torchs_registry(backend):
    def f(w, t):
        first, second = (w @ t).unbind()
        return torch.nn.functional.gelu(first) * abs(second) + sum([first, second]) + torch.tensor([1.0, 2.0])

    compiled = framefuse.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        w, v = (torch.arange(6.0).reshape(2, 3).requires_grad_() for _ in range(2))
        got, wanted = compiled(w, torch.ones(3, 2)), f(v, torch.ones(3, 2))
        torch.testing.assert_close(got, wanted)
        got.sum().backward()
        wanted.sum().backward()
        torch.testing.assert_close(w.grad, v.grad)


def test_a_training_step_that_returns_its_loss_as_a_number():
    """One graph for all numbers, also those that are equal to nothing, and one for the first call, which finds no gradient."""

    def step(w, x):
        w.grad = None
        loss = (w * x).sum()
        loss.backward()
        with torch.no_grad():
            w.sub_(w.grad * 0.1)
        return loss.item(), loss.detach().tolist()

    compiled = framefuse.compile(step, backend=run_graph, fullgraph=True)
    w, plain = leaf(), leaf()
    before = framefuse.statistics()["captures"]
    for k in (1.0, 2.5, 0.0, float("inf"), -3.0, float("nan")):
        found, wanted = compiled(w, vector() * k), step(plain, vector() * k)
        assert repr(found) == repr(wanted)
        same(w.detach(), plain.detach())
        if not w.isfinite().all():
            w, plain = leaf(), leaf()
            w.grad = plain.grad = torch.zeros(4)
    assert framefuse.statistics()["captures"] == before + 2 and len(graphs) == 2
    longer = torch.arange(6.0)
    assert compiled(longer.clone().requires_grad_(), longer) == step(longer.clone().requires_grad_(), longer)


def test_numbers_that_the_graph_itself_needs_break_it():
    """A number that is handed on is that of its place, whatever is written later; the graph ends before one that it computes with."""

    def handed_on(x):
        y = x * 2
        first = y[0].item()
        y.add_(1)
        return first, y[0].item(), y

    def computed_with(x):
        return x * (x * 2).sum().item()

    def looked_at(x):
        return x + 1 if (x * 2).sum().item() > 10 else x - 1

    compare(handed_on, vector, calls=3)
    assert len(graphs) == 1
    for f in (computed_with, looked_at):
        no_break = framefuse.statistics()["graph_breaks"]
        compiled = framefuse.compile(f, backend=run_graph)
        for k in (1.0, -1.0, 3.0):
            same(compiled(vector() * k), f(vector() * k))
        assert framefuse.statistics()["graph_breaks"] > no_break


def test_views_whose_history_a_pass_has_used_up():
    def f(w, x):
        r = (x + w.sum() * 3).view(-1)[:2]
        (r * w[:2]).sum().backward()
        return r

    got, wanted = (g(leaf(), vector()) for g in (framefuse.compile(f, backend=run_graph, fullgraph=True), f))
    same(got.detach(), wanted.detach())
    for r in (got, wanted):
        assert r.requires_grad and not r.is_leaf
        with pytest.raises(RuntimeError, match="second time"):
            r.sum().backward()


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_tensor_that_a_backend_was_shown_is_replaced(dynamic):
    """No weak reference to it is left: a capture leaves to Python what ends an object that one is told of."""

    class State:
        total = None

    state = State()
    state.total = torch.ones(3)

    def read(x):
        return x + state.total

    def write(x):
        state.total = x * 2
        return x.sum()

    options = {"backend": lambda module, inputs: module.forward, "fullgraph": True, "dynamic": dynamic}
    x = torch.arange(3.0)
    assert torch.equal(framefuse.compile(read, **options)(x), x + 1)
    assert framefuse.compile(write, **options)(x) == 3
    assert torch.equal(state.total, x * 2)
