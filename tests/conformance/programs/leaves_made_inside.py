"""Leaves that a frame makes, which gradients go to outside of it: copies of modules, tensors that require grad."""

import copy

import torch
from conformance.program import Case, program
from conformance.sample import leaf, matrix, vector
from torch import nn


def linear(tied=False):
    layer = nn.Linear(3, 3)
    with torch.no_grad():
        for number, p in enumerate(layer.parameters()):
            p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape) + 0.25 * number)
    return layer


def passed(f):
    """Calls it, and sends a gradient back through what it gives."""

    def call(*args):
        y, leaves = f(*args)
        y.sum().backward()
        return y, [p.grad for p in leaves], [(p.is_leaf, type(p).__name__) for p in leaves]

    return call


@program(whole=False)
def copied_module():
    layer = linear()

    def f(x):
        made = copy.deepcopy(layer)
        return made(x * 2).tanh(), list(made.parameters())

    return Case(passed(f), matrix(2, 3), forward_only=True, observe=layer, then=[lambda: None] * 2)


@program(whole=False)
def copied_module_that_is_dropped():
    """No one has the leaves but the history of the result: a second pass fails as eager's."""
    layer = linear()

    def f(x):
        return copy.deepcopy(layer)(x).tanh()

    def call(x):
        y = f(x)
        y.sum().backward()
        try:
            y.sum().backward()
        except RuntimeError as error:
            return y, "second time" in str(error)
        return y, None

    return Case(call, matrix(2, 3), forward_only=True, observe=layer, then=[lambda: None])


@program(whole=False)
def averaged_copy():
    layer, other = linear(), linear()

    def f(x):
        made = copy.deepcopy(layer)
        with torch.no_grad():
            for kept, new in zip(made.parameters(), other.parameters(), strict=True):
                kept.lerp_(new * 3, 0.25)
        return made(x), list(made.parameters())

    return Case(passed(f), matrix(2, 3), forward_only=True, observe=layer, then=[lambda: None] * 2)


@program(whole=False)
def made_module():
    def f(x):
        made = nn.Linear(3, 2)
        with torch.no_grad():
            for p in made.parameters():
                p.fill_(0.5)
        return made(x), list(made.parameters())

    return Case(passed(f), matrix(2, 3), forward_only=True, then=[lambda: None])


@program(whole=False)
def beside_a_gradient_of_an_input():
    def f(x, w):
        made = (x * 3).detach().requires_grad_()
        return (made * w).sin() * x, [made, w, x]

    return Case(passed(f), leaf(), leaf(3, 2.0), forward_only=True)


@program(whole=False)
def parameter_of_a_view():
    def f(x):
        rows = x * 2
        made = nn.Parameter(rows[1:])
        with torch.no_grad():
            made.add_(1)
        return (made * made).sum(), [made], rows

    def call(x):
        y, leaves, rows = f(x)
        y.backward()
        return y, leaves[0].grad, rows

    return Case(call, matrix(3, 2), forward_only=True)


@program
def that_stays_inside():
    """Nothing outside can tell that it was there: it is no reason to end the graph."""
    layer = linear()

    def f(x):
        made = copy.deepcopy(layer)
        with torch.enable_grad():
            made(x).pow(2).sum().backward()
        return [p.grad for p in made.parameters()], made.weight.detach() * 2

    return Case(f, matrix(2, 3), forward_only=True, observe=layer, then=[lambda: None])


@program(whole=False)
def with_a_gradient_that_it_has():
    def f(x):
        made = (x * 2).detach().requires_grad_()
        (made * x).sum().backward()
        return made, [made]

    def call(x):
        made, _ = f(x)
        first = made.grad.clone()
        (made * 3).sum().backward()
        return first, made.grad

    return Case(call, vector(), forward_only=True, then=[lambda: None])
