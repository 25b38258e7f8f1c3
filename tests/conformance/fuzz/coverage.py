"""Which kinds of guards, effects, breaks, call rules and passes a run of the fuzzer has met, and with which outcome.

The system under test counts; here counts of workers are added and judged. A kind must have been met with both outcomes,
where both can be. Invariant: what is missing is said by name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

# By family: what the two outcomes are called. None: there is no such outcome.
OUTCOMES: dict[str, tuple[str, str | None]] = {
    "guard": ("held", "failed"),
    "part of a guard": ("failed", None),
    "effect": ("applied", "not applied"),
    "break": ("met", None),
    "call rule": ("taken", "refused"),
    "pass": ("rewrote", "left"),
    "decomposition": ("rewrote", None),
    "guards agree": ("agree", None),
}
# A kind that has one of its family's outcomes only, and why.
_REFUSED, _TAKEN = "it is refused always", "it is never refused"
ONE_OUTCOME = {
    ("call rule", "breaks"): (False, _REFUSED),
    ("call rule", "special: Globals"): (False, _REFUSED),
    ("call rule", "special: Locals"): (False, _REFUSED),
    ("call rule", "deferred"): (True, _TAKEN),
    ("call rule", "special: Callable"): (True, _TAKEN),
    ("call rule", "special: IsCompiling"): (True, _TAKEN),
    ("call rule", "special: Log"): (True, _TAKEN),
    ("call rule", "special: NoneCall"): (True, _TAKEN),
    ("call rule", "special: RangeEnter"): (True, _TAKEN),
    ("part of a guard", "state: another torch dispatch mode is active"): (
        False,
        "nothing is captured while such a mode is active, so the number of modes differs first",
    ),
    ("part of a guard", "state: tf32 set in two ways"): (False, "torch's own questions raise then; tests/guards/test_torch_state.py meets it"),
    ("break", "Suspends"): (False, "no program of the fuzzer is a generator function; tests/python/test_suspended_functions.py meets it"),
    ("decomposition", "aten.cudnn_batch_norm"): (False, "it is of a GPU"),
    ("pass", "functionalize"): (True, "each graph is recorded, none functional before it"),
}

Counts = dict[tuple[str, str], tuple[int, int]]


@dataclasses.dataclass
class Coverage:
    """Counts by (family, kind): how often with the first outcome, how often with the second."""

    counts: Counts = dataclasses.field(default_factory=dict)

    def add(self, rows: Iterable[tuple[str, str, int, int]]) -> None:
        for family, kind, yes, no in rows:
            before = self.counts.get((family, kind), (0, 0))
            self.counts[family, kind] = (before[0] + yes, before[1] + no)

    def rows(self) -> list[list]:
        """For a results file."""
        return [[*key, *counts] for key, counts in sorted(self.counts.items())]

    def missing(self) -> list[str]:
        """What was not met, as `family: kind: outcome`."""
        return missing_of(self.rows())

    def disagreements(self) -> int:
        return sum(no for (family, _), (_, no) in self.counts.items() if family == "guards agree")


def missing_of(rows: Iterable[list]) -> list[str]:
    missing = []
    for family, kind, yes, no in rows:
        names = OUTCOMES.get(family, ("yes", "no"))
        only = ONE_OUTCOME.get((family, kind), (None, ""))[0]
        if not yes and only is not False:
            missing.append(f"{family}: {kind}: {names[0]}")
        if not no and names[1] is not None and only is not True:
            missing.append(f"{family}: {kind}: {names[1]}")
    return missing


def coverage_lines(rows: Iterable[list]) -> list[str]:
    """One line a family with the counts of its kinds, then what was not met."""
    rows = list(rows)
    lines = []
    for family, names in OUTCOMES.items():
        own = [row for row in rows if row[0] == family]
        if not own:
            continue
        yes, no = names
        cells = [f"{kind} {a}" if no is None else f"{kind} {a}/{b}" for _, kind, a, b in own]
        lines.append(f"{family} ({yes if no is None else f'{yes}/{no}'}): {', '.join(cells)}")
    missing = missing_of(rows)
    if rows:
        lines.append(f"{len(missing)} kinds not met: {', '.join(missing) or 'none'}")
    return lines
