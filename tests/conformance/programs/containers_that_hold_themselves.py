"""Lists and dicts that hold themselves, given to what walks through its arguments: the errors are eager's."""

import json

import numpy as np
import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


def _list(*items):
    made = list(items)
    made.append(made)
    return made


def _said(f, *args):
    try:
        return f(*args)
    except Exception as e:
        return type(e).__name__, str(e)


@program(whole=False)
def given_to_json():
    def f(x, items):
        return x + 1, _said(json.dumps, items), _said(json.dumps, {"items": [items]})

    return Case(f, vector(3), _list(1.0, 2), then=[lambda: Args(vector(3), _list("a")), lambda: Args(vector(3), [1.0])])


@program(whole=False)
def given_to_numpy():
    def f(x, items):
        return x * 2, type(_said(np.array, items)).__name__, len(items)

    return Case(f, vector(3), _list(1.0), then=[lambda: Args(vector(3), _list(2.0, 3.0))])


@program(whole=False)
def given_to_torch():
    def f(x, items):
        return x - 1, _said(torch.tensor, items), _said(torch.as_tensor, [items])

    return Case(f, vector(3), _list(1.0), then=[lambda: Args(vector(3), _list(2.0)), lambda: Args(vector(3), _list(3.0, 4.0))])


@program(whole=False)
def walked_by_the_program():
    def f(x, items):
        total, inner = x, items
        for _ in range(3):
            total = total + inner[0]
            inner = inner[-1]
        return total, inner is items, len(items)

    return Case(f, vector(3), _list(1.5), then=[lambda: Args(vector(3), _list(2.5))])
