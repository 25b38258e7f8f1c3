"""Addresses of objects as keys of dicts and members of sets that the program makes, with other objects in each call."""

from conformance.program import Args, Case, program
from conformance.sample import vector

CALLS = 10


@program(whole=False)
def of_an_object_made_inside():
    def f(x):
        part = [1]
        memo = {id(part): "known"}
        return x + len(memo), memo.get(id(part)), memo.get(id(memo))

    return Case(f, vector(), then=[lambda: None] * CALLS)


@program(whole=False)
def of_arguments():
    def f(x, parts):
        seen = {}
        for part in parts:
            seen.setdefault(id(part), []).append(part[0])
        return x * len(seen), list(seen.values())

    def others():
        first, second = [1], [2]
        return Args(vector(), [first, second, first])

    return Case(f, vector(), [[1], [2], [3]], then=[others] * CALLS)


@program(whole=False)
def in_a_set_that_is_returned_as_a_size():
    def f(x, parts):
        return x * len({id(part) for part in parts})

    return Case(f, vector(), [[1], [2]], then=[lambda: Args(vector(), [[]] * 3)] * CALLS)
