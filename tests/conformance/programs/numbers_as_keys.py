"""Numbers that change and are looked for: in milestones, among keys, at the end of a list that grows."""

import collections

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


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
