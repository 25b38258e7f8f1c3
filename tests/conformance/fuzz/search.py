"""Runs fuzzed programs, shrinks what fails, writes it down as a program.

Invariant: a seed gives the same program and the same verdict in every process; a written one fails as the draft did.
"""

from __future__ import annotations

import dataclasses
import pathlib
import time
from collections.abc import Callable

from conformance.fuzz.grammar import Draft, make_draft
from conformance.judge import WRONG, Verdict, judge
from conformance.program import Case, Program
from conformance.systems import System


@dataclasses.dataclass
class Finding:
    """A program that failed: as small as it could be made, with its differences."""

    draft: Draft
    verdict: Verdict


@dataclasses.dataclass
class Search:
    """What a run of the fuzzer did."""

    programs: int = 0
    calls: int = 0
    seconds: float = 0.0  # of this process on a core
    findings: list[Finding] = dataclasses.field(default_factory=list)

    def calls_per_second(self) -> float:
        return self.calls / self.seconds if self.seconds else 0.0


def build_program(draft: Draft) -> Program:
    """Compiles a draft's text to a program; the registry does not learn of it."""
    names: dict[str, object] = {"__name__": f"<fuzz {draft.seed}>"}
    exec(compile(draft.render(), f"<fuzz {draft.seed}>", "exec"), names)
    factory = names[f"seed_{draft.seed}"]
    name = f"fuzz/seed_{draft.seed}"
    return Program(name, "fuzz", factory, False, None, None, (), None, (3, 11))  # type: ignore[arg-type]


def fails(draft: Draft, system: System) -> Verdict | None:
    """The verdict if the system gets the program wrong."""
    verdict = judge(build_program(draft), "twice", system)
    return verdict if verdict.status == WRONG else None


def shrink(draft: Draft, still_fails: Callable[[Draft], bool]) -> Draft:
    """Drops changes, statements and slots one by one while the program still fails."""
    improved = True
    while improved:
        improved = False
        for smaller in _smaller_drafts(draft):
            if _is_valid(smaller) and still_fails(smaller):
                draft, improved = smaller, True
                break
    return draft


def _smaller_drafts(draft: Draft):
    for index in reversed(range(len(draft.changes))):
        yield draft.without_change(index)
    for index in reversed(range(len(draft.statements))):
        yield draft.without_statement(index)
    for index in reversed(range(len(draft.slots))):
        smaller = draft.without_slot(index)
        if smaller is not None:
            yield smaller


def _is_valid(draft: Draft) -> bool:
    try:
        return isinstance(build_program(draft).factory(), Case)
    except Exception:
        return False


def run(
    system: System,
    first_seed: int,
    enough: Callable[[Search], bool],
    found: Callable[[Finding], None] = lambda finding: None,
    started: Callable[[int], None] = lambda seed: None,
) -> Search:
    """Tries seeds from `first_seed` on until it is enough. `started` is told each seed, for the crash report."""
    search = Search()
    start = time.process_time()
    seed = first_seed
    while not enough(search):
        started(seed)
        draft = make_draft(seed)
        seed += 1
        if not _is_valid(draft):
            continue
        verdict = fails(draft, system)
        search.programs += 1
        search.calls += len(draft.changes) + 2
        if verdict is not None:
            failing = draft  # the shrunk drafts keep its seed

            def still_fails(smaller: Draft) -> bool:
                started(failing.seed)  # a sign of life
                return fails(smaller, system) is not None

            smallest = shrink(draft, still_fails)
            finding = Finding(smallest, fails(smallest, system) or verdict)
            search.findings.append(finding)
            found(finding)
        search.seconds = time.process_time() - start
    return search


def write_program(finding: Finding, folder: pathlib.Path, system: System) -> pathlib.Path:
    """Keeps a finding as a program file, to be moved under programs/ when its cause is repaired."""
    folder.mkdir(parents=True, exist_ok=True)
    first = finding.verdict.details[0].replace('"', "'").replace("\\", "/")[:80]
    path = folder / f"found_{finding.draft.seed}.py"
    path.write_text(finding.draft.render(f"Fuzzer's seed {finding.draft.seed} on {system.name}: {first}"))
    return path
