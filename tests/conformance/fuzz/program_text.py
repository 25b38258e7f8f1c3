"""The text of a fuzzed program: what it imports, the definitions that it uses, the factory.

Definitions stand in the factory under `global`, so that each run has its own and a written program is as good as the one
that failed. Invariant: nothing is written that the statements, changes and state do not name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from conformance.fuzz import (
    grammar_breaks,
    grammar_classes,
    grammar_library,
    grammar_masks,
    grammar_modules,
    grammar_operators,
    grammar_outcomes,
    grammar_states,
    grammar_tensors,
    grammar_training,
    grammar_values,
)

_FAMILIES = (
    grammar_values,
    grammar_tensors,
    grammar_training,
    grammar_classes,
    grammar_modules,
    grammar_library,
    grammar_masks,
    grammar_operators,
    grammar_breaks,
    grammar_outcomes,
    grammar_states,
)

# By the name that code uses.
_IMPORTS = {
    name: f"import {name}"
    for name in (
        "abc bisect collections contextlib contextvars copy dataclasses datetime decimal enum fractions functools heapq inspect io "
        "itertools json logging math operator os random re signal statistics string sys textwrap threading time types typing warnings "
        "weakref torch framefuse"
    ).split()
} | {"np": "import numpy as np", "nn": "from torch import nn"}
_DOTTED = ("collections.abc", "torch._dynamo", "torch.utils.checkpoint", "torch.nn.attention", "torch.overrides", "torch.utils.deterministic", "torch.utils._python_dispatch")

_DEFINED = re.compile(r"^(?:class|def|async def) (\w+)|^(\w+) =", re.MULTILINE)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def definitions() -> dict[tuple[str, ...], str]:
    """All supporting definitions, by the names that each makes."""
    found = {}
    for family in _FAMILIES:
        for text in family.SUPPORT.values():
            found[tuple(a or b for a, b in _DEFINED.findall(text))] = text.strip("\n")
    return found


_DEFINITIONS = definitions()


def used_definitions(body: str) -> list[tuple[tuple[str, ...], str]]:
    """Those that a body uses, and that these use, in order."""
    words, used = _words(body), set()
    grown = True
    while grown:
        grown = False
        for names, text in _DEFINITIONS.items():
            if names not in used and words & set(names):
                used.add(names)
                words |= _words(text)
                grown = True
    return [(names, text) for names, text in _DEFINITIONS.items() if names in used]


def head(doc: str, body: str) -> str:
    """Docstring and imports for a body, definitions included."""
    dotted = [f"import {name}" for name in _DOTTED if name in body]
    names = {m for m in re.findall(r"\b(\w+)\.", body) if m in _IMPORTS} | {"torch", "types"}
    lines = sorted({_IMPORTS[name] for name in names} | set(dotted), key=lambda line: line.split()[1])
    samples = ", ".join(name for name in ("leaf", "matrix", "vector") if name in _words(body))
    lines += ["", "from conformance.program import Args, Case, program", f"from conformance.sample import {samples}"]
    return f'"""{doc}"""\n\n' + "\n".join(lines) + "\n"


def indented(lines: Sequence[str], by: int = 4) -> list[str]:
    return [" " * by + line if line else "" for line in lines]


def definition_lines(body: str) -> tuple[list[str], list[str]]:
    """The definitions' lines for the factory, and the names that they make."""
    used = used_definitions(body)
    names = [name for group, _ in used for name in group]
    lines = [f"global {', '.join(names)}"] if names else []
    for _, text in used:
        lines += ["", *text.split("\n")]
    return lines + ([""] if names else []), names
