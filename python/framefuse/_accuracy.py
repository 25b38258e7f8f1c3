"""Compares what compiled graphs compute with ATen, while a program runs: `framefuse-doctor --accuracy`.

FRAMEFUSE_ACCURACY=folder shows each group of nodes that is a kernel, and each whole graph, to `_Probe`. It evaluates the
same nodes with ATen on the same inputs, in the same precision and in fp64. What differs by more than rounding becomes a
finding: a file in the folder, with the graph and its inputs. A finding of a group needs no other one: its inputs are those
that the kernel got. A whole graph that differs where no group does was rewritten wrongly.
"""

import dataclasses
import json
import os
import pathlib
import re
import threading
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from framefuse import _C, _graph_text, _saved_tensors
from framefuse import graph as graph_tool
from framefuse._graph_text import GraphText

# Of each element, and of the largest one.
ALLOWED = {torch.float64: (1e-10, 1e-12), torch.float32: (1e-4, 1e-5), torch.float16: (4e-3, 2e-3), torch.bfloat16: (3e-2, 1.6e-2)}
# Of eager's own error, and of what another rounding of the inputs changes (where a difference of two equal numbers is
# taken, that is all of the result): of the element, and of the median of all.
_OF_ERROR, _OF_MEDIAN = 8, 16
_ROUNDINGS = 4
_MOST_FINDINGS = 20


@dataclasses.dataclass
class Finding:
    """A piece of a graph that does not compute what eager computes."""

    kind: str  # difference, error
    description: str
    whole: bool
    detail: str
    graph: GraphText
    inputs: "list[torch.Tensor]"


def evaluate(graph: GraphText, inputs: "list[torch.Tensor]", backend: str) -> "list[torch.Tensor]":
    """Run a graph; its inputs stay as they are."""
    return graph_tool.compile(str(graph), backend, verify=False)([_saved_tensors.copy(t) for t in inputs])


class _RoundedOtherwise(TorchDispatchMode):
    """Each operator's result is off by up to `eps` of itself: what adds up to nothing shows how much of it is rounding."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self._eps = eps

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        fresh = not any(r.alias_info is not None for r in func._schema.returns)
        return torch.utils._pytree.tree_map_only(torch.Tensor, self._off, result) if fresh else result

    def _off(self, t):
        if t.dtype != torch.float64:
            return t
        noise = torch.ops.aten.rand_like.default(t)  # outside of the mode here
        return t * (1 + self._eps * (2 * noise - 1))


def evaluate_in_f64(graph: GraphText, inputs: "list[torch.Tensor]", roundings: int = 0) -> "list[list[torch.Tensor]]":
    """The same in fp64, and as often with inputs and results of operators rounded otherwise; empty where an operator has
    no fp64 form.
    """
    wide = [t.double() if t.is_floating_point() else t.to(torch.complex128) if t.is_complex() else t for t in inputs]
    try:
        plan = graph_tool.compile(str(_graph_text.in_f64(graph)), "aten", verify=False)
        results = [plan(wide)]
        narrow = [torch.finfo(t.dtype).eps for t in inputs if t.is_floating_point() and t.dtype != torch.float64]
        for _ in range(roundings):
            rounded = [_rounded(t, w) for t, w in zip(inputs, wide, strict=True)]
            with _RoundedOtherwise(min(narrow, default=0.0)):
                results.append(plan(rounded))
        return results
    except (RuntimeError, AttributeError, ValueError, TypeError):
        return []


def _rounded(t, wide):
    if t.is_floating_point() and t.dtype != torch.float64:
        return wide * (1 + torch.finfo(t.dtype).eps * (2 * torch.rand_like(wide) - 1))
    return wide


def difference(graph: GraphText, inputs: "list[torch.Tensor]", got: "list[torch.Tensor]") -> str:
    """What of `got` differs from eager by more than rounding, as text; empty: nothing."""
    eager = evaluate(graph, inputs, "aten")
    if not any(_far(mine, theirs, None) for mine, theirs in zip(got, eager, strict=True)):
        return ""
    exact = evaluate_in_f64(graph, inputs, _ROUNDINGS)
    for i, (mine, theirs) in enumerate(zip(got, eager, strict=True)):
        if text := _far(mine, theirs, *(results[i] for results in exact)):
            return text
    return ""


def _far(got: Any, eager: Any, exact: "torch.Tensor | None" = None, *others: torch.Tensor) -> str:
    if got is None or eager is None:
        return "" if got is eager else "one of the two is undefined"
    if got.dtype != eager.dtype or got.shape != eager.shape:
        return f"{got.dtype} of sizes {list(got.shape)} is in eager {eager.dtype} of sizes {list(eager.shape)}"
    got, eager = got.detach(), eager.detach()
    if got.is_complex():
        got, eager = torch.view_as_real(got), torch.view_as_real(eager)
        exact, *others = [t if t is None else torch.view_as_real(t) for t in (exact, *others)]
    if got.dtype in ALLOWED:
        far = _are_far(got, eager, exact, others)
    else:
        # Where another rounding gives another number, both are right.
        far = got != eager
        for other in (exact, *others):
            far = far if other is None else far & (eager == other)
    if not far.any():
        return ""
    first = tuple(int(n) for n in far.nonzero()[0])
    worst = "" if exact is None else f", in fp64 {exact[first].item():.8g}"
    return f"{int(far.sum())} of {far.numel()} elements differ; {list(first)} is {got[first].item():.8g}, in eager {eager[first].item():.8g}{worst}"


def _are_far(got, eager, exact, others):
    of_each, of_largest = ALLOWED[got.dtype]

    def beyond(want, spread):
        # As the result would be rounded: what is no number there is none here.
        want = want.to(got.dtype).double()
        finite = want.isfinite()
        largest = want[finite].abs().max() if finite.any() else 0.0
        same = (got.double() == want) | (got.isnan() & want.isnan())
        near = (got.double() - want).abs() <= of_each * want.abs() + of_largest * largest + spread
        return ~same & ~(finite & near)

    far = beyond(eager, 0.0)
    if exact is None or not far.any():
        return far
    error = torch.zeros_like(exact, dtype=torch.float64)
    for other in (eager, *others):
        distance = (other.double() - exact.double()).abs()
        error = torch.maximum(error, torch.where(distance.isfinite(), distance, 0.0))
    return far & beyond(exact, _OF_ERROR * error + _OF_MEDIAN * error.median())


class _Probe:
    """What C++ shows the pieces to (backends/runtime/accuracy_probe.h)."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._known: "set[str]" = set()  # pieces that are told of
        self._found = 0

    def begin(self, text, description, whole, inputs, symbols):
        if self._found >= _MOST_FINDINGS or text in self._known:
            return None
        given = [_saved_tensors.copy(t) for t in inputs]

        def end(error, outputs):
            try:
                self._check(text, description, whole, (given, symbols), error, outputs)
            except Exception as problem:
                self._note(text, f"not compared: {description}: {type(problem).__name__}: {str(problem).splitlines()[0]}")

        return end

    def _check(self, text, description, whole, call, error, outputs):
        inputs, symbols = call
        if error is not None and not inputs:
            graph, inputs = _made_up(text)  # it was not compiled, and nobody knows for which inputs
        else:
            graph = _graph_text.parse(_graph_text.with_numbers(text, symbols))
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            if error is None:
                _check_repeatable(graph, inputs)
                detail = difference(graph, inputs, outputs)
            else:
                evaluate(graph, inputs, "aten")  # eager raises as well: not ours
                detail = error
        if not detail:
            self._note(description, f"compared: {description}")
            return
        self._known.add(text)
        self._write(Finding("difference" if error is None else "error", description, whole, detail, graph, inputs))

    def _write(self, finding):
        with self._lock:
            number, self._found = self._found, self._found + 1
        save(finding, self._folder / f"finding_{os.getpid()}_{number:02}")

    def _note(self, key, text):
        with self._lock:
            if key in self._known:
                return
            self._known.add(key)
            with open(self._folder / f"notes_{os.getpid()}.txt", "a", encoding="utf-8") as file:
                file.write(text + "\n")


_RANDOM = re.compile(r"\baten\.\w*(?:rand|dropout|bernoulli|multinomial|normal_|normal\.|uniform|exponential|cauchy|geometric|poisson)")


def _check_repeatable(graph, inputs):
    """Raises where ATen itself does not compute the same twice."""
    if any(_RANDOM.search(node.text) for node in graph.nodes):
        raise ValueError("it draws random numbers; its kernels are compared")
    for one, other in zip(evaluate(graph, inputs, "aten"), evaluate(graph, inputs, "aten"), strict=True):
        if _far(one, other, None):
            raise ValueError("eager does not compute the same twice")


def _made_up(text):
    text = graph_tool.with_sizes(text, {})
    torch.manual_seed(0)
    return _graph_text.parse(text), graph_tool.random_inputs(text)


def read_environment() -> None:
    """Compare from here on, if FRAMEFUSE_ACCURACY names a folder."""
    folder = os.environ.get("FRAMEFUSE_ACCURACY")
    if folder:
        path = pathlib.Path(folder).absolute()
        path.mkdir(parents=True, exist_ok=True)
        _C.set_accuracy_probe(_Probe(path).begin)


# ---------------------------------------------------------------- findings as files


def save(finding: Finding, stem: pathlib.Path) -> None:
    """Write STEM.json and STEM.bin."""
    layouts = _saved_tensors.write(finding.inputs, stem.with_suffix(".bin"))
    members = {name: getattr(finding, name) for name in ("kind", "description", "whole", "detail")}
    stem.with_suffix(".json").write_text(json.dumps({**members, "graph": str(finding.graph), "inputs": layouts}), encoding="utf-8")


def findings(folder: pathlib.Path) -> "list[Finding]":
    """Those of all processes, in each process's order."""
    found = []
    for file in sorted(folder.glob("finding_*.json")):
        members = json.loads(file.read_text(encoding="utf-8"))
        inputs = _saved_tensors.read(members.pop("inputs"), file.with_suffix(".bin"))
        found.append(Finding(**{**members, "graph": _graph_text.parse(members["graph"]), "inputs": inputs}))
    return found


def notes(folder: pathlib.Path) -> "tuple[int, list[str]]":
    """How many pieces were compared, and what was not, with the reason."""
    lines = [line for file in sorted(folder.glob("notes_*.txt")) for line in file.read_text(encoding="utf-8").splitlines()]
    return sum(line.startswith("compared: ") for line in lines), [line for line in lines if line.startswith("not compared: ")]
