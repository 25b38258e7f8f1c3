"""Operands that eager's operators refuse where they stand, and that their metadata would let pass."""

import torch
from torch.nn import functional

from conformance.program import Args, Case, program
from conformance.sample import vector


@program(whole=False)
def numbers_that_are_tensors_with_dimensions():
    def f(x, mask, value):
        out = []
        for operate in (
            lambda: x.masked_fill(mask, value),
            lambda: x.clone().masked_fill_(mask, value),
            lambda: x.clone().fill_(value),
            lambda: x.index_fill(0, torch.tensor([1]), value),
        ):
            try:
                out.append(operate())
            except RuntimeError as e:
                out.append(str(e)[:60])
        return out

    return Case(f, vector(), vector() > 1.2, vector(), then=[lambda: Args(vector(), vector() > 0, torch.tensor(3.0))])


def outcomes(*operations):
    """What each gives or raises; nobody reads the results."""
    out = []
    for operate in operations:
        try:
            out.append(tuple(operate().shape))
        except (RuntimeError, IndexError) as e:
            out.append(f"{type(e).__name__}: {str(e)[:60]}")
    return out


@program(whole=False)
def operands_without_elements():
    def f(x, y):
        found = outcomes(
            lambda: y.max(),
            lambda: y.abs().min(),
            lambda: y.median(),
            lambda: y.sum(),
            lambda: y.prod(),
            lambda: y.argmax(),
            lambda: y.mode(0)[0],
            lambda: y.sort(-1)[0],
            lambda: functional.adaptive_avg_pool1d(y, 2),
            lambda: functional.conv1d(y[None], y[None]),
            lambda: functional.batch_norm(y, None, None, training=True),
            lambda: y.mT @ y,
            lambda: functional.linear(y, y),
        )
        return x + 1, found

    empty = [lambda s=s: Args(vector(), torch.zeros(s)) for s in ((0, 3), (3, 0), (0, 0))]
    return Case(f, vector(), torch.ones(2, 3), then=empty, forward_only=True)


@program(whole=False)
def a_maximum_of_nothing_in_a_graph_that_writes():
    def f(x, y):
        x = x + y.abs().max()
        y.detach().fill_(3)
        x = x + y.sum() + torch.var_mean(torch.cat([x, x + 1]), 0, correction=0)[1]
        return x

    return Case(f, vector(), torch.ones(2, 3), then=[lambda: Args(vector(), torch.zeros(0, 3)), lambda: Args(vector(), torch.ones(1, 3))])


@program(whole=False)
def an_error_before_the_first_write():
    def f(x, y):
        x = x + 1
        x = x + torch.as_strided(y, (2,), (0,)).sum()
        y.detach().add_(1)
        return x

    return Case(f, vector(), vector(), then=[lambda: Args(vector(), vector(1)[1::2]), lambda: Args(vector(), vector(4))], versions=True)


@program(whole=False)
def sums_that_do_not_fit():
    def f(x, c):
        found = outcomes(
            lambda: torch.addmm(c, torch.ones(2, 5), torch.ones(5, 4)),
            lambda: torch.addmv(c, torch.ones(2, 5), torch.ones(5)),
            lambda: torch.baddbmm(c, torch.ones(2, 3, 5), torch.ones(2, 5, 4)),
            lambda: torch.addbmm(c, torch.ones(2, 3, 5), torch.ones(2, 5, 4)),
            lambda: functional.linear(torch.ones(2, 2, 5), torch.ones(4, 5), c),
            lambda: torch.bucketize(x, c),
            lambda: functional.conv1d(torch.ones(1, 4, 8), torch.ones(3, 2, 3), groups=c.dim()),
        )
        return x + 1, found

    others = (torch.ones(4), torch.ones(2, 4), torch.ones(1), torch.ones(()), torch.ones(2, 3, 4))
    return Case(f, vector(), torch.ones(3), then=[lambda c=c: Args(vector(), c) for c in others])


@program(whole=False)
def operands_that_do_not_fit_what_is_written():
    """Meta kernels that torch generates for in-place operators look at nothing. Nobody reads the results."""

    def f(x, y, n, index):
        return outcomes(
            lambda: x.clone().floor_divide_(y),
            lambda: n.clone().floor_divide_(y),
            lambda: n.clone().floor_divide_(2.5),
            lambda: y.clone().floor_divide_(x),
            lambda: x.clone().index_fill_(5, index, 1.0),
            lambda: x.clone().index_fill_(0, index.view(1, 2), 1.0),
            lambda: x.clone().put_(index, torch.ones(3)),
            lambda: x.clone().put_(index, torch.ones(2)),
            lambda: x.clone().put_(x, torch.ones(3)),
            lambda: x.clone().addbmm_(torch.ones(3, 4), torch.ones(4, 1)),
            lambda: x.clone().addbmm_(torch.ones(2, 3, 4), torch.ones(3, 4, 1)),
            lambda: x.clone().masked_fill_(y > 0, 1.0),
            lambda: x.clone().masked_scatter_(y > 0, y),
            lambda: torch.embedding_renorm_(x.clone(), x, 1.0, 2.0),
            lambda: x.clone().renorm_(2, 5, 1.0),
        )

    return Case(f, torch.ones(3, 1), torch.ones(3, 4), torch.ones(3, 1, dtype=torch.int64), torch.tensor([0, 1]))


@program(whole=False)
def sizes_that_change_and_do_not_fit_what_is_written():
    def f(x, y, index):
        return outcomes(
            lambda: x.clone().floor_divide_(y),
            lambda: x.clone().put_(index, torch.ones(2)),
            lambda: x.clone().put_(index, y.flatten()),
        )

    sizes = ((3, 3, 2), (4, 4, 3), (5, 1, 2), (1, 5, 5), (6, 5, 1), (2, 2, 2))
    first, *others = [(torch.ones(a, 1), torch.ones(b, 1), torch.arange(c) % a) for a, b, c in sizes]
    return Case(f, *first, then=[lambda given=given: Args(*given) for given in others])
