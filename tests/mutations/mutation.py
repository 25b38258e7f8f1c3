"""A mutation: one planted bug, read from a text file `planted/<area>/<name>.txt`.

    What is broken, in a sentence or two.
    file: guards/fact.cpp
    machine: programs --ways twice state_changes/attribute_changes
    unit: pytest tests/guards/test_guards.py::test_length
    needs: cuda                (only where the machine's killer wants a device)
    <<<<
    the old text, once in the file
    ====
    the new text
    >>>>

A killer is named by a line of its own; any of them may kill. A file may have several blocks, which are applied together.
Invariant: a mutation changes one file, and its old texts are found there exactly once.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLANTED = pathlib.Path(__file__).parent / "planted"

# Folders under planted/, and the least number of bugs in each.
AREAS = {
    "guards": 19,
    "tracing": 2,
    "effects": 5,
    "breaks": 5,
    "reconstruction": 3,
    "passes": 4,
    "autograd": 5,
    "lowering": 2,
    "x86": 3,
    "ptx": 2,
    "cuda_text": 3,
    "plan_runtime": 2,
    "cpu_runtime": 1,
    "cuda_runtime": 2,
    "cache": 3,
    "frame_eval": 3,
}

_BLOCK = re.compile(r"^<<<<\n(.*?)^====\n(.*?)^>>>>\n", re.DOTALL | re.MULTILINE)
_KEYS = ("file", "machine", "unit", "needs", "guard")


class Malformed(Exception):
    """A file under planted/ is not as it should be."""


@dataclasses.dataclass(frozen=True)
class Mutation:
    name: str  # area/name
    about: str
    file: str  # relative to the root
    machine: tuple[str, ...]
    unit: tuple[str, ...]
    needs: str
    guards: tuple[str, ...]  # kinds of guards that it leaves unchecked
    blocks: tuple[tuple[str, str], ...]

    @property
    def area(self) -> str:
        return self.name.partition("/")[0]

    def applied(self, text: str) -> str:
        """The file's text with the bug in it."""
        for old, new in self.blocks:
            if text.count(old) != 1:
                raise Malformed(f"{self.name}: the old text is in {self.file} {text.count(old)} times:\n{old}")
            text = text.replace(old, new)
        return text

    def mutated_text(self) -> str:
        return self.applied((ROOT / self.file).read_text(encoding="utf-8"))


def parse(name: str, text: str) -> Mutation:
    head, mark, _ = text.partition("<<<<\n")
    blocks = tuple(_BLOCK.findall(text))
    if not mark or not blocks or _BLOCK.sub("", text[len(head) :]).strip():
        raise Malformed(f"{name}: blocks of <<<<, ====, >>>> are missing or unfinished")
    about, values = [], {key: [] for key in _KEYS}
    for line in head.splitlines():
        key, colon, value = line.partition(": ")
        if colon and key in values:
            values[key].append(value.strip())
        elif any(values.values()):
            raise Malformed(f"{name}: unknown line {line!r}")
        else:
            about.append(line)
    if len(values["file"]) != 1 or not about:
        raise Malformed(f"{name}: needs a sentence and one file")
    if any(old == new for old, new in blocks):
        raise Malformed(f"{name}: a block changes nothing")
    return Mutation(
        name,
        " ".join(about),
        values["file"][0],
        tuple(values["machine"]),
        tuple(values["unit"]),
        " ".join(values["needs"]),
        tuple(values["guard"]),
        blocks,
    )


def all_mutations() -> list[Mutation]:
    """Every mutation, by name."""
    files = sorted(PLANTED.glob("*/*.txt"))
    return [parse(f"{f.parent.name}/{f.stem}", f.read_text(encoding="utf-8")) for f in files]
