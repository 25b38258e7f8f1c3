"""Inputs that eager saves for the backward and that are written after the forward: torch notices the write.

A compiler that computes the gradient without them does not. So it is where the forward has a value that the backward
would compute, and where an operator's backward gets all its tensors whichever gradient is wanted.
"""

import torch

from conformance.program import Case, program
from conformance.sample import leaf, matrix, vector


def written_later(function, which):
    """Calls function(a, b), breaks the graph and writes `a` or `b`; the judge then runs the backward."""
    a, b = leaf(), leaf()

    def f(x):
        r = x + function(a, b).sum()
        torch._dynamo.graph_break()
        with torch.no_grad():
            (a, b)[which].mul_(2)
        return r

    return Case(f, vector(), observe=[a, b], versions=True, then=[lambda: None])


@program(whole=False)
def a_dividend_is_written():
    return written_later(lambda a, b: a / b, 0)


@program(whole=False)
def a_divisor_is_written():
    return written_later(lambda a, b: a / b, 1)


@program(whole=False)
def a_divided_result_is_written():
    a, b = leaf(), leaf()

    def f(x):
        z = x * a
        return z, z / b

    def g(x):
        z, q = f(x)
        torch._dynamo.graph_break()
        z.detach().mul_(2)
        return q

    return Case(g, vector(), observe=[a, b], then=[lambda: None])


@program(whole=False)
def a_factor_that_only_another_result_has_is_written():
    return written_later(lambda a, b: torch._foreach_mul([a, b], 2)[1], 0)


@program(whole=False)
def a_summand_of_many_is_written():
    return written_later(lambda a, b: torch._foreach_add([a, b], 2)[1], 1)


@program(whole=False)
def a_base_of_many_is_written():
    return written_later(lambda a, b: torch._foreach_pow([a, b], 2)[1], 0)


@program(whole=False)
def one_of_many_in_two_passes():
    a, b = leaf(), matrix(2, 2).requires_grad_()

    def f(x):
        q = torch._foreach_mul([a, b], 2)
        loss = (x + q[1].sum()).sum()
        loss.backward(retain_graph=False)
        try:
            loss.backward()
        except RuntimeError as error:
            x = x + len(str(error))
        return x

    return Case(f, vector(), observe=[a, b], then=[lambda: None])


@program
def many_without_gradients():
    a, b = leaf(), matrix(2, 2)

    def f(x):
        with torch.no_grad():
            q = torch._foreach_mul([a, b], 2)
        return x + q[0].sum() + torch._foreach_add([b, b], 1)[1].sum()

    return Case(f, vector(), observe=[a, b], then=[lambda: None])


@program(whole=False)
def a_leaf_that_the_pass_comes_to_before_the_write():
    return written_later(lambda a, b: a.sin() * b, 0)


@program(whole=False)
def leaves_of_a_chain_whose_middle_is_written():
    leaves = [leaf() for _ in range(4)]

    def f(x):
        for w in leaves:
            x = torch.tanh(x * w)
        torch._dynamo.graph_break()
        with torch.no_grad():
            leaves[2].mul_(2)
        return x

    return Case(f, vector().requires_grad_(), observe=leaves, then=[lambda: None])


def counted(write):
    """The version of a result with a history that the graph before a break wrote."""
    w = leaf()

    def f(x):
        y = x * w
        z = y + 1
        write(y)
        torch._dynamo.graph_break()
        return y * y._version, z + z._version, y[0]

    return Case(f, vector(), observe=w, versions=True, then=[lambda: None])


@program(whole=False)
def version_of_a_result_written_by_an_operator():
    return counted(lambda y: y.add_(1).mul_(2))


@program(whole=False)
def version_of_a_result_written_through_a_view():
    return counted(lambda y: y[:2].add_(1))


@program(whole=False)
def version_of_a_result_whose_alias_is_laid_out_anew():
    return counted(lambda y: y.detach().t_())


@program(whole=False)
def version_of_a_result_whose_data_are_written():
    return counted(lambda y: y.data.add_(1))


@program
def versions_of_results_that_are_saved():
    w = leaf()

    def f(x):
        y = (x * w).add_(1)
        d = y.data
        d.mul_(1)
        return y, y.exp(), y[1:], d

    return Case(f, vector(), observe=w, versions=True, then=[lambda: None])
