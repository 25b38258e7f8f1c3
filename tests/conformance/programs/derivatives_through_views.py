"""Results that are views, with which others were computed: passes, hooks and second derivatives come through them.

Some views nobody keeps: what was written through one has its history all the same. Views of what was detached are views.
"""

import torch

from conformance.program import Case, program
from conformance.sample import matrix


def _numbers(t):
    return None if t is None else t.flatten().tolist()


def _second(outputs, leaves):
    """A gradient with a history, and the derivative of its square."""
    found = torch.autograd.grad(outputs, leaves, [torch.ones_like(t) for t in outputs], create_graph=True)
    sum((t * t).sum() for t in found if t.requires_grad).backward()
    return [_numbers(t) for t in found], [_numbers(t.grad) for t in leaves]


def _of_leaf(graph):
    """The second derivative of what `graph` makes of an argument that is no leaf."""

    def run(x):
        a = x * 1
        results = graph(a)
        torch._dynamo.graph_break()
        return _second([t for t in results if t.requires_grad], [x])

    return Case(run, matrix(2, 2).requires_grad_(), forward_only=True)


def _written_through(view, write):
    def graph(a):
        part = view(a)
        torch._dynamo.graph_break()
        write(part)
        return [a]

    return _of_leaf(graph)


@program(whole=False)
def written_through_a_view_that_nobody_keeps():
    return _written_through(lambda a: a.view(-1), lambda v: v.tanh_())


@program(whole=False)
def a_row_written_that_nobody_keeps():
    return _written_through(lambda a: a.view(-1).view(2, 2)[0], lambda v: v.exp_())


@program(whole=False)
def written_through_a_view_beside_another_result():
    def graph(a):
        part = a.t()
        torch._dynamo.graph_break()
        result = part.sin() * 2
        part.sigmoid_()
        return [a, result]

    return _of_leaf(graph)


def _looked_at(results_of):
    """What is kept and called at each result in a second derivative of the last one."""

    def run(x, w):
        seen = []
        results = results_of(x, w)
        torch._dynamo.graph_break()
        for i, t in enumerate(results):
            t.retain_grad()
            t.register_hook(lambda g, i=i: seen.append((i, _numbers(g))))
        second = _second(list(results[-1:]), [x, w])
        return second, sorted(seen), [_numbers(t.grad) for t in results]

    return Case(run, matrix(2, 2).requires_grad_(), (matrix(2, 2) + 1).requires_grad_(), forward_only=True)


@program(whole=False)
def a_second_derivative_at_a_view():
    def results_of(x, w):
        part = torch.cat([x, w])[1:3]
        return part, part * w

    return _looked_at(results_of)


@program(whole=False)
def a_second_derivative_at_a_view_of_a_result():
    def results_of(x, w):
        whole = (x * w).sin()
        part = whole.t()
        return whole, part, part.tanh() * x

    return _looked_at(results_of)


@program(whole=False)
def a_second_derivative_at_a_view_of_a_leaf():
    def results_of(x, w):
        part = x.t()
        return part, (part * part * w).exp()

    return _looked_at(results_of)


@program(whole=False)
def a_second_derivative_at_one_of_several_pieces():
    def results_of(x, w):
        first, second = (x * w).unbind()
        return first, second, first * second.exp()

    return _looked_at(results_of)


def _in_turn(results_of, roots, in_order=True):
    """Who is told in which order of a pass from some of the results."""

    def run(x, w):
        seen = []
        results = results_of(x, w)
        torch._dynamo.graph_break()
        for name, leaf in (("x", x), ("w", w)):
            leaf.register_post_accumulate_grad_hook(lambda t, name=name: seen.append((name, _numbers(t.grad))))
        for i, t in enumerate(results):
            t.register_hook(lambda g, i=i: seen.append((i, _numbers(g))))
        sum(results[r].sum() for r in roots).backward()
        return seen if in_order else sorted(seen, key=str), [_numbers(t.grad) for t in (x, w)]

    return Case(run, matrix(2, 2).requires_grad_(), (matrix(2, 2) + 1).requires_grad_(), forward_only=True)


@program(whole=False)
def leaves_before_a_view_that_others_need():
    def results_of(x, w):
        part = x[:1].expand(2, 2)
        return part, torch.cat([part, part])[1:3], w * w

    return _in_turn(results_of, [1, 2])


@program(whole=False)
def leaves_that_meet_a_view():
    def results_of(x, w):
        part = x.t()
        return part, torch.cat([part, w.sin()])[1:3] * w

    return _in_turn(results_of, [1])


@program(whole=False)
def leaves_that_a_view_leads_to_as_well():
    def results_of(x, w):
        part = x[:1].expand(2, 2)
        return part, part * x * w

    return _in_turn(results_of, [1])


@program(whole=False)
def leaves_that_a_view_of_two_steps_leads_to():
    def results_of(x, w):
        whole = w.sin()
        part = x[:1].expand(2, 2)
        return whole, part, part * x * whole

    return _in_turn(results_of, [2], in_order=False)


@program(whole=False)
def views_of_what_was_detached():
    def f(x):
        return x.detach().view(-1), x.detach()[0], x.view(-1).detach(), x.data.t()

    def facts(x):
        found = []
        for t in f(x):
            try:
                t.detach_()
                found.append((t._is_view(), t.tolist()))
            except RuntimeError as error:
                found.append((t._is_view(), str(error).split(".")[0]))
        return found

    return Case(facts, matrix(2, 2).requires_grad_())


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * t

    @staticmethod
    def backward(ctx, gradient):
        (t,) = ctx.saved_tensors
        return gradient * t * 2


def _later(results_of, change):
    """A pass after results were changed."""

    def run(x):
        results = results_of(x)
        torch._dynamo.graph_break()
        change(results)
        try:
            results[-1].sum().backward()
        except RuntimeError as error:
            return next(text for text in ("detached in-place", "modified by an inplace") if text in str(error))
        return _numbers(x.grad)

    return Case(run, matrix(2, 2).requires_grad_(), forward_only=True)


@program(whole=False)
def a_function_of_the_program_takes_what_was_detached():
    def results_of(x):
        y = x.sin()
        return y, Squared.apply(y)

    return _later(results_of, lambda results: results[0].detach_())


@program(whole=False)
def a_second_derivative_of_what_a_function_took_detached():
    def run(x, w):
        y = x.sin()
        z = Squared.apply(y) * w
        torch._dynamo.graph_break()
        y.detach_()
        return _second([z], [x, w])

    return Case(run, matrix(2, 2).requires_grad_(), (matrix(2, 2) + 1).requires_grad_(), forward_only=True)


@program(whole=False)
def detached_and_then_written():
    def results_of(x):
        y = x + 1
        return y, y @ y

    def change(results):
        results[0].detach_().mul_(2)

    return _later(results_of, change)


@program(whole=False)
def one_detached_and_another_written():
    def results_of(x):
        y, z = x.sin(), x + 1
        return y, z, y * z

    def change(results):
        results[0].detach_()
        results[1].detach().mul_(2)

    return _later(results_of, change)


@program(whole=False)
def the_whole_of_an_argument_that_is_written():
    """What was computed with a written view has come from the whole: its gradient, its hooks, and their derivatives."""

    def computed(part, x):
        part.mul_(x.sum())
        return part.sin()

    def run(x):
        found = []
        views = (lambda t: t.view(-1), lambda t: t[:1], lambda t: t.view(-1)[2:], lambda t: t.view(4, 1).t())
        for view in views:
            a, seen = x * 1, []
            part = view(a)
            torch._dynamo.graph_break()
            result = computed(part, x)
            torch._dynamo.graph_break()
            first = torch.autograd.grad(result.sum(), (a, x), create_graph=True)
            second = torch.autograd.grad(sum((t * t).sum() for t in first), (a, x), retain_graph=True)
            a.register_hook(lambda g, seen=seen: seen.append(_numbers(g)))
            found += [list(map(_numbers, first)), list(map(_numbers, second))]
            found += [_numbers(*torch.autograd.grad(result.sum(), x)), seen]
        return found

    return Case(run, matrix(2, 2).requires_grad_(), forward_only=True)


@program(whole=False)
def an_argument_detached_and_another_written():
    """A node that has saved both raises for the one that was written."""

    def results_of(x):
        y, z = x.sin(), x + 1
        torch._dynamo.graph_break()
        return y, z, y * z

    def change(results):
        results[0].detach_()
        results[1].detach().mul_(2)

    return _later(results_of, change)


def _twice(results_of):
    """Two passes over the last result, of which the first keeps nothing."""

    def run(x):
        results = results_of(x)
        torch._dynamo.graph_break()
        found = []
        for _ in range(2):
            try:
                results[-1].sum().backward()
                found.append(_numbers(x.grad))
            except RuntimeError as error:
                found.append("second time" in str(error))
        return found

    return Case(run, matrix(2, 2).requires_grad_(), forward_only=True)


@program(whole=False)
def a_write_into_a_view_serves_one_pass():
    def results_of(x):
        y = x + x
        y[0].add_(y[1])
        return [y]

    return _twice(results_of)


@program(whole=False)
def what_saves_nothing_serves_two_passes():
    return _twice(lambda x: [(x + x).t()])
