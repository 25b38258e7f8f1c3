"""Soundness rules 12 to 14 (breaks), each with programs that a naive capture gets wrong."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


@program(rule=12, whole=False)
def break_swallowed_by_except():
    def f(x):
        y = x + 1
        try:
            if y.sum() > 0:
                y = y * 2
        except BaseException:
            y = y * 100
        return y

    return Case(f, vector(), then=[lambda: Args(vector(3, -9.0))])


@program(rule=12, whole=False)
def break_swallowed_by_getattr_default():
    class Model:
        def __getattr__(self, name):
            return torch.ones(2).sum().item()

    m = Model()

    def f(x):
        return x * getattr(m, "n", 100)

    return Case(f, vector())


@program(rule=13, whole=False)
def break_with_live_iterators():
    def f(x, items):
        total = x
        for i, (a, b) in enumerate(zip(items, reversed(items))):
            total = total + a * b
            print(i)
            total = total * 2
        return total

    return Case(f, vector(), [1, 2, 3])


@program(rule=13, whole=False)
def break_with_live_dict_iterator():
    def f(x, d):
        total = x
        for k, v in d.items():
            print(k)
            total = total + v
        return total, [k for k in map(str.upper, d) if print(k) is None]

    return Case(f, vector(), {"a": 1, "b": 2})


@program(rule=13, whole=False)
def break_with_half_consumed_generator_alive():
    def numbers(x):
        for i in range(4):
            yield x * i

    def f(x):
        g = numbers(x)
        first = next(g)
        print("between")
        return first + next(g), list(g)

    return Case(f, vector())


@program(rule=14, whole=False)
def effects_happen_once_around_a_break():
    log = []

    def f(x):
        log.append("before")
        x.add_(1)
        print("break")
        log.append("after")
        x.mul_(2)
        print("again")
        return x + len(log)

    return Case(f, vector(), versions=True, then=[log.clear])


@program(rule=14, whole=False)
def escaping_exception_after_graph_and_effects():
    log = []

    def f(x):
        y = x * 2
        x.add_(1)
        log.append("once")
        raise ValueError("end")
        return y

    return Case(f, vector(), versions=True)
