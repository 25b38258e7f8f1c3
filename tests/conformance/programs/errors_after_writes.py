"""Errors that an operator raises for the values it meets, after others have written tensors and the program has had effects.

A graph that runs as a whole has done part of its work then. What a handler sees, what was written and how often, and the
line of the traceback are eager's.
"""

import types

import torch
from torch import nn

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


@program(rule=20, whole=False)
def an_index_in_a_handler():
    seen = []

    def f(x, i):
        seen.append("begun")
        try:
            x.add_(1)
            seen.append("written")
            return x[i] * 2
        except IndexError as error:
            seen.append(str(error))
            return x * 3
        finally:
            seen.append("done")

    bad = torch.tensor([0, 7])
    return Case(
        f, vector(3), torch.tensor([0, 2]), then=[lambda: Args(vector(3), bad), lambda: Args(vector(6)[::2], bad)], observe=seen, versions=True
    )


@program(rule=20, whole=False)
def a_maximum_of_nothing():
    def f(x, y):
        x.mul_(2)
        try:
            return x + y.abs().max()
        except RuntimeError as error:
            return x - 1, str(error)

    return Case(f, vector(3), matrix(2, 3), then=[lambda: Args(vector(3), torch.zeros(0, 3))], versions=True)


@program(rule=20, whole=False)
def the_text_of_one_hot():
    def f(x, i):
        x.add_(1)
        return x + nn.functional.one_hot(i, 5).sum()

    return Case(
        f, vector(3), torch.tensor([2]), then=[lambda: Args(vector(3), torch.tensor([7])), lambda: Args(vector(3), torch.tensor([-1]))]
    )


@program(rule=20, whole=False)
def writes_that_no_version_counts():
    table = torch.arange(4.0)

    def f(x, i):
        x.data.mul_(2)
        x.detach()[1:].sub_(1)
        table[:2].add_(1)
        try:
            return table.index_select(0, i)
        except (IndexError, RuntimeError):
            return x + 1

    bad = torch.tensor([9])
    return Case(f, vector(3), torch.tensor([1]), then=[lambda: Args(vector(3), bad), lambda: Args(vector(3), bad)], observe=table, versions=True)


@program(rule=20, whole=False)
def an_operator_that_has_written_half():
    def f(x, i):
        try:
            x.index_add_(0, i, torch.ones(3))
        except (IndexError, RuntimeError):
            return x + 1
        return x * 2

    return Case(f, torch.zeros(3), torch.tensor([0, 1, 1]), then=[lambda: Args(torch.zeros(3), torch.tensor([0, 0, 7]))], versions=True)


@program(rule=20, whole=False)
def an_overlapping_input_is_written():
    def f(x, i):
        x[0].add_(1)
        try:
            return x[i]
        except IndexError:
            return x * 2

    return Case(f, torch.ones(1).expand(3), torch.tensor([0]), then=[lambda: Args(torch.ones(1).expand(3), torch.tensor([5]))], versions=True)


@program(rule=20, whole=False)
def random_numbers_before_it():
    def f(x, i):
        x.add_(torch.rand(3))
        try:
            return x[i]
        except IndexError:
            return x + torch.rand(3)

    def wrong():
        torch.manual_seed(3)
        return Args(vector(3), torch.tensor([5]))

    return Case(f, vector(3), torch.tensor([0]), then=[wrong])


@program(rule=20, whole=False)
def random_numbers_drawn_in_place():
    dropout = nn.Dropout(0.5)

    def f(x, i):
        x = dropout(x) * torch.empty(3).uniform_(1, 2)
        try:
            return x[i]
        except IndexError:
            return x + torch.rand(3)

    return Case(f, vector(3), torch.tensor([7]), then=[lambda: Args(vector(3), torch.tensor([0])), lambda: Args(vector(3), torch.tensor([5]))])


@program(rule=20, whole=False)
def one_place_is_written_as_several():
    seen = []

    def f(x, wide):
        x.add_(1)
        wide.detach()[0] = 0
        seen.append("written")
        return x

    wide = vector(1).expand(3)
    return Case(f, vector(3), wide, then=[lambda: Args(vector(3), wide.expand(2, 3))], observe=seen)


@program(rule=20, whole=False)
def a_written_input_with_a_history():
    def f(w, i):
        x = w * 2
        print("a break: x is an input of what comes next")
        x.mul_(3)
        try:
            return x[i].sum()
        except IndexError:
            return (x + 1).sum()

    return Case(f, leaf(3), torch.tensor([0]), then=[lambda: Args(leaf(3), torch.tensor([5]))])


@program(rule=20, whole=False)
def in_a_module_with_statistics():
    norm = nn.BatchNorm1d(2)
    calls = []

    def f(x, target):
        calls.append(len(calls))
        return nn.functional.cross_entropy(norm(x), target)

    return Case(
        f,
        matrix(3, 2),
        torch.tensor([0, 1, 1]),
        then=[lambda: Args(matrix(3, 2), torch.tensor([0, 1, 5])), lambda: Args(matrix(3, 2), torch.tensor([0, 1, 0]))],
        observe=[calls, norm],
        versions=True,
    )


@program(rule=22, whole=False)
def past_the_end_of_a_storage():
    def f(x, y):
        print("a break")
        x.add_(1)
        return x + y.as_strided((1,), (1,)).sum()

    return Case(f, vector(3), vector(3), then=[lambda: Args(vector(3), vector(3)[3:])])


@program(rule=22, whole=False)
def past_the_end_of_a_storage_from_the_start():
    def f(x, y):
        x.add_(1)
        return x + y.as_strided((1,), (1,)).sum()

    return Case(f, vector(3), vector(3), then=[lambda: Args(vector(3), vector(3)[3:])])


class Reshaped(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.view(-1)

    @staticmethod
    def backward(context, gradient):
        return gradient


def views_that_are_not_written():
    with torch.no_grad():
        unseen = leaf(6).view(2, 3)
    return [leaf(6).reshape(2, 3), leaf(6).unbind()[0], (leaf(6) * 2).reshape(2, 3).unbind()[1], Reshaped.apply(leaf(6) * 2), unseen]


@program(whole=False)
def views_that_torch_refuses_to_write():
    seen = []

    def f(x, view):
        seen.append("begun")
        try:
            view.clamp_(0, 2)
        except RuntimeError as error:
            seen.append(str(error)[:40])
            x = x * 2
        return x + 1

    views = views_that_are_not_written()
    return Case(f, vector(), leaf(6) * 2, then=[lambda v=v: Args(vector(), v) for v in views], observe=seen, forward_only=True)


@program(whole=False)
def the_line_of_a_refused_write():
    def f(x, view):
        x = x + 1
        view.clamp_(0, 2)
        return x

    views = views_that_are_not_written()
    return Case(f, vector(), views[0], then=[lambda v=v: Args(vector(), v) for v in views], forward_only=True)


@program
def a_failed_call_has_made_a_constant():
    def f(x, wide):
        try:
            wide.detach().add_(1)
        except RuntimeError as error:
            x = x + len(type(error).__name__)
        return x + 1

    return Case(f, vector(), vector(1).expand(3))


@program(rule=20, whole=False)
def an_index_before_a_write_that_no_version_counts():
    w = torch.nn.Parameter(vector())

    def f(x, i):
        try:
            x = x + torch.zeros(4).index_put((i,), torch.tensor(1.0), accumulate=True)[1]
        except IndexError as error:
            x = x + len(str(error))
        w.data.mul_(0.5)
        return x

    return Case(f, vector(), torch.tensor([1]), then=[lambda: Args(vector(), torch.tensor([4])), lambda: Args(vector(), torch.tensor([2]))], observe=w)


def index_and_what_it_is_a_view_of(place):
    s = torch.tensor([place])
    return s.reshape(1, -1), s


@program
def the_line_of_an_index_before_its_base_is_written():
    def f(x, i, s):
        x = x.clone()
        x.index_fill_(0, torch.tensor([0]), 2.0)
        y = torch.ones(3)[i].sum()
        s.add_(1)
        return x + y

    then = [lambda p=p: Args(vector(), *index_and_what_it_is_a_view_of(p)) for p in (3, 1)]
    return Case(f, vector(), *index_and_what_it_is_a_view_of(2), then=then)


@program(whole=False)
def the_line_of_a_write_to_a_view_of_a_leaf_that_is_a_view():
    base = torch.ones(4)
    part = base.detach()[1:]
    holder = types.SimpleNamespace(t=base.clone())

    def f(x):
        y = x * 2
        holder.t += 1
        return y + holder.t.sum()

    def of_the_leaf():
        part.requires_grad_()
        holder.t = part[None]

    return Case(f, vector(), observe=holder, then=[of_the_leaf, lambda: None, lambda: setattr(holder, "t", part[1:])], forward_only=True)
