"""Numpy's calls behind a graph: how many graphs and breaks there are, what explain says, and when Python runs the frame."""

import warnings

import numpy as np
import pytest
import torch

import framefuse


def doubled(x):
    return (x * 2).numpy()


CALLS = {
    "a method": lambda a: a.reshape(4, 3),
    "a type": lambda a: a.astype(np.int64),
    "an axis": lambda a: a.sum(axis=0),
    "turned": lambda a: a.T,
    "a part": lambda a: a[1:, ::2],
    "an operator": lambda a: a + 1,
    "a comparison": lambda a: a > 0,
    "a function": lambda a: np.concatenate([a, a]),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_one_graph_and_no_break(call):
    x = torch.arange(12.0).reshape(3, 4) - 5

    def f(x):
        return call(doubled(x))

    told = framefuse.explain(f)(x)
    assert (told.graph_count, told.graph_break_count) == (1, 0)
    compiled = framefuse.compile(f)
    for given in (x, x + 1):
        result, eager = compiled(given), f(given)
        assert result.dtype == eager.dtype
        assert result.strides == eager.strides
        assert str(result.flags) == str(eager.flags)
        assert np.array_equal(result, eager)


def test_what_values_decide_breaks_with_a_reason():
    def f(x):
        a = doubled(x)
        return a[a > 0]

    told = framefuse.explain(f)(torch.arange(3.0) - 1)
    assert told.graph_break_count == 1
    assert "an index of an array whose numbers are not known" in str(told.break_reasons[0].reason)


def divided(x):
    return 1 / doubled(x), x + 1


def test_errors_of_warnings_are_raised_at_the_call():
    compiled = framefuse.compile(divided)
    compiled(torch.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="divide by zero encountered in divide"):
            compiled(torch.zeros(2))
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        compiled(torch.zeros(2))


def test_the_warning_names_the_line_of_the_call():
    compiled = framefuse.compile(divided)
    compiled(torch.ones(2))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        compiled(torch.zeros(2))
    assert [(str(w.message), w.filename, w.lineno) for w in said] == [
        ("divide by zero encountered in divide", __file__, divided.__code__.co_firstlineno + 1)
    ]
