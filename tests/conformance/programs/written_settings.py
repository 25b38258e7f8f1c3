"""Settings that a function sets before its first operator: the graph runs under them, and a run that is dropped puts them back."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


@program
def memory_is_filled_under_what_was_set_inside():
    def f(x):
        torch.use_deterministic_algorithms(True)
        new = torch.empty(3)
        torch.use_deterministic_algorithms(False)
        return x[:3] + new

    return Case(f, vector())


@program
def what_was_set_before_an_error_is_read_again():
    def f(x, index):
        before = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(True)
        try:
            y = x.index_select(0, index)
        except IndexError:
            y = x * 0
        torch.use_deterministic_algorithms(before)
        return y, before

    places = torch.tensor([1, 0]), torch.tensor([2, 9]), torch.tensor([2, 1])
    return Case(f, vector(), places[0], then=[lambda p=p: Args(vector(), p) for p in places[1:]])
