"""Numpy's arrays of numbers that existed before the call, read in it: as schedules and tables of constants are."""

import numpy as np
import torch
from conformance.program import Args, Case, program
from conformance.sample import vector


def table():
    return np.linspace(0.0, 1.0, 5)


@program
def one_number():
    steps = table()

    def f(x, t):
        return x * float(steps[t]) + steps[-1], len(steps)

    def changed():
        steps[2] = 7.0

    return Case(f, vector(), 2, observe=steps, then=[changed, lambda: Args(vector(), 3), lambda: Args(vector(), -1)])


@program
def another_array_of_the_same_numbers():
    kept = [table()]

    def f(x):
        return x * kept[0][1]

    def same():
        kept[0] = table()

    def single():
        kept[0] = table().astype(np.float32)

    def longer():
        kept[0] = np.linspace(0.0, 1.0, 6)

    return Case(f, vector(), then=[same, single, longer])


@program
def facts_of_an_array():
    steps = table().reshape(5, 1)

    def f(x):
        return x * steps.shape[0] + steps.ndim, steps.size, steps.itemsize, steps.dtype.kind, steps.T.shape

    return Case(f, vector(), then=[lambda: None])


@program
def walked():
    steps = table()

    def f(x):
        for step in steps:
            x = x + step
        first, *rest = steps
        return x * first, len(rest), sum(steps), max(steps)

    return Case(f, vector(), then=[lambda: steps.sort()])


@program
def methods_and_operators():
    steps = table()

    def f(x):
        nearest = int(np.abs(steps - 0.3).argmin())
        later = (steps * 2 + 1)[1:]
        return x * nearest, later.tolist(), float(later.mean()), bool((steps > 0.5).any()), steps.round(1).tolist()

    def changed():
        steps[1] = 0.3

    return Case(f, vector(), then=[changed])


@program
def tensor_of_an_array():
    steps = table().astype(np.float32)

    def f(x):
        return x * torch.tensor(steps[:3]), torch.tensor(steps, dtype=torch.float64)

    def changed():
        steps[0] = 5.0

    return Case(f, vector(), then=[changed])


@program
def made_in_the_frame():
    def f(x, n):
        steps = np.linspace(0, 10, n).round()[::-1].astype(np.int64)
        return x * torch.tensor(steps.tolist()), int(steps[0])

    return Case(f, vector(), 3, then=[lambda: Args(vector(), 3)])


@program(whole=False)
def written():
    steps = table()

    def f(x):
        steps[0] = 3.0
        part = steps[1:]
        part += 1
        np.add(steps, 1.0, out=steps)
        steps.sort()
        return x * steps[0]

    return Case(f, vector(), observe=steps, then=[lambda: None])


@program(whole=False)
def memory_of_a_tensor():
    numbers = torch.zeros(3)
    seen = numbers.numpy()

    def f(x):
        numbers.add_(1)
        return x * float(seen[0]), numbers

    return Case(f, vector(), observe=numbers, then=[lambda: None])


@program(whole=False)
def shared_with_a_tensor():
    steps = table().astype(np.float32)[:3]

    def f(x):
        y = torch.from_numpy(steps)
        y.add_(1)
        return x * y + float(steps[0]), torch.as_tensor(steps)

    return Case(f, vector(), observe=steps, then=[lambda: None])


@program(whole=False)
def arrays_that_are_not_of_numbers():
    texts, records = np.array(["a", "b"]), np.array([(1, 2.0)], dtype=[("n", "i4"), ("x", "f4")])

    def f(x):
        return x * len(texts), str(texts[1]), int(records["n"][0])

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def given_to_operators_of_torch():
    steps = table()[:3]

    def f(x):
        return torch.tensor(steps) * x.double(), x + torch.as_tensor(steps), str(steps)

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def division_by_zero():
    steps = table()

    def f(x):
        with np.errstate(all="ignore"):
            quotients = 1 / steps
        return x + 1, float(quotients[0]), (steps / 0.0)[1] > 1

    return Case(f, vector())
