"""Numbers beside tensors of every type, where a later call has other numbers: a number decides a type as one of Python's does."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector

DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.complex64, torch.complex128,
)  # fmt: skip


def with_numbers(f, numbers, dtypes=DTYPES):
    def make(n):
        return Args([vector(5).to(dtype) for dtype in dtypes], n)

    first, *rest = numbers
    return Case(f, *make(first).args, then=[lambda n=n: make(n) for n in rest])


@program
def integers():
    def f(tensors, n):
        return [(t * n, n + t, t / n, t.mul(n), torch.add(t, n), t == n) for t in tensors]

    return with_numbers(f, (3, 4, 7, 1, -2))


@program
def floats():
    def f(tensors, n):
        return [(t * n, n + t, t / n, t.mul(n), torch.add(t, n), t != n) for t in tensors]

    return with_numbers(f, (0.5, 0.25, 3.0, -1.5))


@program
def numbers_that_are_computed():
    def f(tensors, n):
        return [(t * (n / 2), t * (n > 3), (n + 1) * t, t * float(n)) for t in tensors]

    return with_numbers(f, (3, 4, 7, 2))


@program
def complex_numbers():
    def f(tensors, n):
        return [(t + n * 1j, t * 1j * n) for t in tensors]

    return with_numbers(f, (3, 4, 7), dtypes=[dtype for dtype in DTYPES if dtype is not torch.float16])


@program(whole=False)  # torch warns of ComplexHalf once in a process
def complex_numbers_beside_half():
    def f(tensors, n):
        return [(t + 1j, t * 1j * n, t + n * 1j) for t in tensors]

    return with_numbers(f, (3, 4, 7), dtypes=(torch.float16,))


@program
def tensors_of_no_dimensions_beside_them():
    def f(tensors, n):
        return [(t[0] * n, t.sum() + n, t * torch.tensor(2.0) * n, t[0] / n) for t in tensors]

    return with_numbers(f, (3, 0.5, 7, 0.25, 4))


@program
def integers_that_are_looked_at_afterwards():
    def f(tensors, n):
        made = [(t * n, t + n * 2) for t in tensors]
        return made, {n: 1}, [t * 3 for t in tensors] if n == 3 else None

    return with_numbers(f, (3, 4, 3, 7), dtypes=(torch.int8, torch.float16, torch.float32, torch.bool))


@program
def floats_that_are_looked_at_afterwards():
    def f(tensors, n):
        made = [(t * n, n - t, t.mul(n * 2)) for t in tensors]
        return made, str(n), [t * 0.5 for t in tensors] if n == 0.5 else None

    return with_numbers(f, (0.5, 0.25, 0.5, 3.0), dtypes=(torch.int8, torch.float16, torch.float32))


# `t.to(3.0)` takes the type of a tensor that the number becomes, and `t.to(3)` asks for a device.
@program
def integers_that_name_a_device():
    def f(t, n):
        try:
            return t.to(n)
        except RuntimeError as error:
            return t * 2, str(error)

    make = lambda n: Args(vector(5), n)  # noqa: E731
    return Case(f, *make(2.0).args, then=[lambda n=n: make(n) for n in (3.0, 97, 0.5, 98)])


@program
def zeros_and_ones_of_two_types():
    """0 and 0.0 are the same bits, as are False, and a double and the integer that has its bits."""

    def f(t, u):
        one = 4607182418800017408
        return t + 0, t + 0.0, u * False, u * 0, u * 0.0, t * one, t * 1.0, u + 1.0, u + one

    return Case(f, torch.arange(4), vector(4), then=[lambda: Args(torch.arange(5, dtype=torch.int32), vector(5).double())])
