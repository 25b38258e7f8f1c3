"""Second derivatives through a torch.autograd.Function whose backward is no derivative of its forward: a second one goes
by its backward wherever its result is read, and never by what its forward did."""

import torch

from conformance.program import Case, program
from conformance.sample import leaf


class Square(torch.autograd.Function):
    """A square; its derivative is said to be 7 x."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x * 7


class Rounded(torch.autograd.Function):
    """A straight-through estimator: the backward is no operation at all."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Turned(torch.autograd.Function):
    """A reversal of gradients, of two results, the second of which may have none."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, y.exp()

    @staticmethod
    def backward(ctx, a, b):
        x, y = ctx.saved_tensors
        return -a * y, -a * x - b * 2


def _thrice(f, start=0.3):
    """The gradient of f, of that, and of that again; the graph ends before them."""

    def run(x):
        y = f(x)
        torch._dynamo.graph_break()
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x, create_graph=True)
        (third,) = torch.autograd.grad(second.sum(), x)
        return y.detach(), first.detach(), second.detach(), third

    return Case(run, leaf(3, start), forward_only=True)


@program(whole=False)
def as_a_factor():
    return _thrice(lambda x: x * Square.apply(x))


@program(whole=False)
def of_another():
    return _thrice(lambda x: Square.apply(Square.apply(x)))


@program(whole=False)
def as_a_factor_of_another():
    return _thrice(lambda x: Square.apply(x).sin() * Square.apply(x * 2))


@program(whole=False)
def in_a_chain():
    def f(x):
        y = Square.apply(x * 0.5)
        z = Square.apply(y + x)
        return (y * z).tanh() * Square.apply(z)

    return _thrice(f)


@program(whole=False)
def of_a_pass_that_does_not_come_to_it():
    def run(x, w):
        y = Square.apply(x) * w
        torch._dynamo.graph_break()
        (first,) = torch.autograd.grad(y.sum(), w, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0]

    return Case(run, leaf(3, 0.3), leaf(3, 2.0), forward_only=True)


@program(whole=False)
def straight_through():
    return _thrice(lambda x: Rounded.apply(x * 3) * x.square())


@program(whole=False)
def straight_through_of_weights():
    def f(x):
        weights = Rounded.apply(x * 4).view(3, 1)
        return (x.exp().view(1, 3) @ weights).square()

    return _thrice(f)


@program(whole=False)
def of_two_results():
    def f(x):
        a, b = Turned.apply(x, x + 1)
        return a * b * x

    return _thrice(f)


@program(whole=False)
def of_one_of_two_results():
    def f(x):
        a, _ = Turned.apply(x, x + 1)
        return a * a * x

    return _thrice(f)


@program(whole=False)
def seen_through_a_view():
    return _thrice(lambda x: Square.apply(x).view(3, 1).expand(3, 2) * x.view(3, 1))


@program(whole=False)
def returned_beside_what_reads_it():
    def run(x):
        y = Square.apply(x)
        z = y * x.sin()
        torch._dynamo.graph_break()
        (first,) = torch.autograd.grad((y * z).sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0]

    return Case(run, leaf(3, 0.3), forward_only=True)


@program(whole=False)
def written_in_place_behind_it():
    def f(x):
        y = Square.apply(x)
        y += x
        return y * x

    return _thrice(f)


@program
def a_gradient_asked_for_in_the_graph():
    def f(x):
        y = Square.apply(x) * x
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return first.square().sum()

    return Case(f, leaf(3, 0.3))


class Scaled(torch.autograd.Function):
    """It reads a weight that it is not given, which gets no gradient by it."""

    weight = None

    @staticmethod
    def forward(ctx, x):
        return x * Scaled.weight

    @staticmethod
    def backward(ctx, gradient):
        return gradient


@program(whole=False)
def of_a_weight_that_is_no_argument():
    weight = Scaled.weight = leaf(3, 2.0)

    def f(x):
        with torch.no_grad():
            without = Scaled.apply(x)
        return Scaled.apply(x) * weight + without

    return Case(f, leaf(3, 0.3), observe=weight)


@program(whole=False)
def of_what_needs_no_gradient():
    weight = Scaled.weight = leaf(3, 2.0)
    return Case(lambda x: Scaled.apply(x) * weight, leaf(3, 0.3).detach(), observe=weight)


@program
def first_derivatives_alone():
    return Case(lambda x: Rounded.apply(x * 3) * Square.apply(x), leaf(3, 0.3))
