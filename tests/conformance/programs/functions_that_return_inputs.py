"""autograd.Function whose result is an argument, or a view of one: memory of that, and a backward of its own."""

import torch
from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -3 * g


class Itself(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return -3 * g


class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x), x * 2

    @staticmethod
    def backward(ctx, g, h):
        return 5 * g + h


class Assigned(torch.autograd.Function):
    """Writes a scratch tensor behind autograd's back, as solvers do."""

    @staticmethod
    def forward(ctx, scratch, value, index):
        ctx.index = index
        scratch.data[index] = value
        return scratch

    @staticmethod
    def backward(ctx, g):
        return g, g[ctx.index], None


@program(whole=False)
def reversed_gradients_alone():
    return Case(lambda x: Reversed.apply(x), leaf(), then=[lambda: Args(leaf(4))])


@program
def reversed_gradients_inside():
    return Case(lambda x: Reversed.apply(x * 2) + 1, leaf())


@program(whole=False)
def argument_itself():
    return Case(lambda x: Itself.apply(x), leaf(), then=[lambda: Args(vector())])


@program(whole=False)
def part_of_what_it_returned():
    return Case(lambda x: (Reversed.apply(x)[1:], Itself.apply(x).unsqueeze(0)), leaf())


@program(whole=False)
def two_results():
    return Case(lambda x: Both.apply(x), leaf())


@program(whole=False)
def beside_what_it_is_made_of():
    def f(x):
        y = x * 2
        return y, Reversed.apply(y)

    return Case(f, leaf())


@program(whole=False)
def scratch_memory_of_an_argument():
    def f(scratch, value):
        return Assigned.apply(scratch, value * 2, (..., 1))

    return Case(f, matrix(), leaf(2))


@program
def scratch_memory_of_its_own():
    def f(x, w):
        scratch = torch.zeros(3, 2)
        scratch = Assigned.apply(scratch, x * w, (..., 0))
        scratch = Assigned.apply(scratch, (scratch[..., 0] + w).tanh(), (..., 1))
        return scratch.sum() + scratch[..., 1].sum()

    return Case(f, vector(), leaf())


@program(whole=False)
def scratch_memory_between_breaks():
    def f(x, w):
        scratch = Assigned.apply(torch.zeros(3, 2), x * w, (..., 0))
        print("first")
        scratch = Assigned.apply(scratch, (scratch[..., 0] + w).tanh(), (..., 1))
        print("second")
        return scratch.sum() * 2

    return Case(f, vector(), leaf())
