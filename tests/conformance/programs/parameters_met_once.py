"""Parameters that torch goes through, each once: other modules in each call, and parameters that two modules share."""

import torch
from conformance.program import Args, Case, program
from conformance.sample import matrix
from torch import nn


class Two(nn.Module):
    def __init__(self, tied, start=0.5):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        with torch.no_grad():
            for number, p in enumerate(self.parameters()):
                p.fill_(start + number)
        if tied:
            self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(self.first(x))


def _halved(module, x):
    with torch.no_grad():
        for p in module.parameters():
            p.mul_(0.5)
    return module(x), len(list(module.parameters()))


@program
def of_other_modules():
    modules = [Two(False, start) for start in (0.5, 1.0, 1.5)]

    def others(module):
        return lambda: Args(module, matrix(2, 3))

    return Case(_halved, modules[0], matrix(2, 3), observe=modules, then=[others(m) for m in modules])


@program
def tied_and_not():
    modules = [Two(tied) for tied in (False, True, False, True)]

    def others(module):
        return lambda: Args(module, matrix(2, 3))

    return Case(_halved, modules[0], matrix(2, 3), observe=modules, then=[others(m) for m in modules])


@program
def without_elements():
    """They share no memory when they are one, either: only which object each is tells."""

    class Empty(nn.Module):
        def __init__(self, one):
            super().__init__()
            self.a = nn.Parameter(torch.zeros(0))
            self.b = self.a if one else nn.Parameter(torch.zeros(0))

    modules = [Empty(False), Empty(True), Empty(False)]

    def f(module, x):
        return x * len(list(module.parameters()))

    def others(module):
        return lambda: Args(module, matrix(2, 3))

    return Case(f, modules[0], matrix(2, 3), then=[others(m) for m in modules])
