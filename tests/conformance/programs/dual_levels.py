"""Blocks of torch.autograd.forward_ad.dual_level: what tangents become, and levels that are left by an error or a break."""

import warnings

import torch
import torch.autograd.forward_ad as forward_ad
from torch import nn

from conformance.program import Case, program
from conformance.sample import leaf, matrix, vector

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the first import of torch's own formulas warns
    import torch._decomp.decompositions_for_jvp  # noqa: E402, F401


@program
def primal_and_tangent_of_a_function():
    def f(x, t):
        with forward_ad.dual_level() as level:
            dual = forward_ad.make_dual(x, t)
            primal, tangent = forward_ad.unpack_dual(torch.exp(dual) / (1 + dual))
        return primal, tangent, level

    return Case(f, vector(), torch.ones(3), forward_only=True)


@program
def tangent_ends_with_its_level():
    def f(x, t):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, t)
            kept = dual * 3
        with forward_ad.dual_level():
            tangent = forward_ad.unpack_dual(kept).tangent
            again = forward_ad.unpack_dual(forward_ad.make_dual(kept, t) * 2).tangent
        return kept, tangent is None, again

    return Case(f, vector(), torch.ones(3), forward_only=True)


@program
def module_under_a_level():
    model = nn.Sequential(nn.Linear(3, 4), nn.Softmax(-1), nn.LayerNorm(4))
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(torch.arange(p.numel()).reshape(p.shape) * 0.1 + i)

    def f(x, t):
        with torch.no_grad(), forward_ad.dual_level():
            return forward_ad.unpack_dual(model(forward_ad.make_dual(x, t))).tangent

    return Case(f, matrix(), torch.ones(2, 3))


@program
def gradient_of_a_tangent():
    def f(x, t):
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(forward_ad.make_dual(x, t).sin() * x).tangent

    return Case(f, leaf(), torch.ones(3))


@program
def error_under_a_level():
    def f(x, t, fails):
        try:
            with forward_ad.dual_level():
                y = forward_ad.unpack_dual(forward_ad.make_dual(x, t) ** 3).tangent
                if fails:
                    raise ValueError("no")
        except ValueError:
            y = y + 100
        with forward_ad.dual_level():
            return y + forward_ad.unpack_dual(forward_ad.make_dual(x, t) * 2).tangent

    return Case(f, vector(), torch.ones(3), True, forward_only=True)


@program
def written_in_place_under_a_level():
    def f(x, t):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, t).clone()
            dual.mul_(dual)
            dual[0] = 5.0
            return forward_ad.unpack_dual(dual)

    return Case(f, vector(), torch.ones(3), forward_only=True)


@program(whole=False)
def break_under_a_level():
    def f(x, t):
        with forward_ad.dual_level():
            y = forward_ad.make_dual(x, t) * 2
            if y.sum().item() > 0:
                y = y * x
            return forward_ad.unpack_dual(y).tangent

    return Case(f, vector(), torch.ones(3), forward_only=True)


@program(whole=False)
def level_in_a_level():
    def f(x, t):
        text = ""
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, t)
            try:
                forward_ad.enter_dual_level()
            except RuntimeError as error:
                text = str(error)
            return forward_ad.unpack_dual(dual * 2).tangent, text

    return Case(f, vector(), torch.ones(3), forward_only=True)


@program(whole=False)
def level_left_twice():
    def f(x, t):
        level = forward_ad.enter_dual_level()
        tangent = forward_ad.unpack_dual(forward_ad.make_dual(x, t).cos()).tangent
        forward_ad.exit_dual_level(level=level)
        try:
            forward_ad.exit_dual_level(level=level)
        except RuntimeError as error:
            return tangent, str(error)

    return Case(f, vector(), torch.ones(3), forward_only=True)


@program(whole=False)
def tangent_of_another_shape():
    def f(x, t):
        text = ""
        try:
            with forward_ad.dual_level():
                forward_ad.make_dual(x, t)
        except RuntimeError as error:
            text = str(error).splitlines()[0]
        return x * 2, text

    return Case(f, vector(), torch.ones(4), forward_only=True)
