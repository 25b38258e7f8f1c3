"""The outcomes that are kept: results/mutations.json, one row for each mutation, which the conformance page shows.

Invariant: a row stands as long as its mutation does, and says which killers were run.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib

RESULTS = pathlib.Path(__file__).parent / "results" / "mutations.json"

MACHINE = "machine"  # killed by a conformance program, a fuzzer or a sample
UNIT = "unit"  # not by these, but by a unit test
SURVIVED = "survived"
ERROR = "error"  # does not build, or a killer is none
NOT_HERE = "not here"  # its killers need what this machine lacks


@dataclasses.dataclass(frozen=True)
class Outcome:
    """`killer` is the command that killed it, `told` what it said; `hung` if it did not end."""

    name: str
    status: str
    killer: str = ""
    told: str = ""
    hung: bool = False
    seconds: float = 0.0

    def line(self) -> str:
        text = f"{self.status:8} {self.name:45} {self.seconds:5.0f} s"
        if self.killer:
            text += f"  {self.killer}{' (hung)' if self.hung else ''}\n{'':9}{self.told}"
        elif self.told:
            text += f"\n{self.told}"
        return text


def read() -> dict[str, dict]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def save(outcomes: list[Outcome], names: set[str]) -> None:
    """Puts the outcomes in their rows; rows of mutations that are no more go."""
    rows = {name: row for name, row in read().items() if name in names}
    for outcome in outcomes:
        row = dataclasses.asdict(outcome)
        row["seconds"] = round(outcome.seconds)
        rows[row.pop("name")] = row
    RESULTS.parent.mkdir(exist_ok=True)
    lines = [f"{json.dumps(name)}: {json.dumps(row, sort_keys=True)}" for name, row in sorted(rows.items())]
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
