"""Modules that get their parameters at their first call, in the compiled function."""

import torch
from torch import nn

from conformance.program import Args, Case, program
from conformance.sample import matrix




@program(whole=False, not_ways=("fullgraph",))
def layers_in_a_row():
    model = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2))

    def f(x):
        torch.manual_seed(3)
        return model(x)

    return Case(f, matrix(3, 5), then=[lambda: Args(matrix(3, 5) * 2), lambda: Args(matrix(3, 5) * 3)])


@program(whole=False, not_ways=("fullgraph",))
def one_behind_other_work():
    layer = nn.LazyLinear(4)

    def f(x):
        torch.manual_seed(3)
        return layer(torch.relu(x) * 2) + 1, type(layer).__name__, len(layer._forward_pre_hooks)

    return Case(f, matrix(3, 5), then=[lambda: Args(matrix(3, 5) * 2), lambda: Args(matrix(3, 5) * 3)])
