"""The report as one page: the model of a trace put into the template. Text of the program is untrusted: it is escaped."""

import pathlib

import jinja2
import markupsafe

from framefuse import _report_model, _report_work
from framefuse._trace import Event


def page(processes: "list[list[Event]]", title: str) -> str:
    """The page for the events of these processes. It loads nothing and runs no script."""
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    environment.filters["ms"] = lambda seconds: f"{seconds * 1e3:.1f} ms"
    environment.filters["place"] = _report_model.place_text
    environment.filters["short"] = _report_model.short_path
    environment.filters["module"] = _report_model.module_text
    environment.globals.update(log_titles=_report_model.LOG_TITLES, width=_report_work.WIDTH, height=_report_work.HEIGHT)
    environment.globals.update(marked=_marked, used=_used, most_graphs=_report_model.MOST_GRAPHS, most_compiles=_report_model.MOST_COMPILES)
    template = environment.from_string((pathlib.Path(__file__).parent / "_report.html.jinja").read_text(encoding="utf-8"))
    return template.render(title=title, processes=[_report_model.process_of(events) for events in processes])


def text(processes: "list[list[Event]]") -> str:
    """What to act on first, as plain text."""
    lines = []
    for process in map(_report_model.process_of, processes):
        counts = f"{len(process.graphs)} graphs, {len(process.breaks)} places of graph breaks, {len(process.recompiles)} recompilations"
        lines.append(f"{process.title}: {counts}, {len(process.fallbacks)} functions as Python, {process.seconds:.2f} s of compiling")
        for number, fix in enumerate(process.fixes, 1):
            lines.append(f"  {number}. {fix.title}" + (f": {fix.where}" if fix.where else ""))
            lines += [f"     {part}" for part in (fix.source, fix.reason) if part]
            lines += [f"     fix: {fix.hint}"] if fix.hint else []
        if not process.fixes:
            lines.append("  nothing to fix")
    return "\n".join(lines) + "\n"


def _used(use: Event) -> str:
    """How often an entry ran, and how often its guards held."""
    run, check = use["run_seconds"] / max(1, use["runs"]), use["check_seconds"] / max(1, use["hits"])
    return f"ran {use['runs']} times, {run * 1e6:.0f} µs each; guards held {use['hits']} of {use['checks']} times, {check * 1e6:.1f} µs each"


def _marked(place: Event) -> markupsafe.Markup:
    """The source of a place with the expression at fault marked."""
    source, expression = place["source"], place.get("expression", "")
    before, found, after = source.partition(expression) if expression else (source, "", "")
    if not found or found == source:
        return markupsafe.escape(source)
    return markupsafe.Markup("{}<mark>{}</mark>{}").format(before, found, after)
