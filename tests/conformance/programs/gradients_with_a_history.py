"""Gradients of a graph's results that keep a history themselves (create_graph=True), of some of the results."""

import torch

from conformance.program import Case, program
from conformance.sample import leaf


@program(whole=False)
def of_one_of_two_results():
    """That of the other is infinite: zeros for it would make it no number."""

    def f(x):
        first, second = x * x, x.sqrt()
        torch._dynamo.graph_break()
        (g,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        return g, second

    return Case(f, leaf(3, 0.0), forward_only=True)


@program(whole=False)
def beside_a_result_that_is_used_up():
    def f(x):
        y = x * 2
        first, second = y - y, y * y
        torch._dynamo.graph_break()
        second.sum().backward()
        (g,) = torch.autograd.grad(first.sum(), y, create_graph=True, retain_graph=True)
        return g, x.grad

    return Case(f, leaf(), forward_only=True)


@program(whole=False)
def of_a_sum_and_of_one_part():
    def f(x, w):
        first, second = (x * w).exp(), x.sin() * w
        torch._dynamo.graph_break()
        found = []
        for total in (first.sum(), (first + second).sum(), second.sum()):
            a, b = torch.autograd.grad(total, (x, w), create_graph=True)
            found += [a, b, *torch.autograd.grad((a * b).sum(), (x, w), retain_graph=True)]
        return [t.detach() for t in found]

    return Case(f, leaf(), leaf(3, 0.5), forward_only=True)
