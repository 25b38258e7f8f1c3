"""The systems that a sample is run under: framefuse's backends, and the identity, which compiles nothing.

A system says of each compiled call what kept it from being one graph. Invariant: through the public API only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

from zoo import systems

# A frame that only hands on what an inner one did, or that raises as eager does, says nothing by itself.
_SECONDARY = {"no_tensor_work", "raises"}


@dataclasses.dataclass
class Watched:
    nodes: float = 0
    reasons: list[str] = dataclasses.field(default_factory=list)


class Identity:
    """The compiler that compiles nothing."""

    names_histories = True

    def __init__(self) -> None:
        self.last = Watched()

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        self.last = Watched()
        yield

    def reset(self) -> None:
        pass


class Framefuse:
    """framefuse with one backend; `last` says what the last watched block did.

    With `dynamic` all sizes are symbolic, and the samples of a form share what was captured for the ones before.
    """

    def __init__(self, backend: str, dynamic: bool | None = None):
        import framefuse

        self._framefuse = framefuse
        self.names_histories = backend != "fx"  # autograd names what torch runs of a graph of ATen operators
        self.compile = systems.Framefuse(backend, dynamic).compile
        self.reset = framefuse.reset
        self.last = Watched()

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        self.last, before = Watched(), self._framefuse.statistics()
        records: list[tuple[str, str]] = []
        try:
            with self._framefuse.capture_logs("graph_breaks", "bugs") as records:
                yield
        finally:
            after = self._framefuse.statistics()
            self.last.nodes = after.get("nodes", 0) - before.get("nodes", 0)
            self.last.reasons = [_reason(artifact, text) for artifact, text in records if artifact in ("graph_breaks", "bugs")]
            for counter in after:
                kind = counter.removeprefix("eager_fallbacks.")
                if kind != counter and kind not in _SECONDARY and after[counter] > before.get(counter, 0):
                    self.last.reasons.append(f"a frame ran as Python: {kind}")


def _reason(artifact: str, text: str) -> str:
    if artifact == "bugs":
        return f"internal error: {text.splitlines()[0][:200]}"
    reason, _ = systems.reason_and_place(text)
    return re.sub(r"0x[0-9a-f]+", "0x…", reason)


def warm_up(names: list[str], dynamic: bool | None) -> None:
    """Imports what a system imports at its first call: forked children then have it."""
    for name in names:
        make_system(name, dynamic).compile(lambda x: x.sin())(torch.ones(2, requires_grad=True)).sum().backward()


def make_system(name: str, dynamic: bool | None = None) -> Any:
    return Identity() if name == "eager" else Framefuse(name, dynamic)
