"""Derivatives that go forward: tangents, among them those that are zero and have no memory."""

import math
import warnings

import torch

from conformance.program import Case, program


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the first import of torch's own formulas warns
    import torch._decomp.decompositions_for_jvp  # noqa: E402, F401


@program
def zeros_without_memory():
    """What forward mode makes for tangents that are zero: times infinity they are zero, too."""

    def f(x):
        zeros = torch._efficientzerotensor((3,))
        wide = zeros.expand(2, 3)
        return zeros * x, x - zeros, (wide * x).sum() + x, wide.clone() * x, torch.func.hessian(lambda v: (v**3).sum())(x)

    return Case(f, torch.tensor([1.0, math.inf, math.nan]))


@program
def hessians_beside_infinities():
    def f(x):
        def energy(v):
            return (v * v.exp()).sum() + v.prod()

        return torch.func.hessian(energy)(x), torch.func.jacfwd(torch.func.grad(energy))(x) * x

    return Case(f, torch.tensor([0.5, -math.inf, 2.0]))
