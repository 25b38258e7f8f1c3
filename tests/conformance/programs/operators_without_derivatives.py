"""Operators that torch has no derivative for, of tensors that require grad."""

import torch

from conformance.program import Case, program
from conformance.sample import leaf


@program
def results_alone():
    def f(x):
        return x // 2, 2 // x + x, (x * 3).sum(), (x // 2).requires_grad

    return Case(f, leaf(), forward_only=True)


@program(whole=False)
def a_gradient_beside_it():
    def f(x):
        whole = x // 2
        y = (x * 3).sum()
        return whole, whole.requires_grad, y

    def run(x):
        whole, requires, y = f(x)
        y.backward()
        try:
            whole.sum().backward()
        except RuntimeError as error:
            text = str(error)
        return whole.detach(), requires, x.grad, text

    return Case(run, leaf(), forward_only=True)


@program(whole=False)
def on_the_way_to_a_result():
    def f(x, w):
        rest = x - (x // w) * w
        return rest, (w * 2).sum()

    def run(x, w):
        rest, other = f(x, w)
        try:
            rest.sum().backward()
        except RuntimeError as error:
            text = str(error)
        seen = x.grad, w.grad
        other.backward()
        return rest.detach(), text, seen, w.grad

    return Case(run, leaf(), leaf(3, 2.0), forward_only=True)


@program(whole=False)
def where_others_get_a_gradient():
    def f(x, w):
        return x // 2 + w

    def run(x, w):
        y = f(x, w).sum()
        got = torch.autograd.grad(y, w, retain_graph=True)[0].tolist()
        try:
            y.backward()
        except RuntimeError as error:
            return got, type(error).__name__, str(error), x.grad, w.grad

    return Case(run, leaf(), leaf(3, 2.0), forward_only=True)
