"""Gradients of prod(), whose formula depends on how many elements are zero."""

import math

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


def over(values):
    return torch.tensor(values, requires_grad=True)


TABLES = (
    [[1.0, -2.0, 3.0], [4.0, 0.5, -6.0]],
    [[1.0, 0.0, 3.0], [4.0, 0.5, -6.0]],
    [[1.0, 0.0, 3.0], [-4.0, 0.0, -6.0]],
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
)


def tables(f):
    return Case(f, over(TABLES[0]), then=[lambda t=t: Args(over(t)) for t in TABLES[1:]])


@program
def product_of_all():
    return tables(lambda m: m.prod() * 2 + m.sum())


@program
def product_of_a_transposed_view():
    return tables(lambda m: m.t()[:, ::1].prod())


@program
def product_of_rows():
    return tables(lambda m: m.prod(1))


@program
def product_of_columns_kept():
    return tables(lambda m: torch.prod(m, 0, keepdim=True) * m)


@program
def product_over_one_element():
    return tables(lambda m: m.unsqueeze(1).prod(1) + m[:1].prod(0) + m[0, :1].prod())


@program
def product_of_a_product():
    return tables(lambda m: (m * 2).prod(-1).prod())


@program
def infinities_and_zeros():
    def f(v):
        return v.prod()

    return Case(
        f,
        over([math.inf, 2.0, 3.0]),
        then=[
            lambda: Args(over([math.inf, 0.0, 3.0])),
            lambda: Args(over([math.inf, 0.0, 0.0])),
            lambda: Args(over([math.nan, 0.0, 0.0])),
            lambda: Args(over([math.nan, 0.0, 2.0])),
            lambda: Args(over([1e30, 1e30, 1e-30])),
            lambda: Args(over([1e-30, 1e-30, 1e30])),
        ],
    )


@program
def number_and_no_elements():
    def f(a, b):
        return a.prod() + b.prod(), b.prod(0)

    return Case(f, over(3.0), torch.zeros(0, 2, requires_grad=True))


@program
def product_in_a_backward_inside():
    def f(m):
        with torch.enable_grad():
            leaf = m.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(leaf.prod(), leaf)
        return gradient * 2

    return Case(f, over(TABLES[0]).detach(), then=[lambda t=t: Args(torch.tensor(t)) for t in TABLES[1:]])


@program
def doubles_and_complex_numbers():
    def f(a, b):
        return a.prod(), b.prod().real, b.prod(0).imag

    a = torch.tensor([1.0, 0.0, 3.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([1.0 + 2.0j, 3.0 - 1.0j, 0.5j], requires_grad=True)
    return Case(f, a, b)


@program(whole=False)
def gradient_of_the_gradient():
    def f(m):
        (gradient,) = torch.autograd.grad(m.prod(), m, create_graph=True)
        return gradient.square().sum()

    return tables(f)


@program(whole=False)
def zeros_that_the_program_asks_for():
    def f(m):
        zero = (m == 0).nonzero()
        return m.prod() * zero.shape[0]

    return tables(f)


@program
def two_zeros_under_odd_gradients():
    def f(m, scale):
        return m.prod() * scale

    zeros = torch.tensor([[-1.0, 0.0], [0.0, 2.0]], requires_grad=True)

    def again(scale):
        return Args(zeros.detach().requires_grad_(), torch.tensor(scale))

    return Case(f, zeros, torch.tensor(-2.0), then=[lambda s=s: again(s) for s in (float("inf"), float("nan"), 3.0)])


@program
def products_of_any_length():
    def f(x):
        return torch.cumprod(x, -1) * 2

    def given(n, zero=None):
        x = vector(n) * 0.5
        if zero is not None:
            x[zero] = 0
        return x.requires_grad_()

    return Case(f, given(4), then=[lambda: Args(given(6)), lambda: Args(given(5, 2)), lambda: Args(given(3)), lambda: Args(given(1))])
