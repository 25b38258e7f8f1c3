"""explain: runs a function once and reports its graphs, its graph breaks and its guards."""

import dataclasses
import os
import pathlib
import traceback
import types
from collections.abc import Callable
from typing import Any

import torch

from framefuse import _C, _explain_text, _trace
from framefuse._c_callables import CCallable, has_python_code
from framefuse._config import config


@dataclasses.dataclass
class BreakReason:
    """One graph break: why, what to do about it, and where: the frames that were captured as one, outermost first."""

    reason: str
    hint: str
    user_stack: "list[traceback.FrameSummary]"
    graph_break: bool = True  # as torch's GraphCompileReason has it
    compile_id: str = ""  # of the compilation that it ended: "2/1"
    expression: str = ""  # the part of the last frame's line that broke
    module: str = ""  # the nn.Module whose method runs there: "layers.3.self_attn (Attention)"


@dataclasses.dataclass
class EagerFallback:
    """A function that ran as Python in the call: its kind as in `statistics()`, why, what to do about it, and where it is."""

    kind: str
    reason: str
    hint: str
    function: traceback.FrameSummary


@dataclasses.dataclass
class ExplainOutput:
    """What `explain(f)(…)` returns; `print` it for a short report, `details()` has the rest.

    The attributes are those of torch._dynamo.explain's ExplainOutput, and `fallbacks`. A graph is counted if it has tensor work,
    operations are calls of torch's functions and of tensors' methods. `ops_per_graph` holds those, `graphs` the ATen graphs as
    text, `out_guards` the guards of each graph as one readable Python function, `compile_times` seconds by stage.
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
    compile_ids: "list[str]" = dataclasses.field(default_factory=list)  # of each graph
    events: "list[dict[str, Any]]" = dataclasses.field(default_factory=list, repr=False)  # the call's trace (docs/trace.md)

    def __str__(self):
        return _explain_text.short(self)

    def details(self) -> str:
        """Return the whole report as text: after the short one the operations, guards by what they are about, and the graphs."""
        return _explain_text.whole(self)

    def grouped_guards(self) -> "list[dict[str, list[str]]]":
        """Return for each graph its guards by what they are about: "argument x", "globals", "torch's state" and the like."""
        return [_explain_text.grouped(text) for text in self.out_guards]

    def html(self, path: "str | os.PathLike[str] | None" = None) -> str:
        """Return the whole report as one page that needs nothing else, and write it to `path` if that is given."""
        from framefuse._report_page import page

        text = page([self.events], "explain")
        if path is not None:
            pathlib.Path(path).write_text(text, encoding="utf-8")
        return text

    def _repr_html_(self):
        return _explain_text.html(self)


def explain(f: "Callable[..., Any]", **settings: Any) -> "Callable[..., ExplainOutput]":
    """Return a function that calls `f` once, capturing it afresh, and returns an `ExplainOutput` instead of f's result.

    Side effects of `f` happen, once. Keyword arguments are those of `compile`; the backend is "aten" unless given. Raises
    `TypeError` for what cannot be called, and what `compile` and `f` raise.
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
    if not has_python_code(f):
        f = CCallable(f)

    def explained(*args, **kwargs):
        with _trace.collect() as events, config.patch(background=False):  # the report tells of the kernels
            report = _C.explain(f, compile_options(settings), args, kwargs)
        return _output(report, events)

    return explained


def _frames(stack):
    return [
        traceback.FrameSummary(file, line, function, lookup_line=False, line=source)
        for file, line, function, source in stack
    ]


def _output(report, events):
    breaks = [
        BreakReason(reason, hint, _frames(stack), compile_id=id, expression=expression, module=module)
        for reason, hint, stack, id, expression, module in report["breaks"]
    ]
    operations = [operations for operations, _, _ in report["graphs"]]
    return ExplainOutput(
        graph_count=len(operations),
        graph_break_count=len(breaks),
        op_count=sum(map(len, operations)),
        break_reasons=breaks,
        ops_per_graph=operations,
        out_guards=[_explain_text.without_addresses(text) for text in report["guards"]],
        compile_times=dict(report["compile_times"]),
        graphs=[text for _, text, _ in report["graphs"]],
        fallbacks=[EagerFallback(kind, reason, hint, _frames(stack)[0]) for kind, reason, hint, stack in report["fallbacks"]],
        compile_ids=[id for _, _, id in report["graphs"]],
        events=events,
    )
