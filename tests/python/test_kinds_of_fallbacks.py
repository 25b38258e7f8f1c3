"""Every kind of fallback has a program here: statistics, log and explain agree on it, and fullgraph on whether it is an error.

The kinds are read from the catalogue. A new one without a program fails.
"""

import collections
import contextlib
import ctypes
import dataclasses
import pathlib
import re
import signal
import types
import warnings
from collections.abc import Callable

import framefuse
import numpy as np
import pytest
import torch
from test_eager_fallbacks import WAYS, Passing, fallbacks, finished, plain, raises_in_capture, without_further_compilations

ONES = torch.ones(3)
CATALOGUE = pathlib.Path(__file__).parents[2] / "symbolic/dispatch/eager_fallbacks.def"
# name → (what happened, severity)
KINDS = {
    name: (text.replace('\\"', '"'), severity)
    for name, text, severity in re.findall(r'^FF_EAGER_FALLBACK\(k\w+, "(\w+)", "(.*?)", ".*", (k\w+)\)$', CATALOGUE.read_text(), re.MULTILINE)
}

# What becomes of the call under fullgraph=True.
REFUSED = "it is an error with the cause"
ASKED_FOR = "it runs as Python: the user asked for it, or it comes from outside of the program"
OWN_ERROR = "the program's own exception goes on"
NOT_MET = "the kind does not occur"


@dataclasses.dataclass
class Way:
    """`around` is on around the last of the calls, which shows the kind."""

    f: Callable
    calls: list = dataclasses.field(default_factory=lambda: [(ONES,)])
    around: Callable = contextlib.nullcontext
    options: dict = dataclasses.field(default_factory=dict)
    whole: str = REFUSED
    call: Callable = lambda function, arguments: finished(function(*arguments))

    def run(self, function):
        for arguments in self.calls[:-1]:
            self.call(function, arguments)
        with self.around():
            return self.call(function, self.calls[-1])

    def explained(self):
        """All calls in one: each explanation compiles anew."""
        if len(self.calls) == 1:
            return self.run(framefuse.explain(self.f, **self.options))
        with contextlib.ExitStack() as stack:

            @framefuse.disable
            def begin(i):
                if i == len(self.calls) - 1:
                    stack.enter_context(self.around())

            def runs():
                for i, arguments in enumerate(self.calls):
                    begin(i)
                    self.f(*arguments)

            return framefuse.explain(runs, **self.options)()


def caught(x):
    try:
        if x.sum() < 0:
            raise ValueError("negative")
        return x + 1
    except ValueError:
        return x - 1


def warns(x):
    warnings.warn("odd", stacklevel=1)
    return x + 1


@contextlib.contextmanager
def hearing():
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda *args, **kwargs: None
        yield


def chooses(x):
    kept = x[x > 0]
    return kept * 2 if kept.shape[0] > 1 else kept - 1


def ends_idle(x):
    y = x + 1
    framefuse.graph_break()
    return y, len("rest")


def counts_down(n):
    while n > 0:
        n -= 1
    return n


@framefuse.disable(recursive=False)
def helper(n):
    return counts_down(n)


def calls_what_is_idle(x):
    return x + helper(3)


def breaks_all_the_time(x):
    for _ in range(5100):
        framefuse.graph_break()
    return x + 1


def calls_a_library(x):
    return x + float(np.rot90(np.eye(2)).sum())


def calls(x):
    return plain(x) + 1


def pieces(x):
    yield x + 1


def prints_pieces(x):
    print(*pieces(x * 2))
    return x + 1


@types.coroutine
def suspended():
    yield


async def computes_when_it_is_ended(x):
    try:
        await suspended()
    except ValueError:
        return x * 2


def throws(x):
    started = computes_when_it_is_ended(x + 1)
    started.send(None)
    try:
        started.throw(ValueError)
    except StopIteration as stop:
        return stop.value


def evaluates(x):
    return eval("x + 1")


def fails(x):
    raise KeyError(x.shape[0])


def call_that_fails(function, arguments):
    with pytest.raises(KeyError):
        function(*arguments)


def call_with_a_signal_waiting(function, arguments):
    """C code calls: between the signal and the function no instruction runs that would call the handler."""
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        (result,) = map(function, map(ctypes.pythonapi.PyErr_SetInterruptEx, [signal.SIGUSR1]))
    finally:
        signal.signal(signal.SIGUSR1, before)
    return result


MANY = [(ONES,)] * 8
PROGRAMS = {kind: Way(f, around=around, options=options) for kind, (f, around, options) in WAYS.items()} | {
    "other_way": Way(caught, [(ONES,), (-ONES,)]),
    "heard_warning": Way(warns, [(ONES,), (ONES,)], hearing),
    "deferred_fact": Way(chooses, [(ONES,), (-ONES,)]),
    "generator": Way(prints_pieces, whole=NOT_MET),
    "waiting": Way(raises_in_capture, MANY, whole=NOT_MET),
    "idle_rest": Way(ends_idle, MANY, whole=NOT_MET),
    "namespace_below": Way(evaluates, whole=NOT_MET),
    "idle_again": Way(calls_what_is_idle, MANY, whole=NOT_MET),
    "idle": Way(breaks_all_the_time, whole=NOT_MET),
    "no_tensor_work": Way(calls_what_is_idle, whole=NOT_MET),
    "library": Way(calls_a_library, around=Passing, whole=NOT_MET),
    "intercepted": Way(calls, around=Passing, whole=NOT_MET),
    "below_recompile_limit": Way(calls, around=without_further_compilations, whole=NOT_MET),
    "stance": Way(plain, [(ONES,), (torch.ones(4),)], lambda: framefuse.set_stance("eager_on_recompile"), whole=ASKED_FOR),
    "signal": Way(lambda _: plain(ONES), call=call_with_a_signal_waiting, whole=ASKED_FOR),
    "thrown_into": Way(throws, whole=NOT_MET),
    "raises": Way(fails, call=call_that_fails, whole=OWN_ERROR),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
pytestmark = [pytest.mark.filterwarnings("ignore:framefuse. :RuntimeWarning"), pytest.mark.filterwarnings("ignore:odd")]


@every_kind
def test_statistics_and_log_agree(kind):
    text, severity = KINDS[kind]
    way = PROGRAMS[kind]
    with fallbacks() as (kinds, texts):
        way.run(framefuse.compile(way.f, **way.options))
    assert kinds.get(kind, 0) > 0
    assert any(f" runs as Python: {text}" in said for said in texts) == (severity != "kCounted")


@every_kind
def test_what_is_only_counted_is_logged_where_the_log_is_verbose(kind):
    text, _ = KINDS[kind]
    way = PROGRAMS[kind]
    with framefuse.config.patch(verbose=True), fallbacks() as (kinds, texts):
        way.run(framefuse.compile(way.f, **way.options))
    said = [t for t in texts if f" runs as Python: {text}" in t]
    assert bool(said) or kind == "raises" and kinds[kind] == 1


@every_kind
def test_explain_agrees(kind):
    text, severity = KINDS[kind]
    way = PROGRAMS[kind]
    framefuse.reset()
    if way.whole == OWN_ERROR:
        with pytest.raises(KeyError):
            framefuse.explain(way.f)(*way.calls[0])
        return
    report = way.explained()
    found = [fallback for fallback in report.fallbacks if fallback.kind == kind]
    assert bool(found) == (severity != "kCounted")
    assert all(fallback.reason.startswith(text) for fallback in found)


@every_kind
def test_fullgraph_agrees(kind):
    text, severity = KINDS[kind]
    way = PROGRAMS[kind]
    assert (way.whole == REFUSED) == (severity == "kRefused")
    whole = framefuse.compile(way.f, fullgraph=True, **way.options)
    cause = "a torch dispatch mode" if kind == "nothing_captured" else re.escape(text)
    ends = {REFUSED: pytest.raises(framefuse.Unsupported, match=cause), NOT_MET: contextlib.suppress(framefuse.Unsupported)}
    with fallbacks() as (kinds, _), ends.get(way.whole, contextlib.nullcontext()):
        way.run(whole)
    assert (kind in kinds) == (way.whole != NOT_MET and kind != "nothing_captured")


def test_a_function_without_tensors_is_whole():
    """As for torch.compile, there is nothing that would have to be in a graph."""
    whole = framefuse.compile(lambda n: n + 1, fullgraph=True)
    with fallbacks() as (kinds, _):
        assert [whole(n) for n in (3, 3, 5)] == [4, 4, 6]
    assert kinds == {}


def test_what_a_library_evaluates_is_not_told():
    def f(x):
        names = collections.namedtuple("Point", "a b")._fields
        framefuse.graph_break()
        return x * len(names)

    with fallbacks() as (kinds, texts):
        assert torch.equal(framefuse.compile(f)(ONES), ONES * 2)
    assert "namespace_below" not in kinds and texts == []


def test_a_compiled_generator_that_is_thrown_into():
    def pieces(x):
        try:
            yield x + 1
        except ValueError:
            yield x * 2

    whole = framefuse.compile(pieces, fullgraph=True)
    with fallbacks() as (kinds, _):
        generator = whole(ONES)
        assert torch.equal(next(generator), ONES + 1)
        assert torch.equal(generator.throw(ValueError), ONES * 2)
    assert kinds == {"thrown_into": 1}


@pytest.mark.parametrize("dies", [False, True])
def test_a_compiled_generator_that_is_closed(dies):
    ends = []

    def pieces(x):
        try:
            yield x + 1
            yield x + 2
        finally:
            ends.append(x * 2)

    whole = framefuse.compile(pieces, fullgraph=True)
    with fallbacks() as (kinds, _):
        finished, unstarted = whole(ONES), whole(ONES)
        assert len(list(finished)) == 2
        finished.close()
        unstarted.close()
    assert kinds == {}
    with fallbacks() as (kinds, _):
        generator = whole(ONES)
        assert torch.equal(next(generator), ONES + 1)
        if dies:
            del generator
        else:
            generator.close()
    assert kinds == {"thrown_into": 1}
    assert len(ends) == 2 and all(torch.equal(end, ONES * 2) for end in ends)
