"""Whoever watches a program's lines and calls sees what it sees of Python: coverage's way, a debugger's, profile functions.

The coverage package is none of the tests' requirements: `Lines` does what its tracer in Python does.
"""

import contextlib
import sys
import threading

import framefuse
import pytest
import torch

X = torch.ones(3)


class Lines:
    """Which lines of this file were run, by function: a trace function for each frame, as coverage's tracer sets it."""

    def __init__(self):
        self.seen = set()
        self.stopped = False

    def __call__(self, frame, event, _):
        code = frame.f_code
        if self.stopped or code.co_filename != __file__ or code.co_name == "stop":
            return None
        if event == "line":
            self.seen.add((code.co_name, frame.f_lineno - code.co_firstlineno))
        return self

    def start(self):
        sys.settrace(self)

    def stop(self):
        sys.settrace(None)
        self.stopped = True


class Calls:
    """Calls and returns of this file's functions, as a profile function is told of them."""

    def __init__(self):
        self.seen = []

    def __call__(self, frame, event, _):
        if frame.f_code.co_filename == __file__ and event in ("call", "return"):
            self.seen.append((event, frame.f_code.co_name))


@contextlib.contextmanager
def unwatched():
    """As it was before, if the tests are watched themselves."""
    trace, profile = sys.gettrace(), sys.getprofile()
    sys.settrace(None)
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.settrace(trace)
        sys.setprofile(profile)


@pytest.fixture(autouse=True)
def afresh():
    framefuse.reset()
    with unwatched():
        yield


def helper(x):
    if x.shape[0] > 2:
        return x * 2
    return x


def program(x):
    y = helper(x) + 1
    total = 0
    for k in range(2):
        total += k
    return y.sin() * total


def breaks(x):
    y = helper(x) + 1
    framefuse.graph_break()
    return helper(y).cos()


def raises(x):
    try:
        return helper(x) + torch.ones(7)
    except RuntimeError:
        return x + 1


PROGRAMS = pytest.mark.parametrize("f", [program, breaks, raises])
ALREADY = pytest.mark.parametrize("called_before", [False, True])


def lines_of(f, x):
    tracer = Lines()
    tracer.start()
    try:
        result = f(x)
    finally:
        tracer.stop()
    return result, tracer.seen


@PROGRAMS
@ALREADY
def test_lines_that_a_tracer_sees(f, called_before):
    compiled = framefuse.compile(f)
    if called_before:
        compiled(X)
    expected, lines = lines_of(f, X)
    with framefuse.capture_logs("fallbacks") as records:
        for _ in range(2):
            result, seen = lines_of(compiled, X)
            assert torch.equal(result, expected) and seen == lines
    assert [text for _, text in records if "sys.settrace" in text and f.__name__ in text]
    hits = framefuse.statistics()["hits"]
    assert torch.equal(compiled(X), expected) and torch.equal(compiled(X), expected)
    assert framefuse.statistics()["hits"] > hits, "compiled code runs again when nobody traces"


def starts_in_between(tracer):
    def started(x):
        y = helper(x) + 1
        tracer.start()
        z = helper(y).cos()
        tracer.stop()
        return helper(z) * 2

    return started


@ALREADY
def test_a_tracer_that_starts_in_the_middle_of_a_call(called_before):
    seen = []
    for compile in (lambda f: f, framefuse.compile):
        tracer = Lines()
        f = compile(starts_in_between(tracer))
        results = []
        for _ in range(1 + called_before):
            tracer.seen, tracer.stopped = set(), False
            results.append(f(X))
        seen.append((results[-1].tolist(), tracer.seen))
    assert seen[0][1], "the tracer sees helper's lines"
    assert seen[1] == (pytest.approx(seen[0][0]), seen[0][1])


def test_threads_that_a_tracer_follows():
    seen = []
    for f in (program, framefuse.compile(program)):
        f(X)
        tracer, results = Lines(), []
        threading.settrace(tracer)
        try:
            thread = threading.Thread(target=lambda: results.append(f(X)))  # noqa: B023
            thread.start()
            thread.join()
        finally:
            threading.settrace(None)
        seen.append((results[0], {line for line in tracer.seen if line[0] in ("program", "helper")}))
    assert torch.equal(seen[0][0], seen[1][0]) and seen[0][1] == seen[1][1] != set()


@PROGRAMS
@ALREADY
def test_calls_that_a_profile_function_sees(f, called_before):
    seen = []
    compiled = framefuse.compile(f)
    if called_before:
        compiled(X)
    for function in (f, compiled):
        calls = Calls()
        sys.setprofile(calls)
        try:
            result = function(X)
        finally:
            sys.setprofile(None)
        seen.append((result.tolist(), calls.seen))
    assert seen[1] == (pytest.approx(seen[0][0]), seen[0][1])


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")
@pytest.mark.parametrize("everywhere", [False, True])
@ALREADY
def test_lines_that_a_monitoring_tool_sees(everywhere, called_before):
    monitoring = sys.monitoring
    tool, line = monitoring.COVERAGE_ID, monitoring.events.LINE
    seen = []

    def on_line(code, number):
        if code.co_filename == __file__ and code.co_name in ("program", "helper"):
            seen[-1].add((code.co_name, number))

    compiled = framefuse.compile(program)
    if called_before:
        compiled(X)
    monitoring.use_tool_id(tool, "lines")
    try:
        monitoring.register_callback(tool, line, on_line)
        if everywhere:
            monitoring.set_events(tool, line)
        for code in [] if everywhere else [program.__code__, helper.__code__]:
            monitoring.set_local_events(tool, code, line)
        results = []
        for f in (program, compiled):
            seen.append(set())
            results.append(f(X))
    finally:
        monitoring.set_events(tool, 0)
        for code in (program.__code__, helper.__code__):
            monitoring.set_local_events(tool, code, 0)
        monitoring.free_tool_id(tool)
    assert torch.equal(*results) and seen[0] == seen[1] != set()
