"""Fuzzes in worker processes: a seed that kills its worker is a finding, and the next worker goes on after it.

Invariant: the seeds that a shard tries are consecutive from its first, whatever crashes in between.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

from conformance.fuzz import search
from conformance.observation import forget_what_exists
from conformance.runner import SystemChoice
from conformance.shards import each_line
from conformance.systems import make_system
from conformance.worker import Reply, Worker

# More than a shard ever tries.
_SEEDS_OF_A_SHARD = 1_000_000


@dataclasses.dataclass
class Outcome:
    """The sum over all workers. `failures` holds one readable line a finding."""

    programs: int = 0
    calls: int = 0
    seconds: float = 0.0
    failures: list[str] = dataclasses.field(default_factory=list)


def fuzz(
    choice: SystemChoice,
    first_seed: int,
    calls: int,
    folder: pathlib.Path,
    progress: Callable[[str], None],
    shards: int = 1,
) -> Outcome:
    """At least `calls` program-calls, by that many processes; findings are written to `folder`."""
    if shards <= 1:
        return _fuzz(choice, first_seed, calls, folder, progress)

    def work(shard: int, send: Callable[[Any], None]) -> None:
        seed = first_seed + shard * _SEEDS_OF_A_SHARD
        send(dataclasses.asdict(_fuzz(choice, seed, -(-calls // shards), folder, lambda text: None)))

    outcome = Outcome()
    for _, line in each_line(shards, work):
        part = Outcome(**line)
        outcome.programs += part.programs
        outcome.calls += part.calls
        outcome.seconds += part.seconds
        outcome.failures += part.failures
        for text in part.failures:
            progress(text)
    return outcome


def _fuzz(
    choice: SystemChoice, first_seed: int, calls: int, folder: pathlib.Path, progress: Callable[[str], None]
) -> Outcome:
    outcome = Outcome()
    seed = first_seed
    while outcome.calls < calls:
        rest = calls - outcome.calls
        worker = Worker(lambda reply, seed=seed, rest=rest: _work(reply, choice, seed, rest, folder))
        last: dict[str, Any] = {"seed": seed, "programs": 0, "calls": 0, "seconds": 0.0}
        finished = False
        for line in worker.lines():
            if "found" in line:
                outcome.failures.append(line["found"])
                progress(line["found"])
            last = line.get("state", last)
            finished = line.get("finished", False)
        outcome.programs += last["programs"]
        outcome.calls += last["calls"]
        outcome.seconds += last["seconds"]
        if finished:
            break
        text = f"seed {last['seed']}: {' | '.join(worker.why_it_ended())}"
        outcome.failures.append(text)
        progress(text)
        seed = last["seed"] + 1
    return outcome


def _work(reply: Reply, choice: SystemChoice, first_seed: int, calls: int, folder: pathlib.Path) -> None:
    system = make_system(choice.name, choice.backend)
    forget_what_exists()  # makes every later collection cheap
    current = search.Search()

    def enough(state: search.Search) -> bool:
        nonlocal current
        current = state
        return state.calls >= calls

    def started(seed: int) -> None:
        state = {"seed": seed, "programs": current.programs, "calls": current.calls, "seconds": current.seconds}
        reply({"state": state})

    def found(finding: search.Finding) -> None:
        path = search.write_program(finding, folder, system)
        reply({"found": f"seed {finding.draft.seed}: {finding.verdict.details[:2]} -> {path.name}"})

    done = search.run(system, first_seed, enough, found, started)
    state = {"seed": first_seed, "programs": done.programs, "calls": done.calls, "seconds": done.seconds}
    reply({"state": state, "finished": True})
