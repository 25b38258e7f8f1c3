"""Python's logging in captured code: how many graphs calls of it leave, and when they are captured again."""

import functools
import io
import logging

import framefuse
import pytest
import torch

LOGGER = logging.getLogger("framefuse_test_records")


@functools.lru_cache(None)
def warning_once(self, *args, **kwargs):
    """As transformers has it for all loggers."""
    self.warning(*args, **kwargs)


@pytest.fixture(autouse=True)
def _as_it_was():
    yield
    LOGGER.handlers.clear()
    LOGGER.propagate = True  # else pytest adds a handler of its own


def begin():
    """Sets the logger up; what was written since."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(funcName)s %(lineno)d %(message)s"))
    LOGGER.handlers[:] = [handler]
    LOGGER.propagate = False
    LOGGER.setLevel(logging.INFO)
    LOGGER.disabled = False
    warning_once.cache_clear()
    return lambda: [line.split(" ", 2)[2] for line in stream.getvalue().splitlines()]


def counted(f, *calls):
    """The captures and the breaks of each call."""
    compiled = framefuse.compile(f)
    counts = []
    for args in calls:
        before = framefuse.statistics()
        assert torch.allclose(compiled(*args), torch.ones(3).sin())
        after = framefuse.statistics()
        counts.append(tuple(after[k] - before[k] for k in ("captures", "graph_breaks")))
    return counts


def test_a_record_leaves_one_graph():
    written = begin()

    def f(x):
        LOGGER.warning("a %s", 1)
        return x.sin()

    x = torch.ones(3)
    counts = counted(f, *[(x,)] * 4)
    assert counts[0] == (1, 0) and counts[2:] == [(0, 0)] * 2
    assert written() == ["a 1"] * 4


def test_a_record_of_the_first_call_leaves_one_graph():
    written = begin()

    def f(x):
        y = x.sin()
        warning_once(LOGGER, "once")
        return y

    x = torch.ones(3)
    counts = counted(f, *[(x,)] * 4)
    assert all(breaks == 0 for _, breaks in counts) and counts[2:] == [(0, 0)] * 2
    assert written() == ["once"]


def test_a_level_that_changes_is_seen():
    written = begin()

    def f(x):
        LOGGER.debug("low")
        return x.sin()

    compiled = framefuse.compile(f, fullgraph=True)
    x = torch.ones(3)
    compiled(x)
    LOGGER.setLevel(logging.DEBUG)
    compiled(x)
    logging.disable(logging.DEBUG)
    try:
        compiled(x)
    finally:
        logging.disable(logging.NOTSET)
    compiled(x)
    LOGGER.disabled = True
    compiled(x)
    LOGGER.disabled = False
    assert written() == ["low"] * 2


def test_numbers_that_change_do_not_capture_again_for_each():
    written = begin()

    def f(x, n, rate):
        LOGGER.info("step %d at %.2f", n, rate)
        return x.sin()

    x = torch.ones(3)
    counts = counted(f, *[(x, n, n / 8) for n in range(2, 12)])
    assert counts[4:] == [(0, 0)] * 6
    assert written() == [f"step {n} at {n / 8:.2f}" for n in range(2, 12)]


def test_texts_that_change_do_not_capture_again_for_each():
    written = begin()

    def f(x, name):
        LOGGER.info("of %s", name)
        return x.sin()

    x = torch.ones(3)
    counts = counted(f, *[(x, f"name {n}") for n in range(2, 12)])
    assert sum(captures for captures, _ in counts[4:]) == 0
    assert written() == [f"of name {n}" for n in range(2, 12)]


def test_a_library_that_is_changed_hears_of_each_record(monkeypatch):
    begin()
    heard = []

    def f(x):
        heard.append("before")
        LOGGER.info("here")
        heard.append("behind")
        return x.sin()

    compiled = framefuse.compile(f)
    compiled(torch.ones(3))
    monkeypatch.setattr(logging.Logger, "callHandlers", lambda self, record: heard.append(record.msg))
    heard.clear()
    compiled(torch.ones(3))
    assert heard == ["before", "here", "behind"]


def test_the_hints_of_records_that_break():
    begin()

    def of_a_tensor(x):
        LOGGER.info("of %s", x)
        return x.sin()

    def behind_a_record(x):
        LOGGER.info("here")
        LOGGER.propagate = True
        return x.sin()

    for f, hint in ((of_a_tensor, "such a record stays in the graph"), (behind_a_record, "set loggers and handlers up outside")):
        LOGGER.propagate = False
        output = framefuse.explain(f)(torch.ones(3))
        assert output.graph_break_count == 1
        assert hint in str(output)
