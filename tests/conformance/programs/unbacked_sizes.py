"""Sizes and numbers that follow from values: symbols that a graph defines itself."""

import torch
from torch import nn

from conformance.program import Args, Case, program
from conformance.sample import leaf, vector


def _noise(n=24, seed=0):
    return torch.randn(n, generator=torch.Generator().manual_seed(seed))


def _changing(f, make, times=5):
    return Case(f, *make(0), then=[lambda i=i: Args(*make(i)) for i in range(1, times)])


@program
def selected_by_a_mask():
    def f(x):
        kept = x[x > 0]
        return kept.sin() * 2, kept.shape[0], kept.sum()

    return _changing(f, lambda i: (_noise(seed=i),))


@program
def gradient_of_what_a_mask_selects():
    def f(x, y):
        mask = x > 0
        return (x[mask] * y[mask]).exp().sum() + x.sum()

    return _changing(f, lambda i: (_noise(seed=i).requires_grad_(), _noise(seed=i + 9).requires_grad_()))


@program
def none_selected():
    def f(x):
        kept = x[x > 0]
        return kept * 2, kept.numel()

    return Case(
        f,
        _noise(),
        then=[lambda: Args(-_noise().abs()), lambda: Args(_noise(seed=1)), lambda: Args(-_noise().abs())] * 2,
    )


@program
def rows_that_are_not_zero():
    def f(x):
        rows = x[x.abs().sum(1) > 4]
        return torch.relu(rows @ x.T), rows.shape, x.nonzero()

    return _changing(f, lambda i: (_noise(24, i).view(6, 4),))


@program
def indices_of_two_dimensions():
    def f(x):
        row, column = torch.where(x > 0.3)
        return x[row, column] * 2, row + column, torch.argwhere(x < 0).sum(1)

    return _changing(f, lambda i: (_noise(24, i).view(6, 4),))


@program
def unique_values():
    def f(x):
        values, inverse, counts = torch.unique((x * 2).round(), return_inverse=True, return_counts=True)
        return values[inverse] - x, counts * 2, torch.unique_consecutive((x > 0).float())

    return _changing(f, lambda i: (_noise(seed=i),))


@program
def repeated_as_often_as_computed():
    def f(x):
        times = (x.abs() * 2).long()
        return torch.repeat_interleave(x, times) + 1, torch.bincount(times)

    return _changing(f, lambda i: (_noise(seed=i) + 0.7,))


@program
def number_of_a_tensor():
    def f(x):
        total = x.sum().item()
        largest = float(x.abs().max())
        count = int((x > 0).sum())
        return x * total / largest, x[:count] + 1, total, count * 2

    return _changing(f, lambda i: (_noise(seed=i),))


@program
def number_read_before_a_write():
    def f(x):
        y = x * 2
        first = y.sum().item()
        y.add_(100)
        second = y.sum().item()
        return y, first, second

    return _changing(f, lambda i: (_noise(seed=i),))


@program
def lengths_as_a_list():
    def f(x, weights):
        a, b = (weights.abs() * 3).long().tolist()
        return x[: a + 1] * 2, x[a : a + b + 1], [a, b]

    return _changing(f, lambda i: (_noise(seed=i), _noise(2, i)))


@program(whole=False)
def branch_that_mostly_goes_one_way():
    def f(x):
        y = x * 2
        if y.sum().item() > 0:
            y = y + 1
        else:
            y = y - 1
        if torch.isnan(y).any():
            return y.nan_to_num()
        return y.sin()

    nan = vector()
    nan[0] = float("nan")
    makes = [vector().abs(), vector().abs() + 1, -vector().abs(), nan, vector().abs() * 2]
    return Case(f, makes[0], then=[lambda m=m: Args(m.clone()) for m in makes[1:] * 3])


@program
def written_input_after_a_look():
    def f(x):
        if x.sum().item() > 0:
            x.mul_(2)
        else:
            x.sub_(1)
        return x + 1

    makes = [vector().abs(), vector().abs() + 1, -vector().abs(), vector().abs() * 2]
    return Case(f, makes[0], then=[lambda m=m: Args(m.clone()) for m in makes[1:] * 2])


@program
def experts_chosen_by_row():
    def f(x, experts):
        chosen = (x @ experts[0]).argmax(-1)
        out = torch.zeros_like(x)
        for i in range(3):
            rows = torch.where(chosen == i)[0]
            out[rows] = torch.relu(x[rows] @ experts[i])
        return out

    def make(i):
        return _noise(80, i).view(20, 4).requires_grad_(), _noise(48, i + 7).view(3, 4, 4).requires_grad_()

    return _changing(f, make)


@program(whole=False)
def numbers_that_the_code_looks_at():
    def f(x):
        steps = int(x.abs().sum()) % 3
        for i in range(steps):
            x = x + i
        return x, f"{steps} steps"

    return _changing(f, lambda i: (_noise(seed=i),))


@program
def random_numbers_before_a_look():
    def f(x):
        y = x + torch.rand(x.shape)
        kept = y[y > 0.5]
        return kept * torch.rand(kept.shape), torch.rand(2)

    return _changing(f, lambda i: (_noise(seed=i),))


@program
def list_that_grows_by_what_is_found():
    class Log:
        def __init__(self):
            self.losses = []
            self.total = 0.0

    log = Log()

    def f(x):
        y = x.sin().mean()
        log.losses.append(y.item())
        log.total += y.item()
        return y * 2, list(log.losses), log.total

    return _changing(f, lambda i: (_noise(seed=i),))


@program
def numbers_of_tensors_with_dimensions():
    def f(x):
        one = x[:1]
        return one.item(), one.tolist(), x[:1].view(1, 1).item(), x.sum().tolist(), x * 2

    return _changing(f, lambda i: (_noise(seed=i),))


@program(whole=False)
def item_of_more_than_one_element():
    def f(x):
        try:
            return x[:2].item(), x * 2
        except RuntimeError as error:
            return str(error), x * 3

    return _changing(f, lambda i: (_noise(seed=i),))


@program
def numbers_that_do_not_fit():
    def f(x):
        n = (x * 1e3).long().sum().item()
        return n * n * n * n, n - 1, x + 1

    return _changing(f, lambda i: (torch.full((4,), (0.1, 5.0, -7.0, 0.2, 2e9)[i]),))


@program(whole=False)
def float_of_what_requires_a_gradient():
    def f(x):
        return float(x.sum()), int((x > 0).sum()), x * 2

    return _changing(f, lambda i: (_noise(seed=i).requires_grad_(),))


@program
def places_written_with_gradients():
    def f(x):
        y = x * 1
        mask = y < 0
        y[mask] = y[mask] * 0.1
        return y.sin()

    return Case(f, leaf(6), then=[lambda: Args((vector(6) - 2).requires_grad_()), lambda: Args((vector(5) * -1).requires_grad_())])


@program
def a_mask_written_between_its_uses():
    def f(x):
        mask = x > 0
        a = x[mask]
        mask.logical_not_()
        b = x[mask]
        places = mask.nonzero()
        places.add_(0)
        return a * 2, b + 1, places, x[mask].sum()

    return Case(f, vector(6) - 2, then=[lambda: Args(vector(6) - 1), lambda: Args(3 - vector(6))])


@program
def experts_without_work():
    torch.manual_seed(0)
    experts = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))

    def f(x, which):
        result = torch.zeros_like(x)
        for i, expert in enumerate(experts):
            rows = (which == i).nonzero().squeeze(-1)
            result = result.index_add(0, rows, expert(x[rows]))
        return result

    def given(*which):
        torch.manual_seed(len(which))
        return torch.randn(len(which), 3).requires_grad_(), torch.tensor(which)

    start = given(0, 1, 2, 0, 1, 2)
    return Case(f, *start, then=[lambda w=w: Args(*given(*w)) for w in ((0, 0, 1, 1, 2), (0, 0, 1, 1), (2, 2, 2, 1, 0, 0, 2))])


def _counts(x, w):
    """How many rows each expert has, and the rows in their order."""
    chosen = (x @ w).topk(2, 1).indices
    counts = torch.zeros(len(x), w.shape[1]).scatter(1, chosen, 1).long().sum(0).tolist()
    return counts, x.repeat_interleave(2, 0)


def _routed(x, w):
    counts, rows = _counts(x, w)
    return torch.cat([part * (i + 1) for i, part in enumerate(rows.split(counts, 0))])


def _sized_batches(f, *sizes):
    def given(n):
        g = torch.Generator().manual_seed(n)
        return torch.randn(n, 8, generator=g), torch.randn(8, 4, generator=g)

    return Case(f, *given(sizes[0]), then=[lambda n=n: Args(*given(n)) for n in sizes[1:]])


@program
def sums_of_counts_where_multiples_of_a_size_are_known():
    def f(x, w):
        y = _routed(x, w)
        for factor in (2560, 160, 80, 1280, 10):
            if len(x) * factor == 30 * factor:
                y = y + factor
        return y + _routed(x + 1, w), _routed(x * 2, w), _routed(x - 1, w)

    return _sized_batches(f, 20, 30, 24, 30, 40)


@program
def counts_that_serve_twice_where_a_size_is_known():
    def f(x, w):
        first, rows = _counts(x, w)
        if rows.numel() == 480:
            rows = rows + 1
        if len(rows) * 6 == 360:
            rows = rows * 2
        second, others = _counts(x + 1, w)
        parts = [*rows.split(first, 0), *others.split(second, 0), *(rows - others).split(first, 0)]
        return torch.cat([part.cumsum(0) for part in parts]), [len(part) for part in parts[:0]]

    return _sized_batches(f, 20, 30, 24, 30, 40)
