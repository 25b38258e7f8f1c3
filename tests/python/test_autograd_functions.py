"""torch.autograd.Function in captured code: forward and backward are the program's own, gradients are eager's."""

import linecache

import framefuse
import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

scale = 2.0


class ScaledCube(Function):
    """Its backward is not the derivative, so that a derived one would be seen."""

    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * x * k

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 30 * x * x * ctx.k, None


class Doubled(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 7


class ProductAndSum(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, of_product, of_sum):
        x, y = ctx.saved_tensors
        return of_product * y + of_sum, of_product * x + of_sum if ctx.needs_input_grad[1] else None


class Rounded(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g


class ReadsGlobal(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * scale


class WritesInBackward(Function):
    passes = []

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        WritesInBackward.passes.append(1)
        return g * len(WritesInBackward.passes)


class WritesItsGradient(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g.mul_(3)


def gradients(f, *tensors):
    inputs = [t.detach().clone().requires_grad_(t.requires_grad) for t in tensors]
    results = f(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    if any(r.requires_grad for r in results):
        sum((r * r).sum() for r in results if r.requires_grad).backward()
    return [r.detach() for r in results], [t.grad for t in inputs]


X = torch.linspace(-1, 2, 5, requires_grad=True)
Y = torch.linspace(3, 4, 5, requires_grad=True)


@pytest.mark.parametrize("backend", ["aten", "fuse"])
@pytest.mark.parametrize(
    "f, inputs",
    [
        (lambda x: ScaledCube.apply(x, 2.0).sin() + x, [X]),
        (lambda x: ScaledCube.apply(x, 2.0).sin() + x, [X.detach()]),
        (lambda x: Doubled.apply(x * 1) + 1, [X]),
        (lambda x, y: ProductAndSum.apply(x, y), [X, Y]),
        (lambda x, y: ProductAndSum.apply(x, y)[0], [X, Y]),
        (lambda x, y: ProductAndSum.apply(x, y), [X, Y.detach()]),
        (lambda x: Rounded.apply(x) * x, [X]),
    ],
)
def test_whole(backend, f, inputs):
    torch.testing.assert_close(gradients(framefuse.compile(f, backend=backend, fullgraph=True), *inputs), gradients(f, *inputs))


def test_backward_reads_when_it_runs():
    global scale
    compiled = framefuse.compile(lambda x: ReadsGlobal.apply(x) * x, backend="aten")
    for scale in (2.0, 5.0):
        x = X.detach().clone().requires_grad_()
        y = compiled(x)
        scale += 1
        y.sum().backward()
        torch.testing.assert_close(x.grad, X + X * scale)
    with pytest.raises(framefuse.Unsupported, match="backward function reads"):
        framefuse.compile(lambda x: ReadsGlobal.apply(x) * x, fullgraph=True)(X)


def test_what_backward_writes_is_written_when_it_runs():
    compiled = framefuse.compile(lambda x: WritesInBackward.apply(x), backend="aten")
    y = compiled(X)
    assert WritesInBackward.passes == []
    y.sum().backward(inputs=X, retain_graph=True)
    assert WritesInBackward.passes == [1]
    y.sum().backward(inputs=X)
    assert WritesInBackward.passes == [1, 1]
    assert X.grad.tolist() == [3] * 5
    X.grad = None


def test_a_gradient_written_in_place_is_not_captured():
    def f(x):
        return WritesItsGradient.apply(x)

    given = torch.ones(5)
    framefuse.compile(f, backend="aten")(X).backward(given, inputs=X)
    assert given.tolist() == X.grad.tolist() == [3] * 5
    X.grad = None


def test_lines_of_a_break_in_a_backward_function_are_read_outside_of_the_capture(monkeypatch):
    """What Python does to show a line is no code of the program's: it would break again, and show a line."""
    asked = []
    getlines = linecache.getlines
    monkeypatch.setattr(linecache, "getlines", lambda *args: (asked.append(args[0]), getlines(*args))[1])
    with framefuse.capture_logs("graph_breaks", "fallbacks") as records:
        framefuse.compile(lambda x: ReadsGlobal.apply(x) * x, backend="aten")(X)
    assert len(asked) < 20
    (told,) = framefuse.explain(lambda x: ReadsGlobal.apply(x) * x)(X).break_reasons
    assert "backward function reads" in str(told) and records


class KeepsAttributes(Function):
    @staticmethod
    def forward(ctx, x, layer):
        ctx.layer, ctx.needed = layer, ctx.needs_input_grad[0]
        ctx.set_materialize_grads(False)
        y = layer(x)
        ctx.save_for_backward(x, y)
        ctx.mark_non_differentiable(x)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y * scale if ctx.needed else None, None


def test_a_forward_that_torch_calls_is_one_graph():
    """Only the call itself breaks: what it keeps on its context is written as on any object."""
    x = X.detach().requires_grad_()
    report = framefuse.explain(lambda x: KeepsAttributes.apply(x, torch.sin) * x)(x)
    assert report.graph_break_count == 1 and "backward function reads" in str(report.break_reasons[0])
    function = framefuse.compile(lambda x: KeepsAttributes.apply(x, torch.sin), backend="aten")
    torch.testing.assert_close(gradients(function, x), gradients(lambda x: KeepsAttributes.apply(x, torch.sin), x))
