"""Roots, logarithms, powers and roundings of numbers that a later call has otherwise: the results are Python's own, bit by bit."""

import math

from conformance.program import Args, Case, program
from conformance.sample import vector

NAN, INF = float("nan"), float("inf")
INTEGERS = (3, 5, 7, 8, 16, 49, 50, 1000, 123_457, 2**31 - 1, 1, 0, -1, -7, -1000, 2**40, 2**60, 2**80)
FLOATS = (0.25, 2.5, 3.5, -0.5, -2.5, 0.0, -0.0, 1e-300, 1e300, 7.0, 123456.75, 2.0**31, -(2.0**31), 2.0**62, INF, -INF, NAN)


def with_integers(f, first=12):
    return Case(f, vector(), first, then=[lambda n=n: Args(vector(), n) for n in INTEGERS])


def with_floats(f, first=1.75):
    return Case(f, vector(), first, then=[lambda v=v: Args(vector(), v) for v in FLOATS])


def attempted(function):
    def f(x, n):
        try:
            return x.sin(), function(n)
        except (ValueError, OverflowError, ZeroDivisionError) as error:
            return x.cos(), type(error), str(error)

    return f


@program
def roots_of_integers():
    return with_integers(attempted(lambda n: (math.sqrt(n), n**0.5, math.isqrt(n))))


@program
def roots_of_floats():
    return with_floats(attempted(math.sqrt))


@program
def powers_of_integers():
    return with_integers(attempted(lambda n: (n**-1, n**1.5, n**-0.5)))


@program
def powers_of_floats():
    return with_floats(attempted(lambda v: (v**2, v**-0.5)))


@program
def logarithms_of_integers():
    return with_integers(attempted(lambda n: (math.log(n), math.log2(n), math.log(n, 3))))


@program
def logarithms_of_floats():
    return with_floats(attempted(lambda v: (math.log(v), math.log2(v), math.log(2, v))))


@program
def exponentials():
    return with_floats(attempted(lambda v: (math.exp(-v), math.exp(v))))


@program
def exponentials_of_integers():
    return with_integers(attempted(lambda n: math.exp(-n)))


@program
def quotients_rounded():
    return with_integers(attempted(lambda n: (math.ceil(n / 7), math.floor(n / 7), int(n / 7), round(n / 7), math.trunc(n / -3))))


@program
def products_rounded():
    return with_integers(attempted(lambda n: (int(n * 0.5), int(n * 0.3), math.ceil(n * 0.75), math.floor(n * -1.25), round(n * 0.5))))


@program
def quotients_of_two():
    def f(x, n):
        m = n % 5 + 1
        return x * 2, math.ceil(n / m), int(n / m), math.floor(m / (n * n + 1))

    return with_integers(f)


@program
def floats_rounded():
    return with_floats(attempted(lambda v: (math.floor(v), math.ceil(v), int(v), round(v), math.trunc(v))))


@program
def floor_divisions_of_floats():
    return with_floats(attempted(lambda v: (v // 0.75, v % 0.75, v // -2, v % -2, 7 // v, 7 % v)))


@program
def sizes_of_floats():
    return with_floats(attempted(lambda v: (abs(v), abs(1.5 - v))))


@program
def beside_tensors():
    def f(x, n):
        return x / math.sqrt(n * n + 1), x[: math.ceil(abs(n) / 2) % 4], x * (n * n + 2) ** -0.5

    return with_integers(f)
