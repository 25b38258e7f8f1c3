"""Subscripts of tensors by integers that a later call has otherwise, and sequences of such integers."""

import math
from typing import NamedTuple

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector

PLACES = (2, 0, 3, -1, -4, 4, 1, 5, True, 2)  # 4 and 5 are out of range


def with_places(f, make=lambda: matrix(4, 4), first=1, places=PLACES):
    return Case(f, make(), first, then=[lambda n=n: Args(make(), n) for n in places])


@program
def rows_and_single_numbers():
    def f(x, n):
        return x[n] * 2, x[n, 0] + x[0, n], x[n, n].sin(), n

    return with_places(f)


@program
def places_among_slices():
    def f(x, n):
        return x[:, n] + 1, x[..., n] * 2, x[1:, n].sum(), x[n, None], x[None, n, :, None], x[n, ::2]

    return with_places(f)


@program
def places_among_tensors():
    def f(x, n):
        rows = torch.tensor([2, 0, 2])
        return x[n, rows] + x[rows, n], x[x[:, 0] >= 1, n], x[n, x[0] > 0.25]

    return with_places(f)


@program
def places_that_are_refused():
    def f(x, n):
        outcomes = []
        for take in (lambda: x[n], lambda: x[n, 0], lambda: x[0, 0, n], lambda: x.sum()[n], lambda: x[..., n, ...]):
            try:
                outcomes.append(take() * 2)
            except (IndexError, TypeError) as error:
                outcomes.append(str(error))
        return outcomes

    return with_places(f)


@program
def written_places():
    def f(x, n):
        y, z = x.clone(), x * 2
        y[n] = 7.0
        y[n, 1] = -1
        y[:, n] += z[n]
        z[n, torch.tensor([0, 2])] = 5.0
        z[..., n] = z[0, n].clone()
        return y, z

    return with_places(f)


# What stands beside the number that changes.
NEIGHBOURS = (1, True, None, Ellipsis, slice(None), 1, slice(0, 2), False, 0, None, 1)


def with_subscripts(f):
    keys = [key for n, other in zip(PLACES, NEIGHBOURS) for key in ((n, other), (other, n))]
    return Case(f, matrix(4, 4), (1, 1), then=[lambda key=key: Args(matrix(4, 4), key) for key in (*keys, (2, 1), (1, 2))])


@program
def subscripts_from_outside():
    def f(x, key):
        return x[key] * 2

    return with_subscripts(f)


@program
def subscripts_from_outside_that_are_written():
    def f(x, key):
        y = x.clone()
        y[key] = 7.0
        x[key] = y.sum()
        return y

    return with_subscripts(f)


@program
def sequences_from_outside_with_other_items():
    def f(x, listed):
        return x * listed[0], sum(listed), max(listed), min(listed), listed + (2,), 3 in listed, listed == (2, 3), torch.zeros(listed), math.prod(listed)

    sizes = ((2, 3), (3, 3), (4, 3), (4, 2), (4, True), (True, 4), (0, 2), (5, 0), (2, 3))
    return Case(f, vector(), (1, 3), then=[lambda s=s: Args(vector(), s) for s in sizes])


@program
def numbers_put_behind_a_list_from_outside():
    def f(x, listed, n):
        listed.append(n)
        return x * sum(listed), math.prod(listed), max(listed), min(listed), listed

    return Case(f, vector(), [1, 2], 3, then=[lambda n=n, m=m: Args(vector(), [m, 2], n) for n, m in ((4, 1), (5, 1), (1, 7), (0, 7), (9, 2))])


@program
def written_places_of_an_input():
    def f(x, n):
        x[n, :2] = x[n, 2:]
        return x.sum()

    return with_places(f)


@program
def gradients_of_places():
    def f(x, n):
        return (x[n] * x[n - 1]).sum() + x[:, None][n, 0]

    return Case(f, leaf(5), 1, then=[lambda n=n: Args(leaf(5), n) for n in (2, 0, 4, -1, 3)])


@program
def views_of_places():
    def f(x, n):
        part = x[n]
        part.add_(1)
        return part, x

    return with_places(f, places=(2, 0, 3, -1))


@program
def sizes_in_sequences():
    def f(x, listed, paired):
        a, b = listed
        made = torch.zeros(paired), x.new_ones(listed), x[:1].expand(*listed), torch.full([n + 1 for n in listed], 2.0)
        return made, a * b, list(paired), [*listed, 4], paired + (1,), listed[:1], sum(listed), max(paired), tuple(listed)

    sizes = ((2, 3), (3, 3), (4, 2), (1, 5), (0, 2), (2, 7))
    return Case(f, vector(1), [2, 2], (3, 2), then=[lambda s=s: Args(vector(1), list(s), s[::-1]) for s in sizes])


class Pair(NamedTuple):
    height: int
    width: int


class Listed(list):
    pass


@program
def sizes_in_sequences_of_classes():
    def f(x, pair, listed):
        y = x.view(pair) * 2, x.view(listed) + 1, x.view(Pair(pair.width, pair.height)).sin(), x.reshape([*listed])
        return y, pair.height * pair.width, torch.zeros(listed[0]), listed

    return Case(f, vector(24), Pair(2, 12), Listed([3, 8]), then=[lambda n=n: Args(vector(24), Pair(n, 24 // n), Listed([24 // n, n])) for n in (3, 4, 6, 24, 1)])


@program
def sequences_that_are_compared():
    def f(x, listed, paired):
        found = 3 in listed, (2, 3) == paired, listed == [2, 3], sorted(listed), listed.index(listed[1]), listed.count(3)
        return x * 2, found, str(paired), {paired: 1}

    sizes = ((2, 3), (3, 3), (4, 2), (3, 5), (0, 2))
    return Case(f, vector(), [2, 2], (3, 2), then=[lambda s=s: Args(vector(), list(s), s) for s in sizes])


@program
def numbers_in_dicts():
    def f(x, named):
        total = sum(named.values())
        named["c"] = named["a"] + 1
        return x * total, [(k, v * 2) for k, v in named.items()], named, dict(named, b=0)

    return Case(f, vector(), {"a": 2, "b": 3}, then=[lambda n=n: Args(vector(), {"a": n, "b": n * 3}) for n in (3, 4, 0, -2, 2.5, True)])


@program
def a_shape_from_outside():
    def f(x, shape):
        a, b = shape
        made = torch.zeros(*shape), torch.ones(shape).view(-1), x.new_zeros(shape[::-1])
        return made, a * b, len(shape), shape.numel(), shape, [shape, shape], tuple(shape) == (a, b)

    shapes = ((3, 2), (4, 5), (1, 2), (0, 3), (6, 6))
    return Case(f, vector(), torch.Size((2, 2)), then=[lambda s=s: Args(vector(), torch.Size(s)) for s in shapes])


@program(whole=False)
def a_shape_that_lives_across_a_break():
    def f(x):
        shape = x.shape
        torch._dynamo.graph_break()
        return (x * 2).reshape(-1).view(shape), shape

    return Case(f, matrix(2, 3), then=[lambda n=n: Args(matrix(n, n + 1)) for n in (3, 4, 1, 0, 5)])


@program(whole=False)
def which_shape_it_is():
    def f(x, shape, other):
        return x * len(shape), shape is other, shape is shape

    def shapes(n, same):
        shape = torch.Size((n, 2))
        return Args(vector(), shape, shape if same else torch.Size((n, 2)))

    return Case(f, vector(), torch.Size((2, 2)), torch.Size((3, 2)), then=[lambda n=n: shapes(n, n % 2) for n in (3, 4, 5, 6)])
