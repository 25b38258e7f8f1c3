"""Second derivatives that come to a checkpoint: what it computes again is derived, with what it writes in place."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from conformance.program import Case, program
from conformance.sample import leaf


def _twice(f, *operands):
    """The gradients of what a checkpoint gives, and the gradients of these; the graph ends before them."""

    def run(*leaves):
        y = checkpoint(f, *leaves, use_reentrant=False)
        torch._dynamo.graph_break()
        first = torch.autograd.grad((y * y).sum(), leaves, create_graph=True, allow_unused=True)
        total = sum((g * g).sum() for g in first if g is not None)
        second = torch.autograd.grad(total, leaves, allow_unused=True) if total.requires_grad else ()
        return [None if g is None else (g.detach(), g.requires_grad) for g in first], second

    return Case(run, *(operands or (leaf(),)), forward_only=True)


@program(whole=False)
def an_activation_in_place():
    return _twice(lambda x: (x * 2).exp_() * x)


@program(whole=False)
def layers_with_activations_in_place():
    layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 3), nn.Hardtanh(-20, 20, inplace=True), nn.Linear(3, 3))
    with torch.no_grad():
        for k, p in enumerate(layers.parameters()):  # numbers of few digits: sums come in another order
            p.copy_((torch.arange(p.numel()).reshape(p.shape) % 5 - k % 3) * 0.5)
    return _twice(layers)


@program(whole=False)
def several_writes_of_one_value():
    return _twice(lambda x: (x * 2).tanh_().mul_(3).add_(x).sigmoid_())


@program(whole=False)
def a_write_into_a_part():
    def f(x):
        y = x.sin()
        y[:2].mul_(x[1:3])
        return y.exp()

    return _twice(f)


@program(whole=False)
def a_formula_that_writes_in_place():
    """The backward of atan2 does, where nothing derives it."""
    return _twice(torch.atan2, leaf(), leaf())


@program(whole=False)
def an_operand_whose_gradient_is_zero():
    return _twice(torch.copysign, leaf(), leaf())


@program(whole=False)
def one_of_two_operands_without_a_gradient():
    return _twice(lambda x, y: torch.copysign(x, y) * x.detach(), leaf(), leaf())


@program(whole=False)
def draws_and_an_activation_in_place():
    def f(x):
        return nn.functional.dropout((x * 2).exp_(), 0.5) * x

    return _twice(f)


@program
def gradient_of_an_operand_that_is_zero():
    """Also where nothing is derived twice: it is there."""

    def f(x, y):
        return checkpoint(lambda a, b: torch.copysign(a, b), x, y, use_reentrant=False)

    return Case(f, leaf(), leaf())
