"""Deques with and without maxlen: what falls out at the other end, and what a call with another bound does."""

import collections

import torch

from conformance.program import Args, Case, program
from conformance.sample import Loud, vector


@program
def bound_changes_between_calls():
    def f(x, recent):
        recent.append(5)
        return x + len(recent), list(recent)

    def bounded(maxlen):
        return lambda: Args(vector(), collections.deque([1, 2], maxlen))

    return Case(f, vector(), collections.deque([1, 2]), then=[bounded(2), bounded(3), bounded(2), bounded(None)])


@program
def bounded_deque_of_tensors():
    recent = collections.deque(maxlen=2)

    def f(x):
        recent.append(x)
        recent.append(x * 2)
        recent.appendleft(x * 3)
        return torch.stack(tuple(recent)), recent.maxlen, len(recent)

    return Case(f, vector(), observe=recent, then=[lambda: None, recent.clear])


@program
def bounded_deque_made_inside():
    def f(x):
        made = collections.deque((x, 1, 2), maxlen=3)
        made.append(x * 2)
        made.rotate(1)
        return made, made.maxlen, collections.deque(maxlen=0)

    return Case(f, vector())


@program(whole=False)
def bounded_deque_around_a_break():
    kept = collections.deque([0], maxlen=2)

    def f(x):
        made = collections.deque([x], maxlen=2)
        kept.extend((x, 1))
        torch._dynamo.graph_break()
        made.extend([1, 2])
        kept.append(made)
        return made, kept

    return Case(f, vector(), observe=kept)


@program
def bounded_deque_that_loses_what_it_held():
    window = collections.deque([1.0, 2.0], maxlen=2)

    def f(x):
        total = x * 0
        for step in range(3):
            window.append(x.sum() * step if step else 4.0)
            total = total + sum(window)
        return total, window[0]

    return Case(f, vector(), observe=window, then=[lambda: window.append(1.5)])


@program(whole=False)
def bounded_deque_ends_an_object():
    log = []
    window = collections.deque([Loud(log), 1], maxlen=2)

    def f(x):
        window.append(2)
        return x + 1, list(log)

    return Case(f, vector(), observe=[log])
