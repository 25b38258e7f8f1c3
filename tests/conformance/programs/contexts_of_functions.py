"""What an autograd.Function keeps on its context, where torch calls its forward: its backward reads what may change."""

import torch
from torch import nn
from torch.autograd import Function

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector

factor = 2.0


class KeepsAll(Function):
    @staticmethod
    def forward(ctx, x, w, layer):
        ctx.layer = layer
        ctx.times = 2
        ctx.needed = tuple(ctx.needs_input_grad)
        y = layer(x) * w if any(ctx.needs_input_grad[:2]) else x * 3
        positive = x > 1
        ctx.mark_non_differentiable(positive)
        ctx.seen = hasattr(ctx, "layer"), ctx.to_save, hasattr(ctx, "missing"), len(ctx.non_differentiable)
        ctx.save_for_backward(x, w, y)
        ctx.saved = len(ctx.to_save)
        ctx.set_materialize_grads(False)
        del ctx.times
        return y, positive

    @staticmethod
    def backward(ctx, of_y, of_positive):
        x, w, y = ctx.saved_tensors
        scale = factor * ctx.saved + (of_positive is None) + hasattr(ctx, "times")
        return of_y * scale * w, (of_y * x * y).sum(0) if ctx.needs_input_grad[1] else None, None


def state_of(result):
    node = result.grad_fn
    return None if node is None else (node.needed, node.seen, node.saved, hasattr(node, "times"), type(node.layer))


@program(whole=False)
def attributes_and_what_torch_looks_at():
    layer = nn.Linear(3, 3)
    with torch.no_grad():
        layer.weight.fill_(0.5)
        layer.bias.fill_(0.25)
    last = []

    def f(x, w):
        y, positive = KeepsAll.apply(x, w, layer)
        last[:] = [y]
        return y * 2, positive

    def given(x, w):
        return lambda: Args(x(), w())

    return Case(
        f,
        leaf(),
        leaf(3, 2.0),
        look=lambda: state_of(last[0]) if last else None,
        then=[given(leaf, vector), given(vector, leaf), given(vector, vector), given(leaf, leaf)],
    )


class Dirty(Function):
    @staticmethod
    def forward(ctx, x, y):
        x.mul_(3)
        ctx.mark_dirty(x)
        ctx.count = len(ctx.dirty_tensors)
        return x, y + 1

    @staticmethod
    def backward(ctx, of_x, of_y):
        return of_x * factor * ctx.count, of_y


@program(whole=False)
def an_argument_that_is_written():
    def f(x):
        y = x * 1
        z, w = Dirty.apply(y, x)
        return z + 1, w, z is y

    return Case(f, leaf(), then=[lambda: None])


class Interrupted(Function):
    @staticmethod
    def forward(ctx, x, log):
        ctx.before = x * 2
        log.append(len(vars(ctx)))
        torch._dynamo.graph_break()
        ctx.after = ctx.before + 1
        ctx.save_for_backward(x)
        if len(log) == 2:
            raise ValueError(log[-1])
        return ctx.after * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (ctx.before + ctx.after) * factor, None


@program(whole=False)
def a_break_and_an_error_in_forward():
    log = []

    def f(x):
        try:
            return Interrupted.apply(x, log) + 1
        except ValueError as error:
            return x * 5, str(error)

    return Case(f, leaf(), observe=log, then=[lambda: None, lambda: None])


class ReversibleFunction(Function):
    """Computes its input again in backward, as reversible networks do."""

    @staticmethod
    def forward(ctx, x, f, g, *weights):
        ctx.f, ctx.g = f, g
        ctx.weights = len(weights)
        a, b = x.chunk(2, -1)
        with torch.no_grad():
            c = a + f(b)
            d = b + g(c)
        y = torch.cat([c, d], -1)
        ctx.output = y.detach()
        return y

    @staticmethod
    def backward(ctx, of_y):
        c, d = ctx.output.chunk(2, -1)
        of_c, of_d = of_y.chunk(2, -1)
        with torch.enable_grad():
            c = c.detach().requires_grad_()
            inner = ctx.g(c)
            of_inner = torch.autograd.grad(inner, (c, *ctx.g.parameters()), of_d)
            b = (d - inner).detach().requires_grad_()
            outer = ctx.f(b)
            of_a = of_c + of_inner[0]
            of_outer = torch.autograd.grad(outer, (b, *ctx.f.parameters()), of_a)
        of_x = torch.cat([of_a, of_d + of_outer[0]], -1)
        return of_x, None, None, *of_outer[1:], *of_inner[1:]


class Reversible(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(size, size), nn.Tanh())
        self.g = nn.Linear(size, size)

    def forward(self, x):
        return ReversibleFunction.apply(x, self.f, self.g, *self.f.parameters(), *self.g.parameters())


@program(whole=False, break_step=3)
def reversible_blocks():
    net = nn.Sequential(Reversible(2), Reversible(2))
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(torch.linspace(-0.5, 0.5, p.numel()).reshape(p.shape) + 0.1 * i)

    def f(x):
        return net(x).square()

    return Case(f, matrix(2, 4).requires_grad_(), observe=net, then=[lambda: None])
