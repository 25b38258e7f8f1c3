"""What the grammar's words are made of: kinds of state with what is read, written and changed, and what stands alone.

Patterns are lines of text. In them {s} is the state's reference, {o} that of another piece of the same kind, {v} a new
value, {k} a small number. Invariant: every read is legal Python whatever the state became; where Python raises, both
runs raise.
"""

from __future__ import annotations

import dataclasses

Patterns = list[list[str]]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of state. `rounds`: its results depend on the order of rounding, so that a backend with other kernels
    differs; `weight`: how often it is drawn, against 10."""

    initial: list[str]
    reads: Patterns
    writes: Patterns
    changes: list[str]
    weight: int = 10
    rounds: bool = False


@dataclasses.dataclass(frozen=True)
class Topic:
    """Statements that need no state of the program's own, and changes of the process's state."""

    statements: Patterns
    changes: list[str] = dataclasses.field(default_factory=list)
    weight: int = 10
    rounds: bool = False


# Places that hold state; twice: drawn twice as often.
PLACES = ("global", "cell", "default", "keyword", "argument", "attribute", "item", "key", "argument", "cell")
# Where a name can be deleted so that the factory and the next call do without it.
DELETABLE = ("global", "cell", "attribute", "key")
PASSED = ("argument", "default", "keyword")


def place_reference(place: str, name: str) -> str:
    """How code refers to state that lives there."""
    if place == "attribute":
        return f"holder.{name}"
    if place == "item":
        return f"row[{name[1:]}]"
    if place == "key":
        return f"table['{name}']"
    return name
