"""Results that are pieces of one list (unbind, split, chunk) have one node for their history, as in eager: a backward pass
comes to it once, and its hooks hear once of all pieces.
"""

import torch

from conformance.program import Case, program
from conformance.sample import matrix

def _nodes(results):
    """Of each result the position of the first that has the same node, and which of the node's outputs it is."""
    nodes = [r.grad_fn for r in results]
    return [(nodes.index(n), r.output_nr if n is not None else -1) for n, r in zip(nodes, results, strict=True)]


def _in_one_pass(make):
    """The graph's results have nodes of torch's own, which hooks outside of the graph listen to."""
    x = matrix(2, 3).requires_grad_()

    def run():
        results = make(x)
        torch._dynamo.graph_break()
        calls = []
        for node in {r.grad_fn: None for r in results if r.grad_fn is not None}:
            node.register_hook(lambda _, gradients: calls.append([g if g is None else g.clone() for g in gradients]))
        # Not all of them, so that a node gets gradients for some of its pieces.
        used = [r for r in results if r.requires_grad][:-1]
        gradients = torch.autograd.grad(sum((r.sin() * (i + 1)).sum() for i, r in enumerate(used)), x)
        return *results, _nodes(results), calls, *gradients

    return Case(run, forward_only=True)


@program(whole=False)
def of_an_argument():
    return _in_one_pass(lambda x: x.unbind())


@program(whole=False)
def of_a_result():
    return _in_one_pass(lambda x: (x * 2).split(1))


@program(whole=False)
def of_a_view():
    return _in_one_pass(lambda x: x.t().chunk(3))


@program(whole=False)
def views_of_pieces():
    return _in_one_pass(lambda x: [p.unsqueeze(0) for p in (x * 3).tensor_split(2)])


@program(whole=False)
def twice():
    return _in_one_pass(lambda x: (*x.unbind(), *x.unbind()))


@program(whole=False)
def of_pieces():
    return _in_one_pass(lambda x: [q for p in (x * 2).split(1) for q in p.unbind(1)])


@program(whole=False)
def a_piece_twice():
    return _in_one_pass(lambda x: (lambda p: (p[0], p[1], p[0]))(x.unbind()))


@program(whole=False)
def and_a_detached_one():
    return _in_one_pass(lambda x: (lambda p: (p[0], p[1].detach(), p[1]))((x + 1).unbind()))


@program(whole=False)
def around_a_write():
    return _in_one_pass(lambda x: (lambda y: (*y.unbind(), y.mul_(2), *y.unbind()))(x * 2))


@program(whole=False)
def written_by_the_program():
    x = matrix(2, 3).requires_grad_()

    def run():
        a, b = (x * 2).unbind()
        torch._dynamo.graph_break()
        errors = []
        try:
            a.mul_(2)
        except RuntimeError as error:
            errors.append(str(error)[:60])
        return a, b, a._version, b._version, errors

    return Case(run, forward_only=True)


@program(whole=False)
def made_without_gradients():
    x = matrix(2, 3).requires_grad_()

    def run():
        with torch.no_grad():
            a, b = x.unbind()
        c, d = x.unbind()
        torch._dynamo.graph_break()
        return a, b, c, d, [t.requires_grad for t in (a, b, c, d)], _nodes([c, d])

    return Case(run, forward_only=True)
