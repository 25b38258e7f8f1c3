"""What the report shows of a trace: its events put together by compilation, place and file. Knows nothing of HTML."""

import collections
import dataclasses
import pathlib
from typing import Any

from framefuse._explain_text import grouped, without_addresses
from framefuse._report_graph import Drawing, draw
from framefuse._report_work import Kernel, Memory, kernels_by_compile, memory_of
from framefuse._trace import Event

_LINES_AROUND = 4  # a line that something is said of
_COLOURS = 8
MOST_GRAPHS, MOST_COMPILES = 400, 1000  # that the page shows: a browser has to take it
# What is worst comes first; what is measured goes by the time that it cost.
_WEIGHTS = {"bug": 3, "limit": 2, "measured": 1, "fallback": 0}
# What goes away with what is said of another place.
_FOLLOWS = ("waiting", "idle_rest", "below_recompile_limit")
LOG_TITLES = {
    "fusion": "Fusion groups, and why nodes are apart",
    "output_code": "Text of the kernels",
    "aot": "Forward and backward graphs",
    "effects": "Writes after the graph",
    "dynamic": "Facts about sizes",
    "cache": "Caches",
}


@dataclasses.dataclass
class Fix:
    """Something to act on."""

    kind: str
    title: str
    where: str
    source: str
    reason: str
    hint: str
    weight: "tuple[float, ...]"
    anchor: str = ""


@dataclasses.dataclass
class Break:
    """A place where graphs end."""

    number: int
    place: Event
    reason: str
    hint: str
    stack: "list[Event]"
    callers: "list[Event]"
    ids: "list[str]"
    modules: "list[str]"
    passed: int = 0  # how often
    seconds: float = 0.0  # in Python, until compiled code went on


@dataclasses.dataclass
class Compile:
    """One compilation."""

    id: str
    event: Event
    start: float  # seconds after the first event
    seconds: float
    graph: int = -1  # number of the graph, if it made one
    colour: int = 0
    guards: "dict[str, list[str]]" = dataclasses.field(default_factory=dict)
    calls: "list[tuple[str, list[str]]]" = dataclasses.field(default_factory=list)
    drawing: "Drawing | None" = None
    logs: "list[tuple[str, str]]" = dataclasses.field(default_factory=list)  # artifact, text
    kernels: "list[Kernel]" = dataclasses.field(default_factory=list)  # as they ran
    use: "Event | None" = None  # what its entry was used for, if it has one

    @property
    def is_recompile(self) -> bool:
        return bool(self.event["recompiles"])


@dataclasses.dataclass
class Line:
    """A line of source with what happened there; `number` is 0 where lines are left out."""

    number: int
    text: str
    graphs: "list[int]"
    breaks: "list[int]"
    calls: "list[int]"  # of functions in which these breaks are


@dataclasses.dataclass
class Process:
    """One process of the trace."""

    header: Event
    compiles: "list[Compile]" = dataclasses.field(default_factory=list)
    breaks: "list[Break]" = dataclasses.field(default_factory=list)
    fallbacks: "list[Event]" = dataclasses.field(default_factory=list)
    bugs: "list[Event]" = dataclasses.field(default_factory=list)
    fixes: "list[Fix]" = dataclasses.field(default_factory=list)
    sources: "list[tuple[str, list[Line]]]" = dataclasses.field(default_factory=list)
    other_logs: "list[tuple[str, str]]" = dataclasses.field(default_factory=list)
    memory: "list[Memory]" = dataclasses.field(default_factory=list)

    @property
    def graphs(self) -> "list[Compile]":
        return [compile for compile in self.compiles if compile.graph >= 0]

    @property
    def recompiles(self) -> "list[Compile]":
        return [compile for compile in self.compiles if compile.is_recompile]

    @property
    def seconds(self) -> float:
        return sum(compile.seconds for compile in self.compiles)

    @property
    def title(self) -> str:
        rank = self.header.get("rank")
        return f"process {self.header.get('pid', '?')}" + (f", rank {rank}" if rank else "")


def process_of(events: "list[Event]") -> Process:
    """Put one process's events together."""
    header = next((event for event in events if event["event"] == "process"), {})
    process = Process(header)
    by_kind: "dict[str, list[Event]]" = collections.defaultdict(list)
    for event in events:
        by_kind[event["event"]].append(event)
    start = min((event["begun"] for event in by_kind["compile"]), default=0)
    for event in by_kind["compile"]:
        process.compiles.append(_compile(event, start, len(process.graphs)))
    _add_logs(process, by_kind["log"])
    process.breaks = _breaks(by_kind["graph_break"])
    _add_uses(process, by_kind["use"])
    process.memory = memory_of(by_kind["memory"])
    kernels = kernels_by_compile(by_kind["kernel"])
    for compile in process.compiles:
        compile.kernels = kernels.get(compile.id, [])
    process.fallbacks = by_kind["fallback"]
    process.bugs = by_kind["bug"]
    process.sources = _sources(process, by_kind["source"])
    process.fixes = _fixes(process)
    return process


def place_text(place: Event) -> str:
    """`train.py:12 in step`, with the file's folder."""
    return f"{short_path(place['file'])}:{place['line']} in {place['function']}"


def short_path(file: str) -> str:
    """The file and its folder: the page has whole paths over the source and in stacks."""
    return "/".join(file.split("/")[-2:])


def module_text(place: Event) -> str:
    """`layers.3.self_attn (Attention)`; empty where no module is around."""
    if not place.get("module_class"):
        return ""
    return f"{place['module']} ({place['module_class']})" if place.get("module") else place["module_class"]


# ---------------------------------------------------------------- compilations


def _compile(event: Event, start: float, graphs: int) -> Compile:
    event = {**event, "recompiles": [{name: without_addresses(text) for name, text in failed.items()} for failed in event["recompiles"]]}
    times = event["times"]
    compile = Compile(event.get("id", ""), event, event["begun"] - start, times["capture"] + times["backend"])
    if event["outcome"] == "graph":
        compile.graph, compile.colour = graphs, graphs % _COLOURS
    compile.guards = grouped(without_addresses(event.get("guards", "")))
    compile.drawing = draw(event.get("graph") or "")
    lines: "dict[str, list[str]]" = {}
    for call in event.get("calls") or []:
        where = f"{call['file']}:{call['line']}: {call['source']}" if call.get("file") else ""
        lines.setdefault(where, []).append(call["call"])
    compile.calls = list(lines.items())
    return compile


def _add_logs(process: Process, events: "list[Event]") -> None:
    last = {compile.id: compile for compile in process.compiles}
    for event in events:
        log = (event["artifact"], event["text"].strip())
        compile = last.get(event.get("id", ""))
        (process.other_logs if compile is None else compile.logs).append(log)


# ---------------------------------------------------------------- breaks, source, fixes


def _breaks(events: "list[Event]") -> "list[Break]":
    found: "dict[tuple[Any, ...], Break]" = {}
    for event in events:
        place = event["place"]
        key = (place["file"], place["line"], event["reason"])
        if key not in found:
            found[key] = Break(len(found), place, event["reason"], event["hint"], event["stack"], event["callers"], [], [])
        found[key].ids.append(event.get("id", ""))
        module = module_text(place)
        if module and module not in found[key].modules:
            found[key].modules.append(module)
    return list(found.values())


def _add_uses(process: Process, events: "list[Event]") -> None:
    last = {event["id"]: event for event in events}  # each counts from the beginning
    for compile in process.compiles:
        compile.use = last.get(compile.id)
    for found in process.breaks:
        uses = [last[id] for id in dict.fromkeys(found.ids) if id in last]
        found.passed, found.seconds = sum(use["breaks"] for use in uses), sum(use["between_seconds"] for use in uses)


def _sources(process: Process, events: "list[Event]") -> "list[tuple[str, list[Line]]]":
    graphs: "dict[tuple[str, int], list[int]]" = collections.defaultdict(list)
    breaks: "dict[tuple[str, int], list[int]]" = collections.defaultdict(list)
    ways: "dict[tuple[str, int], list[int]]" = collections.defaultdict(list)
    for compile in process.graphs:
        for call in compile.event.get("calls") or []:
            numbers = graphs[call.get("file", ""), call.get("line", 0)]
            if compile.graph not in numbers:
                numbers.append(compile.graph)
    for found in process.breaks:
        breaks[found.place["file"], found.place["line"]].append(found.number)
        for place in found.stack[:-1]:
            numbers = ways[place["file"], place["line"]]
            if place["user"] and found.number not in numbers:
                numbers.append(found.number)
    files = []
    for event in events:
        file, texts = event["file"], event["text"].splitlines()
        marked = sorted(line for name, line in {**graphs, **breaks, **ways} if name == file and 0 < line <= len(texts))
        if marked and pathlib.Path(file).parent != pathlib.Path(__file__).parent:  # what stands in for torch's functions is not the program's
            files.append((file, _shown(file, texts, marked, (graphs, breaks, ways))))
    return files


def _shown(file, texts, marked, marks) -> "list[Line]":
    shown = sorted({line for at in marked for line in range(at - _LINES_AROUND, at + _LINES_AROUND + 1) if 0 < line <= len(texts)})
    lines: "list[Line]" = []
    last = 0
    for number in shown:
        if last and number > last + 1:
            lines.append(Line(0, "", [], [], []))
        lines.append(Line(number, texts[number - 1], *(of[file, number] for of in marks)))
        last = number
    return lines


def _fixes(process: Process) -> "list[Fix]":
    fixes = [Fix("bug", "An error of framefuse's own", "", _called_from(bug), bug["text"], "please report it", (_WEIGHTS["bug"],)) for bug in process.bugs]
    fixes += [_fix_of_fallback(event) for event in process.fallbacks if event["kind"] not in _FOLLOWS]
    fixes += [_fix_of_break(found) for found in process.breaks]
    # What changes for one piece of a function changes for those behind its breaks, too.
    again: "dict[tuple[str, str], list[Compile]]" = collections.defaultdict(list)
    for compile in process.recompiles:
        again[_called_from(compile.event) or compile.id.partition("/")[0], compile.event["recompiles"][0]["hint"]].append(compile)
    fixes += [_fix_of_recompiles(compiles) for compiles in again.values()]
    return sorted(fixes, key=lambda fix: fix.weight, reverse=True)


def _fix_of_fallback(event: Event) -> Fix:
    weight = _WEIGHTS["limit" if event["kind"] == "recompile_limit" else "fallback"]
    where, caller = place_text(event), _called_from(event)
    return Fix("fallback", "Runs as Python", where, caller, event["reason"], event["hint"], (weight,))


def _called_from(event: Event) -> str:
    caller = next((place for place in reversed(event["stack"]) if place["user"]), None)
    return f"called from {place_text(caller)}: {caller['source']}" if caller else ""


def _fix_of_break(found: Break) -> Fix:
    times = len(found.ids)
    title = "Graph break" + (f", in {times} compilations" if times > 1 else "")
    if found.passed:
        title += f", passed {found.passed} time{'s' if found.passed > 1 else ''}: {found.seconds * 1e3:.1f} ms outside of graphs"
    weight = (_WEIGHTS["measured"], found.seconds, found.place["user"], times)
    return Fix("break", title, place_text(found.place), found.place["source"], found.reason, found.hint, weight, f"b{found.number}")


def _fix_of_recompiles(compiles: "list[Compile]") -> Fix:
    seconds = sum(compile.seconds for compile in compiles)
    first = compiles[0]
    pieces = len({compile.id.partition("/")[0] for compile in compiles})
    failed = list(dict.fromkeys(compile.event["recompiles"][0]["text"] for compile in compiles))
    title = f"Compiled again {len(compiles)} time{'s' if len(compiles) > 1 else ''}"
    title += (f" in {pieces} pieces" if pieces > 1 else "") + f", {seconds * 1e3:.0f} ms"
    reason = failed[0] + (f"; {len(failed) - 1} more of that kind" if len(failed) > 1 else "")
    source = _called_from(first.event)
    weight = (_WEIGHTS["measured"], seconds)
    return Fix("recompiles", title, place_text(first.event), source, reason, first.event["recompiles"][0]["hint"], weight, "timeline")
