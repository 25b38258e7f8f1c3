"""Numbers of numpy that a later call has otherwise: what stays symbolic, and must stay of the type that numpy gives."""

import types

import numpy as np
import torch

from conformance.program import Args, Case, program
from conformance.sample import vector

INTEGERS = tuple(np.int64(n) for n in (3, 5, 0, -4, 300, 2**20, 1, 2**40, 2**62, 7))
FLOATS = tuple(np.float64(n) for n in (0.5, 2.0, 0.0, -0.0, -1.5, 1e300, float("inf"), float("nan"), 1e-320, 3.0))


def with_integers(f, first=2, values=INTEGERS):
    return Case(f, vector(), np.int64(first), then=[lambda n=n: Args(vector(), n) for n in values])


def with_floats(f, first=0.25, values=FLOATS):
    return Case(f, vector(), np.float64(first), then=[lambda n=n: Args(vector(), n) for n in values])


@program
def operands():
    def f(x, n):
        return x * n, n * x, x - n, n - x, x / n, n / (x + 9), x.add(n), torch.add(x, x, alpha=n), (x > n).int()

    return with_integers(f)


@program
def operands_that_are_floats():
    def f(x, n):
        return x * n, n - x, x.add(n), torch.add(x, x, alpha=n), x.clamp(max=n), torch.where(x > 1, x, n), x.double() * n

    return with_floats(f)


@program
def arithmetic():
    def f(x, n):
        return x + 1, n + 1, 2 * n, n - 3, n * n, n // 3, n % 3, -n, n / 2, n * 0.5, n + np.int64(2), x * (n + 1)

    return with_integers(f, values=INTEGERS[:7])


@program
def arithmetic_of_floats():
    def f(x, n):
        return x + 1, n + 1, 2 * n, n - 3, -n, n / 2, n * np.int64(3), x * (n + 1)

    return with_floats(f, values=(0.5, 2.0, 0.0, -0.0, -1.5, 3.0))


@program
def comparisons():
    def f(x, n):
        y = x + 1 if n > 4 else x - 1
        return y, n == 3, n != 0, n <= 5, bool(n), not n, n is None, isinstance(n, np.integer), type(n)

    return with_integers(f)


@program
def made_into_numbers_of_python():
    def f(x, n):
        return x * int(n), float(n) + 1, int(n) * 2, int(n) // 2, x + float(n)

    return with_integers(f)


@program
def places_and_sizes():
    def f(x, n):
        return x[:n], x[n], torch.zeros(n), x.narrow(0, 0, n), x.repeat(n), torch.arange(n)

    def make(n):
        return Args(vector(8), n)

    values = [kind(n) for n in (3, 5, 1, 0, 7) for kind in (np.int64, np.int32, np.uint8)]
    return Case(f, vector(8), np.int64(2), then=[lambda n=n: make(n) for n in values])


@program
def types_that_change():
    def f(x, n):
        return x * n, n + 1, type(n).__name__

    values = (3, np.int64(4), np.int64(5), True, np.float64(2.5), np.float32(0.1), np.float32(0.3), 6, np.int32(7), np.int32(8), np.bool_(True), 2.5)
    return Case(f, vector(), np.int64(2), then=[lambda n=n: Args(vector(), n) for n in values])


@program
def narrow_types():
    def f(x, n):
        return x * n, n + n, n * 3, n / 7, -n

    values = [kind(n) for kind in (np.float32, np.float16, np.int8, np.int32) for n in (1.1, 2.3, 3.7)]
    return Case(f, vector(), np.float32(0.1), then=[lambda n=n: Args(vector(), n) for n in values])


@program(whole=False)
def tensors_of_their_types():
    def f(x, n):
        return x * n, torch.tensor(n), torch.as_tensor([n, n]), x.new_tensor(n), torch.full((2,), n)

    values = [np.float64(0.5), np.float64(1.5), np.int32(3), np.int32(4), np.float32(1.5), np.float32(2.5)]
    return Case(f, vector(), np.float64(2.5), then=[lambda n=n: Args(vector(), n) for n in values])


@program
def looked_at():
    def f(x, n):
        return x * n, {n: 1}, [1, 2, 3, 4, 5, 6, 7, 8][n % 8], hash(n), n**2, n << 1, np.sqrt(n + 5), np.maximum(n, 3), sum([n, 1])

    return with_integers(f, values=INTEGERS[:3])


@program
def the_object_itself():
    def f(x, n):
        held = [n, (n,)]
        return x + n, held[0] is n, held, n

    return with_integers(f, first=1000, values=INTEGERS[:5])


@program
def kept_in_an_attribute():
    state = types.SimpleNamespace(step=np.int64(0), rate=np.float64(0.5))

    def f(x):
        state.step += 1
        state.rate = state.rate * 0.5
        return x * state.rate / (1 + state.step)

    return Case(f, vector(), then=[lambda: None] * 5, observe=state)


@program
def a_rate_of_an_optimizer():
    weight = torch.nn.Parameter(vector())
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.5)

    def f(x, step):
        optimizer.param_groups[0]["lr"] = np.float64(0.1) / step
        weight.grad = x.clone()
        optimizer.step()
        return weight.detach().clone()

    return Case(f, vector(), np.float64(1), then=[lambda n=n: Args(vector(), np.float64(n)) for n in (2, 3, 4, 5)], observe=weight)
