"""Calls of the compiled function that leave arguments to their defaults."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


@program
def defaults_of_the_compiled_function():
    def f(x, a=2.0, b=3.0, c=4.0):
        return x * a - b / c

    calls = [Args(vector()), Args(vector(), 5.0), Args(vector(), 5.0, 7.0), Args(vector(), b=9.0), Args(vector(), c=2.0, a=1.0)]
    return Case(f, vector(), then=[lambda args=args: args for args in calls + calls])


@program
def defaults_that_are_tensors():
    def f(x, a=vector() + 1, b=vector() + 2, c=vector() + 3):
        return x * a - b / c

    calls = [Args(vector()), Args(vector(), vector()), Args(vector(), b=vector())]
    return Case(f, vector(), then=[lambda args=args: args for args in calls + calls])


@program(whole=False)
def arguments_behind_one_that_is_not_taken():
    # The second argument is not looked at where the first ends the graph.
    def f(x, *more, last=frozenset([1])):
        return x + len(more) + len(last)

    meta, sparse = torch.ones(2, device="meta"), vector().to_sparse()
    calls = [Args(vector(), made, held) for made in (meta, sparse) for held in (frozenset([1, 2]), {3}, [4], {"a": 5})]
    return Case(f, vector(), then=[lambda args=args: args for args in calls])


@program(whole=False)
def defaults_behind_one_that_is_not_taken():
    def inner(x, a=torch.ones(2, device="meta"), b=frozenset([1, 2])):
        return x + a.dim() + len(b)

    def f(x):
        return inner(x) * 2

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def keyword_defaults_that_live_across_a_break():
    scale = [2.0]

    def answer(kind):
        torch._dynamo.graph_break()
        return kind

    def f(x):
        def scaled(a, b=scale[0], *, c=3.0, rows=scale, other=x) -> answer(float):
            return a * b + c * rows[0] - other

        return scaled(x), scaled(x, c=1.0), scaled.__kwdefaults__["rows"] is scale, scaled.__annotations__

    return Case(f, vector(), then=[lambda: scale.append(1.0), lambda: scale.insert(0, 5.0)])
