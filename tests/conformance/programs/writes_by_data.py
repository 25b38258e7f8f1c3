"""Writes that no version counts (`x.data.mul_(2)`) behind reads that a derivative needs: eager's nodes find what is there
when a pass runs, and so do second derivatives. What was saved counts its versions without `z.data`.
"""

import itertools

import torch

from conformance.program import Case, program
from conformance.sample import leaf


def _of_functions(*functions, writes):
    """Each function's gradients and those of them, with each of the writes of a result before."""

    def run():
        found = []
        for f, write in itertools.product(functions, writes):
            x, w = [t * 0.5 for t in (leaf(), leaf(3, 0.5))]
            torch._dynamo.graph_break()
            y, *others = f(x, w)
            torch._dynamo.graph_break()
            write(x, others)
            torch._dynamo.graph_break()
            try:
                first = torch.autograd.grad(y.sum(), (x, w), create_graph=True, allow_unused=True)
                found += [None if t is None else t.detach() for t in first]
                length = sum((t * t).sum() for t in first if t is not None)
                found += torch.autograd.grad(length, (x, w), allow_unused=True)
            except RuntimeError as error:
                found.append("modified by an inplace" in str(error))
            found += [(t.detach().clone(), t._version) for t in others]
        return found

    return Case(run, forward_only=True)


def _nothing(x, results):
    pass


def _results_counted(x, results):
    with torch.no_grad():
        for t in results:
            t.add_(1)


def _results_by_data(x, results):
    for t in results:
        t.data.mul_(2)


def _input_by_data(x, results):
    x.data.mul_(3)


@program(whole=False, not_ways=("leaks",))  # eager keeps what is left of a pass that failed
def data_of_values_among_results():
    """What is saved of z counts its versions without `z.data`, though z itself leaves no graph."""

    def alone(x, w):
        z = x * w
        return z.sin() * w, z.data

    def a_view(x, w):
        z = x * w
        return z.sin() * w, z.data[1:]

    def twice(x, w):
        z = x * w
        return z.sin() * w, z.data[1:], z.data

    def a_view_of_it(x, w):
        z = x * w
        d = z.data
        return z.sin() * w, d[1:], d

    def of_a_detached_one(x, w):
        z = (x * w).exp()
        return z * w, z.detach().data, z.detach()

    functions = (alone, a_view, twice, a_view_of_it, of_a_detached_one)
    return _of_functions(*functions, writes=(_nothing, _results_counted, _results_by_data))


@program(whole=False)
def constants_written_by_data():
    """A tensor without a history that nodes have saved: a second derivative reads what is there now."""

    def f(x, w):
        t = torch.ones(3) * 2
        y = t * x * w
        t.data.mul_(3)
        return (y,)

    def and_is_a_result(x, w):
        t = torch.ones(3) * 2
        y = (t * x).sin() * w
        t.data.mul_(3)
        return y, t

    return _of_functions(f, and_is_a_result, writes=(_nothing, _results_by_data))


@program(whole=False)
def detached_before_it_is_written():
    def by_the_input(x, w):
        v = w.detach()
        y = x.sin() * v
        w.data.mul_(0.5)
        return (y.sin(),)

    def by_the_detached_one(x, w):
        v = w.detach()[1:]
        y = x[1:].tanh().sin() * v
        v.data.mul_(0.5)
        return (y * x[1:],)

    return _of_functions(by_the_input, by_the_detached_one, writes=(_nothing,))


@program(whole=False)
def counted_writes_and_by_data():
    def f(x, w):
        with torch.no_grad():
            x.mul_(1.5)
        a, b = x * w, x.tanh()
        x.data[1:].add_(2)
        return (a * b.tanh(),)

    def a_value(x, w):
        z = x * w
        with torch.no_grad():
            z.mul_(2)
        y = z.sin()
        z.data.mul_(3)
        return y * w, z.detach()

    return _of_functions(f, a_value, writes=(_nothing, _input_by_data))


@program(whole=False)
def views_written_and_then_their_input():
    """The view is the input's memory: what comes to that by x.data is seen by the nodes that saved the view."""

    def the_whole(x, w):
        v = x.view(3)
        v.mul_(w)
        return ((x.sin() * v),)

    def a_part(x, w):
        v = x[1:]
        v.mul_(w[1:])
        return v.sin() * v, v.data

    def turned(x, w):
        v = x.view(3, 1).t()
        v.mul_(w)
        return v.sin() * v, x.detach()

    def without_a_history(x, w):
        v = x[:2]
        with torch.no_grad():
            v.mul_(2)
        return (v.sin() * w[1:],)

    def from_another(x, w):
        x[1:] = w[1:] * 2
        v = w[1:] * w[1:]
        return (x[1:].sin() * v,)

    functions = (the_whole, a_part, turned, without_a_history, from_another)
    return _of_functions(*functions, writes=(_nothing, _input_by_data))


@program(whole=False)
def written_with_a_history_and_then_without():
    """The second write leaves the node: what was read between the two has a derivative by it, too."""

    def in_place(x, w):
        x.mul_(0.5)
        v = x * 1
        with torch.no_grad():
            x.mul_(0.5)
        return (x * v,)

    def by_a_detached_one(x, w):
        x.mul_(2)
        v = (x + x).sin()
        x.detach().mul_(0.5)
        return (v * w + x * x,)

    def three_times(x, w):
        x.mul_(w)
        a = x.tanh()
        with torch.no_grad():
            x[1:].mul_(0.5)
        b = x[1:].repeat(2)[:3] * 1
        x.detach().add_(1)
        return (a * b * w,)

    return _of_functions(in_place, by_a_detached_one, three_times, writes=(_nothing, _input_by_data))


@program(whole=False, not_ways=("leaks",))  # eager keeps what is left of a pass that failed
def saved_by_a_node_that_no_pass_comes_to():
    """Its write is of no account to the pass, which goes on through what else was computed of it."""

    def f(x, w):
        x.data.mul_(2)
        v = (x * 0.25).exp()
        z = x.sin() * w
        return v.sin() * w, z

    def counted(x, results):
        with torch.no_grad():
            x.mul_(1.5)

    return _of_functions(f, writes=(_nothing, counted))


@program(whole=False)
def versions_of_a_base_that_is_gone():
    def f(x):
        a = torch.ones(3) * 2
        b = a.detach()
        a.mul_(0.5)
        c = x * 2
        d = c.detach()
        c.mul_(x)
        return b, b.data, d, d[1:].data

    return Case(f, leaf(), versions=True, forward_only=True)


@program(whole=False)
def results_of_a_detached_one():
    """`u` is a view of `x.data`, and counts with it, though x itself has a view among the results."""

    def run(x):
        v = x.view(3)
        d = v.data
        u = d.view(3, 1)
        torch._dynamo.graph_break()
        u.mul_(1.5)
        return d * 2, v, x._version, d._version

    return Case(run, leaf() * 1, versions=True)


@program(whole=False, not_ways=("leaks",))  # eager keeps what is left of a pass that failed
def gradients_of_what_was_written_alone():
    """A pass that ends where an argument was written comes to no node from before, whatever became of what those saved."""

    w = leaf(3, 0.5) * 1
    kept = []

    def f(x):
        old = w.sigmoid()
        w.view(3, 1).mul_(0.5)
        t = old.tanh()
        kept[:] = w.sin() * old[:1] + t * old, t

    def look():
        y, t = kept
        with torch.no_grad():
            t.mul_(1.5)
        try:
            return torch.autograd.grad(y.sum(), w, retain_graph=True), torch.autograd.grad(y.sum(), w, create_graph=True)
        except RuntimeError as error:
            return "modified by an inplace" in str(error)

    return Case(f, leaf(), look=look, forward_only=True)


@program(whole=False)
def views_that_are_saved_of_what_is_detached():
    """A view of an argument keeps the history that it had when the argument is detached in place."""
    leaves = [leaf(), leaf(3, 0.5)]
    kept = []

    def f(x):
        x, w = [t * 1.5 for t in leaves]
        torch._dynamo.graph_break()
        kept[:] = x, x[1:].sin() * w[1:], x[1:] * x[1:]

    def look():
        x, y, z = kept
        x.detach_()
        first = torch.autograd.grad(y.sum() + z.sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum((t * t).sum() for t in first), leaves)

    return Case(f, leaf(), look=look, forward_only=True)


@program(whole=False)
def an_input_without_a_history():
    """Nodes have saved it: a second derivative reads what `t.data` was given."""

    def once(x, w, t):
        y = t * x * w
        t.data.mul_(3)
        return y

    def under_functions(x, w, t):
        y = (t * x).sin() * (w * t).cos()
        t.data.mul_(3)
        return y

    def twice(x, w, t):
        y = t * x * w
        t.data.mul_(3)
        y = y * (t * x)
        t.data.mul_(2)
        return y

    def through_a_view(x, w, t):
        y = t[:2] * x[:2] * w[:2]
        t.data.mul_(3)
        return y

    def run():
        found = []
        for f in (once, under_functions, twice, through_a_view):
            x, w = [t * 0.5 for t in (leaf(), leaf(3, 0.5))]
            t = torch.full((3,), 2.0)
            torch._dynamo.graph_break()
            y = f(x, w, t)
            torch._dynamo.graph_break()
            first = torch.autograd.grad(y.sum(), (x, w), create_graph=True)
            second = torch.autograd.grad(sum((g * g).sum() for g in first), (x, w))
            found += [t.detach() for t in (*first, *second)]
        return found

    return Case(run, forward_only=True)
