"""A pass with create_graph=True that comes to what an earlier one has used up: what comes before that is seen."""

import torch

from conformance.program import Case, program
from conformance.sample import matrix


def _second_pass(*functions):
    leaf = (matrix(2, 2) + 0.25).requires_grad_()

    def run():
        found = []
        for f in functions:
            results = f(leaf * 1)
            results[0].retain_grad()
            torch._dynamo.graph_break()
            torch.autograd.grad(results[0].square().sum(), leaf)
            first = results[0].grad.clone()
            try:
                (gradient,) = torch.autograd.grad([t.sum() for t in results], leaf, create_graph=True)
                found.append(gradient.detach())
            except RuntimeError as error:
                found.append("second time" in str(error))
            found += [first, results[0].grad.detach()]
        return found

    return Case(run, observe=leaf, forward_only=True)


@program(whole=False, not_ways=("leaks",))
def retained_gradient_of_a_result():
    def of_a_product(t):
        v = t.square().exp()
        z = v * 1
        return v, z * z

    def of_a_saved_result(t):
        v = t.square().exp()
        return v, (v * 1).exp() * 2

    return _second_pass(of_a_product, of_a_saved_result)


@program(whole=False, not_ways=("leaks",))
def retained_gradient_of_what_was_written():
    def in_place(t):
        v = t.square()
        v.relu_()
        z = v * 1
        return v, z * z

    def in_part(t):
        v = t.square().exp()
        z = v * 1
        with torch.no_grad():
            z[0].mul_(z[1])
        return v, z * z

    return _second_pass(in_place, in_part)


def _behind_a_graph(f):
    def of_two_graphs(t):
        v = t.square()
        torch._dynamo.graph_break()
        return f(v)

    return of_two_graphs


@program(whole=False, not_ways=("leaks",))
def retained_gradient_of_an_argument_that_was_written():
    def by_its_result(v):
        v.relu_()
        z = v * 1
        return v, z * z

    def by_a_saved_result(v):
        v.exp_()
        return v, (v * 1).sin() * 2

    def often(v):
        v.mul_(2)
        y = v * 1
        v.exp_()
        return v, y * y * v

    return _second_pass(*map(_behind_a_graph, (by_its_result, by_a_saved_result, often)))


@program(whole=False, not_ways=("leaks",))
def retained_gradient_of_what_was_masked():
    def by_a_mask(t):
        v = t.square() * (t.detach() > 0.5)
        z = v * 1
        return v, z * z

    def by_an_index(t):
        v = t.square()[:, torch.tensor([1, 0])].exp()
        return v, (v * 1).sin()

    def where_it_is_written(v):
        v.mul_(v.detach() > 0.2)
        z = v * 1
        return v, z * z

    return _second_pass(by_a_mask, by_an_index, _behind_a_graph(where_it_is_written))
