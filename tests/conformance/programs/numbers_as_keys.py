"""Numbers that change and are looked for: in milestones, among keys, at the end of a list that grows."""

import collections

import torch
from torch import nn

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


@program
def one_of_several_milestones():
    milestones = collections.Counter([4, 6, 6, 9])

    def f(x, step):
        if step in milestones:
            return x * 0.5 ** milestones[step], step + 1
        return x + step, milestones.get(step, 7)

    return Case(f, vector(3), 2, then=[lambda n=n: Args(vector(3), n) for n in (3, 4, 5, 6, 9, 12)])


@program
def values_that_many_keys_have():
    def f(x, step, table):
        rates = {0: 1.0, 3: 0.5, 5: 0.5, 8: 1.0}
        return x * rates.get(step, 0.25), table.get(step), step in table, x * table.get(step + 1, step)

    def table():
        return {2: 7, 4: 7, 6: 9}

    return Case(f, vector(3), 2, table(), then=[lambda n=n: Args(vector(3), n, table()) for n in (3, 5, 4, 6, 8, 7)])


@program
def keys_that_are_there_for_some():
    def f(x, step, table):
        try:
            return x * table[step]
        except KeyError as error:
            return x, error.args

    return Case(f, vector(3), 2, {1: 3, 2: 3, 4: 3}, then=[lambda n=n: Args(vector(3), n, {1: 3, 2: 3, 4: 3}) for n in (1, 4, 3, 5)])


@program
def tables_that_change_beside_the_key():
    table = {1: 2, 2: 2, 3: 5}

    def f(x, step):
        return x * table[step], table.get(step + 10, -1)

    def other():
        table[2], table[3] = 5, 2
        return Args(vector(3), 3)

    def longer():
        table[14] = 11
        return Args(vector(3), 4 - 2)

    return Case(f, vector(3), 1, then=[lambda: Args(vector(3), 2), lambda: Args(vector(3), 1), other, longer, lambda: Args(vector(3), 1)])


@program
def a_table_that_the_function_writes():
    table = {1: 2, 2: 2}

    def f(x, step):
        table[3] = 9
        return x * table.get(step, 1)

    return Case(f, vector(3), 1, then=[lambda n=n: Args(vector(3), n) for n in (2, 3, 4)], observe=table)


@program
def sizes_among_keys():
    def f(x):
        width = {2: "narrow", 3: "narrow", 4: "wide"}.get(x.shape[1], "other")
        return x.sum(1) * len(width), x.shape[1] in (2, 3)

    return Case(f, matrix(2, 2), then=[lambda n=n: Args(matrix(2, n)) for n in (3, 2, 4, 5)])


@program
def the_last_of_a_list_that_grows():
    seen = []

    def f(x):
        seen.append(x * 2)
        seen.append(x + 1)
        return seen[-1] * seen[-2]

    return Case(f, vector(3), then=[lambda: None, lambda: Args(vector(3, 0.5)), lambda: None], observe=seen)


@program
def before_what_was_appended():
    seen = [torch.ones(3)]

    def f(x):
        seen.append(x)
        return seen[-2] + seen[0], len(seen)

    return Case(f, vector(3), then=[lambda: None, lambda: Args(vector(3, 0.5))], observe=seen)


@program
def places_written_with_gradients():
    def f(x):
        y = x * 1
        mask = y < 0
        y[mask] = y[mask] * 0.1
        return y.sin()

    return Case(f, leaf(6), then=[lambda: Args((vector(6) - 2).requires_grad_()), lambda: Args((vector(5) * -1).requires_grad_())])


@program
def a_mask_written_between_its_uses():
    def f(x):
        mask = x > 0
        a = x[mask]
        mask.logical_not_()
        b = x[mask]
        places = mask.nonzero()
        places.add_(0)
        return a * 2, b + 1, places, x[mask].sum()

    return Case(f, vector(6) - 2, then=[lambda: Args(vector(6) - 1), lambda: Args(3 - vector(6))])


@program
def experts_without_work():
    torch.manual_seed(0)
    experts = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))

    def f(x, which):
        result = torch.zeros_like(x)
        for i, expert in enumerate(experts):
            rows = (which == i).nonzero().squeeze(-1)
            result = result.index_add(0, rows, expert(x[rows]))
        return result

    def given(*which):
        torch.manual_seed(len(which))
        return torch.randn(len(which), 3).requires_grad_(), torch.tensor(which)

    start = given(0, 1, 2, 0, 1, 2)
    return Case(f, *start, then=[lambda w=w: Args(*given(*w)) for w in ((0, 0, 1, 1, 2), (0, 0, 1, 1), (2, 2, 2, 1, 0, 0, 2))])


@program
def products_of_any_length():
    def f(x):
        return torch.cumprod(x, -1) * 2

    def given(n, zero=None):
        x = vector(n) * 0.5
        if zero is not None:
            x[zero] = 0
        return x.requires_grad_()

    return Case(f, given(4), then=[lambda: Args(given(6)), lambda: Args(given(5, 2)), lambda: Args(given(3)), lambda: Args(given(1))])


@program
def numbers_that_are_not_none():
    def scaled(x, by=None, offset=None):
        if by is None or offset is not None:
            return x
        return x * by if by is not True else x + 1

    def f(x, n):
        return scaled(x, n), scaled(x, x.shape[0] * 2), scaled(x, n, x), scaled(x), n is x, (n + 1) is None

    return Case(f, vector(3), 4, then=[lambda n=n: Args(vector(n), n) for n in (2, 5, 7)])


@program
def numbers_and_none_by_turns():
    def f(x, n):
        return x * 2 if n is None else x * n

    return Case(f, vector(3), 4, then=[lambda n=n: Args(vector(3), n) for n in (5, None, 6, None, 2.5, 7)])


class _Word(str):
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = str.__hash__


@program
def names_that_change():
    def f(x, name):
        if name == "first" or "second" != name != "third":
            x = x + 1
        return x * 2 if name in ("a", "b") else x

    return Case(f, vector(3), "first", then=[lambda t=t: Args(vector(3), t) for t in ("a", "x", "y", "second", "b", "third", "z", "first")])


@program(whole=False)
def names_of_another_class():
    def f(x, name):
        return x * 2 if name == "first" else x + 1, name in ("a", "b")

    return Case(f, vector(3), "x", then=[lambda t=t: Args(vector(3), t) for t in (_Word("y"), "z", None, 3, b"first", "first")])


@program
def names_that_are_kept_after_all():
    kept = []

    def f(x, name):
        if name != "first":
            kept.append(name)
        return x * len(name)

    return Case(f, vector(3), "x", then=[lambda t=t: Args(vector(3), t) for t in ("y", "zz", "first", "x")], observe=kept)
