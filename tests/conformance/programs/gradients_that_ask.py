"""Backward formulas that ask for values: whether there are zeros in a cumulative product."""

import torch

from conformance.program import Args, Case, program


def with_zeros(*places):
    x = torch.arange(1.0, 13.0).view(3, 4) / 4
    for place in places:
        x.view(-1)[place] = 0
    return x.requires_grad_()


@program
def cumulative_product_without_zeros():
    def f(x):
        return x.cumprod(1) * 2, x.cumprod(0)

    return Case(f, with_zeros(), then=[lambda: Args(with_zeros(1)), lambda: Args(with_zeros(0, 1, 2, 6, 11))])


@program
def cumulative_product_with_zeros():
    def f(x):
        return (x * 2).cumprod(-1)

    return Case(f, with_zeros(0, 2, 3, 5), then=[lambda: Args(with_zeros()), lambda: Args(with_zeros(*range(12)))])


@program
def powers_of_a_vector():
    def f(x):
        return torch.linalg.vander(x * 2, N=4)

    return Case(f, torch.tensor([1.0, 0.0, 3.0], requires_grad=True), then=[lambda: Args(torch.tensor([1.0, 2.0, 3.0], requires_grad=True))])


@program(whole=False)
def cumulative_product_of_complex_numbers():
    def f(x, y):
        return torch.complex(x, y).cumprod(1).abs()

    return Case(f, with_zeros(1, 6), with_zeros(1, 9))
