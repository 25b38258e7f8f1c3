"""Which folder may include from which: the arrows of docs/architecture.md, checked on every #include of a file of ours.

A folder may include its own files and those of the folders that its row names; rows are not transitive. Parts of a library
have rows of their own. Invariant: the table has no cycle, but for folders that make one library (a row of SAME).
"""

import pathlib
import re

# The folders of one library each.
FOLDERS = (
    "common", "frame_eval", "frame_eval/bytecode", "frame_eval/versions", "guards", "guards/leaf",
    "symbolic/evaluator", "symbolic/tracing", "symbolic/messages", "symbolic/rules", "symbolic/frames",
    "symbolic/ambient", "symbolic/learned", "symbolic/entry", "symbolic/journals", "symbolic/protocols",
    "symbolic/calls", "symbolic/capture", "symbolic/reconstruct", "symbolic/executables", "symbolic/attempt",
    "symbolic/dispatch",
    "backends/graph", "backends/passes", "backends/runtime", "backends/autograd", "backends/kernel_ir", "backends/emit",
    "backends/cpu_runtime", "backends/cuda_runtime", "backends/fusion", "backends/builtin", "backends/package", "python",
    "runner",
)
# Folders that are parts of one library.
SAME = (
    {"frame_eval", "frame_eval/bytecode", "frame_eval/versions"},
    {"guards", "guards/leaf"},
    {"symbolic/calls", "symbolic/protocols"},
)
MAY_INCLUDE = {
    "common": set(),
    "frame_eval": {"common"},
    "guards": {"common", "frame_eval"},
    "symbolic/evaluator": {"common", "frame_eval", "guards"},
    "symbolic/tracing": {"common", "frame_eval", "backends/graph"},
    "symbolic/messages": {"common", "frame_eval", "guards", "symbolic/evaluator"},
    "symbolic/rules": {"common", "frame_eval", "guards", "symbolic/evaluator", "symbolic/tracing", "symbolic/messages"},
    "symbolic/frames": {"frame_eval", "guards", "symbolic/messages", "symbolic/rules"},
    "symbolic/ambient": {"frame_eval", "guards", "symbolic/rules"},
    "symbolic/learned": {"common", "frame_eval", "guards", "symbolic/messages"},
    "symbolic/entry": {
        "common", "frame_eval", "guards", "backends/graph", "symbolic/evaluator", "symbolic/messages", "symbolic/rules",
        "symbolic/ambient", "symbolic/learned",
    },
    "symbolic/journals": {
        "common", "frame_eval", "guards", "backends/graph", "symbolic/evaluator", "symbolic/tracing",
        "symbolic/messages", "symbolic/rules", "symbolic/frames", "symbolic/ambient", "symbolic/learned",
        "symbolic/entry",
    },
    "symbolic/calls": {
        "common", "frame_eval", "guards", "symbolic/evaluator", "symbolic/tracing", "symbolic/messages",
        "symbolic/rules", "symbolic/frames", "symbolic/ambient", "symbolic/journals",
    },
    "symbolic/capture": {
        "frame_eval", "symbolic/evaluator", "symbolic/messages", "symbolic/ambient", "symbolic/journals",
        "symbolic/calls",
    },
    "symbolic/reconstruct": {
        "common", "frame_eval", "guards", "backends/graph", "symbolic/tracing", "symbolic/messages", "symbolic/rules",
        "symbolic/frames", "symbolic/entry", "symbolic/journals", "symbolic/capture",
    },
    "symbolic/executables": {
        "common", "frame_eval", "guards", "backends/graph", "backends/autograd", "symbolic/tracing", "symbolic/messages", "symbolic/rules",
        "symbolic/entry", "symbolic/journals", "symbolic/capture", "symbolic/reconstruct",
    },
    "symbolic/attempt": {
        "common", "frame_eval", "guards", "backends/graph", "symbolic/tracing", "symbolic/messages", "symbolic/frames",
        "symbolic/ambient", "symbolic/learned", "symbolic/entry", "symbolic/journals", "symbolic/capture",
        "symbolic/reconstruct", "symbolic/executables",
    },
    "symbolic/dispatch": {
        "common", "frame_eval", "guards", "backends/graph", "symbolic/evaluator", "symbolic/tracing",
        "symbolic/messages", "symbolic/rules", "symbolic/frames", "symbolic/ambient", "symbolic/learned",
        "symbolic/entry", "symbolic/journals", "symbolic/attempt",
    },
    "backends/graph": {"common"},
    "backends/passes": {"common", "backends/graph"},
    "backends/runtime": {"common", "backends/graph", "backends/passes"},
    "backends/autograd": {"common", "backends/graph", "backends/passes", "backends/runtime"},
    "backends/kernel_ir": {"common"},
    "backends/emit": {"common", "backends/kernel_ir"},
    "backends/cpu_runtime": {"common", "backends/kernel_ir", "backends/emit"},
    "backends/cuda_runtime": {"common", "backends/kernel_ir", "backends/emit"},
    "backends/fusion": {
        "common", "backends/graph", "backends/passes", "backends/runtime", "backends/kernel_ir", "backends/cpu_runtime",
        "backends/cuda_runtime",
    },
    "backends/builtin": {"common", "backends/graph", "backends/runtime", "backends/autograd", "backends/fusion"},
    "backends/package": {"common", "backends/graph", "backends/builtin"},
    "python": {
        "common", "frame_eval", "symbolic/entry", "symbolic/calls", "symbolic/attempt", "symbolic/dispatch", "backends/graph",
        "backends/runtime", "backends/cuda_runtime", "backends/builtin", "backends/package",
    },
    "runner": {"common", "backends/package"},
}
# Folders of one library: which headers they may include of one another.
PARTS = {
    "symbolic/protocols": {"symbolic/calls": "call_evaluator.h class_statements.h"},
    "symbolic/calls": {"symbolic/protocols": "attribute_reads.h attribute_writes.h iteration.h symbolic_keys.h tensor_attributes.h text_conversion.h"},
}
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def folder_of(path):
    """The longest of FOLDERS that holds the file, or None."""
    holding = [f for f in FOLDERS if pathlib.PurePath(path).is_relative_to(f)]
    return max(holding, key=len) if holding else None


def _library_of(folder):
    return next((min(same, key=len) for same in SAME if folder in same), folder)


def violations(path, lines):
    """(line number, sentence) for each include that no arrow allows."""
    own = folder_of(path)
    if own is None:
        return
    library = _library_of(own)
    part = part_of(path)
    for number, line in enumerate(lines, 1):
        include = _INCLUDE.match(line)
        other = folder_of(include[1]) if include else None
        if other is None:
            continue
        if _library_of(other) != library and _library_of(other) not in MAY_INCLUDE[library]:
            yield number, f"{own} may not include {include[1]} (cmake/include_rules.py)"
        elif part and not _may_include_of_part(part, include[1]):
            yield number, f"{part} may not include {include[1]} (cmake/include_rules.py)"


def part_of(path):
    return next((part for part in PARTS if pathlib.PurePath(path).is_relative_to(part)), None)


def _may_include_of_part(part, include):
    other = part_of(include)
    named = PARTS[part].get(other, "").split()
    return other in (None, part) or any(pathlib.PurePath(include).match(name) for name in named)


def cycle():
    """Libraries that include one another in a ring, or []."""
    done, under_way = set(), []

    def visit(library):
        if library in under_way:
            return under_way[under_way.index(library) :]
        if library in done:
            return []
        under_way.append(library)
        for other in sorted(MAY_INCLUDE[library]):
            if ring := visit(other):
                return ring
        done.add(under_way.pop())
        return []

    return next((ring for library in MAY_INCLUDE if (ring := visit(library))), [])
