"""The results files, and the page made from them.

A results file holds one system's verdicts: only what is not ok is listed, the rest is counted. Invariant: the page is a
pure function of the results files and of the programs' own statements.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import platform
from collections.abc import Sequence

import torch

from conformance.fuzz.run_in_workers import Outcome
from conformance.judge import BROKE, CRASH, OK, SKIPPED, WRONG, Verdict
from conformance.lib_tests import FileRow
from conformance.program import Program
from conformance.runner import SystemChoice, count_by_status

RESULTS = pathlib.Path(__file__).parent / "results"


def save_programs(choice: SystemChoice, programs: Sequence[Program], verdicts: Sequence[Verdict]) -> None:
    """Writes the verdicts of a full run."""
    content = {
        "system": choice.name,
        "backend": choice.backend,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "programs": len(programs),
        "ways": _by_way(verdicts),
        "topics": _by_topic(programs, verdicts),
        "not_ok": [
            {"program": v.program, "way": v.way, "status": v.status, "kinds": v.kinds(), "first": first_detail(v)}
            for v in verdicts
            if v.status not in (OK, SKIPPED)
        ],
    }
    write("programs", choice.name, content)


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
        "failures": len(outcome.failures),
        "first_failures": [text[:200] for text in outcome.failures[:20]],
    }
    write("fuzz", choice.name, content)


def first_detail(verdict: Verdict) -> str:
    return " | ".join(verdict.details[:2])[:260]


def write(part: str, system: str, content: object) -> None:
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(content, indent=1, sort_keys=True) + "\n"
    (RESULTS / f"{part}-{system}.json").write_text(text)


def read(part: str, system: str) -> dict | None:
    file = RESULTS / f"{part}-{system}.json"
    return json.loads(file.read_text()) if file.exists() else None


def _by_way(verdicts: Sequence[Verdict]) -> dict[str, dict[str, int]]:
    ways = list(dict.fromkeys(v.way for v in verdicts))
    return {way: count_by_status([v for v in verdicts if v.way == way]) for way in ways}


def _by_topic(programs: Sequence[Program], verdicts: Sequence[Verdict]) -> dict[str, dict[str, int]]:
    topics: dict[str, dict[str, int]] = {}
    for program in programs:
        statuses = {v.status for v in verdicts if v.program == program.name}
        row = topics.setdefault(program.topic, {"programs": 0, "right": 0, "broke": 0, "wrong": 0, "crash": 0})
        row["programs"] += 1
        if CRASH in statuses:
            row["crash"] += 1
        elif WRONG in statuses:
            row["wrong"] += 1
        elif BROKE in statuses:
            row["broke"] += 1
        else:
            row["right"] += 1
    return topics


def write_failures(path: str, choice: SystemChoice, verdicts: Sequence[Verdict]) -> None:
    """A list for the people who repair: one program a block, all its ways and first differences."""
    bad = [v for v in verdicts if v.status not in (OK, SKIPPED)]
    counts = count_by_status(verdicts)
    lines = [f"# Conformance failures of {choice.name} (backend {choice.backend or 'default'}): {counts}", ""]
    for status in (CRASH, WRONG, BROKE):
        names = list(dict.fromkeys(v.program for v in bad if v.status == status))
        lines.append(f"## {status}: {len(names)} programs")
        for name in names:
            mine = [v for v in bad if v.program == name and v.status == status]
            lines.append(f"- {name}  [{', '.join(v.way for v in mine)}]")
            lines += [f"    {detail[:400]}" for detail in mine[0].details[:3]]
        lines.append("")
    pathlib.Path(path).write_text("\n".join(lines))
