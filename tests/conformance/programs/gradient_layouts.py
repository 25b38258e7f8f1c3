"""Called once for each kind of gradient that a backward may start from: dense, transposed, expanded, with gaps, missing.

A compiled backward that takes its gradient for contiguous, or for there, is wrong for one of them.
"""

import torch
from torch.nn import functional

from conformance.gradients import KINDS
from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix


def weight(rows=3, columns=4):
    return (matrix(rows, columns) - 1).requires_grad_()


def each_kind(f, *make):
    """Fresh leaves for each call, a call for each kind."""
    fresh = lambda: Args(*(one() for one in make))
    return Case(f, *fresh().args, then=[fresh] * len(KINDS))


@program
def element_by_element():
    return each_kind(lambda x, y: (x * y).relu() + x.exp() * 0.1, weight, weight)


@program
def broadcast():
    return each_kind(lambda x, v: (x * v + v).tanh(), weight, lambda: leaf(4))


@program
def two_results():
    return each_kind(lambda x, y: (x * y, (x + y).sin()), weight, weight)


@program
def three_results_that_share_work():
    def f(x, y):
        shared = (x * y).sigmoid()
        return shared * 2, shared.sum(0), [shared + y, x.cos()]

    return each_kind(f, weight, weight)


@program
def matrices_multiplied():
    return each_kind(lambda a, b, c: torch.addmm(c, a, b).relu(), weight, lambda: weight(4, 5), lambda: leaf(5))


@program
def batches_of_matrices():
    return each_kind(lambda a, b: a.view(2, 3, 2) @ b.view(2, 2, 2), lambda: weight(3, 4), lambda: weight(2, 4))


@program
def reductions():
    return each_kind(lambda x: (x.sum(0), x.mean(1), x.amax(1), x.softmax(1)), weight)


@program
def views_of_results():
    return each_kind(lambda x: ((x * 2).t(), (x * 3).view(2, 6), (x * 4)[1:], (x * 5)[:, ::2]), weight)


@program
def results_that_are_views_of_one():
    def f(x):
        y = x.exp()
        return y, y.t(), y[0], y.expand(2, 3, 4)

    return each_kind(f, weight)


@program
def linear_and_norm():
    def f(x, w, b):
        return functional.layer_norm(functional.linear(x, w, b), (5,)), x.log_softmax(-1)

    return each_kind(f, weight, lambda: weight(5, 4), lambda: leaf(5))


@program
def images():
    def f(x, w):
        y = functional.conv2d(x.view(1, 2, 4, 4), w.view(3, 2, 2, 2))
        return y.relu(), functional.max_pool2d(y, 2), functional.avg_pool2d(x.view(1, 2, 4, 4), 2)

    return each_kind(f, lambda: weight(4, 8), lambda: weight(4, 6))


@program
def indexed_and_joined():
    def f(x, y):
        rows = torch.tensor([2, 0, 2])
        return torch.cat([x, y])[1:], x[rows], torch.stack([x[0], y[1]]), x.gather(0, rows.view(1, 3))

    return each_kind(f, weight, weight)


@program
def losses():
    def f(x):
        return functional.cross_entropy(x, torch.tensor([0, 1, 3])), functional.mse_loss(x, x * 0.5), x.pow(2).sum(1)

    return each_kind(f, weight)


@program
def results_without_gradient_between():
    return each_kind(lambda x: (x * 2, x.detach() + 1, (x > 0).float(), x.argmax(), x.sin()), weight)


@program
def a_leaf_that_only_one_result_needs():
    return each_kind(lambda x, y: (x * 2, (y * 3).exp(), x + 1), weight, weight)


@program
def an_autograd_function():
    class Pair(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y, x + y

        @staticmethod
        def backward(ctx, first, second):
            x, y = ctx.saved_tensors
            return first * y + second, first * x + second

    return each_kind(lambda x, y: Pair.apply(x.sin(), y), weight, weight)


@program(whole=False)
def on_both_sides_of_a_break():
    def f(x, y):
        a = (x * y).relu()
        print("between")
        return a * 2, (a + x).sum(0), y.exp()

    return each_kind(f, weight, weight)


@program
def of_halves():
    return each_kind(lambda x: ((x.bfloat16() * 2).exp(), x.half() + 1, x.double().sum(1)), weight)


@program
def parts_of_a_single_column():
    """Strides of dimensions of size 1 say of what is joined whether it is channels_last."""

    def f(x, w):
        y = torch.nn.functional.linear(x, w)
        return torch.nn.functional.logsigmoid(y[:, 0]).squeeze(-1), y[:, 1].sin().squeeze(-1)

    x = (torch.arange(2 * 2 * 5 * 3) % 7 / 7.0).reshape(2, 2, 5, 3)
    return Case(f, x.requires_grad_(), torch.tensor([[0.5, -1.0, 2.0]], requires_grad=True))


@program
def of_an_exponential_of_matrices():
    """The formula writes into a quarter of a matrix that it has made, and what it writes has gaps between its rows."""
    x = (torch.arange(5 * 5 * 5) % 7 / 7.0 - 0.4).reshape(5, 5, 5)
    return Case(lambda x: torch.linalg.matrix_exp(x).sin(), x.requires_grad_())
