"""Second derivatives that come to views among the results: by what the graph has saved of the view, also of one that it
writes, and through what was computed with it."""

import torch
from torch.utils.checkpoint import checkpoint

from conformance.program import Case, program
from conformance.sample import leaf, matrix


def _results_see_both_passes(f, *, of=None):
    """The kept gradients of the results `of` which passes start, after two passes."""

    def inner(x, w):
        torch._dynamo.graph_break()
        return f(x, w)

    def run(x, w):
        results = inner(x * 1, w * 1)
        torch._dynamo.graph_break()
        for r in results:
            _ = r.grad_fn
            r.retain_grad()
        first = torch.autograd.grad([results[i].sum() for i in of or range(len(results))], (x, w), create_graph=True, allow_unused=True)
        sum((g * g).sum() for g in first if g is not None).backward()
        return [r.grad for r in results], x.grad, w.grad

    return Case(run, matrix(3, 3).requires_grad_(), (matrix(3, 3) + 0.5).requires_grad_(), forward_only=True)


def _hooks_put_on_between_the_passes(f):
    """Nobody looked when the first pass ran; what it has saved leads to the results all the same."""

    def inner(x, w):
        torch._dynamo.graph_break()
        return f(x, w)

    def run(x, w):
        results = inner(x * 1, w * 1)
        torch._dynamo.graph_break()
        seen = []
        first = torch.autograd.grad(results[-1].sum(), (x, w), create_graph=True)
        for i, r in enumerate(results):
            r.register_hook(lambda g, i=i: seen.append((i, g.detach().clone())))
        sum((g * g).sum() for g in first).backward()
        return seen, x.grad, w.grad

    return Case(run, matrix(3, 3).requires_grad_(), (matrix(3, 3) + 0.5).requires_grad_(), forward_only=True)


@program(whole=False)
def view_that_is_written():
    def f(x, w):
        v = torch.cat([x, w])[1:4]
        v.tanh_()
        return (v,)

    return _results_see_both_passes(f)


@program(whole=False)
def view_that_is_written_and_used():
    def f(x, w):
        v = torch.cat([x, w])[1:4]
        v.mul_(w)
        v.sigmoid_()
        return v, torch.nn.functional.linear(v, w, v.sum(0))

    return _results_see_both_passes(f)


@program(whole=False)
def pass_that_starts_at_its_base():
    def f(x, w):
        base = x * w
        return base[0].sigmoid_(), base

    return _results_see_both_passes(f, of=[1])


@program(whole=False)
def hooks_put_on_a_view_of_an_argument_between_the_passes():
    return _hooks_put_on_between_the_passes(lambda x, w: (lambda y: (y, (y @ w).sin()))(x.t()))


@program(whole=False)
def view_that_the_backward_turns_back():
    return _results_see_both_passes(lambda x, w: (lambda v: (v, v @ w))(x.t()))


@program(whole=False)
def view_with_other_sizes_that_the_backward_turns_back():
    return _results_see_both_passes(lambda x, w: (lambda v: (v, (v.view(3, 3).t() * w).exp()))(x.exp().view(9)))


@program(whole=False)
def data_of_a_checkpoint():
    def f(x, w):
        v = checkpoint(lambda x, w: (x.sin() * w).tanh(), x, w, use_reentrant=False)
        return (v.data * v,)

    return _results_see_both_passes(f)


def _detached_in_place(f):
    """What was detached in place when the graph had saved it."""

    def run(x):
        y = x * 2
        result = f(y)
        y.detach_()
        torch._dynamo.graph_break()
        try:
            result.sum().backward()
        except RuntimeError as error:
            return str(error)
        return x.grad

    return Case(run, leaf(), forward_only=True)


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * t

    @staticmethod
    def backward(ctx, gradient):
        (t,) = ctx.saved_tensors
        return gradient * t * 2


def behind_a_break(f):
    def inner(y):
        torch._dynamo.graph_break()
        return f(y)

    return inner


@program(whole=False)
def argument_of_a_function_is_detached_in_place():
    return _detached_in_place(behind_a_break(Squared.apply))


@program(whole=False)
def argument_of_an_operator_is_detached_in_place():
    return _detached_in_place(behind_a_break(lambda y: y * y))


@program(whole=False)
def argument_of_a_checkpoint_is_detached_in_place():
    return _detached_in_place(behind_a_break(lambda y: checkpoint(lambda y: y.sin().exp(), y, use_reentrant=False)))


@program(whole=False)
def hooks_put_on_results_between_the_passes():
    return _hooks_put_on_between_the_passes(lambda x, w: (lambda y: (y, y * w))(x.exp()))


@program(whole=False)
def hooks_put_on_views_between_the_passes():
    return _hooks_put_on_between_the_passes(lambda x, w: (lambda y: (y, (y @ w).sin()))(x.exp().t()))
