"""Random numbers of Python's and numpy's in captured functions: one capture, eager's numbers, eager's states."""

import random

import framefuse
import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    framefuse.reset()


def _states():
    numpy_state = np.random.get_state(legacy=False)
    return random.getstate(), numpy_state["state"]["pos"], numpy_state["state"]["key"].tobytes(), numpy_state["gauss"]


def _runs(function, calls):
    random.seed(5)
    np.random.seed(6)
    results = [function(*arguments) for arguments in calls]
    return results, _states()


def _jitter(x):
    return x * random.random() + np.random.rand() - random.gauss(0, 1)


def _crop(x):
    begin = random.randint(2, x.shape[0] - 4)
    return x[begin : begin + 3] * np.random.uniform(1, 2)


def _kept(x):
    numbers = [random.random() for _ in range(3)]
    return x + numbers[0], numbers, random.randrange(5, 50)


@pytest.mark.parametrize("function", [_jitter, _crop, _kept])
def test_one_capture_for_all_numbers(function):
    calls = [(torch.arange(9.0),) for _ in range(12)]
    compiled = framefuse.compile(function, fullgraph=True)
    before = framefuse.statistics()["captures"]
    expected, state = _runs(function, calls)
    found, state_found = _runs(compiled, calls)
    assert state_found == state
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert framefuse.statistics()["captures"] - before == 1


def test_a_comparison_breaks_at_the_draw():
    def function(x):
        return x + 1 if random.random() < 0.5 else x - 1

    calls = [(torch.arange(9.0),) for _ in range(20)]
    expected, state = _runs(function, calls)
    found, state_found = _runs(framefuse.compile(function), calls)
    assert state_found == state
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    reasons = framefuse.explain(function)(torch.arange(9.0)).break_reasons
    assert len(reasons) == 1 and "_random.Random.random" in reasons[0].reason


def test_what_another_thread_sees_is_no_state_of_a_capture():
    """A capture draws from a copy: an attempt that is dropped has drawn nothing."""

    def function(x):
        y = x * random.random()
        print(end="")
        return y

    before = random.getstate()
    framefuse.explain(function)(torch.ones(3))
    drawn = random.getstate()
    random.setstate(before)
    random.random()
    assert random.getstate() == drawn


def test_export_refuses_draws():
    with pytest.raises(Exception, match="random numbers of Python's or numpy's"):
        framefuse.export(_jitter)(torch.arange(9.0))
