"""Makes random programs: state in every kind of place, statements that read it, changes that a guard must see.

A draft is lists of text lines; rendered, it is a conformance program as a person would write it, so that a failure can
be kept as a test as it is. The words come from the modules grammar_*. Invariant: a draft is a function of its seed
alone, and dropping any statement or change leaves a valid program.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping
from typing import Any

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
    program_text,
)
from conformance.fuzz.open_bugs import OPEN_KINDS, without_open
from conformance.fuzz.vocabulary import DELETABLE, PASSED, PLACES, Kind, Topic, place_reference

KINDS: dict[str, Kind] = (
    grammar_values.KINDS
    | grammar_tensors.KINDS
    | grammar_masks.KINDS
    | grammar_classes.KINDS
    | grammar_modules.KINDS
    | grammar_library.KINDS
)
TOPICS: dict[str, Topic] = (
    grammar_operators.TOPICS
    | grammar_library.TOPICS
    | grammar_breaks.TOPICS
    | grammar_outcomes.TOPICS
    | grammar_states.TOPICS
    | grammar_training.TOPICS
)

# Every third program is for a backend with kernels of its own: it draws nothing whose results depend on rounding.
BACKENDS_IN_TURN = ("aten", "fuse", "fx")
_ROUNDING = "fuse"


def backend_of(seed: int) -> str:
    return BACKENDS_IN_TURN[seed % len(BACKENDS_IN_TURN)]


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

    def has_long_loop(self) -> bool:
        return any("0000)" in line for statement in self.statements for line in statement)

    def without_slot(self, index: int) -> Draft | None:
        """None if something still uses the slot."""
        name, reference = self.slots[index].name, self.slots[index].reference
        lines = [line for part in self.statements + self.changes for line in part]
        lines += [slot.initial for slot in self.slots]
        if any(name in line or reference in line for line in lines):
            return None
        return dataclasses.replace(self, slots=self.slots[:index] + self.slots[index + 1 :])

    def render(self, doc: str = "A fuzzed program.") -> str:
        """The program's file."""
        function = _function(self)
        changes = [_change_function(self, number, change) for number, change in enumerate(self.changes)]
        body = "\n".join([*(s.initial for s in self.slots), *function, *(line for c in changes for line in c)])
        definitions, names = program_text.definition_lines(body)
        lines = ["@program(whole=False)", f"def seed_{self.seed}():"]
        globals_ = [s.name for s in self.slots if s.place == "global"]
        lines += [f"    global {', '.join(globals_)}"] if globals_ else []
        lines += program_text.indented(definitions)
        if ".seen = " in body:  # the one name that a program may give to the class of tensors
            lines += ["    if 'seen' in vars(torch.Tensor):", "        del torch.Tensor.seen"]
        lines += ["    holder = types.SimpleNamespace()", "    table = {}", "    row = [None] * 6"]
        lines += [f"    {s.reference} = {s.initial}" for s in self.slots]
        for part in [function, *changes]:
            lines += ["", *part]
        then = ", ".join(f"change{n}" for n in range(len(self.changes)))
        observe = ", ".join(["holder", "table", "row", *names])
        lines += ["", f"    return Case(f, {_call_arguments(self.slots)}, then=[{then}], observe=[{observe}])"]
        state = [f"{name} = None" for name in globals_]
        text = "\n\n" + "\n".join([*state, "", ""] if state else []) + "\n".join(lines) + "\n"
        return program_text.head(doc, body + text) + text


def make_draft(seed: int) -> Draft:
    source = random.Random(seed)
    words = _Words(source, backend_of(seed))
    slots: list[Slot] = []
    for number in range(source.randint(1, 4)):
        slots.append(words.slot(number, slots))
    statements = [words.statement(slots) for _ in range(source.randint(2, 8))]
    changes = [words.change(slots) for _ in range(source.randint(5, 11))]
    return Draft(seed, slots, statements, changes)


class _Words:
    """Draws from the tables."""

    def __init__(self, source: random.Random, backend: str):
        self.source = source
        self.backend = backend
        self.used: list[str] = []  # topics that have changes
        self.kinds = self._allowed(KINDS)
        self.topics = self._allowed(TOPICS)

    def _allowed(self, table: Mapping[str, Kind | Topic]) -> tuple[list[str], list[int]]:
        names = [name for name, row in table.items() if self.backend != _ROUNDING or not row.rounds]
        names = [name for name in names if (self.backend, name) not in OPEN_KINDS]
        return names, [table[name].weight for name in names]

    def _one_of(self, patterns: list) -> Any:
        return self.source.choice(without_open(patterns, self.backend))

    def _drawn(self, choice: tuple[list[str], list[int]]) -> str:
        return self.source.choices(choice[0], choice[1])[0]

    def slot(self, number: int, others: list[Slot]) -> Slot:
        source = self.source
        kind = self._drawn(self.kinds)
        if others and source.random() < 0.3:
            kind = source.choice(others).kind
        place = source.choice(PLACES)
        name = f"s{number}"
        twins = [o for o in others if o.kind == kind and o.place not in PASSED]
        initial = self._one_of(KINDS[kind].initial)
        # An alias of an earlier slot, or a view of one, where the factory can name it.
        if twins and source.random() < 0.4:
            initial = source.choice(twins).reference
            if kind == "tensor" and source.random() < 0.6:
                initial = f"cut({initial}, {source.randint(0, 2)}, {source.choice((1, 1, 2))})"
        return Slot(name, kind, place, place_reference(place, name), initial)

    def statement(self, slots: list[Slot]) -> list[str]:
        source = self.source
        number = source.randint(0, 3)
        if source.random() < 0.4:
            name = self._drawn(self.topics)
            topic = TOPICS[name]
            self.used += [name] if topic.changes else []
            lines = [line.format(k=number) for line in self._one_of(topic.statements)]
            return self._surrounded(lines, may_be_inner=False)
        slot = source.choice(slots)
        same = [s for s in slots if s.kind == slot.kind]
        other = source.choice(same)
        roll = source.random()
        if roll < 0.1 and other is not slot:
            return [f"r = r * 2 if {slot.reference} is {other.reference} else r + 3"]
        kind = KINDS[slot.kind]
        patterns = kind.writes if roll > 0.72 else kind.reads
        pattern = self._one_of(patterns)
        if slot.place == "item" and any("del {s}" in line for line in pattern):
            pattern = self._one_of(kind.reads)
        lines = [line.format(s=slot.reference, o=other.reference, k=number) for line in pattern]
        return self._surrounded(lines, may_be_inner=patterns is kind.reads)

    def _surrounded(self, lines: list[str], may_be_inner: bool) -> list[str]:
        """The lines as they are, or inside a condition, a callee, a block; or with output beside them, which is a break."""
        source = self.source
        roll = source.random()
        inside = program_text.indented(lines)
        if roll < 0.30:
            return ["try:", *inside, "except Exception as error:", "    r = r + len(type(error).__name__)"]
        if roll < 0.36:
            return [f"if r.dim() == {source.randint(0, 2)}:", *inside]
        if roll < 0.44 and may_be_inner:
            return ["def inner(r):", *inside, "    return r", "", "r = inner(r)"]
        if roll < 0.48:
            return ["try:", *inside, "finally:", "    r = r + 1"]
        if roll < 0.51:
            return ["with torch.no_grad():", *inside]
        if roll < 0.55:
            return ["for _ in range(2):", *inside]
        if roll < 0.59:
            return [*lines, "print(r.dim())"]
        return lines

    def change(self, slots: list[Slot]) -> list[str]:
        source = self.source
        roll = source.random()
        if roll < 0.12:
            return ["pass"]
        if roll < 0.26:
            # Of what statements read, mostly.
            of_used = self.used and source.random() < 0.8
            topic = TOPICS[source.choice(self.used) if of_used else self._drawn(self.topics)]
            if topic.changes:
                return source.choice(topic.changes).format(k=source.randint(0, 3)).split("\n")
        slot = source.choice(slots)
        kind = KINDS[slot.kind]
        # Changes of a type must not reach torch's own.
        of_own_types = slot.kind in ("instance", "module", "record", "choice")
        kinds = [slot.kind] * 4 + ([] if of_own_types else ["number", "tensor"])
        value = self._one_of(KINDS[source.choice(kinds)].initial)
        line = "{s} = {v}" if source.random() < 0.25 else self._one_of(kind.changes)
        if line.startswith("del {s}") and line == "del {s}" and slot.place not in DELETABLE:
            line = "{s} = {v}"
        other = source.choice([s for s in slots if s.kind == slot.kind])
        if other is slot:
            line = line.replace("{o}", "({v})")
        elif source.random() < 0.1:
            line = "{s} = {o}"
        # What is passed by the caller is held in a variable of the factory, and passed anew.
        text = line.format(s=slot.reference, o=other.reference, v=value, k=source.randint(0, 3))
        return text.split("\n")


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
        lines += program_text.indented(statement, 8)
    return [*lines, "        return r"]


def _change_function(draft: Draft, number: int, change: list[str]) -> list[str]:
    lines = [f"    def change{number}():"]
    globals_ = [s.name for s in draft.slots if s.place == "global"]
    if globals_:
        lines.append(f"        global {', '.join(globals_)}")
    outer = [s.name for s in draft.slots if s.place in ("cell", *PASSED)]
    if outer:
        lines.append(f"        nonlocal {', '.join(outer)}")
    # A change may not fit what the state has become; then it changes nothing, in both runs.
    lines += ["        try:", *program_text.indented(change, 12), "        except Exception:", "            pass"]
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
