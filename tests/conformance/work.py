"""How much a system compiled in a run, and the saved list of how much it has compiled so far.

A system that runs every program as plain Python is right everywhere. So each run says what was compiled, and the judge
compares that with `results/work-framefuse.json`. Invariant: less than the list says is a failure, more is none; the
list is written by `programs --save` only.
"""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Sequence
from typing import Any

import torch

from conformance import results_files


# How deep a recursion goes depends on the caller's own depth.
_LEAST = 0.95

# Bytes: when garbage in cycles goes is up to the collector.
_SLACK = 1024

# What a system counts (systems.py).
COUNTERS = ("attempts", "captured", "graphs", "nodes", "breaks", "given_up", "fallbacks", "symbols")


@dataclasses.dataclass(frozen=True)
class Work:
    """Of one run. `attempts`: captures begun, whatever became of them; `breaks`: graph breaks; `reached`: breaks forced by a
    way that has them; `refused`: 1 where fullgraph was refused; `given_up`: calls whose graph had begun when Python took
    over. What such a graph would have got wrong is right then. `told`: frames that the system says it left to Python. `peak`:
    the most bytes that a call holds; `symbols`: numbers of
    graphs that calls bring. (Of the last four, None: not recorded.)"""

    attempts: int = 0

    captures: int = 0
    graphs: int = 0
    nodes: int = 0
    breaks: int = 0
    reached: int = 0
    refused: int = 0
    given_up: int | None = None
    told: int | None = None
    peak: int | None = None
    symbols: int | None = None

    @classmethod
    def between(cls, before: dict[str, float], after: dict[str, float], refused: bool = False) -> Work:
        """From a system's counters before and after a run."""
        change = {name: int(after[name] - before[name]) for name in COUNTERS}
        done = {"attempts": change["attempts"], "graphs": change["graphs"], "nodes": change["nodes"], "given_up": change["given_up"]}
        return cls(captures=change["captured"], breaks=change["breaks"], refused=int(refused), told=change["fallbacks"], symbols=change["symbols"], **done)

    def is_nothing(self) -> bool:
        return not (self.attempts or self.captures or self.reached)


class Record:
    """What each program compiled in each way, and where fullgraph was refused."""

    def __init__(self, content: dict[str, Any] | None):
        content = content or {}
        self._work = content.get("work", {})
        self._refused = frozenset(content.get("refused", ()))
        # Other versions of Python and torch call other library code: there is compared only whether anything was compiled.
        self._exact = content.get("versions") == versions()

    def less(self, program: str, way: str, work: Work) -> list[str]:
        """What is less than recorded, as the verdict's details. A program that is not recorded must compile something."""
        recorded = self._of(program, way)
        if work.is_nothing() and (recorded is None or not recorded.is_nothing()):
            return ["work: nothing was compiled"]
        if recorded is not None and recorded.refused and not work.refused and self._exact:
            return ["work: expected a refusal of fullgraph, for the graph breaks there; got none"]
        if recorded is None or recorded.refused:
            return []
        if recorded.captures > 0 and work.captures == 0:
            return [f"work: expected captures >= 1 (was {recorded.captures}), got 0"]
        if not self._exact:
            return []
        if recorded.given_up is not None and (work.given_up or 0) > recorded.given_up:
            return [f"work: expected calls given up in their graph <= {recorded.given_up}, got {work.given_up}"]
        details = [
            f"work: expected {name} >= {_LEAST} of {getattr(recorded, name)}, got {getattr(work, name)}"
            for name in ("nodes", "reached")
            if getattr(work, name) < _LEAST * getattr(recorded, name)
        ]
        details += [
            f"work: expected {name} <= {getattr(recorded, name)}, got {getattr(work, name)}"
            for name in ("breaks", "attempts")
            if getattr(work, name) > getattr(recorded, name)
        ]
        if recorded.told is not None and (work.told or 0) < recorded.told and work.captures <= recorded.captures:
            details.append(f"work: expected to hear of {recorded.told} frames that Python ran, heard of {work.told}")
        if recorded.symbols is not None and (work.symbols or 0) > recorded.symbols and work.captures <= recorded.captures:
            details.append(f"work: expected symbols <= {recorded.symbols}, got {work.symbols}")
        if recorded.peak is not None and (work.peak or 0) > recorded.peak + _SLACK:
            details.append(f"work: expected at most {recorded.peak} bytes at a time, got {work.peak}")
        return details

    def has_breaks(self, program: str) -> bool:
        """Whether its one call under fullgraph was refused, whatever it states."""
        recorded = self._of(program, "fullgraph")
        return recorded is not None and bool(recorded.refused)

    def _of(self, program: str, way: str) -> Work | None:
        row = self._work.get(program, {}).get(way)
        return Work(*row) if row is not None else None

    def was_refused(self, program: str, way: str) -> bool:
        return f"{program} {way}" in self._refused


def versions() -> list[str]:
    """Python's and torch's, without the last number."""
    return [".".join(platform.python_version_tuple()[:2]), ".".join(torch.__version__.split(".")[:2])]


def load() -> Record:
    return Record(results_files.read("work", "framefuse"))


def save(rows: Sequence[tuple[str, str, Work, bool]]) -> None:
    """Adds rows of (program, way, work, refused by fullgraph) to the list."""
    former = results_files.read("work", "framefuse") or {}
    work = former.get("work", {})
    refused = set(former.get("refused", ()))
    for program, way, done, was_refused in rows:
        work.setdefault(program, {})[way] = list(dataclasses.astuple(done))
        refused.discard(f"{program} {way}")
        if was_refused:
            refused.add(f"{program} {way}")
    results_files.write("work", "framefuse", {"versions": versions(), "work": work, "refused": sorted(refused)})
