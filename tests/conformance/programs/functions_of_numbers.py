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


def each(*functions):
    """Each result, or its error."""

    def of_one(function, n):
        try:
            return function(n)
        except (ValueError, OverflowError, ZeroDivisionError, TypeError) as error:
            return type(error), str(error)

    return lambda x, n: (x.sin(), *[of_one(function, n) for function in functions])


@program
def waves_of_floats():
    return with_floats(each(math.sin, math.cos, math.tan))


@program
def angles_of_floats():
    return with_floats(each(math.asin, math.acos, math.atan), first=0.5)


@program
def hyperbolic_waves_of_floats():
    return with_floats(each(math.sinh, math.cosh, math.tanh))


@program
def hyperbolic_angles_of_floats():
    return with_floats(each(math.asinh, math.acosh, math.atanh))


@program
def exponents_of_floats():
    return with_floats(each(math.exp, math.exp2, math.expm1, math.log10, math.log1p))


@program
def errors_and_roots_of_floats():
    return with_floats(each(math.erf, math.erfc, math.cbrt, math.fabs, abs))


@program
def degrees_and_radians_of_floats():
    return with_floats(each(math.degrees, math.radians))


@program
def waves_of_integers():
    return with_integers(each(math.sin, math.cos, math.tanh, math.degrees, math.erf))


@program
def functions_of_two_floats():
    return with_floats(each(lambda v: math.atan2(v, 2), lambda v: math.atan2(-1.5, v), lambda v: math.fmod(v, 0.75), lambda v: math.fmod(7, v)))


@program
def signs_copied():
    return with_floats(each(lambda v: math.copysign(3, v), lambda v: math.copysign(v, -0.0), lambda v: math.copysign(v, v)))


@program
def powers_by_floats():
    return with_floats(each(lambda v: 2.0**v, lambda v: 0.9**v, lambda v: (-1.5) ** v, lambda v: v**v, lambda v: 0.0**v))


@program
def powers_of_floats_by_numbers():
    return with_floats(each(lambda v: v**3, lambda v: v**0.25, lambda v: v**-3, lambda v: pow(v, 2.5), lambda v: math.pow(v, 3)))


@program
def powers_by_integers():
    return with_integers(each(lambda n: 0.5**n, lambda n: 1.5**n, lambda n: (-0.5) ** n, lambda n: math.pow(1.01, n), lambda n: math.pow(n, 2)))


SMALL = (3, 5, 7, 0, 1, 62, 63, 64, -1, -3, 1000, 2, 30)


@program
def powers_of_integers_by_integers():
    f = each(lambda n: 2**n, lambda n: (-3) ** n, lambda n: 1**n, lambda n: 0**n, lambda n: (-1) ** n, lambda n: pow(2, n))
    return Case(f, vector(), 4, then=[lambda n=n: Args(vector(), n) for n in SMALL])


@program
def integers_to_the_fifth():
    return with_integers(each(lambda n: n**5, lambda n: n**0, lambda n: (n + 1) ** 7))


@program
def extremes_of_floats():
    return with_floats(each(lambda v: max(v, 0.5), lambda v: min(0.0, v), lambda v: max(v, -v, 1.0), lambda v: min([v, 2.0]) if v else v))


@program
def extremes_of_mixed_numbers():
    return with_floats(each(lambda v: max(0, v), lambda v: min(v, 1), lambda v: type(max(0, 1 - v)).__name__))


@program
def extremes_of_integers():
    return with_integers(each(lambda n: max(n, 5), lambda n: min(n, 2 * n, 30), abs, lambda n: abs(n - 8), lambda n: max(-n, n)))


@program
def integers_among_others():
    def f(x, n):
        return x + 1, n in (3, 7, 1000), n not in [5, -7], n in {8, 16}, n in {49: 1, "a": 2}, n in (), n in ("3", None, 50)

    return with_integers(f)


@program
def milestones_of_a_counter():
    class Milestones:
        def __init__(self):
            self.at = {3: 1, 6: 2}
            self.step = 0

    milestones = Milestones()

    def f(x):
        milestones.step += 1
        if milestones.step not in milestones.at:
            return x * 2
        return x * milestones.at[milestones.step]

    return Case(f, vector(), then=[lambda: Args(vector())] * 8)


@program
def a_schedule_written_down():
    class Schedule:
        def __init__(self):
            self.rate, self.step, self.same = 0.5, 0, 2.0

    schedule = Schedule()
    group = {"lr": 0.5}

    def f(x):
        schedule.step += 1
        schedule.rate = 0.25 * (1 + math.cos(math.pi * schedule.step / 10))
        schedule.same = float(2)
        group["lr"] = schedule.rate if schedule.step % 3 == 0 else group["lr"]
        return x * schedule.rate + group["lr"], schedule.same

    return Case(f, vector(), then=[lambda: Args(vector())] * 8)


@program
def parts_of_tuples():
    class Group:
        betas = (0.9, 0.5, 3)

    group = Group()

    def f(x):
        rest = group.betas[1:]
        group.betas = (group.betas[0] * 0.5, *rest)
        return x * rest[0] + group.betas[0], rest[1:], group.betas[:0]

    def other():
        group.betas = (0.9, 0.25, 4)
        return Args(vector())

    return Case(f, vector(), then=[lambda: Args(vector()), lambda: Args(vector()), other, lambda: Args(vector()), lambda: Args(vector())])
