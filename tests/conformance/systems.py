"""The systems under test, behind one adapter: plain Python, torch.compile and framefuse.

An adapter uses a system's public API only. Invariant: `reset` makes the system forget every compiled function, so that
two runs in one process are independent.
"""

from __future__ import annotations

import abc
import contextlib
import copy
import gc
import importlib.util
import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.program import Case

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
    def compile(self, f: Function, *, fullgraph: bool = False, dynamic: bool | None = None) -> Function:
        """A compiled form of `f`, called as `f` is."""

    def reset(self) -> None:
        """Forgets all compiled functions."""

    def count_graphs(self, case: Case) -> int | None:
        """Calls the case once and counts its graphs with at least one operation; None where that can't be known."""
        return None

    def counters(self) -> dict[str, float]:
        """What happened to frames so far: captured, breaks, fallbacks (frames left to the interpreter), work.COUNTERS."""
        return {}

    def has_record(self) -> bool:
        """Whether what it compiles is compared with the saved list (work.py)."""
        return False

    def defects(self) -> list[str]:
        """What the system itself says is wrong after a run, for example fakes that are alive."""
        return []

    def is_unsupported(self, error: BaseException) -> bool:
        """Whether `error` is how the system says that it cannot capture a program whole."""
        return False

    def names_histories_as_eager(self) -> bool:
        """Whether the grad_fn of a result has the name of eager's, which the text of a tensor shows."""
        return True

    def label(self) -> str:
        """The name, with the backend where there are several."""
        return self.name

    def count_kinds(self) -> None:
        """From now on the system counts which kinds of guards and the like it meets (fuzz/coverage.py)."""

    def take_kinds(self) -> list[tuple[str, str, int, int]]:
        """The counts so far, which start anew."""
        return []

    def for_fx(self, sizes: bool) -> System | None:
        """The same system with a backend that gets its graphs as FX; None where it has no other."""
        return None

    def forces_breaks(self) -> bool:
        return False

    def rewriting_for_devices(self) -> contextlib.AbstractContextManager:
        """Rewrites graphs as for a GPU, where it is a matter of the system's own."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def break_before(self, instruction: int) -> Iterator[BreakProbe]:
        """Forces a graph break before the n-th instruction that capture evaluates."""
        raise NotImplementedError
        yield


class PlainPython(System):
    """The identity: shows that programs and judge are deterministic."""

    name = "python"

    def compile(self, f: Function, *, fullgraph: bool = False, dynamic: bool | None = None) -> Function:
        return f


class Identity(PlainPython):
    """A compiler that compiles nothing, and says that it does: the machine must fail it."""

    name = "identity"

    def counters(self) -> dict[str, float]:
        return dict.fromkeys(("attempts", "captured", "breaks", "fallbacks", "graphs", "nodes", "given_up", "symbols"), 0)

    def has_record(self) -> bool:
        return True

    def forces_breaks(self) -> bool:
        return True

    @contextlib.contextmanager
    def break_before(self, instruction: int) -> Iterator[BreakProbe]:
        yield BreakProbe(lambda: False)


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

    def compile(self, f: Function, *, fullgraph: bool = False, dynamic: bool | None = None) -> Function:
        return torch.compile(f, backend=self._count_and_run, fullgraph=fullgraph, dynamic=dynamic)

    def reset(self) -> None:
        self._dynamo.reset()

    def count_graphs(self, case: Case) -> int | None:
        self._graphs = 0
        self.compile(case.f)(*case.args, **case.kwargs)
        return self._graphs

    def counters(self) -> dict[str, float]:
        counts = self._dynamo.utils.counters
        frames = counts["frames"]
        breaks = sum(counts["graph_break"].values())
        fallbacks = frames["total"] - frames["ok"]
        counts = {"attempts": frames["total"], "captured": frames["ok"], "breaks": breaks, "fallbacks": fallbacks}
        return counts | {"graphs": self._graphs, "nodes": 0, "given_up": 0, "symbols": 0}

    def is_unsupported(self, error: BaseException) -> bool:
        return isinstance(error, self._dynamo.exc.TorchDynamoException)

    def names_histories_as_eager(self) -> bool:
        return False


def run_fx_graph(module: torch.fx.GraphModule, examples: list[torch.Tensor]) -> Function:
    """The backend "fx": torch runs the graph that framefuse captured."""
    return module.forward


def run_sized_fx_graph(module: torch.fx.GraphModule, examples: list[Any]) -> Function:
    """The same, with symbolic sizes."""
    return module.forward


# Fallbacks of a call whose graph had begun.
_GIVEN_UP = ("plan_failed", "deferred_fact", "other_way", "heard_warning")


class Framefuse(System):
    """framefuse, through its public package. Internal errors are raised, fakes must be dead after each capture."""

    name = "framefuse"

    def __init__(self, backend: str = "aten") -> None:
        import framefuse

        self._framefuse = framefuse
        self._backend = run_fx_graph if backend == "fx" else backend
        self._label = f"{self.name} {backend}"
        self._fakes_before = 0.0
        self.tolerance = 0.0 if backend in ("aten", "fx") else 1e-5
        framefuse.config.raise_on_bug = True
        # Past the limit Python runs the program: right, and no proof of anything.
        framefuse.config.recompile_limit = 64
        framefuse.config.check_fakes_dead = True
        framefuse.config.verify_metadata = True
        framefuse.config.verify_fx = True
        framefuse.register_backend(run_sized_fx_graph, dynamic=True)

    def compile(self, f: Function, *, fullgraph: bool = False, dynamic: bool | None = None) -> Function:
        return self._framefuse.compile(f, backend=self._backend, fullgraph=fullgraph, dynamic=dynamic)

    def reset(self) -> None:
        self._framefuse.reset()
        self._fakes_before = self._live_fakes()

    def count_graphs(self, case: Case) -> int | None:
        return self._framefuse.explain(case.f)(*case.args, **case.kwargs).graph_count

    def is_unsupported(self, error: BaseException) -> bool:
        return isinstance(error, self._framefuse.Unsupported)

    def counters(self) -> dict[str, float]:
        counts = self._framefuse.statistics()
        return {
            "attempts": counts["attempts"],
            "captured": counts["captures"],
            "breaks": counts["graph_breaks"],
            "fallbacks": counts["eager_fallbacks"],
            "graphs": counts["graphs"],
            "nodes": counts["nodes"],
            "symbols": counts["symbols"],
            "given_up": sum(counts[f"eager_fallbacks.{kind}"] for kind in _GIVEN_UP),
        }

    def names_histories_as_eager(self) -> bool:
        return isinstance(self._backend, str)  # autograd names what torch runs of a graph of ATen operators

    def label(self) -> str:
        return self._label

    def count_kinds(self) -> None:
        self._framefuse._C.set_counts_kinds(True)  # for tests alone, and so no part of the public API

    def take_kinds(self) -> list[tuple[str, str, int, int]]:
        rows = self._framefuse._C.kind_counts()
        self._framefuse._C.forget_kind_counts()
        return rows

    def has_record(self) -> bool:
        return self._backend in ("aten", "fuse")

    def defects(self) -> list[str]:
        fakes = self._live_fakes() - self._fakes_before
        return [f"fakes: {fakes:.0f} fake tensors alive after the run"] if fakes > 0 else []

    def _live_fakes(self) -> float:
        alive = self._framefuse.statistics()["live_fakes"]
        if alive:  # perhaps only in cycles
            gc.collect()
            alive = self._framefuse.statistics()["live_fakes"]
        return alive

    def for_fx(self, sizes: bool) -> System | None:
        other = copy.copy(self)
        other._backend, other.tolerance = run_sized_fx_graph if sizes else run_fx_graph, 0.0
        return other

    def rewriting_for_devices(self) -> contextlib.AbstractContextManager:
        return self._framefuse.config.patch(rewrite_always=True)

    def forces_breaks(self) -> bool:
        return hasattr(self._framefuse.config, "break_at")

    @contextlib.contextmanager
    def break_before(self, instruction: int) -> Iterator[BreakProbe]:
        # A forced break shows in the log of graph breaks; the counter alone would also count the program's own.
        # Each piece counts against the limit that a whole program would not reach.
        with self._framefuse.config.patch(break_at=instruction, recompile_limit=1000), self._framefuse.capture_logs("graph_breaks") as log:
            yield BreakProbe(lambda: any("forced" in str(entry) for entry in log))


SYSTEMS = ("python", "identity", "torch.compile", "framefuse")


def why_not_available(name: str) -> str | None:
    """None if the system can be used here, else the reason."""
    if name == "framefuse" and importlib.util.find_spec("framefuse") is None:
        return "the module framefuse is not importable (build it with ./dev build)"
    return None


def make_system(name: str, backend: str | None = None) -> System:
    """The adapter by name; `backend` is for framefuse only."""
    if name == "python":
        return PlainPython()
    if name == "identity":
        return Identity()
    if name == "torch.compile":
        return TorchCompile()
    if name == "framefuse":
        return Framefuse(backend or "aten")
    raise ValueError(f"no system {name!r}; there are {', '.join(SYSTEMS)}")
