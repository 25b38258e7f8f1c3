"""Counters that hand out numbers, by which something is put into a dict, found and removed: handles, jobs, hooks."""

import collections

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


class Handle:
    following = 0

    def __init__(self, where):
        self.where, self.id = where, Handle.following
        Handle.following += 1

    def remove(self):
        if self.id in self.where:
            del self.where[self.id]


def fresh_handles(start=3):
    Handle.following = start


@program
def put_there_and_removed():
    kept = {}
    fresh_handles()

    def f(x):
        handle = Handle(kept)
        kept[handle.id] = x * 2
        y = kept[handle.id] + 1
        handle.remove()
        return y, len(kept)

    return Case(f, vector(3), observe=kept, look=lambda: Handle.following, then=[lambda: None] * 3)


@program
def several_at_once():
    kept = collections.OrderedDict()
    fresh_handles()

    def f(x):
        handles = [Handle(kept) for _ in range(3)]
        for factor, handle in enumerate(handles):
            kept[handle.id] = x * factor
        total = sum(kept.values())
        handles[1].remove()
        left = [value for _, value in kept.items()]
        for handle in handles:
            handle.remove()
        return total, left, [handle.id for handle in handles]

    return Case(f, vector(3), observe=kept, look=lambda: Handle.following, then=[lambda: None] * 3)


@program
def left_there():
    kept = {"name": 1}
    fresh_handles()

    def f(x):
        handle = Handle(kept)
        kept[handle.id] = len(kept)
        return x + 1, handle.id

    return Case(f, vector(3), observe=kept, look=lambda: Handle.following, then=[lambda: kept.pop(3), lambda: kept.clear(), lambda: None])


@program
def numbers_that_meet_others():
    kept = {5: 1.0, 8: 2.0}

    def f(x, n):
        kept[n] = 3.0
        found = kept[5]
        return x * found, kept.get(8), sorted(kept)

    return Case(f, vector(3), 2, observe=kept, then=[lambda n=n: Args(vector(3), n) for n in (3, 4, 5, 6, 8, 7)])


@program
def put_over_what_is_there():
    kept = {5: 1.0, 8: 2.0}

    def f(x, n):
        kept[n] = 3.0
        return x * 2, len(kept), [value for value in kept.values()]

    def again(n):
        def change():
            kept.clear()
            kept.update({5: 1.0, 8: 2.0})
            return Args(vector(3), n)

        return change

    return Case(f, vector(3), 2, observe=kept, then=[again(n) for n in (3, 4, 5, 6, 8, 7)])


def of_a_new_dict(look):
    def f(x, n):
        made = {}
        made[n] = 1
        return x * 2, look(made), len(made)

    return Case(f, vector(3), 2, then=[lambda n=n: Args(vector(3), n) for n in (3, 4, 5, 6, 5)])


@program
def got_by_another_key():
    return of_a_new_dict(lambda made: made.get(5))


@program
def asked_for_another_key():
    return of_a_new_dict(lambda made: 5 in made)


@program
def asked_for_another_key_by_its_view():
    return of_a_new_dict(lambda made: (5 in made.keys(), (5, 1) in made.items()))


@program
def put_beside_another_key():
    return of_a_new_dict(lambda made: made.setdefault(5, 7))


@program
def written_beside_another_key():
    return of_a_new_dict(lambda made: made.__setitem__(5, 7))


@program
def copied_beside_another_key():
    return of_a_new_dict(lambda made: len({**made, 5: 7}))


@program
def looked_for_as_others():
    def f(x, n):
        made = {n: 1, "a": 2}
        copy, merged = dict(made), {**made, 5: 7}
        both = dict(made.items())
        both.update({5: 9})
        return x + n, copy, merged, both, 5 in made, made.get(5), 5 in made.keys(), (5, 1) in made.items(), made == {5: 1, "a": 2}

    return Case(f, vector(3), 2, then=[lambda n=n: Args(vector(3), n) for n in (3, 4, 5, 6, 8, 5)])


@program
def changed_in_every_way():
    kept = {}

    def f(x, n):
        kept[n] = x
        kept[n + 1] = 2
        kept.setdefault(5, 3)
        last = kept.pop(6, None)
        kept[7] = last
        return list(kept), {*kept, 9}, {key: 1 for key in kept}, len({*kept.keys(), 5, 7})

    def cleared(n):
        def change():
            kept.clear()
            return Args(vector(3), n)

        return change

    return Case(f, vector(3), 1, observe=kept, then=[cleared(n) for n in (2, 3, 4, 5, 6, 7, 8)])


@program
def missing_keys():
    kept = {}

    def f(x, n):
        kept[n] = x
        try:
            return kept[n + 1]
        except KeyError as error:
            del kept[n]
            return x, error.args

    return Case(f, vector(3), 1, observe=kept, then=[lambda n=n: Args(vector(3), n) for n in (2, 3, 7)])


def scaled(module, args, output):
    return output * 2


@program
def hooks_of_modules():
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2)

    def f(x):
        seen = []
        handle = layer.register_forward_hook(scaled)
        before = layer.register_forward_pre_hook(lambda module, args: seen.append(len(args)))
        try:
            y = layer(x)
        finally:
            handle.remove()
            before.remove()
        return y, seen, layer(x)

    return Case(f, matrix(2, 3), then=[lambda: None] * 3, look=lambda: (len(layer._forward_hooks), len(layer._forward_pre_hooks)))


@program
def hooks_beside_others():
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2)
    layer.register_forward_hook(scaled)

    def f(x):
        with layer.register_forward_hook(lambda module, args, kwargs, output: output + len(kwargs) + 1, with_kwargs=True):
            y = layer(x)
        return y - layer(x)

    return Case(f, matrix(2, 3), then=[lambda: None] * 3, look=lambda: len(layer._forward_hooks))
