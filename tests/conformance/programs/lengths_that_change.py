"""Lengths of containers that a later call has otherwise: numbers where the code takes them for numbers."""

import collections
import types

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector

LENGTHS = (2, 4, 1, 0, 5, 300, 3)


def of_lengths(f, make, lengths=LENGTHS, first=3):
    return Case(f, vector(), make(first), then=[lambda n=n: Args(vector(), make(n)) for n in lengths])


def numbers(n):
    return [float(i) for i in range(n)]


@program
def taken_as_a_number():
    def f(x, items):
        return x * len(items), len(items) * 2 - 1, len(items) // 2

    return of_lengths(f, numbers)


@program
def of_each_container():
    def f(x, items):
        a, b, c, d = items
        return x * len(a) + len(b) - len(c) * len(d), (len(a), len(b))

    def make(n):
        return numbers(n), {i: i for i in range(n)}, set(range(n)), collections.deque(range(n))

    return of_lengths(f, make)


@program
def asked_and_compared():
    def f(x, items):
        y = x + 1 if items else x - 1
        z = x.sin() if len(items) > 3 else x.cos()
        return y, z, not items, len(items) == 5, bool(items)

    return of_lengths(f, numbers)


@program
def before_the_items_are_read():
    def f(x, items):
        y = x * len(items)
        for item in items:
            y = y + item
        return y, len(items)

    return of_lengths(f, numbers, lengths=(2, 4, 1, 0, 5, 3))


@program
def after_the_items_are_read():
    def f(x, items):
        return sum(items) + x / (len(items) + 1)

    return of_lengths(f, numbers, lengths=(2, 4, 1, 0, 5, 3))


@program
def with_an_item_by_index():
    def f(x, items):
        return x * items[0] + len(items), x * items[-1]

    return of_lengths(f, numbers, lengths=(2, 4, 1, 5, 3))


@program
def of_a_list_that_grows():
    history = []

    def f(x):
        history.append(1.0)
        return x / len(history), len(history)

    return Case(f, vector(), then=[lambda: None] * 5, observe=history)


@program
def of_a_list_of_tensors_that_grows():
    owner = types.SimpleNamespace(seen=[])

    def f(x):
        y = x * (len(owner.seen) + 1)
        owner.seen.append(y.detach())
        return y * len(owner.seen)

    return Case(f, vector(), then=[lambda: None] * 5, observe=owner)


@program
def of_a_list_written_before():
    def f(x, items):
        items.append(2.0)
        a = len(items)
        items[0] = 5.0
        items.extend((1.0, 2.0))
        return x * a, x * len(items)

    return of_lengths(f, numbers, lengths=(2, 4, 1, 5, 3))


@program
def of_a_list_cleared():
    def f(x, items):
        before = len(items)
        items.clear()
        return x * before + len(items), before

    return of_lengths(f, numbers)


@program
def of_a_class_with_its_own_length():
    class Doubled(list):
        def __len__(self):
            return 2 * super().__len__()

    def f(x, items):
        return x * len(items), len(items)

    return of_lengths(f, lambda n: Doubled(numbers(n)))


@program
def types_that_change():
    makers = (numbers, lambda n: tuple(numbers(n)), lambda n: {i: i for i in range(n)}, lambda n: set(range(n)))

    def f(x, items):
        return x + len(items)

    return Case(f, vector(), numbers(3), then=[lambda n=n: Args(vector(), makers[n % 4](n)) for n in range(2, 10)])


@program
def identities():
    def f(x, items):
        a, b = len(items), len(items)
        return x + a, a is b, a == b

    return of_lengths(f, numbers, lengths=(2, 4, 1, 5, 3))


@program(whole=False)
def behind_a_break():
    def f(x, items):
        y = x * len(items)
        torch._dynamo.graph_break()
        return y + len(items), len(items)

    return of_lengths(f, numbers)


@program
def of_lists_of_tensors():
    def f(x, items):
        total = x
        for t in items:
            total = total + t * len(items)
        return total

    return of_lengths(f, lambda n: [vector() for _ in range(n)], lengths=(2, 4, 1, 5, 3))
