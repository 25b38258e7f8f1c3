"""explain: runs a function once and reports its graphs, its graph breaks and its guards."""

import dataclasses
import traceback
import types
from collections.abc import Callable
from typing import Any

import torch

from framefuse import _C


@dataclasses.dataclass
class BreakReason:
    """One graph break: why, what to do about it, and where in the user's code (outermost frame first)."""

    reason: str
    hint: str
    user_stack: "list[traceback.FrameSummary]"


@dataclasses.dataclass
class EagerFallback:
    """A function that ran as Python in the call: its kind as in `statistics()`, why, what to do about it, and where it is."""

    kind: str
    reason: str
    hint: str
    function: traceback.FrameSummary


@dataclasses.dataclass
class ExplainOutput:
    """What `explain(f)(…)` returns; `print` it for a report. Counts mean what torch._dynamo.explain's mean.

    `out_guards` holds the guards of each compiled piece as one readable Python function; `graphs` the ATen graphs as text.
    """

    graph_count: int
    graph_break_count: int
    op_count: int
    break_reasons: "list[BreakReason]"
    ops_per_graph: "list[list[Any]]"
    out_guards: "list[str]"
    compile_times: "dict[str, float]"
    graphs: "list[str]"
    fallbacks: "list[EagerFallback]"

    def __str__(self):
        lines = [
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
            "Break Reasons:",
        ]
        for number, reason in enumerate(self.break_reasons, 1):
            lines += [f"  Break Reason {number}:", f"    Reason: {reason.reason}"]
            if reason.hint:
                lines.append(f"    Hint: {reason.hint}")
            lines.append("    User Stack:")
            for frame in reason.user_stack:
                lines.append(f"      {frame}")
                if frame.line:
                    lines.append(f"        {frame.line}")
        if self.fallbacks:
            lines.append("Ran as Python:")
        for number, fallback in enumerate(self.fallbacks, 1):
            at = fallback.function
            lines += [
                f"  Function {number}: {at.name} ({at.filename}:{at.lineno})",
                f"    Reason: {fallback.reason}",
                f"    Hint: {fallback.hint}",
            ]
        lines.append("Ops per Graph:")
        for number, operations in enumerate(self.ops_per_graph, 1):
            lines.append(f"  Ops {number}:")
            lines += [f"    {operation}" for operation in operations]
        lines.append("Out Guards:")
        for number, guard in enumerate(self.out_guards, 1):
            lines += [f"  Guard {number}:", *(f"    {line}" for line in guard.splitlines())]
        times = ", ".join(f"{stage} {seconds * 1e3:.2f} ms" for stage, seconds in self.compile_times.items())
        lines.append(f"Compile Times: {times}")
        return "\n".join(lines) + "\n"


def explain(f: "Callable[..., Any]", **settings: Any) -> "Callable[..., ExplainOutput]":
    """Return a function that calls `f` once, capturing it afresh, and returns an `ExplainOutput` instead of f's result.

    Side effects of `f` happen, once. Keyword arguments are those of `compile`; the backend is "aten" unless given.
    """
    from framefuse._compile import compile, compile_options

    settings.setdefault("backend", "aten")
    defaults = {"fullgraph": False, "mode": None, "options": None, "tell_libraries": None, "dynamic": None}
    settings = {**defaults, "recompile_limit": None, "name": None, **settings}
    compile(**settings)  # for its checks of the arguments
    if isinstance(f, type) or not callable(f):
        raise TypeError(f"explain() takes a function, a method or an nn.Module, not {f!r}")
    f = getattr(f, "_orig_mod", f)
    if _C.is_compiled_function(f):
        f = f.__wrapped__
    if isinstance(f, torch.nn.Module):
        f = types.MethodType(type(f).__call__, f)

    def explained(*args, **kwargs):
        return _output(_C.explain(f, compile_options(settings), args, kwargs))

    return explained


def _frames(stack):
    return [
        traceback.FrameSummary(file, line, function, lookup_line=False, line=source)
        for file, line, function, source in stack
    ]


def _output(report):
    breaks = [BreakReason(reason=reason, hint=hint, user_stack=_frames(stack)) for reason, hint, stack in report["breaks"]]
    operations = [operations for operations, _ in report["graphs"]]
    return ExplainOutput(
        graph_count=len(operations),
        graph_break_count=len(breaks),
        op_count=sum(map(len, operations)),
        break_reasons=breaks,
        ops_per_graph=operations,
        out_guards=report["guards"],
        compile_times=dict(report["compile_times"]),
        graphs=[text for _, text in report["graphs"]],
        fallbacks=[EagerFallback(kind, reason, hint, _frames(stack)[0]) for kind, reason, hint, stack in report["fallbacks"]],
    )
