"""NaN, infinities and the zeros' signs in every comparison, of tensors and of Python's numbers.

A compiler that turns `not a < b` into `a >= b`, `x == x` into True, `maximum` into a select, or that compares a number
in a guard with == is seen here.
"""

import torch
from torch.nn import functional

import framefuse
from conformance.program import Args, Case, program
from conformance.sample import vector

NAN, INF = float("nan"), float("inf")


def special(requires_grad=False):
    return torch.tensor([1.0, NAN, -0.0, 0.0, INF, -INF, -2.0, NAN, 3.0], requires_grad=requires_grad)


def other():
    return torch.tensor([NAN, NAN, 0.0, -0.0, INF, INF, NAN, 1.0, 2.0])


def both(f, *more):
    """In both orders, for each of the types of floating point, and without NaN."""
    kinds = (torch.float64, torch.bfloat16, torch.float16)
    return Case(
        f,
        special(),
        other(),
        then=[
            lambda: Args(other(), special()),
            *(lambda kind=kind: Args(special().to(kind), other().to(kind)) for kind in kinds),
            lambda: Args(vector(9), vector(9, 2.0)),
        ],
    )


@program
def operators_of_comparison():
    return both(lambda x, y: (x < y, x <= y, x == y, x != y, x > y, x >= y))


@program
def operators_of_comparison_negated():
    return both(lambda x, y: (~(x < y), ~(x <= y), ~(x == y), ~(x != y), torch.logical_not(x > y), ~(x >= y)))


@program
def comparisons_with_numbers():
    def f(x, y):
        return x < 0.0, x <= 0, x == -0.0, x != NAN, x == NAN, x > -INF, x >= INF, 1 < y, NAN < y, INF == y

    return both(f)


@program
def a_tensor_compared_with_itself():
    return both(lambda x, y: (x == x, x != x, x >= x, x < x, y <= y, torch.where(x == x, x, y), x - x, x / x))


@program
def selects_by_a_comparison():
    def f(x, y):
        return (
            torch.where(x < y, x, y),
            torch.where(~(x < y), x, y),
            torch.where(x >= y, x, 0.0),
            torch.where(y != y, torch.zeros_like(x), y),
            x.masked_fill(x != x, 7.0),
        )

    return both(f)


@program
def smaller_and_greater_of_two():
    def f(x, y):
        return torch.maximum(x, y), torch.minimum(x, y), torch.fmax(x, y), torch.fmin(x, y), torch.max(x, y)

    return both(f)


@program
def clamped():
    def f(x, y):
        return x.clamp(-1, 1), x.clamp(min=0), x.clamp(max=0), x.clamp(y, y + 1), x.clamp(min=y), x.clamp(max=NAN)

    return both(f)


@program
def functions_that_compare_inside():
    def f(x, y):
        return (
            x.relu(),
            functional.relu6(x),
            functional.leaky_relu(x),
            functional.hardtanh(x),
            functional.hardsigmoid(x),
            functional.hardswish(x),
            functional.threshold(x, 0.0, 5.0),
            functional.softshrink(x),
            functional.hardshrink(x),
            functional.elu(x),
            x.sign(),
            x.abs(),
            torch.copysign(x, y),
            torch.heaviside(x, y),
        )

    return both(f)


@program
def greatest_and_smallest_of_many():
    def f(x, y):
        z = torch.stack([x, y])
        return x.max(), x.min(), x.amax(), z.amin(0), x.argmax(), x.argmin(), z.max(0), z.min(1), z.aminmax(dim=1)

    return both(f)


@program
def order_of_many():
    def f(x, y):
        return x.sort(), x.sort(descending=True), y.topk(3), x.argsort(stable=True), x.median(), x.nanmedian(), x.cummax(0)

    return both(f)


@program
def questions_about_numbers():
    def f(x, y):
        return x.isnan(), x.isinf(), x.isfinite(), x.isposinf(), torch.isclose(x, y), torch.isclose(x, y, equal_nan=True)

    return both(f)


@program(whole=False)
def answers_that_python_reads():
    def f(x, y):
        same = torch.equal(x, y), torch.equal(x, x), torch.allclose(x, x), torch.allclose(x, x, equal_nan=True)
        return x + 1, same, bool((x == x).all()), x[0].item() == y[0].item(), x[1].item() in [x[1].item()]

    return both(f)


@program
def truth_and_logic():
    def f(x, y):
        return x.bool(), torch.logical_and(x, y), torch.logical_xor(x, y), x.any(), x.all(), x.count_nonzero()

    return both(f)


@program
def nan_replaced_and_summed():
    def f(x, y):
        return x.nan_to_num(), x.nan_to_num(nan=2.0, posinf=5.0), x.nansum(), y.nansum(), x.sum(), torch.nanmean(y)

    return both(f)


@program
def nan_made_inside():
    def f(x):
        zero = x - x
        nan = zero / zero
        return nan == nan, nan != nan, torch.maximum(nan, x), (x * INF * 0).isnan(), (-x).sqrt() < 1, (-x).log() > 1

    return Case(f, vector(), then=[lambda: Args(vector(3, -4.0)), lambda: Args(vector(5))])


@program
def gradients_at_nan():
    def f(x):
        return x.relu(), x.clamp(-1, 1), x.abs(), torch.where(x > 0, x, x * 2), torch.maximum(x, x * 0 + 1), x.max(), x.sign()

    return Case(f, special(True), then=[lambda: Args(special(True)), lambda: Args(vector(9).requires_grad_())])


@program
def numbers_of_python():
    def f(x, a, b):
        compared = a < b, a <= b, a == b, a != b, a > b, a >= b, not a < b, a == a, a is a
        return x * 2, compared, min(a, b), max(a, b), min(b, a), a in [a], a in [b], [a] == [a], (a,) == (b,)

    numbers = ((NAN, NAN), (NAN, 1.0), (1.0, NAN), (-0.0, 0.0), (INF, NAN), (float("nan"), float("nan")), (1.0, 1.0))
    first, *rest = numbers
    return Case(f, vector(), *first, then=[lambda pair=pair: Args(vector(), *pair) for pair in rest])


@program
def branches_by_numbers_of_python():
    def f(x, a):
        if a < 1:
            x = x + 1
        elif not a >= 1:
            x = x + 10
        if a != a:
            x = x * 3
        return x * 2 if a else x, sorted([2.0, a, 1.0])

    return Case(f, vector(), NAN, then=[lambda a=a: Args(vector(), a) for a in (0.5, NAN, 2.0, -NAN, -0.0, INF)])


@program
def nan_as_a_key_and_in_a_set():
    table, other_nan = {NAN: 2, 1.0: 3}, float("nan")

    def f(x, key):
        return x * table.get(key, 5), key in table, key in {NAN}, len({NAN, key}), list(table.values())

    return Case(f, vector(), NAN, then=[lambda: Args(vector(), other_nan), lambda: Args(vector(), 1.0)], observe=table)


@program
def numbers_whose_text_is_another_number():
    numbers = (-NAN, complex(-0.0, 1.0), complex(1.0, -0.0), complex(0.0, -1.0), complex(INF, 1.0), complex(1.0, -NAN), -0.0)

    def f(x, a):
        return x * a, torch.full((2,), a), torch.where(x > 1, x, a)

    return Case(f, vector(), NAN, then=[lambda a=a: Args(vector(), a) for a in numbers])


@program
def signs_of_nan_in_a_branch():
    def f(x, a):
        return framefuse.cond(x.sum() > 0, lambda x: x * a, lambda x: x - a, (x,))

    return Case(f, vector(), NAN, then=[lambda: Args(vector(), -NAN), lambda: Args(-vector(), -NAN), lambda: Args(-vector(), NAN)])
