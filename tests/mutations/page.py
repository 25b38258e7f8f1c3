"""The table of the planted bugs for docs/conformance.md, made from the outcomes that are kept.

Invariant: a bug without an outcome is in the table and says so.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from mutations import results
from mutations.mutation import AREAS, Mutation, all_mutations
from mutations.results import ERROR, MACHINE, NOT_HERE, SURVIVED, UNIT

_HEAD = """## Planted bugs

Each is one small change of the code under `tests/mutations/planted/`, built alone, with the tests that must fail. The machine
is what knows nothing of the code: the programs above, the fuzzers, torch's samples. Where it passes, the unit test is run.
A bug that survives is a defect. The nightly run takes all, `./dev test` another three each day.
"""

_SAID = {MACHINE: "the machine", UNIT: "unit tests only", SURVIVED: "**nobody**", ERROR: "not built", NOT_HERE: "needs a GPU"}


def text(table: Callable[[list[str], list[list[Any]]], str]) -> str:
    rows, mutations = results.read(), all_mutations()
    each = [[m.name, m.about, _killer(rows.get(m.name))] for m in mutations]
    counts = table(["area", "bugs", *_SAID.values(), "not run"], _counts(rows, mutations))
    return "\n".join([_HEAD, counts, table(["bug", "what is wrong", "killed by"], each)])


def _counts(rows: dict[str, dict], mutations: list[Mutation]) -> list[list[Any]]:
    by_area: dict[str, collections.Counter] = {area: collections.Counter() for area in AREAS}
    for m in mutations:
        by_area[m.area][rows.get(m.name, {}).get("status", "")] += 1
    by_area["**all**"] = sum(by_area.values(), collections.Counter())
    return [[area, sum(n.values()), *(n[status] for status in _SAID), n[""]] for area, n in by_area.items()]


def _killer(row: dict | None) -> str:
    if row is None:
        return "not run"
    if not row["killer"]:
        return _SAID[row["status"]]
    how = " (without end)" if row["hung"] else ""
    return f"`{row['killer']}`{how}"
