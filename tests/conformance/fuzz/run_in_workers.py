"""Fuzzes in worker processes: a seed that kills its worker is a finding, and the next worker goes on after it.

A run that compiled nothing, or next to nothing, is a failure, too: a compiler that leaves everything to Python is never
wrong. Invariant: the seeds that a shard tries are consecutive from its first, whatever crashes in between.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

from conformance.fuzz import search
from conformance.fuzz.coverage import Coverage
from conformance.fuzz.grammar import BACKENDS_IN_TURN, make_draft
from conformance.observation import forget_what_exists
from conformance.runner import SystemChoice
from conformance.shards import each_line
from conformance.systems import PlainPython, System, make_system
from conformance.worker import Reply, Worker

# More than a shard ever tries.
_SEEDS_OF_A_SHARD = 1_000_000
# Counts of kinds are sent after so many programs; a worker that dies takes the last ones with it.
_PROGRAMS_BETWEEN_COUNTS = 100
# A program has calls enough that nearly each is captured at least once.
_LEAST_GRAPHS_A_PROGRAM = 0.5


@dataclasses.dataclass
class Outcome:
    """The sum over all workers. `failures` holds one readable line a finding."""

    programs: int = 0
    calls: int = 0
    captures: int = 0
    graphs: int = 0
    seconds: float = 0.0
    failures: list[str] = dataclasses.field(default_factory=list)
    coverage: Coverage = dataclasses.field(default_factory=Coverage)

    def add(self, state: dict[str, Any]) -> None:
        """A worker's or a shard's sums."""
        for name in ("programs", "calls", "captures", "graphs", "seconds"):
            setattr(self, name, getattr(self, name) + state[name])

    def as_line(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"coverage": self.coverage.rows()}


def fuzz(
    choice: SystemChoice,
    first_seed: int,
    calls: int,
    folder: pathlib.Path,
    progress: Callable[[str], None],
    shards: int = 1,
) -> Outcome:
    """At least `calls` program-calls, by that many processes; findings are written to `folder`."""
    import torch._dynamo  # noqa: F401  (programs name it; each worker would import it anew)

    if shards <= 1:
        outcome = _fuzz(choice, first_seed, calls, folder, progress)
    else:
        outcome = _fuzz_sharded(choice, first_seed, calls, folder, progress, shards)
    for text in _defects(outcome, choice):
        outcome.failures.append(text)
        progress(text)
    return outcome


def _fuzz_sharded(choice, first_seed, calls, folder, progress, shards) -> Outcome:
    def work(shard: int, send: Callable[[Any], None]) -> None:
        seed = first_seed + shard * _SEEDS_OF_A_SHARD
        send(_fuzz(choice, seed, -(-calls // shards), folder, lambda text: None).as_line())

    outcome = Outcome()
    for _, line in each_line(shards, work):
        outcome.add(line)
        outcome.coverage.add(line["coverage"])
        outcome.failures += line["failures"]
        for text in line["failures"]:
            progress(text)
    return outcome


def _defects(outcome: Outcome, choice: SystemChoice) -> list[str]:
    """What is wrong with the run as a whole."""
    defects = []
    if choice.name != "python" and outcome.graphs < _LEAST_GRAPHS_A_PROGRAM * outcome.programs:
        defects.append(f"work: {outcome.programs} programs gave {outcome.captures} captures and {outcome.graphs} graphs")
    if disagreements := outcome.coverage.disagreements():
        defects.append(f"guards: the fast check and the explaining one disagreed {disagreements} times")
    return defects


def _fuzz(
    choice: SystemChoice, first_seed: int, calls: int, folder: pathlib.Path, progress: Callable[[str], None]
) -> Outcome:
    outcome = Outcome()
    seed = first_seed
    while outcome.calls < calls:
        rest = calls - outcome.calls
        worker = Worker(lambda reply, seed=seed, rest=rest: _work(reply, choice, seed, rest, folder))
        last: dict[str, Any] = {"seed": seed, "programs": 0, "calls": 0, "captures": 0, "graphs": 0, "seconds": 0.0}
        finished = False
        for line in worker.lines():
            if "found" in line:
                outcome.failures.append(line["found"])
                progress(line["found"])
            outcome.coverage.add(line.get("kinds", ()))
            last = line.get("state", last)
            finished = line.get("finished", False)
        outcome.add(last)
        if finished:
            break
        text = f"seed {last['seed']}: {' | '.join(worker.why_it_ended())}"
        if not _kills_plain_python(last["seed"]):
            outcome.failures.append(text)
            progress(text)
        seed = last["seed"] + 1
    return outcome


def _kills_plain_python(seed: int) -> bool:
    """A program that torch itself crashes on is none: a list that says it is longer than it is, read as a tensor."""

    def work(reply: Reply) -> None:
        search.verdict_of(make_draft(seed), PlainPython())
        reply({"finished": True})

    worker = Worker(work)
    finished = any(line.get("finished", False) for line in worker.lines())
    return not finished and any("SIG" in why for why in worker.why_it_ended())


def _systems(choice: SystemChoice) -> list[System]:
    """One, or one for each backend in turn."""
    if choice.name != "framefuse" or choice.backend is not None:
        return [make_system(choice.name, choice.backend)]
    return [make_system(choice.name, backend) for backend in BACKENDS_IN_TURN]


def _work(reply: Reply, choice: SystemChoice, first_seed: int, calls: int, folder: pathlib.Path) -> None:
    systems = _systems(choice)
    systems[0].count_kinds()
    forget_what_exists()  # makes every later collection cheap
    current, since = search.Search(), 0

    def state(seed: int, of: search.Search) -> dict[str, Any]:
        counts = {name: getattr(of, name) for name in ("programs", "calls", "captures", "graphs", "seconds")}
        return {"seed": seed, **counts}

    def enough(so_far: search.Search) -> bool:
        nonlocal current, since
        current = so_far
        if current.programs - since >= _PROGRAMS_BETWEEN_COUNTS:
            since = current.programs
            reply({"kinds": systems[0].take_kinds()})
        return current.calls >= calls

    def found(finding: search.Finding) -> None:
        path = search.write_program(finding, folder, systems[0])
        details = finding.verdict.details[:2]
        reply({"found": f"seed {finding.draft.seed} {finding.system}: {details} -> {path.name}"})

    done = search.run(systems, first_seed, enough, found, lambda seed: reply({"state": state(seed, current)}))
    reply({"kinds": systems[0].take_kinds()})
    reply({"state": state(first_seed, done), "finished": True})
