"""Runs many judgements, isolated in worker processes that may crash or hang.

The parent sends a list of jobs to a worker and reads one line a verdict; when a worker dies or is silent for too long,
the job that it was at is a crash, and a new worker takes the rest. Invariant: every job yields exactly one verdict.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

from conformance import work
from conformance.judge import CRASH, OK, WRONG, Verdict, judge
from conformance.observation import forget_what_exists
from conformance.program import Program, all_programs
from conformance.rewrites import rewritten
from conformance.systems import make_system
from conformance.worker import Reply, Worker

Job = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class SystemChoice:
    """Which system a worker makes."""

    name: str
    backend: str | None = None


def run_jobs(
    jobs: Sequence[Job], choice: SystemChoice, progress: Callable[[Verdict], None] = lambda verdict: None
) -> list[Verdict]:
    """One verdict for each job, in order."""
    verdicts: list[Verdict] = []
    while len(verdicts) < len(jobs):
        rest = list(jobs[len(verdicts) :])
        worker = Worker(lambda reply, rest=rest: _work(reply, choice, rest))
        done = 0
        for line in worker.lines():
            verdicts.append(Verdict(**line))
            progress(verdicts[-1])
            done += 1
        if done < len(rest):
            verdicts.append(Verdict(*rest[done], CRASH, worker.why_it_ended()))
            progress(verdicts[-1])
    return verdicts


def _work(reply: Reply, choice: SystemChoice, jobs: Sequence[Job]) -> None:
    programs = {p.name: p for p in all_programs()}
    system = make_system(choice.name, choice.backend)
    record = work.load() if system.has_record() else None
    forget_what_exists()  # makes every later collection cheap
    for name, way in jobs:
        start = time.monotonic()
        try:
            verdict = judge(_find(programs, name), way, system, lambda: reply(None), None if "~" in name else record)
        except Exception as error:  # the judge itself failed: a finding about the harness, not to be lost
            verdict = Verdict(name, way, WRONG, [f"harness: {type(error).__name__}: {error}"[:300]])
        verdict.seconds = time.monotonic() - start
        reply(dataclasses.asdict(verdict))


def _find(programs: dict[str, Program], name: str) -> Program:
    """A program by name; `program~rewrite` names one written another way."""
    original, _, rewrite = name.partition("~")
    program = programs[original]
    if not rewrite:
        return program
    other = rewritten(program, rewrite)
    if other is None:
        raise ValueError(f"{original} has nothing for {rewrite}")
    return other


def count_by_status(verdicts: Sequence[Verdict]) -> dict[str, int]:
    counts: dict[str, int] = {OK: 0}
    for verdict in verdicts:
        counts[verdict.status] = counts.get(verdict.status, 0) + 1
    return counts
