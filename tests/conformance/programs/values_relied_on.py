"""Numbers read out of masks, ids and lengths, which a graph may rely on: each call must have the value that is there.

The tensor stays the same object, and what it holds changes: in place, through a view, past its version, from an array.
"""

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


def _changing(f, *numbers):
    """Calls f with one tensor whose numbers change between the calls in each way."""
    t = torch.tensor(numbers)

    def by_array():
        t.numpy().fill(5)

    changes = [lambda: t.add_(1), lambda: t.data.mul_(2), by_array, lambda: t.view(-1)[:1].zero_(), lambda: t.fill_(7)]
    return Case(f, vector(), t, then=[lambda change=change: (change(), Args(vector(), t))[1] for change in changes])


@program(whole=False)
def items_of_an_input():
    return _changing(lambda r, t: r + t[0].item() + int(t[1]), 3, 1)


@program(whole=False)
def a_list_of_an_input():
    return _changing(lambda r, t: r + sum(t.tolist()), 3, 1)


@program(whole=False)
def a_list_of_a_view():
    return _changing(lambda r, t: r + t.reshape(-1)[1:].tolist()[0], 3, 1)


@program(whole=False)
def the_truth_of_an_element():
    return _changing(lambda r, t: r * 2 if t[0] > 4 else r - 1, 3, 1)


@program(whole=False)
def the_input_is_the_number():
    return _changing(lambda r, t: r[: int(t) % 3] * 2, 2)


@program(whole=False)
def reductions_of_an_input():
    return _changing(lambda r, t: r + t.sum().item() if t.any() else r, 3, 1)


@program(whole=False)
def a_number_that_is_read_and_then_written():
    def f(r, t):
        n = int(t[0])
        t.zero_()
        return r + n + int(t[0])

    return _changing(f, 3, 1)


@program(whole=False)
def lengths_that_cut():
    def f(r, lengths):
        return torch.stack([r[: int(n) % 3].sum() for n in lengths]), r[: lengths.max() % 3]

    return _changing(f, 2, 1)


@program(whole=False)
def the_number_is_kept_by_the_program():
    kept = []

    def f(r, t):
        kept.append(t[0].item())
        return r + kept[-1]

    return Case(f, vector(), torch.tensor([3]), observe=kept, then=[lambda: Args(vector(), torch.tensor([4]))] * 3)


def _two_names(f):
    """Calls f with a tensor and a view of it, whose numbers change between the calls; the view is met after the read."""
    t = torch.tensor([1, 2])

    def call(*numbers):
        t.copy_(torch.tensor(numbers))
        return Args(vector(), t, t.view(1, -1))

    return Case(f, vector(), t, t.view(1, -1), then=[lambda n=n: call(*n) for n in ((1, 1), (2, 2), (1, 2), (5, 0))])


@program(whole=False)
def of_a_tensor_with_another_name_that_is_written_later():
    def f(r, t, view):
        t.clamp_(0, 2)
        r = r + t.unique().numel()
        view.add_(1)
        return r, t

    return _two_names(f)


@program(whole=False)
def of_a_tensor_with_another_name_that_was_written_before():
    def f(r, t, view):
        view.clamp_(0, 2)
        r = r + t.unique().numel() + t.sum().item()
        t.mul_(2)
        return r + int(view[0, 1]), view

    return _two_names(f)


@program(whole=False)
def of_a_tensor_with_another_name_that_is_read_later():
    def f(r, t, view):
        t.add_(1)
        return r + t.unique().numel() + view.sum()

    return _two_names(f)
