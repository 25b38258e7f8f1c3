"""An argument that is a view is written without gradients: its history is made anew when somebody asks for it. What was
computed from it before leads to the history that it had, and what is computed behind the write to the new one.
"""

import torch

from conformance.program import Case, program
from conformance.sample import leaf


def _asked(*functions, view=lambda a: (a * 2)[:]):
    """Of each, the gradient of the view itself, of another argument and of what the view is of, and second derivatives."""
    leaves = [leaf(), leaf(3, 0.5)]

    def run():
        found = []
        for f in functions:
            a, w = [t * 0.5 for t in leaves]
            x = view(a)
            torch._dynamo.graph_break()
            y = f(x, w)
            torch._dynamo.graph_break()
            first = torch.autograd.grad(y.sum(), (x, a, w), create_graph=True, allow_unused=True)
            length = sum((g * g).sum() for g in first if g is not None)
            second = torch.autograd.grad(length, leaves, allow_unused=True)
            found += [None if g is None else g.detach() for g in (*first, *second)]
        return found

    return Case(run, observe=leaves, forward_only=True)


def _detached(x):
    x.detach().add_(0.5)


def _without_gradients(x):
    with torch.no_grad():
        x.mul_(1.5)


def _a_part(x):
    with torch.no_grad():
        x[1:].mul_(0.5)


def _by_data(x):
    x.data.mul_(3)


WRITES = (_detached, _without_gradients, _a_part, _by_data)


def _each(make):
    return _asked(*(make(write) for write in WRITES))


@program(whole=False)
def read_behind_the_write():
    def make(write):
        def f(x, w):
            write(x)
            return (x[1:] * x[1:]).sum() * w

        return f

    return _each(make)


@program(whole=False)
def read_before_the_write():
    def make(write):
        def f(x, w):
            y = (x.sin() * w).sum() * w
            write(x)
            return y

        return f

    return _each(make)


@program(whole=False)
def read_before_the_write_and_behind():
    def make(write):
        def f(x, w):
            y = x.exp().sum() * w
            write(x)
            return y + x.sum() * w * w

        return f

    return _each(make)


@program(whole=False)
def another_view_that_was_made_before():
    def make(write):
        def f(x, w):
            part = x[1:]
            write(x)
            return (part * 2).sum() * w

        return f

    return _each(make)


@program(whole=False)
def one_that_is_no_view():
    def f(x, w):
        y = x.exp().sum() * w
        _detached(x)
        return y + x.sum() * w * w

    def g(x, w):
        _without_gradients(x)
        return (x[1:] * x[1:]).sum() * w

    return _asked(f, g, view=lambda a: a * 2)


@program(whole=False)
def a_view_after_one_that_is_none():
    def f(x, w):
        y = x.sum() * w
        _detached(x)
        return y + x.sum() * w * w

    leaves = [leaf(), leaf(3, 0.5)]

    def run(view):
        a, w = [t * 0.5 for t in leaves]
        x = (a * 2)[:] if view else a * 2
        torch._dynamo.graph_break()
        y = f(x, w)
        torch._dynamo.graph_break()
        return torch.autograd.grad(y.sum(), (x, a, w), allow_unused=True)

    return Case(lambda: (run(False), run(True), run(False)), observe=leaves, forward_only=True)


@program(whole=False)
def written_by_data_in_between():
    def f(x, w):
        y = x.exp().sum() * w
        x.data[1:].add_(0.5)
        return y + x.sum() * w

    def g(x, w):
        x.detach().add_(0.5)
        y = x.exp().sum() * w
        x.data[1:].add_(0.5)
        return y + x.sum() * w

    return _asked(f, g)


@program(whole=False)
def read_between_two_writes():
    def f(x, w):
        _detached(x)
        y = x.exp().sum() * w
        _without_gradients(x)
        return y

    def g(x, w):
        y = f(x, w)
        return y + x.sum() * w

    return _asked(f, g)


@program(whole=False)
def written_with_a_history_and_without():
    def f(x, w):
        x.mul_(w)
        y = x.exp().sum() * w
        _detached(x)
        return y + x.sum()

    def g(x, w):
        y = x.exp().sum() * w
        _detached(x)
        x.mul_(w)
        return y + x.sum()

    return _asked(f, g)
