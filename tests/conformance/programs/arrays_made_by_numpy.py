"""Arrays that numpy makes of arrays that a graph's tensors are the memory of: parts, and arrays that own their memory."""

import warnings

import numpy as np
import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


def with_others(f, make=lambda: matrix(3, 4), *rest, **more):
    return Case(f, make(), *rest, then=[lambda k=k: Args(make() * k - 1, *rest) for k in (2, -1)], **more)


@program
def parts():
    def f(x):
        a = (x * 2).numpy()
        return a, a[1:, ::2], a[0], a[..., None], a.T, a.reshape(4, 3), a.ravel(), a[:, ::-1], len(a)

    return with_others(f)


@program
def parts_of_parts_go_back_to_tensors():
    def f(x):
        a = (x * 2).numpy()
        turned = a.T.reshape(2, 2, 3)
        rows = a.reshape(2, 6)
        return torch.from_numpy(rows).sum(0), torch.from_numpy(a.T) * 2, turned, torch.from_numpy(a[:2]) + 1

    return with_others(f)


@program
def arrays_of_their_own():
    def f(x):
        a = (x * 2).numpy()
        b = a[:, 1:] * 3 - a[:, :3]
        return b, b[0], -a, a.copy(), a.flatten(), np.abs(a) ** 2, np.copy(a.T), a @ a.T, a.astype(np.float64)

    return with_others(f)


@program
def joined_and_chosen():
    def f(x):
        a, b = (x * 2).numpy(), (x + 1).numpy()
        rows = [a, b]
        joined = np.concatenate(rows), np.stack([a, b], axis=1), np.vstack((a, b))
        rows.append(a)
        return joined, np.where(a > b, a, 0), np.clip(a, -1, 1), np.maximum(a, b), a[[2, 0]], np.tile(a, 2), len(rows)

    return with_others(f)


@program
def along_an_axis():
    def f(x):
        a = (x * 2).numpy()
        sums = a.sum(axis=0), a.mean(axis=1, keepdims=True), np.max(a, axis=1), np.std(a, axis=0)
        return sums, a.argmax(axis=1), np.cumsum(a, axis=1), np.linalg.norm(a, axis=1), np.sort(a, axis=0)

    return with_others(f)


@program
def types_of_results():
    def f(x):
        a = (x * 2).numpy()
        whole = x.long().numpy()
        compared = a > 1, a == a, ~(whole > 0), np.logical_and(a, whole)
        return compared, whole / 3, a + whole, a * 2.5, whole * 2, whole + np.float32(0.5), np.sign(a), (a + whole).dtype

    return with_others(f)


@program
def beside_arrays_that_guards_decide():
    scale = np.array([1.0, 2.0, 3.0, 4.0], dtype=np.float32)

    def f(x):
        a = (x * 2).numpy()
        return a * scale, np.concatenate([a, np.ones((1, 4), dtype=np.float32)]), a + np.arange(4)

    def change():
        scale[1] = 7

    return Case(f, matrix(3, 4), observe=scale, then=[change])


@program
def kept_where_the_program_looks():
    class Log:
        rows = None

    log = Log()

    def f(x):
        y = x.sigmoid()
        log.rows = [np.round(y.numpy() * 100), (y > 0.5).numpy().astype(np.int64)]
        return y * 2

    return Case(f, matrix(3, 4), look=lambda: log.rows, then=[lambda: Args(matrix(3, 4) - 2)])


@program
def numpy_warns_at_its_line():
    def f(x):
        a = (x * 1).numpy()
        inverse = 1 / a
        np.log(a)
        return inverse, x + 1

    given = [torch.tensor([0.0, 1.0]), torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 2.0])]
    return Case(f, torch.tensor([1.0, 2.0]), then=[lambda g=g: Args(g) for g in given])


@program
def numpy_warns_of_what_nobody_reads():
    def f(x):
        a = (x * 1e30).numpy()
        a * 1e30
        a.astype(np.int32)
        return x + 1

    return Case(f, torch.zeros(2), then=[lambda: Args(torch.ones(2)), lambda: Args(torch.zeros(2))])


@program(whole=False)
def a_caller_decides_of_warnings():
    def f(x):
        a = (x * 1).numpy()
        try:
            return 1 / a
        except FloatingPointError as error:
            return str(error)

    def under(kind):
        def call(x):
            with np.errstate(divide=kind):
                return f(x)

        return call

    calls = [under(kind) for kind in ("warn", "ignore", "raise")]

    def run(x, which):
        return calls[which](x), x + 1

    zero = torch.tensor([0.0, 1.0])
    return Case(run, zero + 1, 0, then=[lambda k=k: Args(zero, k) for k in (0, 1, 2, 0)])


@program(whole=False)
def the_memory_is_written_behind():
    def f(x):
        y = x * 2
        a = y.numpy()
        before, part = a + 1, a[1:]
        y.add_(1)
        return before, part, a, y

    return with_others(f)


@program(whole=False)
def an_input_is_written_behind():
    def f(x):
        a = x.numpy()
        before = np.stack([a, a])
        x.data.mul_(2)
        return before, a, a + 1

    return with_others(f)


@program
def an_array_before_and_after_a_write():
    def f(x):
        y = x * 2
        part = y.numpy()[1:]
        y.add_(1)
        return part * 2, part, y

    return with_others(f)


@program
def refused_by_numpy():
    def f(x, axis):
        a = (x * 2).numpy()
        try:
            return np.concatenate([a, a[:, :2]], axis=axis)
        except ValueError as error:
            return str(error)

    return Case(f, matrix(3, 4), 1, then=[lambda: Args(matrix(3, 4), 0), lambda: Args(matrix(3, 4), 5)])


@program(whole=False)
def numbers_and_sizes_that_values_decide():
    def f(x):
        a = (x * 2).numpy()
        return a[a > 1], a.mean(), np.nonzero(a), a[0, 1], float(a.sum()), a.tolist()

    return with_others(f)


@program(whole=False)
def made_by_numpy_and_a_tensor_again():
    def f(x):
        a = np.maximum((x * 2).numpy(), 0)
        back = torch.from_numpy(a)
        back.add_(1)
        return a, back, torch.from_numpy(a[1:]) * 2

    return with_others(f)


@program
def sizes_and_axes_from_the_arguments():
    def f(x, n):
        a = (x * 2).numpy()
        return a[:n], np.roll(a, n), a + n, np.expand_dims(a, n - 1)

    return Case(f, vector(4), 1, then=[lambda: Args(vector(4), 2), lambda: Args(vector(4), 1)])


@program(whole=False)
def an_index_that_values_decide():
    def f(x):
        a = (x * 2).numpy()
        chosen = a[a > 1]
        first = a[a[:, 0] > 1, 0]
        return chosen, len(chosen), first, first.shape, a + 1

    return with_others(f)


@program
def an_index_from_outside_is_written():
    rows = np.array([0, 2])

    def f(x, rows):
        a = (x * 2).numpy()
        return a[rows], a * rows[1]

    def change():
        rows[1] = 1

    return Case(f, matrix(3, 4), rows, then=[change, lambda: Args(matrix(3, 4), np.array([0, 2])), lambda: Args(matrix(3, 4), rows)])


@program(whole=False)
def an_array_from_outside_within_a_key():
    def f(x, rows):
        a = (x * 2).numpy()
        return a[rows, 1]

    rows = np.array([0, 2])
    return Case(f, matrix(3, 4), rows, then=[lambda: rows.put(1, 1), lambda: Args(matrix(3, 4), np.array([0, 2]))])


@program(whole=False)
def casts_that_numpy_warns_of():
    def f(x):
        a = (x * 1).numpy()
        return np.asarray(a, np.int32), np.concatenate([a, a], dtype=np.int64, casting="unsafe"), np.maximum(a, 1e300)

    return Case(f, torch.ones(3), then=[lambda: Args(torch.tensor([0.0, float("nan"), 1.0]))])


@program(whole=False)
def numbers_of_other_kinds():
    def f(x):
        a = (x * 2).numpy()
        z = (x + 1j).numpy()
        return a.astype(object), z + 1, np.abs(z), a.astype(np.complex64), z.astype(np.float32)

    return with_others(f)


@program(whole=False)
def fewer_numbers_than_degrees_of_freedom():
    def f(x):
        a = (x * 2).numpy()
        return np.std(a, axis=0, ddof=1), a.var(0, ddof=2), np.var(a, 1)

    return Case(f, matrix(1, 4), then=[lambda: Args(matrix(1, 4) * 3), lambda: Args(matrix(3, 4))])


@program(whole=False)
def a_filter_of_what_numpy_says_itself():
    def f(x):
        try:
            return (x * 1).numpy().sum(axis=0), x + 1
        except RuntimeWarning as error:
            return str(error), x

    def under_filter(x, action):
        with warnings.catch_warnings():
            warnings.filterwarnings(action, message="invalid value encountered in reduce")
            return f(x)

    given = torch.tensor([[float("inf")], [float("-inf")]])
    return Case(under_filter, torch.ones(2, 1), "ignore", then=[lambda k=k: Args(given, k) for k in ("ignore", "error", "ignore")])


@program
def operands_that_lie_otherwise():
    rows = np.arange(12.0).reshape(3, 4)
    columns = np.asfortranarray(rows)

    def f(x, other):
        a = (x * 2).numpy()
        turned = x.t().contiguous().numpy().T
        return a * other, turned * other, turned + other[:, :]

    return Case(f, matrix(3, 4), rows, then=[lambda: Args(matrix(3, 4), columns), lambda: Args(matrix(3, 4), rows)])


@program(whole=False)
def statistics_are_written_behind():
    norm = torch.nn.BatchNorm1d(4)

    def f(x):
        before = norm.running_mean.numpy() + 1
        y = norm(x)
        return before, y, norm.running_mean.numpy() * 2

    return with_others(f)


@program(whole=False)
def gradients_are_added_behind():
    w = torch.ones(4, requires_grad=True)
    w.grad = torch.ones(4)

    def f(x):
        seen = w.grad.numpy()
        before = seen + 1
        (x * w).sum().backward()
        return before, seen, w.grad.numpy() + 1

    return with_others(f, observe=w)


@program(whole=False)
def another_shape_behind():
    def f(x):
        y = x * 2
        a = y.numpy()
        before = a + 1
        y.t_()
        y.unsqueeze_(0)
        return a, before, y, y.numpy()[0] + 1

    return with_others(f)


@program(whole=False)
def another_shape_before():
    def f(x):
        x.unsqueeze_(0)
        a = x.numpy()
        x.data = x.data * 2
        return a + 1, a.shape, x.numpy()[0] * 2

    return with_others(f)


@program(whole=False)
def other_data_behind():
    def f(x):
        y = x * 2
        a = y.numpy()
        y.data = x + 5
        y.add_(1)
        return a, a * 2, y, y.numpy() + 1

    return with_others(f)


# An axis that is an array of no dimensions: what comes out has the shape that its number says.
@program(whole=False)
def axis_that_is_an_array():
    def f(x, axis):
        a, n = (x * 2).numpy(), axis.numpy()
        total, turned, twice = np.sum(a, n), a.swapaxes(n, 1), np.concatenate([a, a], n)
        return total, total.shape, turned.shape, twice.shape, np.tile(a, n + 1).shape

    return Case(f, vector(6).reshape(2, 3), torch.tensor(1), then=[lambda n=n: Args(vector(6).reshape(2, 3), torch.tensor(n)) for n in (0, 1)])
