"""Passes that start at some of a graph's results: what is left out of them, in which order leaves and hooks come, and
what such a pass fails of first."""

import torch

from conformance.program import Case, program


def _pass_of_the_first_result(f, *arguments):
    """Of two results, the first one alone is differentiated."""

    def run(*arguments):
        first, second = f(*arguments)
        torch._dynamo.graph_break()
        first.sum().backward()
        return [t.grad for t in arguments], second.detach()

    return Case(run, *arguments, forward_only=True)


def inner_rows(other):
    def inner(x):
        torch._dynamo.graph_break()
        turned = x.t()
        scaled = turned * 1
        return torch.cat([scaled, turned])[1:3], other(scaled)

    return inner


@program(whole=False)
def result_beside_one_with_an_infinite_derivative():
    """No zero is multiplied with what the other one has saved, in whatever layout gradients are added up."""
    return _pass_of_the_first_result(inner_rows(torch.log), torch.tensor([[0.0, 1.0], [2.0, 0.0]], requires_grad=True))


@program(whole=False)
def result_beside_one_whose_saved_value_was_written():
    def f(x):
        first, second = inner_rows(lambda t: t.exp())(x)
        torch._dynamo.graph_break()
        second.detach().mul_(2)
        return first, second

    return _pass_of_the_first_result(f, torch.tensor([[0.5, 1.0], [2.0, 0.25]], requires_grad=True))


@program(whole=False)
def leaf_behind_a_view_among_results_in_order():
    def inner(x, w):
        torch._dynamo.graph_break()
        return w.t(), x.view(-1).view(2, 2), x + x

    def run(x, w):
        seen = []
        turned, _, doubled = inner(x, w)
        torch._dynamo.graph_break()
        for name, t in (("x", x), ("w", w)):
            t.register_hook(lambda g, name=name: seen.append(name))
        torch.autograd.backward([turned, doubled], [torch.ones(2, 2)] * 2)
        return seen

    return Case(run, *(torch.ones(2, 2, requires_grad=True) for _ in range(2)), forward_only=True)


@program(whole=False)
def what_was_written_fails_before_what_was_used_up():
    def inner(x, w):
        torch._dynamo.graph_break()
        product = x @ w
        return product, product.exp()

    def run(x, w):
        product, result = inner(x, w)
        torch._dynamo.graph_break()
        product.sum().backward()
        result.detach().mul_(2)
        try:
            result.sum().backward()
        except RuntimeError as error:
            return "second time" in str(error)

    return Case(run, *(torch.ones(2, 2, requires_grad=True) for _ in range(2)), forward_only=True)


@program(whole=False)
def written_view_beside_a_view_of_a_leaf():
    def inner(x, w):
        torch._dynamo.graph_break()
        first = w[:1].expand(2, 2)
        rows = torch.cat([first, w])[1:3]
        product = x * w.detach()
        rows.add_(x)
        return first, rows, product, rows.tanh()

    def run(x, w):
        seen = []
        results = inner(x, w)
        torch._dynamo.graph_break()
        for i, t in enumerate([*results, x, w]):
            t.register_hook(lambda g, i=i: seen.append(i))
        sum(t.sum() for t in results).backward()
        return seen

    return Case(run, *(torch.ones(2, 2, requires_grad=True) for _ in range(2)), forward_only=True)
