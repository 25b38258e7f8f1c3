"""The systems that a model runs under, through their public API only: eager, framefuse's backends, mutants for tests.

A system compiles a model and says afterwards what it saw. Invariant: one system object serves one run in one process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch


@dataclasses.dataclass
class Seen:
    """What a system did in some calls."""

    captures: float = 0
    hits: float = 0
    recompiles: float = 0
    fallbacks: float = 0
    graphs: int = 0  # with at least one operation
    operations: int = 0
    breaks: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # reason, place
    bugs: list[str] = dataclasses.field(default_factory=list)
    misses: list[str] = dataclasses.field(default_factory=list)  # why something was captured again


class Eager:
    """The model as it is; also the identity compiler of the tests."""

    name = "eager"

    def compile(self, model: torch.nn.Module) -> Callable[..., Any]:
        return model

    @contextlib.contextmanager
    def watch(self) -> Iterator[Seen]:
        yield Seen()


class Framefuse:
    """framefuse with one backend; "fx" is a callable that runs the FX graph as it is."""

    def __init__(self, backend: str, dynamic: bool | None = None):
        import framefuse

        framefuse.config.verify_metadata = True
        self.name, self._framefuse, self._dynamic = backend, framefuse, dynamic
        self._backend: Any = backend if backend != "fx" else self._run_graph

    def _run_graph(self, module: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        return module.forward

    def compile(self, model: torch.nn.Module) -> Callable[..., Any]:
        return self._framefuse.compile(model, backend=self._backend, dynamic=self._dynamic)

    @contextlib.contextmanager
    def watch(self) -> Iterator[Seen]:
        seen, before = Seen(), self._framefuse.statistics()
        records: list[tuple[str, str]] = []
        try:
            with self._framefuse.capture_logs("graph_breaks", "bugs", "graph", "recompiles") as records:
                yield seen
        finally:  # an exception does not hide what was seen before it
            self._note(seen, before, records)

    def _note(self, seen: Seen, before: dict[str, float], records: list[tuple[str, str]]) -> None:
        after = self._framefuse.statistics()
        names = {"captures": "captures", "hits": "hits", "recompiles": "recompiles", "fallbacks": "eager_fallbacks"}
        for name, counter in names.items():
            setattr(seen, name, after[counter] - before[counter])
        for artifact, text in records:
            if artifact == "graph_breaks":
                seen.breaks.append(reason_and_place(text))
            elif artifact == "bugs":
                seen.bugs.append(text)
            elif artifact == "recompiles":
                seen.misses.append(text)
            elif count := count_operations(text):
                seen.graphs, seen.operations = seen.graphs + 1, seen.operations + count


def count_operations(graph: str) -> int:
    """Operations in a graph's text: the lines that call an operator."""
    return len(re.findall(r"^(?:%\d.* = )?[a-z_]\w*\.[\w.]+\(", graph, re.MULTILINE))


def reason_and_place(text: str) -> tuple[str, str]:
    """A record of a break as its reason and its place: `graph break at FILE:LINE in NAME: CODE`, then the reason."""
    lines = text.strip().splitlines()
    place = re.match(r"graph break at (\S+):(\d+) in ([^:]+)", lines[0])
    where = f"{'/'.join(place[1].split('/')[-2:])}:{place[2]} {place[3]}" if place else ""
    reasons = [line.strip() for line in lines[1:] if not line.strip().startswith("called from ")]
    return (reasons or [lines[0].strip()])[0][:300], where


class Peer:
    """torch.compile with a backend that runs its graphs as they are, for its count of breaks."""

    name = "peer"

    def __init__(self) -> None:
        import torch._dynamo

        self._dynamo = torch._dynamo
        self._graphs = self._operations = 0

    def _count_and_run(self, module: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        count = sum(node.op.startswith("call_") for node in module.graph.nodes)
        self._graphs, self._operations = self._graphs + (count > 0), self._operations + count
        return module.forward

    def compile(self, model: torch.nn.Module) -> Callable[..., Any]:
        return torch.compile(model, backend=self._count_and_run, dynamic=False)

    @contextlib.contextmanager
    def watch(self) -> Iterator[Seen]:
        counters = self._dynamo.utils.counters
        counters.clear()
        self._graphs = self._operations = 0
        seen = Seen()
        yield seen
        seen.breaks = [(reason, "") for reason, count in counters["graph_break"].items() for _ in range(count)]
        seen.captures = counters["frames"]["ok"]
        seen.fallbacks = counters["frames"]["total"] - counters["frames"]["ok"]
        seen.hits = float(not seen.captures)
        seen.graphs, seen.operations = self._graphs, self._operations


def make_system(name: str) -> Any:
    if name == "peer":
        return Peer()
    return Eager() if name == "eager" else Framefuse(name)
