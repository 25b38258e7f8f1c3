"""Makes a failing graph small: fewer outputs, then fewer nodes, whose values become inputs (delta debugging)."""

from collections.abc import Callable

import torch

from framefuse import _accuracy
from framefuse._graph_text import GraphText

Case = tuple[GraphText, "list[torch.Tensor]"]
Fails = Callable[[GraphText, "list[torch.Tensor]"], bool]


def differs(graph: GraphText, inputs: "list[torch.Tensor]") -> bool:
    """Kernels compute something else than ATen."""
    try:
        return bool(_accuracy.difference(graph, inputs, _accuracy.evaluate(graph, inputs, "fuse")))
    except Exception:  # another failure, or no graph that can be run
        return False


def raises(message: str) -> Fails:
    """The backend raises an error like this one where ATen raises none."""
    start = message.splitlines()[0][:40] if message else ""

    def fails(graph, inputs):
        try:
            _accuracy.evaluate(graph, inputs, "aten")
        except Exception:
            return False
        try:
            _accuracy.evaluate(graph, inputs, "fuse")
        except Exception as error:
            return start in str(error)
        return False

    return fails


def minify(graph: GraphText, inputs: "list[torch.Tensor]", fails: Fails) -> Case:
    """The smallest graph found that still fails, with its inputs; the same one if it does not fail here."""
    with torch.no_grad():
        if not fails(graph, inputs):
            return graph, inputs
        values = _all_values(graph, inputs)
        graph = _with_first_output(graph, values, fails)
        return _with_fewer_nodes(graph, values, fails)


def first_failing(graph: GraphText, inputs: "list[torch.Tensor]", fails: Fails) -> "str | None":
    """The first operator, with its place, up to which the graph fails; None where no single value does."""
    with torch.no_grad():
        found = _with_first_output(graph, _all_values(graph, inputs), fails)
    if not found.nodes or len(found.outputs) != 1:
        return None
    node = found.nodes[-1]
    return node.text + (f"  # {node.place}" if node.place else "")


def _all_values(graph, inputs):
    names = [name for node in graph.nodes for name, type in node.results if "[" in type]
    everything = graph.needed(names)
    known = dict(zip((name for name, _ in graph.inputs), inputs, strict=True))
    results = _accuracy.evaluate(everything, [known[name] for name, _ in everything.inputs], "aten")
    return known | {name: value for name, value in zip(names, results, strict=True) if value is not None}


def _given(graph, values):
    return [values[name] for name, _ in graph.inputs]


def _with_first_output(graph, values, fails):
    """One output: the first value that fails, whether or not it was one."""
    for node in graph.nodes:
        for name, _ in node.results:
            candidate = graph.needed([name])
            if name in values and fails(candidate, _given(candidate, values)):
                return candidate
    for name in graph.outputs:
        candidate = graph.needed([name])
        if fails(candidate, _given(candidate, values)):
            return candidate
    return graph.needed(graph.outputs)


def _with_fewer_nodes(graph, values, fails):
    size = max(1, len(graph.nodes) // 2)
    while True:
        smaller = _cut_once(graph, values, fails, size)
        if smaller is not None:
            graph = smaller
            size = max(1, min(size, len(graph.nodes) // 2))
        elif size == 1:
            return graph, _given(graph, values)
        else:
            size //= 2


def _cut_once(graph, values, fails, size):
    for begin in range(0, len(graph.nodes), size):
        names = {name for node in graph.nodes[begin : begin + size] for name, _ in node.results}
        if names & set(graph.outputs) or not names <= values.keys():
            continue
        candidate = graph.needed(graph.outputs, sorted(names))
        if len(candidate.nodes) < len(graph.nodes) and fails(candidate, _given(candidate, values)):
            return candidate
    return None
