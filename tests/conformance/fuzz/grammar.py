"""Makes random programs: state in every kind of place, statements that read it, changes that a guard must see.

A draft is lists of text lines; rendered, it is a conformance program as a person would write it, so that a failure can
be kept as a test as it is. Invariant: a draft is a function of its seed alone, and dropping any statement or change
leaves a valid program.
"""

from __future__ import annotations

import dataclasses
import random

from conformance.fuzz.slots import CHANGES, INITIAL, PLACES, READS, WRITES, place_reference

_HEADER = '''"""{doc}"""

import collections
import types

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


class Base:
    n = 2

    def go(self, r):
        return r + self.n


class Node(Base):
    def __init__(self, n):
        self.n = n
        self.items = [1, 2]
        self.t = vector()


class Other(Base):
    n = 7

    def go(self, r):
        return r * self.n
'''


@dataclasses.dataclass(frozen=True)
class Slot:
    """One piece of state: its kind, where it lives, how code refers to it."""

    name: str
    kind: str
    place: str
    reference: str
    initial: str


@dataclasses.dataclass
class Draft:
    """A program before it is text."""

    seed: int
    slots: list[Slot]
    statements: list[list[str]]
    changes: list[list[str]]

    def without_statement(self, index: int) -> Draft:
        return dataclasses.replace(self, statements=self.statements[:index] + self.statements[index + 1 :])

    def without_change(self, index: int) -> Draft:
        return dataclasses.replace(self, changes=self.changes[:index] + self.changes[index + 1 :])

    def without_slot(self, index: int) -> Draft | None:
        """None if something still uses the slot."""
        name = self.slots[index].name
        used = any(name in line for lines in self.statements + self.changes for line in lines)
        used = used or any(name in slot.initial for slot in self.slots)
        if used:
            return None
        return dataclasses.replace(self, slots=self.slots[:index] + self.slots[index + 1 :])

    def render(self, doc: str = "A fuzzed program.") -> str:
        """The program's file."""
        return _HEADER.format(doc=doc) + _module_state(self.slots) + _factory(self)


def make_draft(seed: int) -> Draft:
    source = random.Random(seed)
    slots: list[Slot] = []
    for number in range(source.randint(1, 4)):
        slots.append(_make_slot(source, number, slots))
    statements = [_make_statement(source, slots) for _ in range(source.randint(2, 7))]
    changes = [_make_change(source, slots) for _ in range(source.randint(5, 11))]
    return Draft(seed, slots, statements, changes)


def _make_slot(source: random.Random, number: int, others: list[Slot]) -> Slot:
    kind = source.choice(list(INITIAL))
    place = source.choice(PLACES)
    name = f"s{number}"
    twins = [o for o in others if o.kind == kind and o.place not in ("argument", "default", "keyword")]
    # An alias of an earlier slot, where the factory can name it.
    if twins and source.random() < 0.35:
        initial = source.choice(twins).reference
    else:
        initial = source.choice(INITIAL[kind])
    return Slot(name, kind, place, place_reference(place, name), initial)


def _make_statement(source: random.Random, slots: list[Slot]) -> list[str]:
    slot = source.choice(slots)
    same = [s for s in slots if s.kind == slot.kind]
    other = source.choice(same)
    roll = source.random()
    if roll < 0.15 and other is not slot:
        return [f"r = r * 2 if {slot.reference} is {other.reference} else r + 3"]
    patterns = WRITES[slot.kind] if roll > 0.8 else READS[slot.kind]
    if slot.place in ("argument", "default", "keyword") and patterns is WRITES[slot.kind] and slot.kind == "number":
        patterns = READS[slot.kind]
    number = source.randint(0, 3)
    lines = [line.format(s=slot.reference, k=number) for line in source.choice(patterns)]
    return _surrounded(source, lines, only_reads=patterns is READS[slot.kind])


def _surrounded(source: random.Random, lines: list[str], only_reads: bool) -> list[str]:
    """The lines as they are, or inside a condition, a callee, a block; or with output beside them, which is a break."""
    roll = source.random()
    indented = ["    " + line for line in lines]
    if roll < 0.10:
        return [f"if r.dim() == {source.randint(0, 2)}:", *indented]
    if roll < 0.22 and only_reads:
        return ["def inner(r):", *indented, "    return r", "", "r = inner(r)"]
    if roll < 0.27:
        return ["try:", *indented, "finally:", "    r = r + 1"]
    if roll < 0.31:
        return ["with torch.no_grad():", *indented]
    if roll < 0.35:
        return ["for _ in range(2):", *indented]
    if roll < 0.40:
        return [*lines, "print(r.dim())"]
    return lines


def _make_change(source: random.Random, slots: list[Slot]) -> list[str]:
    if source.random() < 0.15:
        return ["pass"]
    slot = source.choice(slots)
    value = source.choice(INITIAL[source.choice([slot.kind] * 4 + ["number", "tensor"])])
    if source.random() < 0.3:
        line = source.choice(["{s} = {v}"])
    else:
        line = source.choice(CHANGES[slot.kind])
    if source.random() < 0.1:
        same = [s for s in slots if s.kind == slot.kind and s is not slot]
        if same:
            line, value = "{s} = {v}", source.choice(same).reference
    # What is passed by the caller is held in a variable of the factory, and passed anew.
    return [part.format(s=slot.reference, v=value, k=source.randint(0, 3)) for part in line.split("\n")]


def _module_state(slots: list[Slot]) -> str:
    lines = [f"{slot.name} = None" for slot in slots if slot.place == "global"]
    return "\n" + "\n".join(lines) + "\n\n" if lines else "\n"


def _factory(draft: Draft) -> str:
    slots = draft.slots
    lines = ["@program(whole=False)", f"def seed_{draft.seed}():"]
    globals_ = [s.name for s in slots if s.place == "global"]
    if globals_:
        lines.append(f"    global {', '.join(globals_)}")
    # The classes outlive a run, and a program may have written to any of them, or to the class of tensors.
    lines.append("    for kind in (Base, Node, Other, torch.Tensor):")
    lines.append("        if 'seen' in vars(kind):")
    lines.append("            del kind.seen")
    lines.append("    Base.n = 2")
    lines.append("    Other.n = 7")
    lines.append("    holder = types.SimpleNamespace()")
    lines.append("    table = {}")
    lines.append("    row = [None] * 4")
    lines += [f"    {s.reference} = {s.initial}" for s in slots]
    lines += ["", *_function(draft), ""]
    for number, change in enumerate(draft.changes):
        lines += [*_change_function(draft, number, change), ""]
    changes = ", ".join(f"change{n}" for n in range(len(draft.changes)))
    lines.append(
        f"    return Case(f, {_call_arguments(slots)}, then=[{changes}], observe=[holder, table, row, Base, Other])"
    )
    return "\n" + "\n".join(lines) + "\n"


def _parameters(slots: list[Slot]) -> str:
    parts = ["r"]
    parts += [s.name for s in slots if s.place == "argument"]
    parts += [f"{s.name}={s.name}" for s in slots if s.place == "default"]
    keyword = [f"{s.name}={s.name}" for s in slots if s.place == "keyword"]
    return ", ".join(parts + (["*", *keyword] if keyword else []))


def _call_arguments(slots: list[Slot]) -> str:
    return ", ".join(["vector()"] + [s.name for s in slots if s.place == "argument"])


def _function(draft: Draft) -> list[str]:
    lines = [f"    def f({_parameters(draft.slots)}):"]
    written = {s.name for s in draft.slots if s.place == "global"}
    if written:
        lines.append(f"        global {', '.join(sorted(written))}")
    cells = [s.name for s in draft.slots if s.place == "cell"]
    if cells:
        lines.append(f"        nonlocal {', '.join(cells)}")
    for statement in draft.statements:
        lines += [f"        {line}" for line in statement]
    return [*lines, "        return r"]


def _change_function(draft: Draft, number: int, change: list[str]) -> list[str]:
    lines = [f"    def change{number}():"]
    globals_ = [s.name for s in draft.slots if s.place == "global"]
    if globals_:
        lines.append(f"        global {', '.join(globals_)}")
    outer = [s.name for s in draft.slots if s.place in ("cell", "argument", "default", "keyword")]
    if outer:
        lines.append(f"        nonlocal {', '.join(outer)}")
    # A change may not fit what the state has become; then it changes nothing, in both runs.
    lines += ["        try:", *[f"            {line}" for line in change], "        except Exception:"]
    lines += ["            pass"]
    lines += _refresh_defaults(draft.slots)
    return [*lines, f"        return Args({_call_arguments(draft.slots)})"]


def _refresh_defaults(slots: list[Slot]) -> list[str]:
    lines = []
    defaults = [s.name for s in slots if s.place == "default"]
    if defaults:
        lines.append(f"        f.__defaults__ = ({', '.join(defaults)},)")
    keyword = [f"{s.name}={s.name}" for s in slots if s.place == "keyword"]
    if keyword:
        lines.append(f"        f.__kwdefaults__ = dict({', '.join(keyword)})")
    return lines
