"""Arrays of numpy that a function makes of numbers and writes: they hold what follows from guards, and no more."""

import numpy as np
import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector

NOTHING = [lambda: None] * 2


@program
def tables_filled_by_places():
    def f(x):
        table = np.zeros((3, 4), np.float32)
        places, rates = np.arange(3)[:, None], np.exp(np.arange(0, 4, 2) * -0.5)
        table[:, 0::2] = np.sin(places * rates)
        table[:, 1::2] = np.cos(places * rates)
        return x + torch.from_numpy(table)[:, :3]

    return Case(f, vector(), then=NOTHING)


@program
def written_in_place():
    def f(x):
        a = np.arange(6, dtype=np.float64).reshape(2, 3)
        b = np.arange(3.0)
        b += 1
        b *= a[1]
        a[1] -= b
        for row in a:
            row /= 2
        a[:, 0] += 5
        return x * torch.tensor(b, dtype=torch.float32), float(a.sum())

    return Case(f, vector(), then=NOTHING)


@program
def masks_and_lists_as_places():
    def f(x):
        a = np.arange(5.0)
        a[a > 2] = -1
        a[[0, 1]] = a[[1, 0]]
        a[np.array([4])] = 7
        return x + torch.from_numpy(a[:3].astype(np.float32)), a.tolist()

    return Case(f, vector(), then=NOTHING)


@program
def written_and_returned():
    def f(x):
        a, same = np.zeros(3), np.ones((2, 2), order="F")
        a[1], both = 2, [same, same]
        same[0, 1] = 5
        return a, both, both[0] is both[1], x + 1

    return Case(f, vector(), then=NOTHING)


# Each call's array is another one.
@program
def kept_by_the_program():
    kept = []

    def f(x):
        a = np.zeros(2)
        kept.append(a)
        a[0] = 2
        return x * a[0]

    return Case(f, vector(), look=lambda: (kept, len({id(a) for a in kept})), then=NOTHING)


@program
def a_number_that_changes_is_written():
    def f(x, n):
        a = np.zeros(3, np.float32)
        a[1] = n
        a[0] += n
        return x * torch.from_numpy(a)

    return Case(f, vector(), 1, then=[lambda n=n: Args(vector(), n) for n in (2, 3, 2)])


# The constants that the graph took of it hold what was there by then.
@program
def written_behind_what_was_taken():
    def f(x):
        a = np.arange(3.0)
        first = torch.tensor(a)
        total = a.sum()
        a[0] = 10
        second = torch.tensor(a)
        a *= 2
        return x + first, x + second, total, (x.numpy() * a)[0:2]

    return Case(f, vector(), then=NOTHING)


@program(whole=False)
def written_behind_a_tensor_of_its_memory():
    def f(x):
        a = np.arange(3.0)
        t = torch.from_numpy(a)
        y = x + t
        a[0] = 10
        return y, x + t, a

    return Case(f, vector(), then=NOTHING)


@program(whole=False)
def arrays_from_outside():
    whole = np.arange(8.0)
    part = whole[2:6]

    def f(x):
        part[0] = 5
        view = part[1:]
        view[0] += 1
        same = np.asarray(part)
        same[3] = -1
        return x + float(part.sum()), view.copy()

    return Case(f, vector(), observe=whole, then=[*NOTHING, lambda: part.__setitem__(0, 9)])


@program(whole=False)
def views_of_arrays_from_outside():
    whole = np.arange(8.0)
    part = whole[2:6]

    def f(x):
        x = x + float(part[0])
        view = part[1:]
        view[0] += 1
        turned = part.reshape(2, 2).T
        turned[0, 0] = 2
        return x, view.copy()

    return Case(f, vector(), observe=whole, then=NOTHING)


@program(whole=False)
def arrays_of_tensors():
    def f(x):
        a, b = (x * 2).numpy(), np.zeros(3, np.float32)
        a[0] = 1
        b[1] = a[1]
        b[0:1] = x.numpy()[0:1]
        return a, b, torch.from_numpy(b) * 2

    return Case(f, vector(), then=NOTHING)


@program(whole=False)
def parts_that_live_on():
    def f(x):
        a = np.zeros((2, 3))
        row = a[0]
        row[1] = 3
        a[1] = row
        y = x + 1
        torch._dynamo.graph_break()
        row[0] = 4
        return y, a, row, row.base is a

    return Case(f, vector(), then=NOTHING)


@program
def parts_that_are_returned():
    def f(x):
        a = np.arange(12, dtype=np.float32).reshape(3, 4)
        parts = a[1:, ::-2], a.T, np.broadcast_to(a[0], (2, 4)), np.zeros(4)[1:3], a[::2]
        parts[0][0] = 50
        return x + 1, a, parts

    return Case(f, vector(), then=NOTHING)


@program
def refused_places():
    def f(x):
        a = np.zeros(3)
        try:
            a[4] = 1
        except IndexError as error:
            text = str(error)
        try:
            a[:2] = [1, 2, 3]
        except ValueError as error:
            text += str(error)
        counts = np.arange(3)
        try:
            counts += 0.5
        except TypeError as error:
            text += type(error).__name__
        fixed = np.broadcast_to(counts, (2, 3))
        try:
            fixed[0] = 1
        except ValueError as error:
            text += str(error)
        return x + 1, text, counts.sum()

    return Case(f, vector(), then=NOTHING)


@program(whole=False)
def writes_that_warn():
    def f(x):
        a = np.array([1.0, 0.0, 2.0])
        a /= np.array([0.0, 0.0, 1.0])
        n = np.zeros(2, np.int64)
        n[0] = 3.75
        return x + 1, a, n

    return Case(f, vector(), then=NOTHING)


@program
def sums_over_indices():
    def f(x, m):
        a, b = x.numpy(), m.numpy()
        return np.einsum("i,ij->j", a[: b.shape[0]], b), np.einsum("ij,kj->ik", b, b), np.einsum("ij,j,j->ij", b, a, a)

    return Case(f, vector(), matrix(2, 3), then=[lambda: Args(vector() + 1, matrix(2, 3) * 2)])


@program
def grids_and_solutions():
    def f(x):
        rows, columns = np.meshgrid(np.arange(3), np.arange(2), indexing="ij")
        m = np.array([[2.0, 1.0], [1.0, 3.0]])
        y = x + torch.tensor(rows[:, 0] * columns[:, 1])
        solved = np.linalg.solve(m, np.array([1.0, 2.0])), np.linalg.inv(m), np.pad(m, 1), np.kron(m, np.eye(2))
        try:
            np.linalg.inv(np.zeros((2, 2)))
        except np.linalg.LinAlgError as error:
            text = str(error)
        return y, solved, text

    return Case(f, vector(), then=NOTHING)


# Whether a matrix has an inverse is in its numbers.
@program(whole=False)
def solutions_of_tensors():
    def f(m):
        a = m.numpy()
        try:
            return np.linalg.inv(a), np.linalg.solve(a, a[0])
        except np.linalg.LinAlgError as error:
            return m * 2, str(error)

    given = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    return Case(f, given, then=[lambda: Args(torch.ones(2, 2)), lambda: Args(given + 1)])
