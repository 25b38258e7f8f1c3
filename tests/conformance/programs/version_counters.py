"""Tensors that count their versions together and share no memory: `y = x.detach()`, and then `y.data = z`.

Eager counts both up where one of them is written. Whether what it has saved of the other is older than that is a
question of the order in the program.
"""

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


def counting_together():
    """A leaf, and a tensor of other memory with the leaf's version counter."""
    w = leaf()
    other = w.detach()
    other.data = vector(3, 2.0)
    return w, other


def first_apart_then_together(f):
    def together():
        return Args(vector(), *counting_together())

    return Case(f, vector(), leaf(), vector(3, 2.0), then=[together, together], versions=True)


@program(whole=False)
def saved_after_the_other_is_written():
    def f(x, w, other):
        w.detach().add_(1)
        return x + (w * other).sum()

    return first_apart_then_together(f)


@program(whole=False)
def saved_before_the_other_is_written():
    """Eager's backward raises: it takes what it has saved for written."""

    def f(x, w, other):
        r = x + (w * other).sum()
        with torch.no_grad():
            other.add_(1)
        return r

    def g(x, w, other):
        r = x + (w * w).sum()
        with torch.no_grad():
            other.add_(1)
        return f(r, w, other)

    return first_apart_then_together(g)


@program(whole=False)
def both_are_written():
    def f(x, w, other):
        with torch.no_grad():
            w.add_(1)
            other.mul_(2)
            other.add_(1)
        return x * other

    return first_apart_then_together(f)


@program(whole=False)
def at_the_first_call():
    w, other = counting_together()

    def f(x):
        w.detach().add_(1)
        return x + (w * other).sum()

    return Case(f, vector(), observe=[w, other], versions=True, then=[lambda: None])


@program(whole=False)
def parted_between_the_calls():
    """They are one memory, then two that count together, then one again."""
    w = torch.nn.Parameter(matrix(3, 3))
    other = w.detach()

    def f(x):
        w.detach().add_(1)
        return x + (w * other).sum()

    def part():
        other.data = other * 2 + 1

    def join():
        other.data = w.data

    return Case(f, vector(), observe=[w, other], versions=True, then=[part, join, part])


@program(whole=False)
def parted_inside():
    w = leaf()

    def f(x):
        other = w.detach()
        other.data = x.detach() * 2
        other.add_(1)
        r = x + (w * other).sum()
        return r, other

    return Case(f, vector(), observe=[w], versions=True, then=[lambda: None])


@program(whole=False)
def two_results():
    def f(x):
        y = x * 2
        z = y.detach()
        z.data = x + 1
        y.add_(1)
        return y, z

    return Case(f, vector(), versions=True, then=[lambda: None])


@program(whole=False)
def a_view_with_other_memory():
    """Autograd still takes it for a view of what it was a part of."""
    base = matrix(2, 3)
    part = base[0]

    def f(x):
        part.add_(1)
        return x * part + base[1]

    def part_it():
        part.data = vector()

    return Case(f, vector(), observe=[base, part], versions=True, then=[part_it, lambda: None])
