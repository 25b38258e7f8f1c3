"""Writes docs/conformance.md from the results files.

The page says what was run, what torch.compile gets wrong (the baseline) and what is open on framefuse. Reasons for open
programs are kept in `open.txt`, one `program: reason` a line. Invariant: no number on the page is written by hand.
"""

from __future__ import annotations

import pathlib
from typing import Any

from conformance import results, results_files
from conformance.fuzz import coverage
from conformance.judge import BROKE, CRASH, OK, WRONG
from conformance.program import Program, all_programs
from conformance.ways import WAYS

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "conformance.md"
_OPEN = pathlib.Path(__file__).parent / "open.txt"

_HEAD = """# Conformance

Written by `./dev conformance page` from `tests/conformance/results/`; don't edit it.

The truth machine under `tests/conformance/` runs the same programs on plain Python, torch.compile and framefuse,
through their public API only, and compares everything that a user can see: values with dtype, strides and storage,
gradients, mutated state and identities, exceptions with cause, context, notes and traceback lines, stdout, warnings,
torch's words on stderr, random state, torch's modes, live tensors and reference counts.

```
./dev conformance programs --system framefuse            # all programs in all ways of running
./dev conformance programs --system torch.compile --save # the baseline below
./dev conformance fuzz --calls 200000                    # random programs, the backends in turn; kinds met are counted
./dev conformance rewrites                               # each program written another way
./dev conformance libtest                                # CPython's Lib/test, every test method compiled
./dev conformance nightly                                # all of these, with the results files and the page written
./dev conformance page                                   # this page
./dev mutations --save                                   # the planted bugs, at the end of this page
```

A program is `ok` if nothing differs, `broke` if it is right but has more graphs than it states, `wrong` if anything
differs, `crash` if the process died.

A compiler that runs every program as plain Python would be right everywhere. So each run also counts what was compiled:
attempts, captures, graphs, nodes, breaks, frames that it says it left to Python, the most bytes held at a time.
`results/work-framefuse.json` keeps the counts. A run that compiled less, tried more often, told of less, held more
memory, or that fullgraph newly refuses, is `less` and fails. `--system identity` is such a compiler; of its 4,440 runs
4,437 fail.
"""


def write() -> pathlib.Path:
    """Writes the page; returns its path."""
    programs = all_programs()
    parts = [_HEAD, _programs_part(programs)]
    for system, title in (("framefuse", "framefuse"), ("torch.compile", "torch.compile: the baseline")):
        parts.append(_system_part(system, title, programs))
    parts.append(_planted_bugs_part())
    PAGE.write_text("\n".join(parts).rstrip() + "\n")
    return PAGE


def _planted_bugs_part() -> str:
    from mutations.page import text

    return text(_table)


def _table(header: list[str], rows: list[list[Any]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _programs_part(programs: list[Program]) -> str:
    topics = sorted({p.topic for p in programs})
    whole = sum(p.whole for p in programs)
    rules = sorted({p.rule for p in programs if p.rule is not None})
    text = (
        f"## The programs\n\n{len(programs)} programs in {len(topics)} topics, {whole} of them stated captured whole; "
    )
    text += f"programs show the soundness rules {', '.join(map(str, rules))}.\n\n"
    text += "Ways of running: " + "; ".join(f"**{w.name}** ({w.about})" for w in WAYS.values()) + ".\n"
    return text


def _system_part(system: str, title: str, programs: list[Program]) -> str:
    content = results_files.read("programs", system)
    if content is None:
        return f"## {title}\n\nNot run yet.\n"
    backend = f", backend {content['backend']}" if content["backend"] else ""
    parts = [
        f"## {title}\n",
        f"Python {content['python']}, torch {content['torch']}{backend}: {len(content['statuses'])} programs.\n",
        _ways_table(content),
        _topics_table(content),
        _known_bugs(content, programs),
        _failures(content, system),
        _fuzz_part(system),
        _rewrites_part(system),
        _lib_tests_part(system),
    ]
    return "\n".join(part for part in parts if part)


def _ways_table(content: dict) -> str:
    statuses = (OK, BROKE, WRONG, CRASH)
    counts = results.by_way(content["statuses"])
    rows = [[way, *(counts[way][s] for s in statuses)] for way in WAYS if way in counts]
    rows = [row for row in rows if sum(row[1:])]
    return _table(["way of running", *statuses], rows)


def _topics_table(content: dict) -> str:
    columns = ("programs", OK, BROKE, WRONG, CRASH)
    counts = results.by_topic(content["statuses"])
    rows = [[topic, *(row[c] for c in columns)] for topic, row in sorted(counts.items())]
    rows.append(["**all**", *(sum(row[c] for row in counts.values()) for c in columns)])
    return _table(["topic (a program counts by its worst way)", *columns], rows)


def _failed_ways(content: dict, *statuses: str) -> dict[str, list[str]]:
    """By program: its ways with one of the statuses."""
    failed = {
        program: [way for way in WAYS if ways.get(way) in statuses] for program, ways in content["statuses"].items()
    }
    return {program: ways for program, ways in sorted(failed.items()) if ways}


def _known_bugs(content: dict, programs: list[Program]) -> str:
    failed = _failed_ways(content, WRONG, CRASH)
    bugs: dict[str, list[str]] = {}
    for p in programs:
        if p.known_bug:
            bugs.setdefault(p.known_bug, []).append(p.name)
    rows = [
        [bug, "yes" if any(n in failed for n in names) else "no", ", ".join(n.partition("/")[2] for n in names)]
        for bug, names in bugs.items()
    ]
    return "Bugs that the machine must find on torch.compile, and whether this system has them:\n\n" + _table(
        ["bug", "has it", "programs"], rows
    )


def _failures(content: dict, system: str) -> str:
    reasons = _open_reasons() if system == "framefuse" else {}
    parts = []
    for status, title in ((CRASH, "Crashes"), (WRONG, "Wrong results"), (BROKE, "Graph breaks where whole is stated")):
        failed = _failed_ways(content, status)
        if not failed:
            continue
        parts.append(f"### {title}: {len(failed)} programs\n")
        rows = []
        for name, ways in failed.items():
            first = content["first"][f"{name} {ways[0]}"]
            reason = reasons.get(name) or reasons.get(f"{name} [{ways[0]}]", "")
            rows.append([name, ", ".join(ways), f"`{_cell(first)}`", reason][: 4 if reasons else 3])
        parts.append(_table(["program", "ways", "first difference", "reason"][: 4 if reasons else 3], rows))
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ").replace("`", "'")[:150]


def _open_reasons() -> dict[str, str]:
    if not _OPEN.exists():
        return {}
    pairs = (line.partition(": ") for line in _OPEN.read_text().splitlines() if ": " in line)
    return {name: reason for name, _, reason in pairs}


def _fuzz_part(system: str) -> str:
    content = results_files.read("fuzz", system)
    if content is None:
        return ""
    text = (
        f"### Fuzzer\n\n{content['programs']} programs, {content['calls']} program-calls from seed "
        f"{content['first_seed']}, {content['calls_per_second']} a second of a core, backend {content.get('backend', 'aten')}: "
        f"{content['failures']} mismatches.\n"
    )
    text += "".join(f"- `{_cell(line)}`\n" for line in content["first_failures"])
    return text + _coverage_part(content.get("coverage", []))


def _coverage_part(rows: list[list]) -> str:
    """Each kind that the fuzzer met, with the counts of both outcomes; those never met are defects of the grammar."""
    parts = []
    for family, (yes, no) in coverage.OUTCOMES.items():
        own = [row for row in rows if row[0] == family]
        if own:
            header = [family, yes] + ([no] if no else [])
            parts.append(_table(header, [[kind, *counts][: len(header)] for _, kind, *counts in own]))
    if not parts:
        return ""
    missing = coverage.missing_of(rows)
    text = "\nHow often each kind was met, by outcome.\n\n" + "\n".join(parts)
    return text + f"\nNot met ({len(missing)}): {', '.join(missing) or 'none'}.\n"


def _rewrites_part(system: str) -> str:
    content = results_files.read("rewrites", system)
    if content is None:
        return ""
    statuses = (OK, BROKE, WRONG, CRASH)
    rows = [[name, *(counts.get(s, 0) for s in statuses)] for name, counts in content["rewrites"].items()]
    return "### Rewrites\n\n" + _table(["rewrite", *statuses], rows)


def _lib_tests_part(system: str) -> str:
    content = results_files.read("libtest", system)
    if content is None:
        return ""
    columns = ("tests", "same", "whole", "broken", "skipped", "crashed")
    rows = [["test_" + row["file"], *(row[c] for c in columns)] for row in content["files"]]
    rows.append(["**all**", *(sum(row[c] for row in content["files"]) for c in columns)])
    text = f"### CPython's Lib/test (Python {content['python']})\n\n"
    return text + _table(["file", "tests", "same outcome", "captured whole", "broken", "skipped", "crashed"], rows)
