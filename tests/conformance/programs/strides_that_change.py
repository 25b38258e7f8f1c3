"""Tensors whose strides a later call has otherwise, while they don't follow from the sizes: windows of larger tensors."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix

WIDTHS = (9, 12, 8, 16, 5, 9)  # of what the windows are cut from


def windows(width, rows=3, most=4, make=matrix):
    return make(rows, width)[:, -most:]


def with_windows(f, cut=windows):
    return Case(f, cut(7), then=[lambda w=w: Args(cut(w)) for w in WIDTHS])


@program
def last_columns_of_a_growing_matrix():
    def f(x):
        return x.sin() + 1, x.sum(0), x @ x.T, x.softmax(1)

    return with_windows(f)


@program
def their_layout_is_asked_for():
    def f(x):
        y = x.contiguous() * 2 if not x.is_contiguous() else x + 1
        return y, x.reshape(-1), x.t().clone(memory_format=torch.preserve_format).stride()

    return with_windows(f)


@program
def strides_as_numbers():
    def f(x):
        return x * x.stride(0), x.stride(), x.numel() // x.stride(0)

    return with_windows(f)


@program
def views_of_them():
    def f(x):
        return x[1:].cos(), x[:, ::2] * 3, x.unfold(1, 2, 1).sum(-1), x.as_strided((2, 2), (x.stride(0), 1)) - 1, x.T[0]

    return with_windows(f)


@program
def one_row():
    def f(x):
        return x.view(-1) * 2, x.flatten().cumsum(0), x + torch.arange(x.shape[1])

    return with_windows(f, lambda w: windows(w, rows=1))


@program
def three_dimensions():
    def f(x):
        return x.transpose(0, 1).reshape(x.shape[1], -1), x.sum((0, 2)), (x @ x.transpose(1, 2)).exp()

    return with_windows(f, lambda w: matrix(2 * w, 3).view(2, w, 3)[:, -4:])


@program
def columns_at_a_distance():
    def f(x):
        return x * 2, x.sum(1), x.argmax(1)

    return Case(f, matrix(3, 12)[:, ::2], then=[lambda s=s: Args(matrix(3, 6 * s)[:, ::s]) for s in (3, 4, 1, 2, 5)])


@program
def written_windows():
    def f(x):
        x += 1
        x[0].mul_(2)
        return x.sum(), x

    return with_windows(f)


@program
def gradients_through_windows():
    def f(x):
        return (x.sin() * x).sum(1), x.reshape(-1)[1:] * 2

    return with_windows(f, lambda w: windows(w, make=lambda *sizes: matrix(*sizes).requires_grad_()))


@program
def turned_and_straight_in_turn():
    def f(x):
        return x * 2 + 1, x.sum(0)

    shapes = [matrix(4, 6), matrix(6, 4).T, matrix(8, 5)[::2, :].T, matrix(4, 9)[:, 3:], matrix(9, 4)[:6].T]
    return Case(f, matrix(4, 5), then=[lambda t=t: Args(t) for t in shapes])


@program
def items_of_a_list():
    def f(xs):
        return [x * 2 for x in xs], sum(x.sum() for x in xs)

    def lists(w):
        return [windows(w), windows(w + 2)]

    return Case(f, lists(7), then=[lambda w=w: Args(lists(w)) for w in WIDTHS])


def _columns(n):
    """Of rows of five: with all five it is dense, and for no other number."""
    return (torch.arange(20.0).reshape(4, 5) * 0.5 + 1)[:, :n]


@program
def dense_for_one_size_only():
    def f(x):
        x.mul_(2)
        rows, turned = x[1:3], x.t()
        rows.add_(1)
        turned[0].sub_(3)
        return rows * 1, turned.sin(), x.exp(), x + x.t().sum(), x.flatten()

    return Case(f, _columns(4), then=[lambda n=n: Args(_columns(n)) for n in (5, 3, 5, 2)], forward_only=True)


@program
def dense_for_one_size_only_in_a_backward():
    def f(x):
        y = x * 2
        return y.sin().t(), y.exp(), (y @ y.t()).relu()

    def grown(n):
        return _columns(n).requires_grad_()

    return Case(f, grown(4), then=[lambda n=n: Args(grown(n)) for n in (5, 3, 5, 2)])
