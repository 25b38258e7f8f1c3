"""Integers that a later call has otherwise: they become symbolic, and must stay the numbers that they are."""

import types

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector

STEP = 0
VALUES = (3, 5, 0, -4, 300, 2**20, 7)


def with_numbers(f, first=2, values=VALUES):
    return Case(f, vector(), first, then=[lambda n=n: Args(vector(), n) for n in values])


@program
def arithmetic():
    def f(x, n):
        return x * n - n, n * 2 - 1, n // 3, n % 3, -n, (n + 7) // 2 * n

    return with_numbers(f)


@program
def products_that_do_not_fit():
    def f(x, n):
        return x + 1, n * n * n, (n - 1) * (n + 1)

    return with_numbers(f, values=(3, 2**20, 2**30, -(2**30), 2**31, 2**40, 2**70, 5))


@program
def comparisons_and_extremes():
    def f(x, n):
        y = x + 1 if n > 4 else x - 1
        return y, n == 3, n != 0, max(n, 3), min(n, 0), bool(n), not n

    return with_numbers(f)


@program
def division_by_one_that_becomes_zero():
    def f(x, n):
        return x.sin(), 12 // n, 12 % n

    return with_numbers(f)


@program
def types_that_change():
    def f(x, n):
        return x * n, n + 1

    return with_numbers(f, values=(3, True, 4, 2.5, 5, False, 2**80, 6))


@program
def looked_at():
    def f(x, n):
        return x * 2, f"{n}", {n: 1}, [1, 2, 3, 4, 5, 6, 7, 8][n % 8], hash(n), n.bit_length(), n**2, n << 1

    return with_numbers(f)


@program
def identity_of_a_large_one():
    def f(x, n):
        held = [n, (n,)]
        return x + n, held[0] is n, held[1][0] is n, held

    return with_numbers(f, first=1000, values=(2000, 3000, 1000, 5, 4000))


@program
def counter_in_an_attribute():
    state = types.SimpleNamespace(step=0)

    def f(x):
        state.step += 1
        return x * state.step / (1 + state.step)

    return Case(f, vector(), then=[lambda: None] * 5, observe=state)


@program
def counter_in_a_global():
    global STEP
    STEP = 0

    def f(x):
        global STEP
        STEP = STEP + 2
        return x + STEP

    return Case(f, vector(), then=[lambda: None] * 4)


@program
def counter_in_a_cell():
    count = 0

    def f(x):
        nonlocal count
        count += 1
        return x - count, count

    return Case(f, vector(), then=[lambda: None] * 4)


@program
def operands_of_functions():
    def f(x, n):
        return torch.mul(x, n), torch.mul(n, x), x.add(n), torch.sub(n, x, alpha=2), torch.true_divide(x, n + 1000)

    return with_numbers(f)


@program
def operands_of_integers_and_of_no_dimensions():
    def f(x, n):
        return (x * 4).int().mul(n), x.sum().half().add(n), x.sum().int() * n, torch.tensor(n) + n

    return with_numbers(f, values=(3, 5, 0, -4, 7, 9))


@program
def values_that_operators_take():
    def f(x, n):
        return x.clamp(max=n), x.masked_fill(x > 2, n), torch.where(x > 2, x, n), x.clone().fill_(n), torch.full((2,), n)

    return with_numbers(f)


@program
def slices_and_gradients():
    def f(x, n):
        return (x[:n] * n).sum(), x.narrow(0, 0, n)

    return Case(f, matrix(8, 3).requires_grad_(), 2, then=[lambda n=n: Args(matrix(8, 3).requires_grad_(), n) for n in (3, 5, 8, 1, 0, 4)])


@program
def sizes_of_what_is_made():
    def f(x, n):
        return torch.zeros(n), torch.arange(n), x.repeat(n), x.expand(n, -1), x.new_ones(n, 2).sum(0)

    return with_numbers(f, values=(3, 5, 1, 0, 4, -1))


@program
def dimension():
    def f(x, n):
        return x.sum(n), x.unsqueeze(n), x.transpose(n, 0)

    return Case(f, matrix(3, 4), 0, then=[lambda n=n: Args(matrix(3, 4), n) for n in (1, -1, 0, -2, 2)])


@program
def items_of_a_list_and_a_dict():
    def f(x, numbers, named):
        return x * numbers[0] + named["n"], numbers[0] - named["n"]

    return Case(f, vector(), [2, 3], {"n": 4}, then=[lambda a=a: Args(vector(), [a, 3], {"n": a * 2}) for a in (5, 6, 7, 0)])


@program
def powers_that_raise():
    def f(x, n):
        return x**n, n**x, x.int() ** (n - 4)

    return with_numbers(f, values=(5, 6, 7, 4, 2, 3, 5, 6))


@program
def numbers_that_are_not_none():
    def scaled(x, by=None, offset=None):
        if by is None or offset is not None:
            return x
        return x * by if by is not True else x + 1

    def f(x, n):
        return scaled(x, n), scaled(x, x.shape[0] * 2), scaled(x, n, x), scaled(x), n is x, (n + 1) is None

    return Case(f, vector(3), 4, then=[lambda n=n: Args(vector(n), n) for n in (2, 5, 7)])


@program
def numbers_and_none_by_turns():
    def f(x, n):
        return x * 2 if n is None else x * n

    return Case(f, vector(3), 4, then=[lambda n=n: Args(vector(3), n) for n in (5, None, 6, None, 2.5, 7)])


@program
def lists_of_a_number():
    def f(x, n):
        sizes = [n] * 2 + [3]
        three = 3 * (n, 1)
        return x.expand(*sizes[:2], 3), sizes, three, [sizes[0]] + [n, 1] == [n, n, 1]

    return with_numbers(f, values=(3, 5, 4, 300, 7))


@program
def sizes_of_interpolated_lines():
    def f(x, n):
        lines = x.view(1, 1, -1)
        nearest = torch.nn.functional.interpolate(lines, size=n)
        between = torch.nn.functional.interpolate(lines, size=n, mode="linear", align_corners=False)
        return nearest, between, torch.nn.functional.interpolate(lines, scale_factor=n)

    return with_numbers(f, values=(3, 5, 4, 30, 7))


@program
def bits_of_numbers():
    def f(x, n):
        return x * (n << 2), n >> 1, n & 7, 15 & n, ~n, +n, pow(n, 2, 7), pow(n, 3, -5), n | 8, n.bit_length(), round(n, 1)

    return with_numbers(f)


@program
def members_of_ranges():
    def f(x, n):
        return x + (1 if n in range(0, 100, 2) else 2), n in range(4), n in range(5, -5, -1), n in (3, 7.0, None)

    return with_numbers(f)


@program
def windows_and_diagonals():
    def f(x, n):
        y = x * 1
        y.diagonal(n).add_(1)
        return y, x.unfold(1, n + 2, 1) * 2, torch.diag(x, -n), torch.tensor([n, 2.5])

    return Case(f, torch.arange(36.0).reshape(6, 6), 1, then=[lambda n=n: Args(torch.arange(36.0).reshape(6, 6), n) for n in (2, 3, 0, 4, 2)])
