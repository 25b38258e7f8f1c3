"""requires_grad_() and requires_grad = True of tensors that a program is given."""

import torch

from conformance.program import Case, program
from conformance.sample import leaf, matrix, vector


def _linear(rows):
    model = torch.nn.Linear(3, rows)
    with torch.no_grad():
        model.weight.copy_(matrix(rows) - 0.5)
        model.bias.fill_(0.25)
    return model


@program
def gradient_by_an_argument():
    def f(x):
        x.requires_grad_(True)
        energy = (x**2).sin().sum()
        (force,) = torch.autograd.grad(energy, x)
        return energy.detach(), -force, x.requires_grad

    return Case(f, vector(), forward_only=True)


@program
def history_of_what_comes_after():
    def f(x):
        before = x * 2
        x.requires_grad = True
        after = x * 3
        return before.requires_grad, after, x.is_leaf, (before + after).sum()

    return Case(f, vector())


@program
def gradients_accumulated_inside():
    def f(x, w):
        x.requires_grad_()
        (x * w).sum().backward()
        return x.grad, w.grad

    return Case(f, vector(), leaf(), forward_only=True)


@program
def argument_that_nothing_is_computed_of():
    def f(x, y):
        x.requires_grad_()
        return y * 2, x.requires_grad

    return Case(f, vector(), vector(3, 2.0), then=[lambda: None], forward_only=True)


@program(whole=False)
def gradient_penalty_of_a_model():
    model = _linear(1)

    def f(x):
        mixed = (x * 0.5).detach().requires_grad_()
        score = model(mixed).sum()
        (gradient,) = torch.autograd.grad(score, mixed, create_graph=True)
        return ((gradient.norm(dim=1) - 1) ** 2).mean()

    return Case(f, matrix(), forward_only=True)


@program(whole=False)
def views_and_writes_of_the_argument():
    def f(x):
        part = x[1:]
        x.requires_grad_()
        return part.requires_grad, part, x[0].requires_grad, (x * 2).sum()

    return Case(f, vector(), forward_only=True)


@program(whole=False)
def asked_for_no_gradient_again():
    def f(x, w):
        w.requires_grad_(False)
        y = x * w
        w.requires_grad_()
        x.requires_grad_()
        x.requires_grad_(False)
        return y.requires_grad, (x * w).sum()

    return Case(f, vector(), leaf(), forward_only=True)


@program(whole=False)
def error_after_it_was_asked_for():
    def f(x, i):
        x.requires_grad_()
        return (x * 2)[i]

    def run(x, i):
        try:
            return f(x, i)
        except IndexError:
            return x.requires_grad

    return Case(run, vector(), torch.tensor([7]), forward_only=True)
