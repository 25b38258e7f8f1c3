"""Gradients of a graph's results that keep a history themselves (create_graph=True), of some of the results."""

import torch

from conformance.program import Case, program
from conformance.sample import leaf


@program(whole=False)
def of_one_of_two_results():
    """That of the other is infinite: zeros for it would make it no number."""

    def f(x):
        first, second = x * x, x.sqrt()
        torch._dynamo.graph_break()
        (g,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        return g, second

    return Case(f, leaf(3, 0.0), forward_only=True)


@program(whole=False)
def beside_a_result_that_is_used_up():
    def f(x):
        y = x * 2
        first, second = y - y, y * y
        torch._dynamo.graph_break()
        second.sum().backward()
        (g,) = torch.autograd.grad(first.sum(), y, create_graph=True, retain_graph=True)
        return g, x.grad

    return Case(f, leaf(), forward_only=True)


@program(whole=False)
def of_a_sum_and_of_one_part():
    def f(x, w):
        first, second = (x * w).exp(), x.sin() * w
        torch._dynamo.graph_break()
        found = []
        for total in (first.sum(), (first + second).sum(), second.sum()):
            a, b = torch.autograd.grad(total, (x, w), create_graph=True)
            found += [a, b, *torch.autograd.grad((a * b).sum(), (x, w), retain_graph=True)]
        return [t.detach() for t in found]

    return Case(f, leaf(), leaf(3, 0.5), forward_only=True)


def _penalty(after):
    """A second derivative through results that somebody looks at: the norm of gradients is made small."""

    def f(x, w):
        first = (x * w).tanh()
        second = first * first.exp()
        torch._dynamo.graph_break()
        seen = []
        for name, t in (("first", first), ("second", second)):
            t.retain_grad()
            t.register_hook(lambda g, name=name: seen.append((name, g.detach().clone())))
        gradients = torch.autograd.grad(second.sum(), (x, w), create_graph=True)
        penalty = sum((g * g).sum() for g in gradients)
        after(penalty, (x, w))
        return seen, first.grad.detach(), second.grad.detach(), x.grad, w.grad

    return Case(f, leaf(), leaf(3, 0.5), forward_only=True)


@program(whole=False)
def second_derivatives_come_to_hooks_of_results():
    return _penalty(lambda penalty, leaves: penalty.backward())


@program(whole=False)
def second_derivatives_that_are_asked_for_come_to_hooks_of_results():
    return _penalty(lambda penalty, leaves: torch.autograd.grad(penalty, leaves))


@program(whole=False)
def third_derivatives_come_to_hooks_of_results():
    def after(penalty, leaves):
        more = torch.autograd.grad(penalty, leaves, create_graph=True)
        sum((g * g).sum() for g in more).backward()

    return _penalty(after)


@program(whole=False)
def second_derivatives_come_to_a_hook_of_the_only_result():
    def f(x):
        y = x.sin().exp()
        torch._dynamo.graph_break()
        seen = []
        y.register_hook(lambda g: seen.append(g.detach().clone()) or g * 2)
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        gradient.sum().backward()
        return seen, x.grad

    return Case(f, leaf(), forward_only=True)


@program(whole=False)
def second_derivatives_come_to_the_result_that_a_pass_starts_at():
    def f(x, w):
        first, second = x.exp(), w.sin()
        torch._dynamo.graph_break()
        seen = []
        first.register_hook(lambda g: seen.append(g.detach().clone()))
        (gradient,) = torch.autograd.grad(first, x, torch.ones_like(first), create_graph=True)
        gradient.sum().backward()
        return seen, x.grad, second.detach()

    return Case(f, leaf(), leaf(3, 0.5), forward_only=True)


@program(whole=False)
def second_derivatives_come_to_what_a_first_pass_has_used_up():
    def f(x):
        y = x.sin().exp()
        torch._dynamo.graph_break()
        y.register_hook(lambda g: None)
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True, retain_graph=False)
        try:
            gradient.sum().backward()
        except RuntimeError as error:
            return "second time" in str(error), x.grad
        return False, x.grad

    return Case(f, leaf(), forward_only=True)
