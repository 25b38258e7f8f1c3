"""No fake outlives its capture, also where torch's own nodes are a ring: one saves a tensor that is written with what the node computed."""

import framefuse
import pytest
import torch


def vander(x):
    return torch.vander(x)


def product_written_back(x):
    y = x * 2
    z = y * y.sin()
    y.copy_(z)
    return y


def part_written_back(x):
    y = x * 2
    z = y * y
    y[1:].copy_(z[1:])
    return y


def saved_view_of_what_is_written(x):
    y = x * 2
    part = y[1:]
    z = part * part
    y[:2].copy_(z)
    return y


def ring_that_nobody_returns(x):
    y = x * 2
    y.copy_(y * y)
    return x * 3


def two_rings(x):
    y, z = x * 2, x * 3
    y.copy_(y * z)
    z.copy_(z * y)
    return y + z


def ring_of_an_input(x, state=torch.ones(3)):
    state = state.clone()
    state.mul_(x)
    state.copy_(state * state)
    return state


class Refuses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("no gradient")


def function_that_refuses(x):
    y = Refuses.apply(x)
    y.sum().backward()
    return x * 2


def passed_inside(x):
    torch.vander(x).sum().backward()
    return x * 2


def handled_inside(x):
    try:
        torch.vander(x).sum().backward()
    except RuntimeError:
        return x * 3
    return x * 2


def no_derivative(x):
    return torch.nextafter(x, torch.ones(3))


def used_up(x):
    y = x.exp().sum()
    y.backward()
    y.backward()
    return x * 2


PROGRAMS = [
    vander,
    product_written_back,
    part_written_back,
    saved_view_of_what_is_written,
    ring_that_nobody_returns,
    two_rings,
    ring_of_an_input,
    function_that_refuses,
    passed_inside,
    handled_inside,
    no_derivative,
    used_up,
]


def _outcome(function):
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    try:
        result = function(x)
        result.sum().backward()
    except (RuntimeError, ValueError) as error:
        return type(error), str(error)[:50], None if x.grad is None else x.grad.tolist()
    return result.tolist(), x.grad.tolist()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("backend", ["fuse", "aten", lambda gm, examples: gm.forward])
def test_no_fake_outlives_its_capture(program, backend):
    framefuse.reset()
    compiled = framefuse.compile(program, backend=backend)
    before = framefuse.statistics()["live_fakes"]
    for _ in range(3):
        assert _outcome(compiled) == _outcome(program)
        assert framefuse.statistics()["live_fakes"] == before
