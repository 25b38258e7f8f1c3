"""Sizes that a later call has otherwise, where the first ones happen to be special."""

import collections
import typing

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix


def with_widths(f, widths, rows=4, wide=5):
    # Strides are those of the whole; the first width is the whole one.
    return Case(f, matrix(rows, wide)[:, : widths[0]], then=[lambda w=w: Args(matrix(rows, wide)[:, :w]) for w in widths[1:]])


@program
def dense_for_the_first_width_only():
    def f(x):
        y = x.t()
        x.add_(1)
        x[1:].mul_(2)
        return y.clone(), x.sum(), x.view(x.shape).stride()

    return with_widths(f, (5, 3, 2, 4, 5))


@program
def written_part_by_part():
    def f(x):
        y = x.clone()
        y[:, : x.shape[1] // 2].add_(1)
        y[1].fill_(x.shape[1])
        y.view(-1)[::2].neg_()
        return y

    return with_widths(f, (4, 3, 2, 5))


@program
def sizes_that_come_to_be_equal():
    def f(x, y):
        z = x.view(-1) + y
        return z.view(x.shape) * 2, z.view(2, -1).sum(0), torch.cat([z, y])

    calls = [(2, 4), (3, 4), (2, 6), (5, 2)]
    return Case(f, matrix(4, 4), torch.arange(16.0), then=[lambda c=c: Args(matrix(*c), torch.arange(float(c[0] * c[1]))) for c in calls])


@program
def norms_of_batches():
    def f(x):
        y = torch.nn.functional.batch_norm(x, None, None, training=True)
        return y, x.var(0), x.std(), x.softmax(0), x.logsumexp(1), x.amax(0)

    return Case(f, matrix(4, 6), then=[lambda n=n: Args(matrix(n, 6)) for n in (5, 2, 9, 17)])


@program
def often_the_same_and_then_another():
    def f(x, v):
        return (x * v).relu().sum(1) + x.shape[0]

    sizes = [3, 4, 4, 4, 4, 4, 5, 4, 3, 3, 3, 3, 6]
    return Case(f, matrix(2, 3), 0.5, then=[lambda n=n, i=i: Args(matrix(n, 3), 0.5 + i / 8) for i, n in enumerate(sizes)])


@program
def shapes_put_together():
    def f(x):
        shape = x.shape[:-1] + (2, x.shape[-1] // 2)
        same = x.shape == x.t().shape, x.size() != shape, x.shape == tuple(x.shape), (x.shape[0], 6) == x.shape
        return x.view(shape), x.view((-1,) + x.shape[1:]), x.reshape([*x.shape[:1]] + [3, 2]), type(shape), same

    return Case(f, matrix(4, 6), then=[lambda n=n: Args(matrix(n, 6)) for n in (5, 6, 9, 2)])


@program
def cache_that_begins_without_elements():
    cache = []

    def f(x):
        old = cache.pop() if cache else torch.tensor([])
        keys = torch.cat([old, x.transpose(0, 1)], dim=-2)
        cache.append(keys)
        return keys.shape, keys * 2, torch.cat([x.new_zeros(0), x]), torch.cat([x, x.new_zeros(0), x], 1)

    then = [lambda n=n: (cache.clear(), Args(matrix(3, n)))[1] for n in (5, 2, 7)]
    return Case(f, matrix(3, 4), observe=cache, then=[*then, lambda: Args(matrix(3, 2))])


@program
def elements_beside_none_that_do_not_fit():
    def f(x, y):
        try:
            return torch.cat([x, y])
        except RuntimeError as error:
            return str(error)

    return Case(f, matrix(2, 3), torch.zeros(0, 4), then=[lambda: Args(matrix(5, 3), torch.zeros(0)), lambda: Args(matrix(4, 3), torch.zeros(0, 3))])


@program
def parts_that_have_one_element_here():
    def f(x, w):
        first = w[..., ::2].tensor_split(2)[0]
        return torch.where(first > x, first, x), first * x.mT, x + w[: w.shape[0] // 4]

    def make(n, m):
        return Args(torch.arange(2.0 * n).view(2, 1, n), torch.arange(float(m)) + 1)

    return Case(f, *make(4, 4).args, then=[lambda n=n, m=m: make(n, m) for n, m in ((5, 5), (4, 4), (6, 4), (7, 7), (4, 5))])


@program
def extremes_of_all():
    def f(x):
        low, high = x.min(), x.max()
        middle = x.median() + x.nanmedian()
        (gradient,) = torch.autograd.grad((low * high + middle) * x.sum(), x)
        return low, high, middle, gradient

    def part(rows, columns):
        return matrix(rows, columns).mul(3).round().requires_grad_()

    return Case(f, part(4, 5), then=[lambda c=c: Args(part(*c)) for c in ((3, 5), (2, 4), (6, 5), (1, 3), (4, 5))])


@program
def numbers_in_steps():
    def f(x):
        n = x.shape[0]
        even = torch.linspace(-1, 1, n) + torch.logspace(0, 1, steps=n, base=2.0)
        return x * even, torch.linspace(0, n - 1, 4), torch.arange(0, n, 0.5), torch.arange(0, 1, 1 / n), torch.randperm(n).sum()

    return Case(f, matrix(3, 4)[:, 0], then=[lambda n=n: Args(torch.arange(float(n))) for n in (5, 2, 7, 1, 4)])


@program
def numbers_beside_tensors_in_code_of_torchs_own():
    def f(x, y):
        return torch.nn.functional.kl_div(x, y, reduction="batchmean"), torch.nn.functional.kl_div(y, x, reduction="batchmean")

    return Case(f, matrix(3, 4), matrix(3, 4), then=[lambda n=n: Args(matrix(n, 4), matrix(n, 4)) for n in (5, 2, 7, 1)])


def _masks(f, *more):
    """Masks of other sizes; the later calls have the outcomes of the earlier ones, and others, at sizes of their own."""
    masks = [(4, 4), (5, 5), (6, 6), (7, 3), (5, 4), (9, 9), (3, 2), (7, 7)]
    calls = [(matrix(2, n), (torch.arange(n) < true).expand(2, n).clone(), *[m(n) for m in more]) for n, true in masks]
    return Case(f, *calls[0], then=[lambda c=c: Args(*c) for c in calls[1:]])


@program
def sums_of_masks_of_other_sizes():
    def f(x, mask):
        if mask.sum() == mask.numel():
            return x * 2
        if mask.sum() >= mask.shape[1]:
            return x - 1
        return torch.where(mask, x, 0.0)

    return _masks(f)


@program
def masks_cut_at_a_number_that_changes():
    def f(x, mask, n):
        seen = mask[:, torch.arange(n)]
        if seen.sum() == seen.numel():
            return x * 2
        return x + seen.sum(1, keepdim=True)

    return _masks(f, lambda n: n - 1)


@program
def truths_that_follow_from_sizes_alone():
    def f(x, mask, n):
        steps = torch.arange(n)
        if (steps * 2 >= x.shape[1]).any():
            return x * 2
        return x - (steps < n // 2).sum()

    return _masks(f, lambda n: n - 3 if n > 5 else 1)


class Sized(typing.NamedTuple):
    rows: int
    of: torch.Tensor


Span = collections.namedtuple("Span", "first last")


@program
def sizes_in_a_namedtuple():
    def f(x):
        sized = Sized(x.shape[0], x)
        span = Span(first=x.shape[1], last=sized.rows * 2)
        return sized.of * sized.rows + span.last, span, sized.of.new_zeros(span.first)

    return with_widths(f, (5, 3, 2, 4, 5))


@program
def sizes_in_a_tuple_of_the_program():
    class Shape(tuple):
        def __new__(cls, *sizes):
            return super().__new__(cls, sizes)

    def f(x):
        shape = Shape(x.shape[0], x.shape[1])
        return x * shape[0] + len(shape), shape[1]

    return with_widths(f, (5, 3, 2, 4, 5))
