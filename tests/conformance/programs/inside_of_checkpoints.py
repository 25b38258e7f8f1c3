"""What a second run does besides computing: the way `kept` calls each program inside of a checkpoint, which runs it again.

The second run ends when all tensors are there again that the first one saved. What was written until then is written twice.
"""

import torch
from torch import nn

from conformance.program import Case, program
from conformance.sample import leaf, vector


class _Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))


@program
def written_before_what_is_computed_again():
    """Its backward saves the argument alone, and computes the rest again."""

    class Module(_Counting):
        def forward(self, x):
            with torch.no_grad():
                self.seen.add_(x)
            return x.sin().cos().sin()

    return Case(Module(), leaf(), then=[lambda: None])


@program
def written_between_two_saved_tensors():
    class Module(_Counting):
        def forward(self, x):
            y = x.exp()
            with torch.no_grad():
                self.seen.mul_(2).add_(y)
            return (y * y).exp()

    return Case(Module(), leaf(), then=[lambda: None])


@program
def written_behind_the_last_saved_tensor():
    class Module(_Counting):
        def forward(self, x):
            y = x.exp()
            with torch.no_grad():
                self.seen.add_(1)
            return y

    return Case(Module(), leaf(), then=[lambda: None])


@program
def running_averages():
    module = nn.Sequential(nn.BatchNorm1d(3), nn.Tanh(), nn.BatchNorm1d(3, momentum=None))
    return Case(module, torch.linspace(-1, 1, 12).view(4, 3).requires_grad_(), then=[lambda: None])


@program
def dropout_between_products():
    weight = (torch.eye(3) + vector()).requires_grad_()

    def f(x):
        y = nn.functional.dropout(x @ weight, 0.5)
        return nn.functional.dropout((y.sin() @ weight).relu(), 0.25)

    return Case(f, torch.linspace(-1, 1, 12).view(4, 3).requires_grad_(), observe=weight, then=[lambda: None])


@program
def saves_nothing():
    calls = []

    def f(x):
        calls.append(len(calls))
        return x.detach() * 2

    return Case(f, leaf(), observe=calls, then=[lambda: None])
