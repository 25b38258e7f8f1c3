"""What `copy_()`, `zero_()` and `fill_()` replace gets a gradient of zeros, and not None: also in a second derivative."""

import torch

from conformance.program import Case, program
from conformance.sample import leaf


def _replaced(f):
    leaves = [leaf(), leaf(3, 0.5)]

    def run():
        y = f(*leaves)
        torch._dynamo.graph_break()
        first = torch.autograd.grad(y.sum(), leaves, create_graph=True, allow_unused=True)
        length = sum((g * g).sum() for g in first if g is not None)
        second = torch.autograd.grad(length, leaves, allow_unused=True)
        return [g if g is None else g.detach() for g in first], second

    return Case(run, observe=leaves, forward_only=True)


@program(whole=False)
def by_a_copy():
    def f(a, b):
        z = a * 1
        z.copy_(b * 2)
        return z.exp() * b

    return _replaced(f)


@program(whole=False)
def by_a_copy_of_a_square():
    def f(a, b):
        z = a.sin()
        z.copy_(b)
        return z * z

    return _replaced(f)


@program(whole=False)
def in_part():
    def f(a, b):
        z = a.sin()
        z[1:].copy_(b[:2] * 2)
        z[:1].zero_()
        return z.exp() * b

    return _replaced(f)


@program(whole=False)
def by_zeros():
    def f(a, b):
        z = a.sin()
        z.zero_()
        return z + b.exp()

    return _replaced(f)


@program(whole=False)
def by_a_number_that_is_a_factor():
    def f(a, b):
        z = a.sin()
        z.fill_(3)
        return (z * b).exp()

    return _replaced(f)


@program(whole=False)
def by_a_tensor_of_one_element():
    def f(a, b):
        z = a.sin()
        z.fill_(b[0])
        return z * z * b

    return _replaced(f)


@program(whole=False)
def an_argument():
    leaves = [leaf(), leaf(3, 0.5)]

    def f(z, b):
        z.copy_(b * 2)
        return z * z

    def run():
        z = leaves[0] * 1
        torch._dynamo.graph_break()
        y = f(z, leaves[1])
        torch._dynamo.graph_break()
        first = torch.autograd.grad(y.sum(), leaves, create_graph=True, allow_unused=True)
        second = torch.autograd.grad((first[1] * first[1]).sum(), leaves, allow_unused=True)
        return [g if g is None else g.detach() for g in first], second

    return Case(run, observe=leaves, forward_only=True)
