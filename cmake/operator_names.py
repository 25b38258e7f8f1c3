"""Where operators are named by a string. One registry has their names (backends/graph/operators.def); all other code says
OpName::kMm, or asks for a fact. So a name that is not there, or is spelled wrong, is found by the compiler.

It reads lines and no grammar: a literal that begins with a namespace of torch's operators counts.
"""

import re

REGISTRY = "backends/graph/operators"
MAY_NAME = {"tests", "python", "cmake"}
_NAME = re.compile(r'"(?:aten|prims|_c10d_functional|_c10d_functional_autograd|_dtensor)(?:\.|::)')
_COMMENT = re.compile(r"(?<!:)//.*")


def names(lines):
    """The line of each literal that names an operator."""
    for number, line in enumerate(lines, 1):
        yield from (number for _ in _NAME.finditer(_COMMENT.sub("", line)))


def violations(path, lines, debts):
    """(line number, sentence) for each name in a file that has no debts, or others than the list of debts says."""
    if path.parts[0] in MAY_NAME or str(path).startswith(REGISTRY):
        return
    found, debt = list(names(lines)), debts.get(str(path))
    if debt is None:
        for line in found:
            yield line, f"an operator's name: it has a row in {REGISTRY}.def, code says OpName::…"
    elif len(found) != debt:
        yield 1, f"{len(found)} names of operators, cmake/debts.py says {debt}: they may only shrink"
