"""Generators of random numbers of Python's and numpy's that a function makes of a number: what they draw follows from
it."""

import random

import numpy as np
import numpy.random

from conformance.program import Args, Case, program
from conformance.sample import vector

NOTHING = [lambda: None] * 2


@program
def of_python():
    def f(x):
        chance = random.Random(3)
        left = chance.randint(0, 2)
        y = x * chance.random() if chance.random() < 0.9 else x
        return y + left, chance.uniform(1, 2), chance.gauss(0, 1), chance.getrandbits(5)

    return Case(f, vector(), then=NOTHING)


@program
def of_numpy():
    def f(x):
        rng = np.random.default_rng(7)
        noise = rng.normal(size=3)
        return x * rng.uniform(), noise, rng.integers(0, 5, size=4), rng.permutation(4), rng.random((2, 2))

    return Case(f, vector(), then=NOTHING)


@program
def of_a_number_that_changes():
    def f(x, seed):
        return x * np.random.default_rng(seed).random(), random.Random(seed).random()

    return Case(f, vector(), 1, then=[lambda n=n: Args(vector(), n) for n in (2, 3, 1, 2)])


@program
def seeded_again():
    def f(x):
        chance = random.Random(3)
        first = chance.random()
        chance.seed(3)
        return x + first, chance.random() == first

    return Case(f, vector(), then=NOTHING)


@program(whole=False)
def it_is_kept():
    kept = []

    def f(x):
        chance = random.Random(5)
        first = chance.random()
        kept.append(chance)
        return x * first

    return Case(f, vector(), look=lambda: [chance.random() for chance in kept], then=NOTHING)


@program(whole=False)
def one_from_outside_beside_it():
    outside = random.Random(1)

    def f(x):
        inside = random.Random(1)
        outside.seed(2)
        return x * inside.random(), outside.random()

    return Case(f, vector(), look=outside.getstate, then=NOTHING)


@program(whole=False)
def without_a_number():
    def f(x):
        chance = random.Random()
        rng = np.random.default_rng()
        return x + 1, 0 <= chance.random() < 1, 0 <= rng.random() < 1

    return Case(f, vector(), then=NOTHING)


@program
def refused_numbers():
    def f(x):
        try:
            return random.Random(1).randint(5, 2)
        except ValueError as error:
            text = str(error)
        try:
            np.random.default_rng(1).integers(5, 2)
        except ValueError as error:
            text += str(error)
        return x + 1, text

    return Case(f, vector(), then=NOTHING)
