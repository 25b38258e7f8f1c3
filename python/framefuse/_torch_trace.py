"""torch's structured trace: what framefuse compiled, in the lines that `tlparse` reads (TORCH_TRACE=dir).

The lines are torch's own (`torch._logging.trace_structured`), made of the trace's events (docs/trace.md). What is told of one
compilation waits until that has ended, and comes in the order of torch's: start, graph, guards, metrics.
Invariant: it is on as soon as a handler of torch's trace writes somewhere, and off for good otherwise.
"""

import atexit
import json
import logging
import re
import traceback
from typing import Any

import torch
from torch._guards import CompileId
from torch._logging import structured, trace_structured

from framefuse import _C, _explain_text

_HANDLERS = logging.getLogger("torch.__trace").handlers
_INPUT = re.compile(r"^input (%\d+): \w+\[([^\]]*)\]", re.MULTILINE)
_MOST_WAITING = 1000  # events of compilations that have not ended

_collector = 0
_waiting: "dict[str, list[dict[str, Any]]]" = {}
_ended: "set[str]" = set()


def follow() -> None:
    """Write into torch's structured trace from now on, if somebody takes it."""
    global _collector
    if _collector or not any(map(_writes, _HANDLERS)):
        return
    _collector = _C.start_trace_collector(relayed=True)
    _C.set_trace_receiver(_receive)
    atexit.register(_finish)


def _writes(handler):
    # torch's own handler is always there; without TORCH_TRACE it has no folder.
    return getattr(handler.formatter, "_is_trace", False) and bool(getattr(handler, "root_dir", True))


def _receive():
    for event in map(json.loads, _C.take_trace_lines(_collector)):
        _waiting.setdefault(event.get("id", ""), []).append(event)
    # The graph break that ends a compilation is told behind it.
    for id in [id for id, events in _waiting.items() if _is_whole(id, events)]:
        _tell(id, _waiting.pop(id))


def _is_whole(id, events):
    if any(event["event"] == "compile" for event in events):
        _ended.add(id)
    return not id or id in _ended or len(events) > _MOST_WAITING


def _finish():
    _receive()
    for id in list(_waiting):
        _tell(id, _waiting.pop(id))


def _tell(id, events):
    """The events of one compilation."""
    frame, _, number = id.partition("/")
    compile_id = CompileId(frame_id=int(frame), frame_compile_id=int(number)) if id else None
    compiled = next((event for event in events if event["event"] == "compile"), None)
    breaks = [event for event in events if event["event"] == "graph_break"]
    if compiled is not None:
        stack = [*compiled["stack"], {"file": compiled["file"], "line": compiled["line"], "function": compiled["function"], "source": ""}]
        _write("dynamo_start", compile_id, {"stack": structured.from_traceback(_frames(stack))})
    for event in breaks:
        _artifact("dynamo_graph_break_reason", compile_id, _text_of_break(event))
    for event in events:
        if event["event"] in ("fallback", "bug"):
            _artifact({"fallback": "eager_fallback", "bug": "bug"}[event["event"]], compile_id, {**event, "stack": None})
    _tell_logs(compile_id, [event for event in events if event["event"] == "log"])
    if compiled is not None:
        _tell_compile(compile_id, compiled, breaks)


def _tell_compile(compile_id, compiled, breaks):
    graph = compiled.get("graph", "")
    sizes = {name: [int(size) if size.isdigit() else size for size in text.split(", ") if size] for name, text in _INPUT.findall(graph)}
    guards = [condition for group in _explain_text.grouped(compiled.get("guards", "")).values() for condition in group]
    if graph:
        _write("dynamo_output_graph", compile_id, {"sizes": sizes}, graph)
        calls = "\n".join(f"{call['call']}  # {call['file']}:{call['line']} in {call['function']}: {call['source']}" for call in compiled["calls"])
        _artifact("torch_calls", compile_id, calls)
    if compiled["recompiles"]:
        _artifact("recompile_reasons", compile_id, [failed["text"] for failed in compiled["recompiles"]])
    if guards:
        _write("dynamo_guards", compile_id, {}, [{"code": guard} for guard in guards])
        _write("dynamo_cpp_guards_str", compile_id, {}, compiled["guards"])
    _write("compilation_metrics", compile_id, _metrics(compiled, breaks, len(guards), len(sizes)))
    _write("chromium_event", compile_id, {}, _timeline(compile_id, compiled))


def _metrics(compiled, breaks, guards, inputs):
    times = compiled["times"]
    error = compiled.get("error")
    return {
        "co_name": compiled["function"],
        "co_filename": compiled["file"],
        "co_firstlineno": compiled["first_line"],
        "cache_size": len(compiled["recompiles"]),
        "accumulated_cache_size": len(compiled["recompiles"]),
        "guard_count": guards,
        "shape_env_guard_count": 0,
        "graph_op_count": len(compiled.get("calls", ())),
        "graph_node_count": compiled.get("nodes", 0),
        "graph_input_count": inputs,
        "start_time": compiled["begun"],
        "entire_frame_compile_time_s": times["capture"] + times["backend"],
        "backend_compile_time_s": times["backend"],
        "inductor_compile_time_s": None,
        "code_gen_time_s": None,
        "fail_type": "InternalError" if error else None,
        "fail_reason": error,
        "fail_user_frame_filename": compiled["file"] if error else None,
        "fail_user_frame_lineno": compiled["line"] if error else None,
        "non_compliant_ops": [],
        "compliant_custom_ops": [],
        "restart_reasons": [event["reason"] for event in breaks],
        "dynamo_time_before_restart_s": 0.0,
        "has_guarded_code": compiled["outcome"] in ("graph", "no graph"),
    }


def _timeline(compile_id, compiled):
    times = compiled["times"]
    return {
        "name": f"framefuse {compiled['function']}",
        "ph": "X",
        "cat": "dynamo_timed",
        "ts": compiled["begun"] * 1e6,
        "dur": (times["capture"] + times["backend"]) * 1e6,
        "pid": 0,
        "tid": 0,
        "args": {"compile_id": str(compile_id), "outcome": compiled["outcome"], **times},
    }


def _tell_logs(compile_id, logs):
    texts: "dict[str, list[str]]" = {}
    for log in logs:
        if log["artifact"] == "aot":
            _tell_graphs(compile_id, log["text"])
        else:
            texts.setdefault(log["artifact"], []).append(log["text"])
    for artifact, parts in texts.items():
        _artifact(artifact, compile_id, "\n".join(parts))


def _tell_graphs(compile_id, text):
    kind, _, graph = text.partition("\n")
    if kind == "joint graph":
        return _write("aot_joint_graph", compile_id, {}, graph)
    forward, found, backward = text.partition("\nbackward graph\n")
    if not found:
        return _artifact("aot", compile_id, text)
    _write("aot_forward_graph", compile_id, {}, forward)
    return _write("aot_backward_graph", compile_id, {}, backward)


# ---------------------------------------------------------------- lines


def _artifact(name, compile_id, payload):
    encoding = "string" if isinstance(payload, str) else "json"
    _write("artifact", compile_id, {"name": name, "encoding": encoding}, payload)


def _write(name, compile_id, metadata, payload=None):
    trace_structured(name, lambda: metadata, payload_fn=lambda: payload, expect_trace_id=False, compile_id=compile_id)


def _frames(stack):
    return [traceback.FrameSummary(p["file"], p["line"], p["function"], lookup_line=False, line=p["source"]) for p in stack]


def _text_of_break(event):
    place = event["place"]
    lines = [f"Graph break at {place['file']}:{place['line']} in {place['function']}: {place['source']}", f"  {event['reason']}"]
    if place.get("expression"):
        lines.append(f"  at: {place['expression']}")
    if place.get("module"):
        lines.append(f"  module: {place['module']} ({place['module_class']})")
    lines += [f"  hint: {event['hint']}", "User stack, outermost first:"]
    stack = traceback.format_list(_frames([*event["callers"], *event["stack"]]))
    return "\n".join(lines) + "\n" + "".join(stack)
