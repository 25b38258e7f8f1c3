"""What rounding explains and what it does not: runs that differ from plain Python's in a way that each test knows."""

import pytest
import torch
from torch import nn

from conformance import gradients, work
from conformance.judge import OK, WRONG, judge
from conformance.program import Case, Program
from conformance.sample import leaf, vector
from conformance.systems import PlainPython


class Replaced(PlainPython):
    """A compiler that gives another function for each; its results may be 1e-5 off, or those of aten with breaks."""

    def __init__(self, other, tolerance=1e-5, breaks=0):
        self.other, self.tolerance, self.breaks, self.made = other, tolerance, breaks, 0

    def compile(self, f, *, fullgraph=False):
        self.made += 1
        return lambda *args: self.other(*args)

    def counters(self):
        return dict.fromkeys(work.COUNTERS, self.made) | {"breaks": self.breaks * self.made, "given_up": 0}


def verdict(f, other, *args, **system):
    program = Program("test/rounding", "test", lambda: Case(f, *[a.clone().detach().requires_grad_(a.requires_grad) for a in args]), True, None, None, (), None, (3, 11))
    return judge(program, "alone", Replaced(other, **system)).status


def saturated(x):
    """Three numbers that differ in their last bits, and the norm of these differences."""
    return nn.functional.layer_norm(torch.tanh(x + 6.5), (3,))


def in_double(f):
    return lambda x: f(x.double()).float()


def test_a_norm_of_last_bits_is_explained():
    x = vector() * 0.1
    first, second = saturated(x), in_double(saturated)(x)
    assert not torch.allclose(first, second, rtol=1e-5, atol=1e-5)  # else there is nothing to explain
    assert verdict(saturated, in_double(saturated), x) == OK


@pytest.mark.parametrize("wrong", [lambda y: -y, lambda y: y + 1, lambda y: y * 3, lambda y: y * torch.nan, lambda y: y.flip(0)])
def test_another_result_of_an_ill_conditioned_program_is_wrong(wrong):
    assert verdict(saturated, lambda x: wrong(saturated(x)), vector() * 0.1) == WRONG


@pytest.mark.parametrize("by", [1e-4, 1e-3, 1e-2])
def test_a_small_difference_of_a_plain_program_is_wrong(by):
    def f(x):
        return torch.tanh(x * 1.1).sum() * x

    assert verdict(f, lambda x: f(x) * (1 + by), vector()) == WRONG
    assert verdict(f, lambda x: f(x * (1 + by)), leaf()) == WRONG


def test_a_wrong_gradient_of_a_plain_program_is_wrong():
    class Off(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 1

        @staticmethod
        def backward(context, gradient):
            return gradient * 1.001

    assert verdict(lambda x: torch.tanh(x) * 2, lambda x: torch.tanh(Off.apply(x)) * 2, leaf()) == WRONG


def test_what_is_exact_explains_nothing():
    def f(x):
        return (x * 2 + 1).sum() - 3

    assert verdict(f, lambda x: f(x) + 0.0625, vector()) == WRONG


def test_a_system_without_tolerance_is_not_excused():
    assert verdict(saturated, in_double(saturated), vector() * 0.1, tolerance=0.0) == WRONG


@pytest.mark.parametrize(("breaks", "status"), [(1, OK), (0, WRONG)])
def test_gradients_of_divided_graphs_may_be_summed_in_another_order(breaks, status):
    class LastBit(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.view_as(x)

        @staticmethod
        def backward(context, gradient):
            return torch.nextafter(gradient, gradient * 2)

    def f(x):
        return (x * 1.3).exp() / 7

    assert verdict(f, lambda x: f(LastBit.apply(x)), leaf(), tolerance=0.0, breaks=breaks) == status


@pytest.mark.parametrize(("kind", "status"), [("by a loss", WRONG), ("transposed", OK)])
def test_gradients_of_a_gradient_with_other_strides_may_be_summed_in_another_order(kind, status, monkeypatch):
    def backward_to(last):
        class Expanded(torch.autograd.Function):
            @staticmethod
            def forward(context, x):
                return x.expand(7, 5).contiguous()

            @staticmethod
            def backward(context, gradient):
                return last(gradient.sum().reshape(1))

        return Expanded.apply

    monkeypatch.setattr(gradients, "kind_of", lambda number: kind)
    assert verdict(backward_to(torch.clone), backward_to(lambda g: torch.nextafter(g, g * 2)), leaf(1), tolerance=0.0) == status


def test_a_program_is_left_as_it_is():
    """The runs of the check change nothing that a program keeps: each has its own case."""
    made = []

    def build():
        made.append(vector())
        return Case(saturated, made[-1] * 0.1)

    program = Program("test/left", "test", build, True, None, None, (), None, (3, 11))
    state = torch.get_rng_state()
    judge(program, "alone", Replaced(in_double(saturated)))
    assert len(made) > 2
    assert torch.equal(state, torch.get_rng_state())


class Passed(torch.autograd.Function):
    """As it is; the gradient as `last` gives it, which is the class's."""

    last = staticmethod(torch.clone)

    @staticmethod
    def forward(context, x):
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        return Passed.last(gradient)


def three_terms(x):
    return ((x * 1.1).sin(), (x * 1.3).exp(), (x / 7).tanh())


def gradient_of_sum(terms):
    """By the engine, which adds gradients up as they come: a number that the program reads."""

    def f(x):
        return torch.autograd.grad([t.sum() for t in terms(x)], x)[0].tolist()

    return f


def in_two_graphs(x):
    first, second, third = three_terms(x)
    other = x.view_as(x)
    return (other * 1.1).sin(), (other * 1.3).exp(), third


def off_by(ulps, terms=three_terms):
    def last(gradient):
        for _ in range(ulps):
            gradient = torch.nextafter(gradient, gradient * 2)
        return gradient

    def f(x):
        Passed.last = staticmethod(last)
        try:
            return gradient_of_sum(lambda x: terms(Passed.apply(x)))(x)
        finally:
            Passed.last = staticmethod(torch.clone)

    return f


def varied():
    return torch.linspace(-2, 2, 41).requires_grad_()


def test_gradients_that_a_program_reads_may_be_summed_in_another_order_after_a_break():
    f, other = gradient_of_sum(three_terms), gradient_of_sum(in_two_graphs)
    assert f(varied()) != other(varied())  # else there is nothing to explain
    assert verdict(f, other, varied(), tolerance=0.0, breaks=1) == OK
    assert verdict(f, other, varied(), tolerance=0.0, breaks=0) == WRONG


@pytest.mark.parametrize("ulps", [8, 16, 64])
def test_a_few_last_bits_of_a_sum_are_wrong_after_a_break(ulps):
    assert verdict(gradient_of_sum(three_terms), off_by(ulps), varied(), tolerance=0.0, breaks=1) == WRONG


def test_the_last_bit_of_a_gradient_that_is_no_sum_is_wrong_after_a_break():
    def one_term(x):
        return ((x * 1.3).exp(),)

    f = gradient_of_sum(one_term)
    assert verdict(f, off_by(1, one_term), varied(), tolerance=0.0, breaks=1) == WRONG


def test_the_last_bit_of_a_value_is_wrong_after_a_break():
    def f(x):
        return ((x + 1) * 1.3 + x).detach()

    assert verdict(f, lambda x: torch.nextafter(f(x), f(x) * 2), varied(), tolerance=0.0, breaks=1) == WRONG
