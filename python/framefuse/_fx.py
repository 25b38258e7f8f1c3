"""The FX side of a Python backend: builds an `fx.GraphModule` from what a capture recorded and calls the backend with it.

Called by C++ after a capture has ended. Values are known by identity: a fake that is an argument somewhere must have been an input or
part of an earlier result. Nothing here computes with fakes; only their identity and metadata are used.
"""

import keyword
import operator
import re

import torch
from torch import fx

from framefuse._errors import BackendError


class _GraphBuilder:
    def __init__(self, inputs):
        self.graph = fx.Graph()
        self._nodes = {}  # id of a fake → its node; the capture keeps fakes alive while we run
        self._parts = []  # getitem nodes that _note added, used or not
        for name, fake, real in inputs:
            node = self.graph.placeholder(_identifier(name))
            node.meta["example_value"] = real
            self._nodes[id(fake)] = node

    def add(self, op, target, args, kwargs, result):
        if op == "get_attr":  # an attribute of a tensor, args are (tensor, name): a call of getattr, as torch records it
            op, target = "call_function", getattr
        node = self.graph.create_node(op, target, self._with_nodes(args), self._with_nodes(kwargs))
        self._note(result, node)

    def output(self, fakes):
        self.graph.output(tuple(self._with_nodes(fake) for fake in fakes))
        for part in reversed(self._parts):
            if not part.users:
                self.graph.erase_node(part)

    def _with_nodes(self, value):
        """`value` with nodes for fakes, to any depth of list, tuple, dict and slice."""
        if isinstance(value, torch.Tensor):
            node = self._nodes.get(id(value))
            if node is None:
                raise RuntimeError(f"a tensor of shape {tuple(value.shape)} was used that no recorded call returned")
            return node
        if isinstance(value, (list, tuple)):
            items = [self._with_nodes(item) for item in value]
            return _same_sequence(value, items)
        if isinstance(value, dict):
            return {key: self._with_nodes(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(*(self._with_nodes(part) for part in (value.start, value.stop, value.step)))
        return value

    def _note(self, result, node):
        """Remember which node gives each fake of a result; parts of a sequence become getitem nodes."""
        if isinstance(result, torch.Tensor):
            self._nodes[id(result)] = node
        elif isinstance(result, (list, tuple)):
            self._note_parts(enumerate(result), node)
        elif isinstance(result, dict):
            self._note_parts(result.items(), node)

    def _note_parts(self, items, node):
        for key, part in items:
            if _holds_tensor(part):
                self._parts.append(self.graph.call_function(operator.getitem, (node, key)))
                self._note(part, self._parts[-1])


def _holds_tensor(value):
    if isinstance(value, (list, tuple)):
        return any(map(_holds_tensor, value))
    if isinstance(value, dict):
        return any(map(_holds_tensor, value.values()))
    return isinstance(value, torch.Tensor)


def _same_sequence(original, items):
    if hasattr(original, "_fields"):  # a namedtuple
        return type(original)(*items)
    return tuple(items) if isinstance(original, tuple) else items


def _identifier(text):
    """A Python identifier that reads like `text` (a source such as L['x'].weight), as torch's placeholder names do."""
    name = re.sub(r"[^0-9a-zA-Z]+", "_", text) or "value"
    return f"{name}_" if keyword.iskeyword(name) or name[0].isdigit() else name


def build_graph_module(inputs, nodes, outputs) -> fx.GraphModule:
    """Build the module; see `CompileOptions::fx_backend` in symbolic/capture/api.h for the three lists."""
    builder = _GraphBuilder(inputs)
    for op, target, args, kwargs, result in nodes:
        builder.add(op, target, args, kwargs, result)
    builder.output(outputs)
    builder.graph.lint()
    return fx.GraphModule(torch.nn.Module(), builder.graph)


def compile_graph(backend, keywords, inputs, nodes, outputs):
    """Build the graph module, give it to the user's backend, and return what the backend made, checked to be callable."""
    module = build_graph_module(inputs, nodes, outputs)
    examples = [real for _, _, real in inputs]
    try:
        compiled = backend.fx(module, examples, **keywords)
    except Exception as error:
        message = f"backend '{backend.name}' raised {type(error).__name__}: {error}"
        raise BackendError(message, backend.name) from error
    if not callable(compiled):
        raise BackendError(f"backend '{backend.name}' returned {type(compiled).__name__}, not a callable", backend.name)
    return compiled
