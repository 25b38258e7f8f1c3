"""Where the largest and smallest elements are, and rows that an index names, beside what kernels make of them."""

import math

import torch
from torch.nn import functional

from conformance.program import Args, Case, program


def few_numbers(*shape):
    """Equal ones, among them zeros of both signs, infinities and what is no number."""
    numbers = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0, math.inf, -math.inf, math.nan, 1.0, 2.0, 0.5])
    place = torch.arange(torch.Size(shape).numel())
    return numbers[(place * place * 7 + place // 5) % 11 % (7 + place % 3)].view(shape)


def places(x):
    y = -x
    return y.argmax(-1), y.argmin(0, True), y.argmax(), *y.max(-1), *y.min(0, keepdim=True), (x.abs().argmax(1) + 1) * 2


@program
def of_few_numbers():
    return Case(places, few_numbers(5, 33), then=[lambda: Args(few_numbers(*shape)) for shape in ((1, 7), (40, 3), (9, 64))])


@program
def of_tensors_that_lie_otherwise():
    x = torch.randn(70, 6).round()
    return Case(places, x.t(), then=[lambda: Args(few_numbers(8, 20)[:, ::2]), lambda: Args(few_numbers(4, 1).expand(4, 9))])


@program
def of_halves_and_integers():
    def f(x, y, z):
        return places(x)[:4], places(y), (z.argmax(-1), *z.min(0), z.argmin())

    return Case(f, few_numbers(6, 50).bfloat16(), few_numbers(6, 50).double(), torch.arange(99).view(9, 11) % 7)


@program
def of_the_middle_dimension():
    return Case(lambda x: (x.argmax(1), *x.min(1, True), x.amax(1)), torch.randn(3, 20, 8).round())


@program
def gradients_go_to_the_first():
    def f(x):
        values, where = (x * 2).max(-1)
        return (values * values).sum(), where

    return Case(f, torch.randn(8, 30).round().requires_grad_())


@program
def rows_that_are_normed():
    def f(table, kinds, ids, kind, places):
        x = functional.embedding(ids, table) + functional.embedding(kind, kinds) + places
        return functional.layer_norm(x, x.shape[-1:])

    table, kinds, places = torch.randn(50, 64), torch.randn(2, 64), torch.randn(7, 64)
    ids, kind = torch.arange(21).view(3, 7) * 5 % 50, torch.arange(21).view(3, 7) % 2
    return Case(f, table.requires_grad_(), kinds.requires_grad_(), ids, kind, places)


@program
def rows_by_indices():
    def f(x, i):
        y = x[i]
        return y.relu(), x.index_select(0, i.abs()).sum(-1), (y * y).amax(-1), y.argmin(-1)

    def args(n):
        return torch.randn(20, 40), torch.arange(n) * 7 % 39 - 19

    return Case(f, *args(9), then=[lambda: Args(*args(1)), lambda: Args(*args(30))])


@program
def rows_of_rows():
    return Case(lambda x, i: (x[i] + 1, x[i.t()].sin()), torch.randn(6, 4, 16), torch.arange(6).view(2, 3) - 3)


def take(x, i):
    try:
        return (x[i] * 2).relu()
    except IndexError as error:
        return str(error)


@program(whole=False)
def a_row_that_is_not_there():
    x = torch.randn(5, 32)
    return Case(take, x, torch.tensor([1, 4]), then=[lambda: Args(x, torch.tensor([1, 5])), lambda: Args(x, torch.tensor([-5, 0]))])


@program
def sums_so_far():
    def f(x, n):
        y = (x * 2).cumsum(-1)
        return y.relu(), x.cumsum(0) - x, y.amax(-1), n.cumsum(1), (n > 3).cumsum(-1), x.double().cumsum(1)

    def args(*shape):
        n = torch.arange(torch.Size(shape).numel()).view(shape) % 7
        return torch.randn(shape), n

    return Case(f, *args(4, 33), then=[lambda: Args(*args(9, 5)), lambda: Args(*args(1, 8))])


@program
def gradients_of_sums_so_far():
    return Case(lambda x: (x.exp().cumsum(0) * x.cumsum(-1)).sum(), torch.randn(5, 12).requires_grad_())
