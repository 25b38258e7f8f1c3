"""Compares a program's run under a system with its run on plain Python.

Invariant: the verdict depends on the two observations, and on what was compiled, alone; no program, test or system is
known here by name.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from conformance.global_state import protected
from conformance.observation import Observation, finish_leaks, forget_what_exists, observe
from conformance.program import Program
from conformance.rounding import Inexact, MovedRuns, SumsOfGradients, explained, explained_by_order
from conformance.snapshot import GRAD_FN, Line, Tolerance, first_differences
from conformance.systems import System
from conformance.ways import WAYS, Way
from conformance.work import Record, Work

OK = "ok"  # as on plain Python
BROKE = "broke"  # right, but more graphs than the program states, or fullgraph refused a program stated whole
LESS = "less"  # right, but less was compiled than the saved list says (work.py)
WRONG = "wrong"  # something a user can see differs
CRASH = "crash"  # the process died or hung
SKIPPED = "skipped"  # the way has no meaning for the program or the system

# Breaks are forced before each of the first instructions, then before ever fewer: a program may run a million.
_EACH_UP_TO = 1000
_MAXIMUM_BREAKS = 10_000_000

# A tensor that is used on both sides of a break gets its gradient as a sum of sums, a graph each: the same terms as in
# eager, added in another order. So are those of a gradient that a backward copies to the strides it was recorded for.
_SUM_ORDER = 2e-6


@dataclasses.dataclass
class Verdict:
    """The outcome of one program in one way; `details` are readable differences."""

    program: str
    way: str
    status: str
    details: list[str] = dataclasses.field(default_factory=list)
    work: dict[str, int] | None = None
    seconds: float = 0.0

    def kinds(self) -> list[str]:
        """What differs: result, raised, state, stdout, warnings, rng, modes, leaks, graphs, work."""
        return sorted({_kind_of(d) for d in self.details})


def _kind_of(detail: str) -> str:
    path = detail.partition(": expected")[0]
    parts = path.split(".")
    head = parts[1].split("[")[0] if len(parts) > 1 and parts[0].startswith("call") else parts[0].split("[")[0]
    if path.endswith(".traceback"):
        return "traceback"
    return {"args": "state", "kwargs": "state", "function": "state", "observed": "state", "looked": "state"}.get(
        head, head
    )


def _without_system(f: Any) -> Any:
    return f


def _swept(f: Any) -> Any:
    """Plain Python, where the collector has just run at each call."""

    def call(*args: Any, **kwargs: Any) -> Any:
        gc.collect()
        return f(*args, **kwargs)

    return call


def judge(
    program: Program,
    way_name: str,
    system: System,
    alive: Callable[[], None] = lambda: None,
    record: Record | None = None,
) -> Verdict:
    """Runs the program on plain Python and on the system, in this process, and compares.

    `alive` is called after each run of a way that has many. With a `record` what was compiled is compared, too.
    """
    verdict = _judge(program, way_name, system, alive)
    if record is None or verdict.work is None:
        return verdict
    if verdict.status == OK:
        verdict.details = record.less(program.name, way_name, Work(**verdict.work))
        verdict.status = LESS if verdict.details else OK
    elif verdict.status == BROKE and not record.was_refused(program.name, way_name):
        verdict.status = LESS
    return verdict


def _judge(program: Program, way_name: str, system: System, alive: Callable[[], None]) -> Verdict:
    way = WAYS[way_name]
    kinds = {way_name, *(["sizes"] if way.sizes else []), *(["fullgraph"] if way.fullgraph else [])}
    if kinds & set(program.not_ways):
        return Verdict(program.name, way_name, SKIPPED, ["the program excludes it"])
    if way.fx:
        for_fx = system.for_fx(way.sizes)
        if for_fx is None:
            return Verdict(program.name, way_name, SKIPPED, ["the system has no other backend for FX graphs"])
        system = for_fx
    if way.breaks:
        if not system.forces_breaks():
            return Verdict(program.name, way_name, SKIPPED, ["the system cannot force breaks"])
        return _judge_breaks(program, way, system, alive)
    return _judge_once(program, way, system, None)


def _moved_runs(program: Program, way: Way, mode: type[Inexact] = Inexact) -> MovedRuns:
    here = dataclasses.replace(way, threaded=False, apart=False)  # a mode is of the thread that enters it
    return MovedRuns(lambda: _observe_and_forget(program, here, None).lines, mode)


def _judge_once(
    program: Program,
    way: Way,
    system: System,
    label: str | None,
    expected: Observation | None = None,
    moved: MovedRuns | None = None,
) -> Verdict:
    """What plain Python did, as it is and with moved rounding, may be known from an earlier judgement."""
    if expected is None:
        expected = _observe_and_forget(program, way, None)
    before = system.counters()
    actual = _observe_and_forget(program, way, system)
    if not system.names_histories_as_eager():
        actual.lines = _with_names_of(expected.lines, actual.lines)
    verdict = Verdict(program.name, way.name, OK)
    refused = way.fullgraph and any(system.is_unsupported(e) for e in actual.raised)
    if before:
        done = dataclasses.replace(Work.between(before, system.counters(), refused), peak=actual.peak)
        verdict.work = dataclasses.asdict(done)
    if refused:
        first = next(e for e in actual.raised if system.is_unsupported(e))
        if program.whole:
            verdict.status = BROKE
            verdict.details = [f"fullgraph: refused: {_first_line(first)}"]
        return verdict
    reordered = way.breaks or expected.other_strides or bool(verdict.work and verdict.work["breaks"])
    tolerance = Tolerance(system.tolerance, max(_SUM_ORDER if reordered else 0.0, system.tolerance))
    differences = first_differences(expected.lines, actual.lines, tolerance)
    if differences and not way.leaks:
        lines = explained(expected.lines, actual.lines, tolerance, moved or _moved_runs(program, way))
        differences = first_differences(expected.lines, lines, tolerance)
        if differences and reordered and not tolerance.values:
            lines = explained_by_order(expected.lines, lines, _moved_runs(program, way, SumsOfGradients))
            differences = first_differences(expected.lines, lines, tolerance)
        if differences:
            here = dataclasses.replace(way, threaded=False, apart=False)
            swept = _observe_and_forget(program, here, None, plain=_swept).lines
            differences = first_differences(expected.lines, _unswept(expected.lines, swept, lines, tolerance), tolerance)
    verdict.details = differences + actual.defects
    if verdict.details:
        verdict.status = WRONG
        if label:
            verdict.details.insert(0, label)
    elif way.name == "alone" and program.graphs is not None:
        _check_graph_count(program, system, verdict)
    return verdict


def _with_names_of(expected: Sequence[Line], actual: Sequence[Line]) -> list[Line]:
    """The actual lines with the expected names of histories."""
    wanted = dict(expected)
    return [(path, wanted.get(path, value) if path.endswith(GRAD_FN) else value) for path, value in actual]


def _unswept(
    expected: Sequence[Line], swept: Sequence[Line], actual: Sequence[Line], tolerance: Tolerance
) -> list[Line]:
    """The actual lines; where they are what plain Python does once the collector has run, the expected ones.

    What is alive in cycles only (a frame and its exception) is gone at some call or other, with what it holds.
    """
    wanted, other = dict(expected), dict(swept)

    def is_swept(path: str, value: Any) -> bool:
        if path not in wanted or path not in other:
            return False
        same = not first_differences([(path, other[path])], [(path, value)], tolerance)
        return same and bool(first_differences([(path, wanted[path])], [(path, other[path])], tolerance))

    return [(path, wanted[path] if is_swept(path, value) else value) for path, value in actual]


def _check_graph_count(program: Program, system: System, verdict: Verdict) -> None:
    system.reset()
    with protected():
        graphs = system.count_graphs(program.build())
    system.reset()
    if graphs not in (None, program.graphs):
        verdict.status = BROKE
        verdict.details = [f"graphs: expected {program.graphs}, got {graphs}"]


def _observe_and_forget(
    program: Program,
    way: Way,
    system: System | None,
    gradients: int | None = None,
    plain: Callable[[Any], Any] = _without_system,
) -> Observation:
    """One run; the kind of gradient that its first backward starts from follows from the names, if it isn't given."""
    gradients = zlib.crc32(f"{program.name} {way.name}".encode()) if gradients is None else gradients
    if way.leaks:
        forget_what_exists()
    if system is None:
        with program.names_put_back():
            observation = observe(program.build, way, plain, gradients)
    else:
        system.reset()
        options = {"dynamic": True} if way.sizes else {}
        compile = functools.partial(system.compile, fullgraph=way.fullgraph, **options)
        with program.names_put_back():
            if way.behind:
                observe(program.build, WAYS["alone"], system.compile, gradients)
            observation = observe(program.build, way, compile, gradients)
        observation.defects = system.defects()
        system.reset()
    if way.leaks:
        finish_leaks(observation)
    return observation


def _judge_breaks(program: Program, way: Way, system: System, alive: Callable[[], None]) -> Verdict:
    expected = _observe_and_forget(program, way, None)
    moved = _moved_runs(program, way)
    instruction, reached = 0, 0
    while instruction < _MAXIMUM_BREAKS:
        with system.break_before(instruction) as probe:
            verdict = _judge_once(program, way, system, f"break before instruction {instruction}", expected, moved)
        reached += probe.reached()
        verdict.work = dataclasses.asdict(Work(reached=reached))
        if verdict.status != OK or not probe.reached():
            return verdict
        alive()
        instruction += program.break_step if instruction < _EACH_UP_TO else instruction // 50
    return Verdict(program.name, way.name, WRONG, [f"breaks: no end after {_MAXIMUM_BREAKS}"])


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:200]
