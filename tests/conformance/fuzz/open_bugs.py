"""Words that are not drawn because what they show is known to be wrong, with the reason.

A row is a part of a pattern's line, with the backend that is wrong or None for all. When the cause is repaired the row
goes, and the fuzzer draws the words again. Invariant: each row has been seen to fail, and its reason says how.
"""

from __future__ import annotations

from collections.abc import Sequence

OPEN: dict[str, tuple[str | None, str]] = {
    "with torch.inference_mode():\n": (
        None,
        "a view of an inference tensor whose data a program replaced raises nothing: no guard asks for its version counter",
    ),
}
# Kinds of state that a backend does without.
OPEN_KINDS: dict[tuple[str, str], str] = {}


def is_open(pattern: Sequence[str], backend: str) -> bool:
    return any(part in line for line in pattern for part, (of, _) in OPEN.items() if of in (None, backend))


def without_open(patterns: list, backend: str) -> list:
    """Of patterns, or of single lines."""
    return [p for p in patterns if not is_open([p] if isinstance(p, str) else p, backend)]
