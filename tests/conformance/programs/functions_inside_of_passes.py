"""torch.autograd.Functions whose backward pass runs in the function itself: what they saved is used up behind it, which
the close of the graph finds out by asking them again."""

import torch

from conformance.program import Args, Case, program
from conformance.programs.derivatives_of_functions import Square
from conformance.sample import leaf, vector


class Layer(torch.autograd.Function):
    """A product and a rectifier with a gradient for each operand; it saves what it made, too."""

    @staticmethod
    def forward(ctx, x, weight):
        hidden = x * weight
        ctx.save_for_backward(x, weight, hidden)
        ctx.slope = 0.25
        return torch.where(hidden > 0, hidden, hidden * ctx.slope)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, hidden = ctx.saved_tensors
        gradient = torch.where(hidden > 0, gradient, gradient * ctx.slope)
        return gradient * weight, gradient * x


class Pair(torch.autograd.Function):
    """Two results; a backward may come with one of the two gradients only."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx, of_sine, of_cosine):
        (x,) = ctx.saved_tensors
        return of_sine * x.cos() * 2 - of_cosine * x.sin() * 3


@program
def one_that_saves_its_argument():
    def f(x, w):
        y = Square.apply(x * w)
        y.sum().backward()
        return y.detach()

    return Case(f, vector(), leaf(3, 2.0), then=[lambda: Args(vector(start=4.0), leaf(3, 0.5))])


@program
def whose_result_is_handed_out():
    def f(x, w):
        y = Square.apply(x * w)
        y.sum().backward()
        return y

    return Case(f, vector(), leaf(3, 2.0), forward_only=True)


@program(whole=False)
def whose_result_is_asked_again():
    def f(x, w):
        y = Square.apply(x * w)
        y.sum().backward()
        try:
            y.sum().backward()
        except RuntimeError as error:
            return str(error)[:40]

    return Case(f, vector(), leaf(3, 2.0))


@program
def whose_history_is_kept():
    def f(x, w):
        y = Square.apply(x * w)
        y.sum().backward(retain_graph=True)
        y.square().sum().backward()
        return w.grad * 2

    return Case(f, vector(), leaf(3, 2.0))


@program
def a_training_step():
    w, v = leaf(3), leaf(3, -0.5)

    def f(x):
        w.grad = v.grad = None
        loss = Layer.apply(Layer.apply(x, w).sin(), v).square().mean()
        loss.backward()
        with torch.no_grad():
            for t in (w, v):
                t -= 0.1 * t.grad
        return loss.detach()

    return Case(f, vector(), look=lambda: (w, v, w.grad, v.grad), then=[lambda: Args(vector() * 2), lambda: Args(vector() - 2)])


@program
def two_passes_that_add_up():
    def f(x, w):
        for part in (x, x + 1):
            Square.apply(part * w).sum().backward()
        return w.grad.clone()

    return Case(f, vector(), leaf(3, 2.0), then=[lambda: None])


@program
def one_of_two_results():
    def f(x, w):
        sine, cosine = Pair.apply(x * w)
        sine.sum().backward()
        return sine.detach() + cosine.detach()

    return Case(f, vector(), leaf(3, 2.0))


@program
def asked_for_a_gradient():
    def f(x, w):
        (g,) = torch.autograd.grad(Layer.apply(x, w).exp().sum(), w)
        return g * 2

    return Case(f, vector(), leaf(3, 0.5), forward_only=True)


@program
def beside_one_that_no_pass_comes_to():
    def f(x, w):
        Square.apply(x * w).sum().backward()
        return Layer.apply(x, w).sum()

    return Case(f, vector(), leaf(3, 2.0))


@program
def inside_of_a_module():
    layer = torch.nn.Linear(3, 3)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(9.0).view(3, 3) / 9)
        layer.bias.fill_(0.25)

    def f(x):
        layer.zero_grad(set_to_none=True)
        y = Square.apply(layer(x))
        y.mean().backward()
        return y.detach(), layer.weight.grad.norm()

    return Case(f, vector(), look=lambda: (layer.weight.grad, layer.bias.grad), then=[lambda: Args(vector() * 2)])
