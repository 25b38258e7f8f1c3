"""The systems under test, behind one adapter: plain Python, torch.compile and framefuse.

An adapter uses a system's public API only. Invariant: `reset` makes the system forget every compiled function, so that
two runs in one process are independent.
"""

from __future__ import annotations

import abc
import contextlib
import importlib.util
import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch

Function = Callable[..., Any]


class BreakProbe:
    """Tells whether the forced break was reached during a run."""

    def __init__(self, reached: Callable[[], bool]):
        self._reached = reached

    def reached(self) -> bool:
        return self._reached()


class System(abc.ABC):
    """What the judge needs from a system."""

    name: str
    tolerance = 0.0

    @abc.abstractmethod
    def compile(self, f: Function, *, fullgraph: bool = False) -> Function:
        """A compiled form of `f`, called as `f` is."""

    def reset(self) -> None:
        """Forgets all compiled functions."""

    def graphs(self) -> int | None:
        """Graphs with at least one operation compiled since the last reset; None where the system cannot say."""
        return None

    def is_unsupported(self, error: BaseException) -> bool:
        """Whether `error` is how the system says that it cannot capture a program whole."""
        return False

    def forces_breaks(self) -> bool:
        return False

    @contextlib.contextmanager
    def break_before(self, instruction: int) -> Iterator[BreakProbe]:
        """Forces a graph break before the n-th instruction that capture evaluates."""
        raise NotImplementedError
        yield


class PlainPython(System):
    """The identity: shows that programs and judge are deterministic."""

    name = "python"

    def compile(self, f: Function, *, fullgraph: bool = False) -> Function:
        return f


class TorchCompile(System):
    """torch.compile with a backend that runs the captured graph as it is."""

    name = "torch.compile"

    def __init__(self) -> None:
        import torch._dynamo

        self._dynamo = torch._dynamo
        self._graphs = 0
        logging.getLogger("torch._dynamo").setLevel(logging.CRITICAL)

    def _count_and_run(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Function:
        operations = ("call_function", "call_method", "call_module")
        if any(node.op in operations for node in module.graph.nodes):
            self._graphs += 1
        return module.forward

    def compile(self, f: Function, *, fullgraph: bool = False) -> Function:
        return torch.compile(f, backend=self._count_and_run, fullgraph=fullgraph)

    def reset(self) -> None:
        self._dynamo.reset()
        self._graphs = 0

    def graphs(self) -> int | None:
        return self._graphs

    def is_unsupported(self, error: BaseException) -> bool:
        return isinstance(error, self._dynamo.exc.TorchDynamoException)


class Framefuse(System):
    """framefuse, through `framefuse.compile` and its configuration."""

    name = "framefuse"

    def __init__(self, backend: str = "aten") -> None:
        import framefuse

        self._framefuse = framefuse
        self._backend = backend
        self.tolerance = 0.0 if backend == "aten" else 1e-5

    def compile(self, f: Function, *, fullgraph: bool = False) -> Function:
        return self._framefuse.compile(f, backend=self._backend, fullgraph=fullgraph)

    def reset(self) -> None:
        self._framefuse.reset()

    def is_unsupported(self, error: BaseException) -> bool:
        return isinstance(error, self._framefuse.Unsupported)

    def forces_breaks(self) -> bool:
        return hasattr(self._framefuse.config, "break_at_instruction")

    @contextlib.contextmanager
    def break_before(self, instruction: int) -> Iterator[BreakProbe]:
        config = self._framefuse.config
        config.break_at_instruction = instruction
        try:
            yield BreakProbe(lambda: bool(config.break_was_reached))
        finally:
            config.break_at_instruction = -1


SYSTEMS = ("python", "torch.compile", "framefuse")


def why_not_available(name: str) -> str | None:
    """None if the system can be used here, else the reason."""
    if name == "framefuse" and importlib.util.find_spec("framefuse") is None:
        return "the module framefuse is not importable (build it with ./dev build)"
    return None


def make_system(name: str, backend: str | None = None) -> System:
    """The adapter by name; `backend` is for framefuse only."""
    if name == "python":
        return PlainPython()
    if name == "torch.compile":
        return TorchCompile()
    if name == "framefuse":
        return Framefuse(backend or "aten")
    raise ValueError(f"no system {name!r}; there are {', '.join(SYSTEMS)}")
