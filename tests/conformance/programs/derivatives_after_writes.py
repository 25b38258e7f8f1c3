"""Second derivatives where an input of a graph was written when the graph had run. No node of eager's has saved that
input, only values that were computed from it: they are what derivatives are made of, also where no version counts up.
"""

import itertools

import torch

from conformance.program import Case, program
from conformance.sample import leaf


def _counted(x, w):
    with torch.no_grad():
        x.add_(0.25)


def _by_data(x, w):
    x.data.mul_(1.5)


def _with_history(x, w):
    x.mul_(w)


def _replaced(x, w):
    with torch.no_grad():
        x.zero_()


WRITES = (_counted, _by_data, _with_history, _replaced)


def _written_later(*functions, writes=WRITES):
    """Of results of two leaves, a break, a write of the first, a break; the gradients, and the gradients of those."""
    leaves = [leaf(), leaf(3, 0.5)]

    def run():
        found = []
        for f, write in itertools.product(functions, writes):
            x, w = [t * 0.5 for t in leaves]
            torch._dynamo.graph_break()
            y = f(x, w)
            torch._dynamo.graph_break()
            write(x, w)
            torch._dynamo.graph_break()
            first_order = torch.autograd.grad(y.sum(), leaves, create_graph=True)
            length = sum((g * g).sum() for g in first_order)
            second = torch.autograd.grad(length, leaves)
            found += [*(g.detach() for g in first_order), *second]
        return found

    return Case(run, observe=leaves, forward_only=True)


def _one_at_a_time(*functions):
    """Each of a number of operators that save their result, of the first argument."""
    return _written_later(*(lambda x, w, function=function: function(x) * w for function in functions))


@program(whole=False)
def exponentials():
    return _one_at_a_time(torch.exp, torch.expm1, torch.exp2)


@program(whole=False)
def results_that_are_saved():
    return _one_at_a_time(torch.tanh, torch.sigmoid, torch.sqrt, torch.rsqrt, torch.reciprocal, torch.relu)


@program(whole=False)
def a_saved_result_of_a_saved_result():
    return _written_later(lambda x, w: x.exp().sqrt() * w)


@program(whole=False)
def behind_values_that_nobody_saves():
    return _written_later(lambda x, w: (((x + 1) * 2 - 0.5).neg().exp() + 1) * w)


@program(whole=False)
def rows_of_a_softmax():
    return _one_at_a_time(lambda x: x.softmax(0), lambda x: x.log_softmax(0))


@program(whole=False)
def parts_and_views():
    return _written_later(
        lambda x, w: x.exp()[1:].outer(w),
        lambda x, w: x.exp().expand(2, 3) * w,
        lambda x, w: x.exp().flip(0).view(1, 3) * w,
        lambda x, w: x.exp().cumsum(0)[::2] * w[1:],
    )


@program(whole=False)
def a_bias():
    matrix = torch.eye(3) * 0.5 + 0.25
    linear = torch.nn.functional.linear
    return _written_later(lambda x, w: linear(w, matrix, x).relu(), lambda x, w: linear(w, matrix, x).tanh())


@program(whole=False)
def places_of_the_largest():
    return _one_at_a_time(lambda x: x.sort().values.exp(), lambda x: x.topk(2).values.sum().exp())


@program(whole=False)
def a_third_derivative():
    leaves = [leaf(), leaf(3, 0.5)]

    def run():
        x, w = [t * 0.5 for t in leaves]
        torch._dynamo.graph_break()
        y = x.exp() * w
        torch._dynamo.graph_break()
        with torch.no_grad():
            x.add_(1)
        torch._dynamo.graph_break()
        (first,) = torch.autograd.grad(y.sum(), leaves[:1], create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), leaves[:1], create_graph=True)
        return first.detach(), second.detach(), *torch.autograd.grad(second.sum(), leaves)

    return Case(run, observe=leaves, forward_only=True)


@program(whole=False)
def written_between_the_passes():
    leaves = [leaf(), leaf(3, 0.5)]

    def run():
        x, w = [t * 0.5 for t in leaves]
        torch._dynamo.graph_break()
        y = x.exp() * w
        torch._dynamo.graph_break()
        first = torch.autograd.grad(y.sum(), leaves, create_graph=True)
        with torch.no_grad():
            x.add_(1)
        torch._dynamo.graph_break()
        return torch.autograd.grad(sum((g * g).sum() for g in first), leaves)

    return Case(run, observe=leaves, forward_only=True)


@program(whole=False)
def written_by_the_caller():
    """No graph writes it: Python does, when the compiled function has returned."""
    leaves = [leaf(), leaf(3, 0.5)]
    kept = []

    def run():
        x, w = [t * 0.5 for t in leaves]
        torch._dynamo.graph_break()
        kept[:] = x, x.exp() * w

    def look():
        with torch.no_grad():
            kept[0].add_(1)
        first = torch.autograd.grad(kept.pop().sum(), leaves, create_graph=True)
        second = torch.autograd.grad(sum((g * g).sum() for g in first), leaves)
        return [*(g.detach() for g in first), *second]

    return Case(run, observe=leaves, forward_only=True, look=look)


@program(whole=False)
def saved_for_another_result_alone():
    """Eager's node of sin() has saved what is written. A pass from the other result never comes to it."""
    leaves = [leaf(), leaf(3, 0.5)]

    def run():
        x, w = [t * 0.5 for t in leaves]
        torch._dynamo.graph_break()
        y, z = x.exp() * w, x.sin()
        torch._dynamo.graph_break()
        with torch.no_grad():
            x.add_(1)
        torch._dynamo.graph_break()
        first = torch.autograd.grad(y.sum(), leaves, create_graph=True)
        second = torch.autograd.grad(sum((g * g).sum() for g in first), leaves)
        try:
            torch.autograd.grad(z.sum(), leaves, allow_unused=True)
        except RuntimeError as error:
            return first[0].detach(), second, "modified by an inplace operation" in str(error)

    return Case(run, observe=leaves, forward_only=True)


@program(whole=False)
def saved_for_a_second_derivative_alone():
    """The gradient of w needs the sine, which is saved; the derivative of that needs what is written, and raises."""
    leaves = [leaf(), leaf(3, 0.5)]

    def run():
        x, w = [t * 0.5 for t in leaves]
        torch._dynamo.graph_break()
        y = (x.sin() + 1) * w
        torch._dynamo.graph_break()
        with torch.no_grad():
            x.add_(1)
        torch._dynamo.graph_break()
        (first,) = torch.autograd.grad(y.sum(), [leaves[1]], create_graph=True)
        try:
            torch.autograd.grad((first * first).sum(), leaves, allow_unused=True)
        except RuntimeError as error:
            return first.detach(), "modified by an inplace operation" in str(error)

    return Case(run, observe=leaves, forward_only=True)


@program(whole=False)
def given_other_sizes():
    leaves = [leaf(), leaf(3, 0.5)]

    def run():
        x, w = [t * 0.5 for t in leaves]
        torch._dynamo.graph_break()
        y = x.exp() * w
        torch._dynamo.graph_break()
        x.data = torch.ones(2, 2)
        torch._dynamo.graph_break()
        first = torch.autograd.grad(y.sum(), leaves, create_graph=True)
        return [*(g.detach() for g in first), *torch.autograd.grad(sum((g * g).sum() for g in first), leaves)]

    return Case(run, observe=leaves, forward_only=True)


@program(whole=False)
def results_that_a_later_node_has_saved():
    """The first gradient does without them; the node that comes next in the second is refused, as eager's that saved it."""
    leaves = [leaf(), leaf(3, 0.5)]

    def of_a_square(x, w):
        e = x.sigmoid()
        return e * e * w, e

    def of_what_is_written(x, w):
        e = x.sigmoid()
        return e * w, e

    def of_a_sum(x, w):
        e = x + w
        return (e * 2).sin() * w, e

    def run():
        found = []
        for f in (of_a_square, of_what_is_written, of_a_sum):
            x, w = [t * 0.5 for t in leaves]
            torch._dynamo.graph_break()
            y, e = f(x, w)
            torch._dynamo.graph_break()
            with torch.no_grad():
                e.mul_(3)
            torch._dynamo.graph_break()
            try:
                (first,) = torch.autograd.grad(y.sum(), leaves[1:], create_graph=True)
                found.append(first.detach())
                found.append(torch.autograd.grad(first.square().sum(), leaves))
            except RuntimeError as error:
                found.append("modified by an inplace" in str(error))
        return found

    return Case(run, observe=leaves, forward_only=True)


@program(whole=False)
def data_written_in_the_graph_that_has_read_it():
    """The first derivative reads what is there now, and so does the second, by the nodes that saved it."""

    def f(x, w):
        y = x * x * w
        x.data.mul_(3)
        return y

    def run():
        x, w = leaf(), leaf(3, 0.5)
        torch._dynamo.graph_break()
        y = f(x, w)
        torch._dynamo.graph_break()
        (first,) = torch.autograd.grad(y.sum(), w, create_graph=True)
        return first.detach(), torch.autograd.grad(first.square().sum(), (x, w), allow_unused=True)

    return Case(run, forward_only=True)


def _written_between(f, *later):
    """The gradients of `f`, and of those, with the writes `later` before each."""

    def run():
        found = []
        for before, between in itertools.product(later, later):
            x, w = [t * 0.5 for t in (leaf(), leaf(3, 0.5))]
            torch._dynamo.graph_break()
            y = f(x, w)
            torch._dynamo.graph_break()
            before(x, w)
            torch._dynamo.graph_break()
            first = torch.autograd.grad(y.sum(), (x, w), create_graph=True)
            torch._dynamo.graph_break()
            between(x, w)
            torch._dynamo.graph_break()
            found.append([t.detach() for t in first])
            try:
                found += torch.autograd.grad(sum((t * t).sum() for t in first), (x, w))
            except RuntimeError as error:
                found.append("modified by an inplace" in str(error))
        return found

    return Case(run, forward_only=True)


def _none(x, w):
    pass


@program(whole=False, not_ways=("leaks",))  # eager keeps what is left of a pass that failed
def data_written_in_the_graph_and_later():
    def f(x, w):
        y = x.sin() * w
        x.data.mul_(3)
        return y + x * x * w

    return _written_between(f, _none, _by_data, _counted)


@program(whole=False, not_ways=("leaks",))  # eager keeps what is left of a pass that failed
def a_part_of_data_written_in_the_graph():
    def f(x, w):
        y = x * x * w
        x[1:].data.mul_(3)
        w.data.copy_(x.data)
        return y

    return _written_between(f, _none, _counted)


@program(whole=False)
def data_of_a_value_written_in_the_graph_that_has_read_it():
    def f(x, w):
        z = x * w
        y = z.sin() * w
        z.data.mul_(3)
        return y

    return _written_between(f, _none)


@program(whole=False)
def data_written_twice_in_the_graph_that_has_read_it():
    def f(x, w):
        y = x.sin() * w
        x.data.mul_(3)
        z = x.cos() * w
        x.data.add_(1)
        return y * z

    return _written_between(f, _none)


def _written_before(f):
    """The gradients of `f`, and of those, with a write before the first pass."""

    def run():
        found = []
        for write in (_none, _counted, _by_data):
            x, w = [t * 0.5 for t in (leaf(), leaf(3, 0.5))]
            torch._dynamo.graph_break()
            y = f(x, w)
            torch._dynamo.graph_break()
            write(x, w)
            torch._dynamo.graph_break()
            first = torch.autograd.grad(y.sum(), (x, w), create_graph=True)
            found += [t.detach() for t in first]
            found += torch.autograd.grad(sum((t * t).sum() for t in first), (x, w))
        return found

    return Case(run, forward_only=True)


@program(whole=False)
def read_by_data_and_written_by_data():
    def f(x, w):
        y = (x.data * w).sum() * w
        x.data.mul_(3)
        return y + x.sum() * w

    return _written_before(f)


@program(whole=False)
def a_part_read_by_data_and_written_by_data():
    def f(x, w):
        y = (x.data[1:].view(2, 1) * w).sum() * w
        x.data[:2].add_(0.5)
        return y + x.sum() * w

    return _written_before(f)


@program(whole=False)
def read_by_data_beside_what_is_read_by_detach():
    """The version of the one is asked for, that of the other is not."""

    def run(read, write):
        x, w = [t * 0.5 for t in (leaf(), leaf(3, 0.5))]
        torch._dynamo.graph_break()
        y = read(x, w)
        torch._dynamo.graph_break()
        write(x, w)
        torch._dynamo.graph_break()
        try:
            (first,) = torch.autograd.grad(y.sum(), w, create_graph=True)
            return torch.autograd.grad((first * first).sum(), w)
        except RuntimeError as error:
            return "modified by an inplace" in str(error)

    def detached(x, w):
        y = (x.detach() * w).sum() * w
        x.data.mul_(3)
        return y

    def both(x, w):
        y = (x.data * w).sum() * (x.detach() * w).sum() * w
        x.data.mul_(3)
        return y

    def by_data(x, w):
        y = (x.data * w).sum() * w
        x.data.mul_(3)
        return y

    return Case(lambda: [run(*each) for each in itertools.product((detached, both, by_data), (_none, _counted, _by_data))])
