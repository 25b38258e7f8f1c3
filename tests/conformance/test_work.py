"""What a system says that it compiled, compared with the saved list: less than that is seen, and so is what was for nothing."""

import contextlib
import dataclasses

import pytest
import torch

from conformance import work
from conformance.judge import BROKE, LESS, OK, WRONG, judge
from conformance.program import Case, all_programs
from conformance.systems import BreakProbe, Identity, PlainPython
from conformance.test_harness import BreaksWrong, Refusing, make_program


def test_a_compiler_that_compiles_nothing_fails():
    """It is right everywhere, so only what it says of its work can tell."""
    programs = all_programs()[::16]
    ways = ("alone", "fullgraph", "between", "inlined", "twice", "breaks")
    record = work.load()
    verdicts = [judge(p, way, Identity(), record=record) for p in programs for way in ways if way not in p.not_ways]
    failed = [v for v in verdicts if v.status in (LESS, WRONG)]
    assert len(verdicts) > 250
    assert len(failed) >= 0.95 * len(verdicts), [(v.program, v.way) for v in verdicts if v.status == OK]


class Doing(PlainPython):
    """Says that it did this much work."""

    def __init__(self, **done):
        self._counts = dict.fromkeys(work.COUNTERS, 0)
        self._done = done

    def counters(self):
        return dict(self._counts)

    def compile(self, f, *, fullgraph=False):
        for name, count in self._done.items():
            self._counts[name] += count
        return f


def a_record(way="alone", **row):
    recorded = dataclasses.astuple(work.Work(attempts=1, **row))
    return work.Record({"versions": work.versions(), "work": {"test/program": {way: recorded}}})


def test_a_compiler_that_never_breaks_fails():
    """It says that it compiled all of each program, and runs Python: where a break is stated, fullgraph has to refuse."""
    record = work.load()
    programs = [p for p in all_programs() if not p.whole and record.has_breaks(p.name)][::8]
    never_breaks = Doing(attempts=100, captured=100, graphs=100, nodes=10000)
    verdicts = [judge(p, "fullgraph", never_breaks, record=record) for p in programs]
    assert len(verdicts) > 40
    assert [v.program for v in verdicts if v.status not in (LESS, WRONG)] == []


@pytest.mark.parametrize(
    ("done", "status"),
    [
        ({"captured": 1, "nodes": 5, "breaks": 1}, OK),
        ({"captured": 2, "nodes": 6, "breaks": 0}, OK),
        ({"captured": 1, "nodes": 4, "breaks": 1}, LESS),
        ({"attempts": 1}, LESS),
        ({}, LESS),
        ({"captured": 1, "nodes": 5, "breaks": 2}, LESS),
        ({"captured": 1, "nodes": 5, "given_up": 1}, OK),
        ({"captured": 1, "nodes": 5, "given_up": 2}, LESS),
        ({"captured": 1, "nodes": 5, "attempts": 1}, OK),
        ({"captured": 1, "nodes": 5, "attempts": 2}, LESS),
        ({"captured": 1, "nodes": 5, "symbols": 2}, OK),
        ({"captured": 1, "nodes": 5, "symbols": 3}, LESS),
    ],
)
def test_less_work_than_recorded_is_seen(done, status):
    program = make_program(lambda: Case(lambda x: x * 2, torch.ones(2)))
    record = a_record(captures=3, graphs=1, nodes=5, breaks=1, given_up=1, symbols=2)
    assert judge(program, "alone", Doing(**done), record=record).status == status


@pytest.mark.parametrize(
    ("done", "status"),
    [({"fallbacks": 2}, OK), ({"fallbacks": 3}, OK), ({"fallbacks": 1}, LESS), ({"captured": 2, "fallbacks": 1}, OK)],
)
def test_what_python_runs_in_silence_is_seen(done, status):
    program = make_program(lambda: Case(lambda x: x * 2, torch.ones(2)))
    record = a_record(captures=1, graphs=1, nodes=5, told=2)
    assert judge(program, "alone", Doing(**{"captured": 1, "nodes": 5, **done}), record=record).status == status


class Greedy(PlainPython):
    """Holds memory that it does not need: in the first call, in each, or in the backward."""

    def __init__(self, where, size=4096):
        self._where, self._size = where, size

    def counters(self):
        return dict.fromkeys(work.COUNTERS, 0)

    def compile(self, f, *, fullgraph=False):
        calls = []

        def call(x):
            calls.append(1)
            y = f(x)
            if self._where == "call" or (self._where == "first" and len(calls) == 1):
                torch.empty(self._size)
            if self._where == "backward":
                y.register_hook(lambda gradient: (torch.empty(self._size), None)[1])
            return y

        return call


@pytest.mark.parametrize(("where", "size", "status"), [("first", 4096, OK), ("call", 4096, LESS), ("backward", 4096, LESS), ("call", 16, OK)])
def test_more_memory_than_recorded_is_seen(where, size, status):
    program = make_program(lambda: Case(lambda x: x * 2, torch.ones(2, requires_grad=True)))
    used = judge(program, "memory", Doing(attempts=1)).work["peak"]
    record = a_record(way="memory", peak=used)
    verdict = judge(program, "memory", Greedy(where, size))
    assert bool(record.less(program.name, "memory", work.Work(**{**verdict.work, "attempts": 1}))) == (status == LESS)


def test_a_program_that_is_not_recorded_must_compile_something():
    program = make_program(lambda: Case(lambda x: x * 2, torch.ones(2)))
    assert judge(program, "alone", Doing(), record=work.Record(None)).status == LESS
    assert judge(program, "alone", Doing(attempts=1), record=work.Record(None)).status == OK


def test_a_new_refusal_of_fullgraph_is_seen():
    class Counting(Refusing):
        def counters(self):
            return dict.fromkeys(work.COUNTERS, 0)

    program = make_program(lambda: Case(lambda x: x * 2, torch.ones(2)))
    assert judge(program, "fullgraph", Counting(), record=work.Record(None)).status == LESS
    known = work.Record({"refused": ["test/program fullgraph"]})
    assert judge(program, "fullgraph", Counting(), record=known).status == BROKE


def test_a_way_of_breaks_that_reaches_none_is_seen():
    class ReachesNone(BreaksWrong):
        @contextlib.contextmanager
        def break_before(self, instruction):
            yield BreakProbe(lambda: False)

    program = make_program(lambda: Case(lambda x: x * 2, torch.ones(2)))
    assert judge(program, "breaks", ReachesNone(), record=work.Record(None)).status == LESS
    assert judge(program, "breaks", ReachesNone(), record=a_record(way="breaks", reached=3)).status == LESS


class FindsWhatOthersCompiled(Refusing):
    """Refuses no code that another compiled object has run."""

    def __init__(self):
        self._known, self._attempts = set(), 0

    def reset(self):
        self._known.clear()

    def compile(self, f, *, fullgraph=False):
        refused = fullgraph and f.__code__ not in self._known
        self._known.add(f.__code__)
        self._attempts += 1
        return super().compile(f, fullgraph=refused)

    def counters(self):
        return dict.fromkeys(work.COUNTERS, 0) | {"attempts": self._attempts}


def test_what_another_compiled_object_left_is_seen():
    program = make_program(lambda: Case(lambda x: x * 2, torch.ones(2)), whole=False)
    for way, status in (("fullgraph", OK), ("fullgraph-behind", LESS)):
        assert judge(program, way, FindsWhatOthersCompiled(), record=a_record(way=way, refused=1)).status == status
