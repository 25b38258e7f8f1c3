"""The report of `explain` as text and as HTML: what to act on first, details on request."""

import collections
import functools
import os
import re
import sysconfig
import xml.etree.ElementTree as tree

_GUARD = re.compile(r"^\s*if not \((?P<condition>.*)\): return False(?P<place>  # .*)?$|^\s*if not (?P<call>\w+\(.*\)): return False(?P<note>  # .*)?$")
_ROOTS = {"G": "globals", "B": "builtins", "function": "the function itself"}
_MOST_CALLERS = 4
_SMALL_PHASE = 0.02  # of the whole


def short(report) -> str:
    """Counts; breaks with place, reason and fix; what ran as Python and why; time by phase."""
    lines = [
        f"Graph Count: {report.graph_count}",
        f"Graph Break Count: {report.graph_break_count}",
        f"Op Count: {report.op_count}",
    ]
    if report.break_reasons:
        lines.append("Break Reasons:")
    for number, reason in enumerate(report.break_reasons, 1):
        lines.append(f"  Break Reason {number}{_in_brackets(reason.compile_id)}: {_place(reason.user_stack[-1])}")
        if reason.expression and reason.expression != reason.user_stack[-1].line:
            lines.append(f"    At: {reason.expression}")
        if reason.module:
            lines.append(f"    Module: {reason.module}")
        lines += [f"    called from {_place(frame)}" for frame in _callers(reason.user_stack)]
        lines += _told(reason.reason, reason.hint)
    if report.fallbacks:
        lines.append("Ran as Python:")
    # Of one function several pieces may have run as Python, for the same reason.
    told = collections.Counter((f.function.name, f.function.filename, f.function.lineno, f.reason, f.hint) for f in report.fallbacks)
    for number, ((name, file, line, reason, hint), times) in enumerate(told.items(), 1):
        lines.append(f"  Function {number}: {name} ({file}:{line})" + (f", {times} times" if times > 1 else ""))
        lines += _told(reason, hint)
    if report.compile_times:
        lines.append("Compile Times:")
        times = list(_shown_times(report.compile_times))
        width = max(len(name) for name, _ in times)
        lines += [f"  {name:<{width}} {seconds * 1e3:10.2f} ms" for name, seconds in times]
    return "\n".join(lines) + "\n"


def whole(report) -> str:
    """The short report, then operations, guards and graph of each graph, and the whole stack of each break."""
    parts = [short(report)]
    for number, reason in enumerate(report.break_reasons, 1):
        parts.append(f"Stack of Break Reason {number}, outermost first:\n" + "\n".join(f"  {_place(frame)}" for frame in reason.user_stack))
    for number, (operations, guards, graph) in enumerate(zip(report.ops_per_graph, report.out_guards, report.graphs, strict=True), 1):
        parts.append(f"Ops of Graph {number}{_id(report, number)}:\n" + "\n".join(f"  {operation_name(operation)}" for operation in operations))
        lines = [f"Guards of Graph {number}:"]
        for about, conditions in grouped(guards).items():
            lines += [f"  {about}:", *(f"    {condition}" for condition in conditions)]
        parts.append("\n".join(lines))
        parts.append(f"Graph {number}:\n{graph.rstrip()}")
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def html(report) -> str:
    """The short report for a notebook."""
    root = tree.Element("div")
    counts = f"{report.graph_count} graphs, {report.graph_break_count} graph breaks, {report.op_count} operations"
    tree.SubElement(root, "b").text = counts
    rows = [("break", _place(r.user_stack[-1]), r.reason, r.hint) for r in report.break_reasons]
    rows += [("ran as Python", _place(f.function), f.reason, f.hint) for f in report.fallbacks]
    if rows:
        _table(root, ("what", "where", "why", "fix"), rows)
    _table(root, ("stage", "ms"), [(name, f"{seconds * 1e3:.2f}") for name, seconds in _shown_times(report.compile_times)])
    details = tree.SubElement(root, "details")
    tree.SubElement(details, "summary").text = "operations, guards and graphs"
    tree.SubElement(details, "pre").text = whole(report)
    return tree.tostring(root, encoding="unicode", method="html")


def grouped(text: str) -> "dict[str, list[str]]":
    """The conditions of a guard function by what they are about, in order, each with its place."""
    groups: "dict[str, list[str]]" = {}
    for line in text.splitlines():
        found = _GUARD.match(line)
        if found is None:
            if "return False" in line:  # in a form of its own
                groups.setdefault("others", []).append(line.strip())
            continue
        condition = found["condition"] or found["call"]
        groups.setdefault(_about(condition), []).append(condition + (found["place"] or found["note"] or ""))
    return groups


def without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def operation_name(operation) -> str:
    """`torch.sin`, `Tensor.cos`, `operator.add`."""
    if isinstance(operation, str):
        return operation
    owner = getattr(operation, "__objclass__", None)
    name = getattr(operation, "__qualname__", None) or getattr(operation, "__name__", None)
    if name is None:
        return without_addresses(repr(operation))
    if owner is not None and "." not in name:
        return f"{owner.__name__}.{name}"
    if owner is not None:
        return name.replace("TensorBase.", "Tensor.")
    module = getattr(operation, "__module__", None)
    module = {"_operator": "operator", None: ""}.get(module, module)
    name = name.removeprefix("_VariableFunctionsClass.")
    return f"{module}.{name}" if module else name


def _about(condition):
    if condition.startswith("torch_state("):
        return "torch's state"
    found = re.search(r"\b(?:L\['([^']+)'\]|(G|B|function)\b)", condition)
    if found is None:
        return "others"
    return f"argument {found[1]}" if found[1] else _ROOTS[found[2]]


def _id(report, number):
    """` [2/1]`, the graph's compilation; a report made by hand has none."""
    return _in_brackets(report.compile_ids[number - 1] if number <= len(report.compile_ids) else "")


def _in_brackets(id):
    return f" [{id}]" if id else ""


def _shown_times(times):
    """Phases of the backend that take next to nothing are one row; `compile_times` has each."""
    all = sum(seconds for name, seconds in times.items() if ": " not in name)
    rest = {name: seconds for name, seconds in times.items() if ": " in name and seconds < _SMALL_PHASE * all}
    if len(rest) < 2:
        rest = {}
    yield from ((name, seconds) for name, seconds in times.items() if name not in rest)
    if rest:
        yield f"backend: {len(rest)} short phases", sum(rest.values())


def _told(reason, hint):
    return [f"    Reason: {reason}"] + ([f"    Hint: {hint}"] if hint else [])


def _place(frame):
    source = f": {frame.line}" if frame.line else ""
    return f"{frame.filename}:{frame.lineno} in {frame.name}{source}"


def _callers(stack):
    """The user's own frames around the place, nearest first: all of them are in `details`."""
    own = [frame for frame in stack[:-1] if not _is_library(frame.filename)]
    return own[: -_MOST_CALLERS - 1 : -1]


@functools.cache
def _is_library(path):
    folders = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
    return any(path.startswith(folder + os.sep) for folder in folders) or f"{os.sep}site-packages{os.sep}" in path


def _table(parent, head, rows):
    table = tree.SubElement(parent, "table")
    for cells, tag in [(head, "th"), *((row, "td") for row in rows)]:
        line = tree.SubElement(table, "tr")
        for cell in cells:
            tree.SubElement(line, tag, style="text-align: left; vertical-align: top").text = cell
