"""Values that are read out of masks, ids and lengths: other data in a later call must give what eager gives.

A compiler that goes on with the values of the first call and does not compare them later is seen here, and one that compares
them before they are what the program reads: written before, drawn at random, those of an alias.
"""

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


def mask(*items):
    return torch.tensor(items, dtype=torch.bool)


def ids(*items):
    return torch.tensor(items)


def with_data(f, x, *data, **settings):
    """Calls f(x, …) with each of the data, twice around."""
    first, *others = data
    return Case(f, x, *first, then=[lambda d=d: Args(x, *d) for d in (*others, first, *others)], **settings)


@program
def branch_on_a_mask():
    def f(x, m):
        if m.all():
            return x * 2
        if not m.any():
            return x - 1
        return torch.where(m, x, 0.0)

    return with_data(f, vector(), [mask(1, 1, 1)], [mask(1, 0, 1)], [mask(0, 0, 0)])


@program
def length_as_a_slice():
    def f(x, n):
        return x[: n.item()] * 2, x[int(n) :].sum()

    return with_data(f, vector(6), *([ids(n)[0]] for n in (2, 3, 4, 0)))


@program
def a_list_of_lengths():
    def f(x, lengths):
        return [part.sum() for part in x.split(lengths.tolist())], int(lengths.max()), len(lengths)

    return with_data(f, vector(6), [ids(1, 2, 3)], [ids(3, 3)], [ids(2, 2, 2)])


@program
def a_mask_as_an_index():
    def f(x, m):
        y = x[m]
        return y * 2, y.shape[0], x[:, m[:3]].sum(1), m.nonzero(), torch.masked_select(x, m[:, None])

    return with_data(f, matrix(4, 3), [mask(1, 0, 1, 1)], [mask(0, 1, 0, 0)], [mask(0, 0, 0, 0)])


@program
def a_mask_as_an_index_of_what_is_written():
    def f(x, m):
        y = x.clone()
        y[m] = 0
        y[~m] *= x[~m]
        return y, y[m].numel()

    return with_data(f, matrix(4, 3), [mask(1, 0, 1, 1)], [mask(0, 1, 0, 0)])


@program
def equal_ids():
    def f(x, a, b):
        return x * 2 if torch.equal(a, b) else x.sum()

    return with_data(f, vector(), [ids(1, 2), ids(1, 2)], [ids(1, 2), ids(1, 3)], [ids(2, 2), ids(2, 2)])


@program
def unique_and_counted_ids():
    def f(x, i):
        found, back, counts = torch.unique(i, return_inverse=True, return_counts=True)
        return x[: len(found)], back, counts, torch.bincount(i), torch.repeat_interleave(x, i), torch.where(i > 1)

    return with_data(f, vector(4), [ids(0, 2, 2, 1)], [ids(3, 3, 3, 3)], [ids(0, 1, 2, 3)])


@program(whole=False)
def a_mask_that_is_written_first():
    def f(x, m):
        m[0] = False
        if m.all():
            return x * 2
        return x - 1, m.sum()

    return with_data(f, vector(), [mask(1, 1, 1)], [mask(0, 1, 1)], forward_only=True)


@program
def a_mask_that_is_written_after():
    def f(x, m):
        whole = bool(m.all())
        m[0] = not whole
        return x * (2 if whole else 3), m.clone()

    return with_data(f, vector(), [mask(1, 1, 1)], [mask(0, 1, 1)], forward_only=True)


@program(whole=False)
def a_mask_seen_through_another_tensor():
    def f(x, part, whole):
        part.fill_(True)
        return x * 2 if whole.all() else x - 1

    base = mask(0, 0, 1, 1)
    return Case(
        f, vector(), base[:2], base, observe=base, forward_only=True, then=[lambda: Args(vector(), base[1:3], base)]
    )


@program
def ids_that_steer_a_loop():
    def f(x, i):
        for k in i.tolist():
            x = x * k if k % 2 else x + k
        while (i > 2).any():
            i = i - 1
            x = x + 1
        return x, i

    return with_data(f, vector(), [ids(1, 2, 3)], [ids(4, 2, 1)], [ids(2)])


@program
def of_a_buffer_and_an_attribute():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
            self.every = ids(2)[0]

        def forward(self, x):
            due = self.steps % self.every == 0
            self.steps += 1
            return x * 2 if due else x + 1

    model = Counter()
    return Case(model, vector(), observe=model, forward_only=True, then=[lambda: Args(vector()) for _ in range(5)])


@program(whole=False)
def floats_decide_nothing():
    def f(x, m):
        if (x * m).sum() > 0:
            return x * 2
        return x - 1

    return with_data(f, vector(), [mask(1, 1, 1)], [mask(0, 0, 1)])


@program(whole=False)
def of_random_ids():
    def f(x):
        i = torch.randint(0, 5, (3,))
        return x * 2 if (i > 2).all() else x + i.sum()

    return Case(f, vector(), then=[lambda: Args(vector()) for _ in range(4)])


@program
def an_error_that_the_values_decide():
    def f(x, n):
        if n.item() > 2:
            raise ValueError(f"{int(n)} is too many")
        return x[: n.item()]

    return with_data(f, vector(), [ids(1)[0]], [ids(3)[0]], [ids(2)[0]])


@program
def a_mask_that_the_backward_selects_by():
    def f(x, m, filled):
        return x.masked_scatter(m[:, None], filled.exp()) * 2, filled.sum()

    x, filled = matrix(4, 3).requires_grad_(), matrix(4, 3).requires_grad_()
    masks = [mask(1, 0, 1, 1), mask(0, 1, 0, 0), mask(0, 0, 0, 0)]
    return Case(f, x, masks[0], filled, then=[lambda m=m: Args(x, m, filled) for m in (*masks[1:], masks[0])])
