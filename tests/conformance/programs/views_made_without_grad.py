"""Views of leaves that are made, and written, where grad mode is off: torch refuses to give such a view a history later."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, vector


def _again():
    return Args(vector(), leaf(4))


@program(whole=False)
def item_of_a_view_is_set():
    def f(x, t):
        with torch.no_grad():
            t.reshape(-1)[:1] = 0
            x = x + (1 if t.any() else 2)
        return x

    return Case(f, vector(), leaf(4), then=[_again, lambda: Args(vector(), torch.arange(4))])


@program(whole=False)
def view_is_written_and_kept():
    def f(x, t):
        with torch.no_grad():
            view = t.view(2, 2)
            view[0] = 1
            view.mul_(2)
        return x + 1, view.detach()

    return Case(f, vector(), leaf(4), then=[_again])


@program(whole=False)
def base_is_written_with_grad_after_it():
    def f(x, t):
        t = t * 1
        with torch.no_grad():
            view = t[:2]
        t.mul_(2)
        return x + 1, t, view.shape

    return Case(f, vector(), leaf(4), then=[_again])
