"""The results files, and the page made from them.

A results file holds one system's verdicts. Invariant: the page is a pure function of the results files and of the
programs' own statements; saving a part of the programs leaves the others' verdicts as they were.
"""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import platform
import re
from collections.abc import Sequence

import torch

from conformance import work
from conformance.fuzz.run_in_workers import Outcome
from conformance.judge import BROKE, CRASH, LESS, OK, SKIPPED, WRONG, Verdict
from conformance.lib_tests import FileRow
from conformance.results_files import read, write
from conformance.runner import SystemChoice, count_by_status

# Where the project, the libraries and Python lie on the machine of a run.
_MACHINE = re.compile(r"(?<![\w./])/[\w./-]*?/(?=tests/conformance/|site-packages/|python3\.\d+/(?!\w+-packages))")


def save_programs(choice: SystemChoice, verdicts: Sequence[Verdict]) -> None:
    """Adds the verdicts to the system's results file; earlier ones of the same program and way are replaced."""
    former = read("programs", choice.name) or {"statuses": {}, "first": {}}
    statuses, first = former["statuses"], former["first"]
    for v in verdicts:
        status = statuses.setdefault(v.program, {})[v.way] = _once_recorded(v)
        first.pop(f"{v.program} {v.way}", None)
        if status not in (OK, SKIPPED):
            first[f"{v.program} {v.way}"] = first_detail(v)
    content = {
        "system": choice.name,
        "backend": choice.backend,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "statuses": statuses,
        "first": first,
    }
    write("programs", choice.name, content)
    if choice.name == "framefuse":
        done = [v for v in verdicts if v.work is not None and v.status in (OK, BROKE, LESS)]
        work.save([(v.program, v.way, work.Work(**v.work), _once_recorded(v) == BROKE) for v in done])


def _once_recorded(verdict: Verdict) -> str:
    """The status that the verdict would have with its work in the saved list."""
    if verdict.status != LESS:
        return verdict.status
    return OK if all(detail.startswith("work: ") for detail in verdict.details) else BROKE


def save_rewrites(choice: SystemChoice, verdicts: Sequence[Verdict]) -> None:
    """Writes the verdicts of the rewritten programs, by rewrite."""
    names = sorted({v.program.partition("~")[2] for v in verdicts})
    content = {
        "system": choice.name,
        "rewrites": {name: count_by_status([v for v in verdicts if v.program.endswith("~" + name)]) for name in names},
        "not_ok": [
            {"program": v.program, "way": v.way, "status": v.status, "first": first_detail(v)}
            for v in verdicts
            if v.status in (WRONG, CRASH)
        ],
    }
    write("rewrites", choice.name, content)


def save_lib_tests(choice: SystemChoice, rows: Sequence[FileRow]) -> None:
    """Writes the table of CPython's tests; only the first differences of a file are kept."""
    table = [dataclasses.asdict(row) | {"different": row.different[:10]} for row in rows]
    write("libtest", choice.name, {"system": choice.name, "python": platform.python_version(), "files": table})


def save_fuzz(choice: SystemChoice, first_seed: int, outcome: Outcome) -> None:
    """Writes what a run of the fuzzer did."""
    content = {
        "system": choice.name,
        "first_seed": first_seed,
        "programs": outcome.programs,
        "calls": outcome.calls,
        "calls_per_second": round(outcome.calls / max(outcome.seconds, 1e-9)),
        "backend": choice.backend or "each in turn",
        "captures": outcome.captures,
        "graphs": outcome.graphs,
        "coverage": outcome.coverage.rows(),
        "failures": len(outcome.failures),
        "first_failures": [text[:200] for text in outcome.failures[:20]],
    }
    write("fuzz", choice.name, content)


def first_detail(verdict: Verdict) -> str:
    return _MACHINE.sub("", " | ".join(verdict.details[:2]))[:260]


def by_way(statuses: dict[str, dict[str, str]]) -> dict[str, collections.Counter]:
    """Counts of statuses by way of running."""
    counts: dict[str, collections.Counter] = {}
    for ways in statuses.values():
        for way, status in ways.items():
            counts.setdefault(way, collections.Counter())[status] += 1
    return counts


def by_topic(statuses: dict[str, dict[str, str]]) -> dict[str, collections.Counter]:
    """Counts of programs by topic and by their worst status."""
    counts: dict[str, collections.Counter] = {}
    for program, ways in statuses.items():
        worst = next((s for s in (CRASH, WRONG, LESS, BROKE) if s in ways.values()), OK)
        row = counts.setdefault(program.partition("/")[0], collections.Counter())
        row["programs"] += 1
        row[worst] += 1
    return counts


def write_failures(path: str, choice: SystemChoice, verdicts: Sequence[Verdict]) -> None:
    """A list for the people who repair: one program a block, all its ways and first differences."""
    bad = [v for v in verdicts if v.status not in (OK, SKIPPED)]
    counts = count_by_status(verdicts)
    lines = [f"# Conformance failures of {choice.name} (backend {choice.backend or 'default'}): {counts}", ""]
    for status in (CRASH, WRONG, LESS, BROKE):
        names = list(dict.fromkeys(v.program for v in bad if v.status == status))
        lines.append(f"## {status}: {len(names)} programs")
        for name in names:
            mine = [v for v in bad if v.program == name and v.status == status]
            lines.append(f"- {name}  [{', '.join(v.way for v in mine)}]")
            lines += [f"    {detail[:400]}" for detail in mine[0].details[:3]]
        lines.append("")
    pathlib.Path(path).write_text("\n".join(lines))
