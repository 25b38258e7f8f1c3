"""Programs in the style of the public tutorials: what a first user tries."""

import torch

from conformance.program import Args, Case, program


@program(graphs=1)
def sin_and_cos():
    def f(x, y):
        a = torch.sin(x)
        b = torch.cos(y)
        return a + b

    return Case(f, torch.randn(10, 10), torch.randn(10, 10))


@program(whole=False, graphs=2)
def branch_on_data():
    def f(a, b):
        x = a / (torch.abs(a) + 1)
        if b.sum() < 0:
            b = b * -1
        return x * b

    return Case(
        f,
        torch.randn(10),
        torch.ones(10),
        then=[lambda: Args(torch.randn(10), -torch.ones(10)), lambda: Args(torch.randn(10), torch.ones(10))],
    )
