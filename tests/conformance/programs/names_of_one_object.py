"""Whether two names mean one object, and whether a name means anything: what only `is`, `==` or a handler asks."""

import numpy as np
import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


class Thing:
    def __init__(self, n):
        self.n = n


def pairs(first, second):
    """Two objects, then one under both names, then two again."""
    return [(first, second), (first, first), (second, first), (second, second)]


def asked(question, first, second):
    (a, b), *later = pairs(first, second)

    def f(x, a, b):
        return x * 2 if question(a, b) else x + 3

    return Case(f, vector(), a, b, then=[lambda p=p: Args(vector(), *p) for p in later])


@program
def objects_compared_by_is():
    return asked(lambda a, b: a is b, Thing(1), Thing(1))


@program
def objects_compared_by_equality():
    return asked(lambda a, b: a == b, Thing(1), Thing(1))


@program
def objects_compared_by_inequality():
    return asked(lambda a, b: a != b, Thing(1), Thing(1))


@program
def lists_compared_by_is():
    return asked(lambda a, b: a is b, [1, 2], [1, 2])


@program
def dicts_compared_by_is():
    return asked(lambda a, b: a is not b, {"a": 1}, {"a": 1})


@program
def tensors_compared_by_is():
    return asked(lambda a, b: a is b, torch.ones(2), torch.ones(2))


@program
def long_numbers_compared_by_is():
    return asked(lambda a, b: a is b, int("123456789"), int("123456789"))


@program
def attributes_compared_by_is():
    box, one, other = Thing(None), Thing(1), Thing(1)
    box.first, box.second = one, other

    def f(x):
        return x * 2 if box.first is box.second else x + 3

    return Case(f, vector(), then=[lambda: setattr(box, "second", one), lambda: setattr(box, "second", other)])


def with_a_cell_that_is_empty():
    if False:
        late = None

    def fill(value):
        nonlocal late
        late = value

    def empty():
        nonlocal late
        del late

    def read(x):
        try:
            return x * late
        except NameError:
            return x - 1

    return read, fill, empty


@program
def cell_that_is_filled_later():
    read, fill, empty = with_a_cell_that_is_empty()

    def f(x):
        return read(x) + 1

    return Case(f, vector(), then=[lambda: fill(3), lambda: fill(2.5), empty, lambda: fill(4)])


@program
def own_cell_that_is_filled_later():
    read, fill, empty = with_a_cell_that_is_empty()
    return Case(read, vector(), then=[lambda: fill(3), lambda: fill(2.5), empty, lambda: fill(4)])


@program
def key_that_goes():
    table, names = {"a": 1, "b": 2}, {3: "c", 4.5: "d"}

    def f(x):
        y = x * 2 if "a" in table else x + 3
        return y * 5 if 4.5 not in names else y - 1

    return Case(f, vector(), then=[lambda: [table.pop("a")] and None, lambda: [names.pop(4.5)] and None, lambda: table.update(a=0)])


def _kept(first, second):
    """Two names of one number, then two equal numbers: which one is kept."""
    kept, now = {}, [first, first]

    def f(x, a, b):
        y = x * a + b
        kept["b"] = b
        return y

    def call(*numbers):
        now[:] = numbers
        return Args(vector(), *numbers)

    later = [(first, second), (second, first), (second, second)]
    then = [lambda p=p: call(*p) for p in later]
    return Case(f, vector(), first, first, then=then, look=lambda: [kept["b"] is n for n in now])


@program
def which_of_two_equal_floats_is_kept():
    return _kept(float("2.5"), float("2.5"))


@program
def which_of_two_equal_numbers_of_numpy_is_kept():
    return _kept(np.float32(2.5), np.float32(2.5))


@program
def which_of_two_equal_integers_is_kept():
    return _kept(int("1000"), int("1000"))
