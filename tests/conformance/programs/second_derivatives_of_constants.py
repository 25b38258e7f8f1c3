"""Second derivatives that do not go through what eager's histories leave out: tensors that are detached, or computed
without gradients. First derivatives cannot tell."""

import torch

from conformance.program import Case, program
from conformance.sample import leaf


def _twice(f):
    """The gradient of f, and the gradient of that; the graph ends before them."""

    def run(x):
        y = f(x)
        torch._dynamo.graph_break()
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad((first * first).sum(), x)
        return first.detach(), second

    return Case(run, leaf(), forward_only=True)


@program(whole=False)
def a_detached_factor():
    return _twice(lambda x: ((x * 2).detach() * x).sin())


@program(whole=False)
def a_tensor_and_itself_detached():
    return _twice(lambda x: (x.exp() * x.exp().detach() * x.detach()).cos())


@program(whole=False)
def a_factor_computed_without_gradients():
    def f(x):
        with torch.no_grad():
            z = x * 2 + x.exp()
        return (z * x).sin()

    return _twice(f)


@program(whole=False)
def rounded_on_the_way_there_alone():
    """A straight-through estimator."""
    return _twice(lambda x: (x * x + ((x * x).round() - x * x).detach()).pow(3))


@program(whole=False)
def weights_of_a_softmax_that_is_stopped():
    return _twice(lambda x: (x.softmax(0).detach().view(3, 1) * x.square().view(3, 1)).sum(1).exp())


class _Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 3 * x * x


@program(whole=False)
def functions_that_compute_without_gradients():
    return _twice(lambda x: _Cube.apply(x) * 2)
