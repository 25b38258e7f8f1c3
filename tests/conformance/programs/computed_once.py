"""Operators that count their calls: a pass computes what several results share once, as eager does, and keeps what eager keeps.

What they count is no part of a graph, as in a user's own kernels.
"""

import torch

from conformance.program import Case, program
from conformance.sample import leaf, matrix

_CALLS = []


@torch.library.custom_op("conformance_counts::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    _CALLS.append(factor)
    return x * factor


@scaled.register_fake
def _(x, factor):
    return torch.empty_like(x)


def _backward(context, gradient):
    return scaled(gradient, -context.factor), None


def _setup(context, inputs, output):
    context.factor = inputs[1]


scaled.register_autograd(_backward, setup_context=_setup)


def counting(f, *args, **named):
    """What was called so far, in order, is looked at behind each call and its pass."""
    _CALLS.clear()
    return Case(f, *args, look=lambda: list(_CALLS), then=[lambda: None], **named)


def weight(start=1.0):
    return (matrix(3, 3) + start).requires_grad_()


@program
def shared_by_results_of_other_inputs():
    def f(a, b, w):
        shared = scaled(w, 2.0)
        return shared @ a, shared @ b

    return counting(f, weight(), weight(2.0), weight(3.0))


@program
def shared_by_three_results():
    def f(a, b, c, w):
        first = scaled(w, 2.0)
        second = scaled(first * c, 3.0)
        return first * a, second * b, second.sin()

    return counting(f, weight(), weight(2.0), weight(0.5), weight(3.0))


@program
def behind_what_results_share():
    def f(a, b, w):
        shared = scaled(scaled(w.sin(), 2.0) * w, 3.0)
        return (shared * a).tanh(), scaled(shared, 5.0) * b

    return counting(f, leaf(), leaf(start=2.0), leaf(start=3.0))


@program
def twice_of_one_input():
    def f(x):
        y = scaled(x, 2.0)
        return y * scaled(x, 3.0)

    return counting(f, leaf())


@program
def called_under_a_condition_of_the_program():
    def f(x, twice):
        y = scaled(x, 2.0)
        return scaled(y, 4.0) if twice else y

    return counting(f, leaf(), True)
