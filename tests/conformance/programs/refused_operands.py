"""Operands that eager's operators refuse where they stand, and that their metadata would let pass."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


@program(whole=False)
def numbers_that_are_tensors_with_dimensions():
    def f(x, mask, value):
        out = []
        for operate in (
            lambda: x.masked_fill(mask, value),
            lambda: x.clone().masked_fill_(mask, value),
            lambda: x.clone().fill_(value),
            lambda: x.index_fill(0, torch.tensor([1]), value),
        ):
            try:
                out.append(operate())
            except RuntimeError as e:
                out.append(str(e)[:60])
        return out

    return Case(f, vector(), vector() > 1.2, vector(), then=[lambda: Args(vector(), vector() > 0, torch.tensor(3.0))])
