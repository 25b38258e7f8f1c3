"""torch.vmap and torch function modes that the program pushes: in the graph, with eager's results, in each backend."""

import pytest
import torch
from torch.overrides import TorchFunctionMode

import framefuse

BACKENDS = ["aten", "fuse", lambda graph, inputs: graph.forward]
NAMES = ["aten", "fuse", "fx"]


class Doubling(TorchFunctionMode):
    """Sees the calls of torch's functions; what it does to them depends on its attributes."""

    def __init__(self, factor=2):
        super().__init__()
        self.factor = factor

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * self.factor if func is torch.Tensor.sin else result


class IndexByTensor(TorchFunctionMode):
    """x[i] with a tensor i of no dimension stays a tensor's index."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.__getitem__ and all(isinstance(i, torch.Tensor) for i in args[1]):
            return torch.ops.aten.index(args[0], list(args[1]))
        return func(*args, **(kwargs or {}))


def values():
    return torch.linspace(-1, 1, 12).view(3, 4).requires_grad_(), torch.linspace(0, 2, 4)


def closure(x, y):
    scale = x.sum()
    return torch.vmap(lambda a, b: a * b + scale, in_dims=(0, None))(x, y)


def nested(x, y):
    f = torch.vmap(lambda a, b: a * b, in_dims=(None, 0))
    return torch.vmap(f, in_dims=(0, None))(y, y)


def over_columns(x, y):
    return torch.vmap(torch.dot, in_dims=(1, 1), out_dims=0)(x, x)


def several(x, y):
    low, high = torch.vmap(lambda row: (row.amin(), {"high": row.max(0).values}))(x)
    return low, high["high"]


def reads_globals(x, y):
    return torch.vmap(scaled)(x)


def keywords(x, y):
    return torch.vmap(scaled)(x, by=y)


SCALE = 3.0


def scaled(row, by=1.0):
    return row * SCALE * by


def randomness(x, y):
    return torch.vmap(lambda row: row + torch.rand(4), randomness="different")(x)


def mask(x, y):
    """As libraries build attention masks."""
    padding = y > 0.5
    q, kv = torch.arange(3), torch.arange(4)

    def allowed(i, j):
        return (j <= i) & padding[j,]

    with IndexByTensor():
        return torch.vmap(torch.vmap(allowed, in_dims=(None, 0)), in_dims=(0, None))(q, kv) * x


def mode(x, y):
    with Doubling():
        z = x.sin() + y
    return z.sin()


def modes_nested(x, y):
    with Doubling(3):
        z = x.sin()
        with Doubling(5):
            z = z + y.sin()
        return z + x.sin()


def mode_raises(x, y):
    try:
        with Doubling():
            z = x.sin()
            raise ValueError(1)
    except ValueError:
        return z + x.sin()


PROGRAMS = [closure, nested, over_columns, several, reads_globals, keywords, randomness, mask, mode, modes_nested, mode_raises]


def run(function):
    torch.manual_seed(0)
    x, y = values()
    results = function(x, y)
    results = results if isinstance(results, tuple) else (results,)
    loss = sum(r.float().sum() for r in results)
    if loss.requires_grad:
        (loss * loss).backward()
    return [r.detach() for r in results] + ([] if x.grad is None else [x.grad])


@pytest.mark.parametrize("backend", BACKENDS, ids=NAMES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_whole(program, backend):
    expected = run(program)
    framefuse.reset()
    before = framefuse.statistics()
    compiled = framefuse.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        for ours, theirs in zip(run(compiled), expected, strict=True):
            torch.testing.assert_close(ours, theirs)
    after = framefuse.statistics()
    assert after["captures"] - before["captures"] == 1
    assert after["hits"] > before["hits"]


def test_a_global_of_the_mapped_function_is_guarded(monkeypatch):
    compiled = framefuse.compile(reads_globals, backend="aten")
    x, y = values()
    compiled(x, y)
    monkeypatch.setitem(globals(), "SCALE", 4.0)
    assert torch.equal(compiled(x, y), x * 4)


def test_an_attribute_that_a_mode_reads_is_guarded():
    kept = Doubling(2)

    def program(x):
        with kept:
            return x.sin()

    compiled = framefuse.compile(program, backend="aten", fullgraph=True)
    x = torch.ones(3)
    assert torch.equal(compiled(x), x.sin() * 2)
    kept.factor = 7
    assert torch.equal(compiled(x), x.sin() * 7)


def breaks_in_mode(x):
    with Doubling():
        y = x.sin()
        print(end="")
        framefuse.graph_break()
        y = y + x.sin()
    return y.sin()


def breaks_in_vmap(x):
    def row(r):
        framefuse.graph_break()
        return r.sin()

    return torch.vmap(row)(x + 1) * 2


def leaves_mode_on(x):
    mode = Doubling()
    mode.__enter__()
    return x.sin(), mode


@pytest.mark.parametrize("backend", BACKENDS, ids=NAMES)
@pytest.mark.parametrize("program", [breaks_in_mode, breaks_in_vmap], ids=lambda p: p.__name__)
def test_breaks_inside(program, backend):
    x = torch.linspace(0, 1, 6).view(2, 3)
    compiled = framefuse.compile(program, backend=backend)
    for _ in range(3):
        assert torch.equal(compiled(x), program(x))
    assert torch._C._len_torch_function_stack() == 0


def test_a_mode_that_stays_on():
    x = torch.ones(3)
    compiled = framefuse.compile(leaves_mode_on, backend="aten")
    for _ in range(2):
        result, mode = compiled(x)
        assert torch._C._len_torch_function_stack() == 1
        mode.__exit__(None, None, None)
        assert torch.equal(result, x.sin() * 2)
    with pytest.raises(framefuse.Unsupported, match="function mode"):
        framefuse.compile(leaves_mode_on, backend="aten", fullgraph=True)(x)
    assert torch._C._len_torch_function_stack() == 0


def test_errors_are_eagers():
    def different_sizes(x, y):
        return torch.vmap(torch.mul)(x, y)

    def draws(x, y):
        return torch.vmap(lambda r: r + torch.rand(3))(x)

    for program in (different_sizes, draws):
        x, y = torch.ones(2, 3), torch.ones(3, 3)
        with pytest.raises((ValueError, RuntimeError)) as expected:
            program(x, y)
        with pytest.raises(expected.type) as raised:
            framefuse.compile(program, backend="aten")(x, y)
        assert str(raised.value) == str(expected.value)
        assert torch._C._functorch.maybe_current_level() is None


@pytest.mark.parametrize("transform", [torch.vmap, torch.func.grad, torch.func.jacrev, torch.func.vjp])
def test_a_lambda_of_each_call_is_captured_once(transform):
    def f(x):
        scale = 2.0
        made = transform(lambda t: (t * scale).sin().sum(), *([x] if transform is torch.func.vjp else []))
        return made[0] if transform is torch.func.vjp else made(x)

    compiled = framefuse.compile(f, backend="aten")
    before = framefuse.statistics()
    for k in range(30):
        x = torch.full((3,), float(k))
        torch.testing.assert_close(compiled(x), f(x))
    after = framefuse.statistics()
    assert after["captures"] - before["captures"] <= 2 and after["eager_fallbacks"] == before["eager_fallbacks"]


def test_a_function_that_torchs_own_code_applies():
    """torch's mode indexes by an autograd.Function of its own, whose backward is evaluated like the program's."""
    mode = pytest.importorskip("torch._dynamo._trace_wrapped_higher_order_op").TransformGetItemToIndex

    def diagonal(x):
        with mode():
            return torch.vmap(lambda i: x[i, i] * 2)(torch.arange(3))

    def rows(x):  # no backward of torch's: the index has fewer dimensions
        with mode():
            return torch.vmap(lambda i: x[i])(torch.arange(3))

    compiled, before = framefuse.compile(diagonal, fullgraph=True), framefuse.statistics()
    for n in (4, 6):
        x, y = (torch.arange(float(n * n)).view(n, n).requires_grad_() for _ in range(2))
        expected, got = diagonal(x), compiled(y)
        torch.testing.assert_close(got, expected)
        expected.square().sum().backward()
        got.square().sum().backward()
        torch.testing.assert_close(y.grad, x.grad)
    after = framefuse.statistics()
    assert after["captures"] - before["captures"] == 2 and after["bugs"] == before["bugs"]

    x = torch.ones(4, 4, requires_grad=True)
    reasons = [reason.reason for reason in framefuse.explain(rows)(x).break_reasons]
    assert "must match value shape" in reasons[0]
    for call in (rows, framefuse.compile(rows)):
        with pytest.raises(AssertionError, match="must match value shape"):
            call(x).sum().backward()
