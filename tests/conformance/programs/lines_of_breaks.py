"""The text of a line where a graph breaks may be given by code of the program (a module's loader): it is no part of what is compiled."""

import linecache

import torch

from conformance.program import Case, program
from conformance.sample import leaf, vector

_FILE = "/conformance/programs/given_by_a_loader.py"  # there is none
_TEXT = """
class Scaled(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * scale


def f(x, w):
    return Scaled.apply(x * w) * x
"""


class _Loader:
    def get_source(self, name):
        torch._dynamo.graph_break()
        return _TEXT


@program(whole=False)
def given_by_a_loader():
    names = {"Function": torch.autograd.Function, "scale": 2.0, "__name__": "lines_given", "__loader__": _Loader()}
    exec(compile(_TEXT, _FILE, "exec"), names)
    linecache.cache.pop(_FILE, None)
    linecache.lazycache(_FILE, names)
    return Case(names["f"], vector(), leaf())
