"""A graph's text as a drawing: operators in rows, what they read above them. Knows nothing of HTML or SVG."""

import dataclasses
import re

_TYPE = r"(\w+\[[^\]]*\])"
_INPUT = re.compile(rf"^input %(\w+): {_TYPE}")
_NODE = re.compile(r"^(%\w+: .*?) = ([\w.]+)\((.*)$")
_RESULT = re.compile(rf"%(\w+): {_TYPE}")
_OUTPUT = re.compile(r"^output %(\w+)")
_USED = re.compile(r"%(\w+)")

_MOST_NODES = 80  # more is not readable
_LETTER, _PADDING, _HEIGHT, _GAP, _ROW = 7.2, 16, 24, 14, 52


@dataclasses.dataclass
class Box:
    """A node, by its middle."""

    label: str
    about: str  # the line of the text
    kind: str  # "input", "node", "result"
    row: int = 0
    x: float = 0
    y: float = 0
    width: float = 0
    reads: "list[Box]" = dataclasses.field(default_factory=list, repr=False)


@dataclasses.dataclass
class Drawing:
    """Boxes, and lines between them (x1, y1, x2, y2)."""

    boxes: "list[Box]"
    lines: "list[tuple[float, float, float, float]]"
    width: float
    height: float


def draw(text: str) -> "Drawing | None":
    """Lay the graph out; None where there is nothing to draw, or too much of it."""
    boxes = _boxes(text)
    if not any(box.kind != "input" for box in boxes) or len(boxes) > _MOST_NODES:
        return None
    for box in boxes:  # in the order of the text: what is read comes first
        box.row = max((read.row + 1 for read in box.reads), default=0)
    for box in boxes:
        if box.kind == "input":  # right above its first reader
            box.row = max(min((reader.row for reader in boxes if box in reader.reads), default=1) - 1, 0)
    rows: "dict[int, list[Box]]" = {}
    for box in boxes:
        box.width = len(box.label) * _LETTER + _PADDING
        rows.setdefault(box.row, []).append(box)
    widths = {row: sum(box.width + _GAP for box in members) for row, members in rows.items()}
    width = max(widths.values()) + _GAP
    for row, members in sorted(rows.items()):
        members.sort(key=lambda box: sum(read.x for read in box.reads) / max(len(box.reads), 1))
        left = (width - widths[row] + _GAP) / 2
        for box in members:
            box.x, box.y = left + box.width / 2, row * _ROW + _HEIGHT
            left += box.width + _GAP
    lines = [(read.x, read.y + _HEIGHT / 2, box.x, box.y - _HEIGHT / 2) for box in boxes for read in box.reads]
    return Drawing(boxes, lines, width, max(rows) * _ROW + 2 * _HEIGHT)


def _boxes(text: str) -> "list[Box]":
    made: "dict[str, Box]" = {}
    boxes: "list[Box]" = []
    for whole in text.splitlines():
        line = whole.partition("  # ")[0]
        if found := _INPUT.match(line):
            boxes.append(Box(f"%{found[1]} {found[2]}", line, "input"))
            made[found[1]] = boxes[-1]
        elif found := _NODE.match(line):
            results = _RESULT.findall(found[1])
            label = found[2].removeprefix("aten.") + (f" {results[0][1]}" if results else "")
            reads = [made[name] for name in dict.fromkeys(_USED.findall(found[3])) if name in made]
            boxes.append(Box(label, whole, "node", reads=_once(reads)))
            made.update((name, boxes[-1]) for name, _ in results)
        elif (found := _OUTPUT.match(line)) and found[1] in made and made[found[1]].kind == "node":
            made[found[1]].kind = "result"
    return boxes


def _once(boxes: "list[Box]") -> "list[Box]":
    return list({id(box): box for box in boxes}.values())
