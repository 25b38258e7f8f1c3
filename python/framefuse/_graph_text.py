"""Graphs in text form (backends/graph/print.cpp) as lines: what a piece needs, the same in fp64, the same as Python code."""

import dataclasses
import re
import struct
from collections.abc import Iterable

import torch

from framefuse._torch_backend import DTYPES

_TYPE = r"\w+(?:\[[^\]]*\])?(?:\{[^}]*\})?"
_DEFINITION = re.compile(rf"%(\w+): ({_TYPE})")
_NODE = re.compile(r"(?:(.*?) = )?(\w+(?:\.\w+)+)\((.*)\)$")
_USE = re.compile(r"%(\w+)")
_SYMBOL = re.compile(r"^symbol (\w+)(: float|: bool)? = (\S+).*\n", re.MULTILINE)
_NARROW = {"f32": "f64", "f16": "f64", "bf16": "f64", "c64": "c128"}
TORCH_NAMES = {name: str(dtype) for dtype, name in DTYPES.items()} | {
    name: f"torch.{name}" for name in ("strided", "contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
}
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|%\w+|[A-Za-z_][\w.]*(?::\d+)?|[^"%A-Za-z_]+')


@dataclasses.dataclass
class Node:
    """One operator."""

    text: str  # without its place
    place: str  # file:line in function: source
    results: "list[tuple[str, str]]"  # name, type
    uses: "set[str]"


@dataclasses.dataclass
class GraphText:
    """A functional graph without symbols."""

    inputs: "list[tuple[str, str]]"  # name, type
    constants: "dict[str, str]"  # line by name
    nodes: "list[Node]"
    outputs: "list[str]"

    def __str__(self) -> str:
        inputs = [f"input %{name}: {type} argument" for name, type in self.inputs]
        nodes = [node.text + (f"  # {node.place}" if node.place else "") for node in self.nodes]
        used = set().union(*(node.uses for node in self.nodes), self.outputs)
        constants = [line for name, line in self.constants.items() if name in used]
        outputs = [f"output %{name} user" for name in self.outputs]
        return "\n".join(['graph "piece" functional', *inputs, *constants, *nodes, *outputs, ""])

    def needed(self, outputs: "list[str]", given: "Iterable[str]" = ()) -> "GraphText":
        """What computes `outputs` alone, with the values `given` as inputs."""
        types = {name: _own_storage(type) for node in self.nodes for name, type in node.results}
        known = dict(self.inputs) | {name: types[name] for name in given}
        wanted, nodes = set(outputs), []
        for node in reversed(self.nodes):
            names = {name for name, _ in node.results}
            if names & wanted - known.keys():
                nodes.insert(0, node)
                wanted |= node.uses
        return GraphText([(name, type) for name, type in known.items() if name in wanted], self.constants, nodes, outputs)

    def python(self, name: str) -> str:
        """The same as a function of torch's operators."""
        lines = [f"def {name}({', '.join(f'v{n}' for n, _ in self.inputs)}):"]
        used = set().union(*(node.uses for node in self.nodes), self.outputs)
        for constant, line in self.constants.items():
            if constant in used:
                lines.append(f"    v{constant} = {_python_constant(line)}")
        for node in self.nodes:
            lines.append(f"    {_python_node(node)}" + (f"  # {node.place}" if node.place else ""))
        return "\n".join([*lines, f"    return [{', '.join(f'v{n}' for n in self.outputs)}]"])


def parse(text: str) -> GraphText:
    """Read what backends/graph/print.cpp wrote of a graph. Symbols are left out: sizes that name them are text."""
    graph = GraphText([], {}, [], [])
    for line in text.splitlines()[1:]:
        word = line.partition(" ")[0]
        if word == "input":
            graph.inputs.append(_definition(line))
        elif word == "constant":
            graph.constants[_definition(line)[0]] = line
        elif word == "output":
            graph.outputs.append(line.split()[1].removeprefix("%"))
        elif word not in ("backward", "symbol", ""):
            graph.nodes.append(_node(line))
    return graph


def with_numbers(text: str, symbols: "list[int]") -> str:
    """Put the values of a call for the symbols; a float's are its bits."""
    found = _SYMBOL.findall(text)
    text = _SYMBOL.sub("", text)
    for (name, kind, _), value in zip(found, symbols, strict=True):
        number = {"": str(value), ": bool": str(bool(value)), ": float": repr(struct.unpack("d", struct.pack("q", value))[0])}[kind]
        text = re.sub(rf"\b{name}\b", number, text)
    return text


def in_f64(graph: GraphText) -> GraphText:
    """The same graph, where all floats are fp64."""
    wide = re.compile(rf"\b({'|'.join(_NARROW)})\b")

    def widened(text):
        return wide.sub(lambda match: _NARROW[match[1]], text)

    return GraphText(
        [(name, widened(type)) for name, type in graph.inputs],
        {name: widened(line) for name, line in graph.constants.items()},
        [dataclasses.replace(node, text=widened(node.text)) for node in graph.nodes],
        graph.outputs,
    )


def _definition(line: str) -> "tuple[str, str]":
    match = _DEFINITION.search(line)
    if match is None:
        raise ValueError(f"no value is defined in: {line}")
    return match[1], match[2]


def _node(line: str) -> Node:
    text, _, place = line.partition("  # ")
    match = _NODE.match(text)
    if match is None:
        raise ValueError(f"no node: {line}")
    return Node(text, place, _DEFINITION.findall(match[1] or ""), set(_USE.findall(match[3])))


def _own_storage(type: str) -> str:
    return re.sub(r"(?:, )?storage=\d+", "", type).replace("{, ", "{").replace("{}", "")


def python_value(text: str) -> str:
    def token(match):
        word = match[0]
        if word[0] == "%":
            return f"v{word[1:]}"
        if word in ("inf", "nan"):
            return f'float("{word}")'
        if re.fullmatch(r"(cpu|cuda|meta)(:\d+)?", word):
            return f'"{word}"'
        return TORCH_NAMES.get(word, word)

    return _TOKEN.sub(token, text)


def call_of(node: Node) -> "tuple[str, str]":
    """The operator with its overload, as in aten.add.Tensor, and the text of the arguments."""
    _, name, arguments = _NODE.match(node.text).groups()  # type: ignore[union-attr]
    return name if name.count(".") > 1 else f"{name}.default", arguments


def results_of(node: Node) -> "list[str | None]":
    """The names of all results in their order; None: one that is not used, which has none."""
    results, _, _ = _NODE.match(node.text).groups()  # type: ignore[union-attr]
    return [match[1] for match in re.finditer(rf"%(\w+): {_TYPE}|\b_\b", results or "")]


def _python_node(node: Node) -> str:
    results, _, _ = _NODE.match(node.text).groups()  # type: ignore[union-attr]
    name, arguments = call_of(node)
    made = _DEFINITION.sub(r"v\1", results) if results else "_"
    return f"{made} = torch.ops.{name}({python_value(arguments)})"


def kind_of_constant(line: str) -> "tuple[torch.dtype, list[int], str, bool]":
    """dtype, sizes, device, and whether it is a number of Python that torch made a tensor of."""
    _, type = _definition(line)
    dtype, _, rest = type.partition("[")
    sizes, _, extras = rest.partition("]")
    device = re.search(r"device=([\w:]+)", extras)
    shape = [int(n) for n in sizes.split(",") if n.strip()]
    return next(d for d, name in DTYPES.items() if name == dtype), shape, device[1] if device else "cpu", "wrapped" in extras


def _python_constant(line: str) -> str:
    dtype, sizes, _, _ = kind_of_constant(line)
    return f"torch.tensor({python_value(line.partition(' = ')[2])}, dtype={dtype}).reshape({sizes})"
