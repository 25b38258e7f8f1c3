"""torch.autograd.set_detect_anomaly: its errors and warnings name the operations of the program, so each runs by itself.

The square root of zero has an infinite gradient, which times zero is no number.
"""

import warnings

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf


def _lost(f, x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y = f(x)
        try:
            y.sum().backward()
        except RuntimeError as error:
            return y, str(error), len(seen)
    return y, "", len(seen)


def _zeros():
    return (leaf(3) * 0).detach().requires_grad_()


def _on():
    torch.autograd.set_detect_anomaly(True)
    return Args(_zeros())


def _off():
    torch.autograd.set_detect_anomaly(False)
    return Args(_zeros())


@program(whole=False)
def switched_on_between_calls():
    def f(x):
        return x.sqrt() * 0 + x

    return Case(lambda x: _lost(f, x), _zeros(), then=[_on, _off, _on, _off])


@program(whole=False)
def switched_on_from_the_start():
    def f(x):
        return (x * 2).sqrt() * 0

    def both(x):
        with torch.autograd.set_detect_anomaly(True):
            return _lost(f, x)

    return Case(both, _zeros(), then=[lambda: Args(_zeros())])


@program(whole=False)
def switched_on_inside():
    def f(x):
        y = x + 1
        with torch.autograd.set_detect_anomaly(True):
            y = y.log().sqrt() * 0
        return y

    return Case(lambda x: _lost(f, x), _zeros(), then=[lambda: Args(_zeros())])


@program(whole=False)
def without_a_look_at_the_numbers():
    def f(x):
        return x.sqrt() * 0

    def both(x):
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            y = f(x)
        y.sum().backward()
        return y, x.grad

    return Case(both, _zeros(), then=[lambda: Args(_zeros())])
