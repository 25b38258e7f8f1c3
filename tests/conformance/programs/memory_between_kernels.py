"""Values that kernels and operators hand on within a graph: who reads them last, and by which name."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix


def _weight():
    return (torch.arange(36.0).reshape(6, 6) * 0.41).sin()


def _twice(f, *args):
    return Case(f, *args, then=[lambda: Args(matrix(6, 6) - 1)])


@program(graphs=1)
def last_reader_of_a_product():
    w = _weight()
    return _twice(lambda x: ((x @ w).exp() + 1) @ w, matrix(6, 6) / 9)


@program(graphs=1)
def product_read_again_behind_its_kernel():
    w = _weight()

    def f(x):
        y = x @ w
        z = (y.tanh() * 2) @ w
        return z.sum(0) @ w + y.sum(0), z

    return _twice(f, matrix(6, 6))


@program(graphs=1)
def product_under_two_names_in_one_kernel():
    w = _weight()

    def f(x):
        y = x @ w
        return (y * 0.5 + y.t()) @ w, (y.view(2, 3, 6).transpose(0, 2).reshape(6, 6) - y).amax(1)

    return _twice(f, matrix(6, 6))


@program(graphs=1)
def view_of_a_product_read_again_behind_its_kernel():
    w, wide = _weight(), (torch.arange(72.0).reshape(12, 6) * 0.3).cos()

    def f(x):
        y = x @ w
        rows = y.view(3, 12)
        z = (y.tanh() * 2) @ w
        return rows @ (wide + z.sum())

    return _twice(f, matrix(6, 6))


@program(graphs=1)
def view_of_a_product_among_the_results():
    w = _weight()

    def f(x):
        y = x @ w
        return (y + 1).square() @ w, y.view(-1)[3:9], y.t()

    return _twice(f, matrix(6, 6))


@program(graphs=1)
def operator_that_returns_its_argument():
    w = _weight()

    def f(x):
        y = x @ w
        same = y.contiguous()
        z = (same * 3 - 1) @ w
        return z + y.to(torch.float32) @ w, torch.clamp(y, -1, 1)

    return _twice(f, matrix(6, 6))


@program(graphs=1)
def what_the_backward_reads():
    w = _weight()

    def f(x):
        y = x @ w
        return ((y.sigmoid() * y).view(3, 12).exp() / 50).t().tanh()

    return Case(f, matrix(6, 6).requires_grad_(), then=[lambda: Args((matrix(6, 6) - 1).requires_grad_())])


@program(graphs=1)
def two_results_of_one_kernel():
    w = _weight()

    def f(x):
        y, z = x @ w, (x + 1) @ w
        a, b = y * z, y - z
        return a @ w, b @ w, a.sum()

    return _twice(f, matrix(6, 6))


@program
def freed_within_a_step():
    """The products and the view run as one; the first of them is the last to read what the kernel made."""

    def f(x, w):
        return (torch.sin(x @ w) @ w).t() @ w

    return Case(f, matrix(64, 64), matrix(64, 64) - 1)


@program
def operators_that_free_what_they_made():
    def f(x, w):
        for _ in range(5):
            x = (x.t() @ w).t()
        return x.sin() + x

    return Case(f, matrix(64, 64) * 1e-3, matrix(64, 64) * 1e-3)
