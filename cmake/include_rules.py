"""Which folder may include from which: the arrows of docs/architecture.md, checked on every #include of a file of ours.

A folder may include its own files and those of the folders that its row names; rows are not transitive. Parts of a library
have rows of their own. Invariant: the table has no cycle, but for folders that make one library (a row of SAME).
"""

import pathlib
import re

# The folders of one library each.
FOLDERS = (
    "common", "frame_eval", "frame_eval/bytecode", "frame_eval/versions", "guards", "guards/leaf",
    "symbolic/evaluator", "symbolic/tracing", "symbolic/capture",
    "backends/graph", "backends/passes", "backends/runtime", "backends/autograd", "backends/kernel_ir", "backends/emit",
    "backends/cpu_runtime", "backends/cuda_runtime", "backends/fusion", "backends/builtin", "python",
)
# Folders that are parts of one library.
SAME = ({"frame_eval", "frame_eval/bytecode", "frame_eval/versions"}, {"guards", "guards/leaf"})
MAY_INCLUDE = {
    "common": set(),
    "frame_eval": {"common"},
    "guards": {"common", "frame_eval"},
    "symbolic/evaluator": {"common", "frame_eval", "guards"},
    "symbolic/tracing": {"common", "frame_eval", "backends/graph"},
    "symbolic/capture": {"common", "frame_eval", "guards", "symbolic/evaluator", "symbolic/tracing", "backends/graph"},
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
    "python": {
        "common", "frame_eval", "symbolic/capture", "backends/graph", "backends/runtime", "backends/cuda_runtime",
        "backends/builtin",
    },
}
# Folders in a library's folder: which headers they may include of one another. What a part includes of the library's
# own folder is below all parts: it leads to none of them.
PARTS = {
    "symbolic/capture/journals": {},
    "symbolic/capture/protocols": {
        "symbolic/capture/journals": "*.h",
        "symbolic/capture/calls": "call_evaluator.h class_statements.h",
    },
    "symbolic/capture/calls": {
        "symbolic/capture/journals": "*.h",
        "symbolic/capture/protocols": "attribute_reads.h attribute_writes.h iteration.h symbolic_keys.h tensor_attributes.h text_conversion.h",
    },
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


def leads_to_a_part(root):
    """A sentence for each header that a part includes of its library's own folder and that leads to a part."""
    texts = {}

    def includes(path):
        if path not in texts:
            file = root / path
            lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
            texts[path] = [found[1] for found in map(_INCLUDE.match, lines) if found]
        return texts[path]

    for part in PARTS:
        for file in sorted(p.relative_to(root).as_posix() for p in (root / part).glob("*.*")):
            seen, ahead = set(), [i for i in includes(file) if part_of(i) is None and folder_of(i) == folder_of(file)]
            while ahead:
                header = ahead.pop()
                if part_of(header):
                    yield f"{file} includes a header that leads to {header} (cmake/include_rules.py)"
                    break
                seen.add(header)
                ahead += [i for i in includes(header) if i not in seen]


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
