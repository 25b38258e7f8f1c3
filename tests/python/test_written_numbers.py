"""Numbers that a compiled call writes itself, and leaves that it makes: one capture serves the calls that follow."""

import copy
import types

import framefuse
import pytest
import torch
from torch import nn

WITH = ["fuse", "aten", lambda module, examples: module.forward]


def captures(function, calls, *args):
    """And runs as Python, in each of the calls."""
    found = []
    for _ in range(calls):
        before = framefuse.statistics()
        function(*args)
        after = framefuse.statistics()
        found.append(after["captures"] - before["captures"] + after["eager_fallbacks"] - before["eager_fallbacks"])
    return found


@pytest.mark.parametrize("backend", WITH)
def test_a_class_that_counts(backend):
    class Handle:
        following = 1

        def __init__(self):
            Handle.following += 1

    @framefuse.compile(backend=backend)
    def f(x):
        Handle()
        return x * 2

    f(torch.ones(2))
    assert captures(f, 12, torch.ones(2)) == [0] * 12
    assert Handle.following == 14


@pytest.mark.parametrize("backend", WITH)
def test_steps_of_an_object(backend):
    class State:
        step, total = 0, 0.0

    state = State()
    state.step, state.total = 1, 0.5
    halves = 0.5 if isinstance(backend, str) else 0.0  # a backend in Python gets no symbolic floats

    @framefuse.compile(backend=backend)
    def f(x):
        state.step += 1
        if halves:
            state.total += halves
        return x * 2

    f(torch.ones(2))
    assert captures(f, 12, torch.ones(2)) == [0] * 12
    assert (state.step, state.total) == (14, 0.5 + 13 * halves)


@pytest.mark.parametrize("backend", WITH)
def test_a_module_copied_inside(backend):
    layer = nn.Linear(3, 3)

    @framefuse.compile(backend=backend)
    def f(x):
        return copy.deepcopy(layer)(x).relu()

    before = framefuse.statistics()
    assert f(torch.ones(2, 3)).requires_grad
    after = framefuse.statistics()
    assert after["graph_breaks"] - before["graph_breaks"] == 1
    assert after["eager_fallbacks"] == before["eager_fallbacks"]
    assert captures(f, 3, torch.ones(2, 3)) == [0] * 3


def test_modules_whose_parameters_are_gone_through_share_a_graph():
    @framefuse.compile
    def f(module, x):
        with torch.no_grad():
            for p in module.parameters():
                p.mul_(0.5)
        return module(x)

    f(nn.Linear(3, 3), torch.ones(2, 3))
    for _ in range(4):
        assert captures(f, 1, nn.Linear(3, 3), torch.ones(2, 3)) == [0]


def test_what_is_written_again_as_it_was_is_no_symbol():
    class State:
        rate = 0.0

    state = State()
    state.rate = 0.5

    @framefuse.compile
    def f(x):
        y = x * state.rate
        state.rate = 0.5
        return y

    report = framefuse.explain(f)(torch.ones(2))
    assert any("rate" in guard and "0.5" in guard for guard in report.out_guards), report.out_guards
    assert captures(f, 1, torch.ones(2)) == [1] and captures(f, 2, torch.ones(2)) == [0, 0]


def test_a_number_that_a_graph_computes_with_before_a_break_is_no_endless_matter():
    """The FX graph can't have it as a symbol, and the break stands with and without symbols."""
    state = types.SimpleNamespace(a=1, b=2)

    def f(x):
        state.a = state.a + 1
        return x * state.a, list(vars(state))

    given = []

    def backend(module, example_inputs):
        given.append(module)
        return module.forward

    call, before = framefuse.compile(f, backend=backend), framefuse.statistics()["attempts"]
    x = torch.ones(3)
    for n in range(2, 5):
        result, names = call(x)
        assert torch.equal(result, x * n) and names == ["a", "b"]
    assert given
    assert framefuse.statistics()["attempts"] - before < 40


class Base:
    made = 2


class Derived(Base):
    pass


@pytest.mark.parametrize("own", [50, "equal"])
def test_a_derived_class_gets_a_number_of_its_own(own):
    def f(x):
        Base.made += 1
        return x * 2, Derived.made

    call = framefuse.compile(f)
    Base.made = 2
    try:
        assert [call(torch.ones(2))[1] for _ in range(3)] == [3, 4, 5]
        Derived.made = Base.made if own == "equal" else own
        expected = Derived.made
        assert [call(torch.ones(2))[1] for _ in range(2)] == [expected, expected]
        assert Base.made == 7
    finally:
        if "made" in vars(Derived):
            del Derived.made
