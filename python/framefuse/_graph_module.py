"""A package's graph as torch's own kinds of graph: an fx.GraphModule, and the ExportedProgram of torch.export.

Arguments are the tensors of the package's signature, one by one; results a tuple. Sizes that are symbolic are read of the arguments.
"""

import ast
import collections
import keyword
import operator
import re
from typing import Any

import torch
from torch.fx.proxy import GraphAppendingTracer, Proxy

from framefuse import _graph_text

_ARGUMENT = re.compile(r'^input %(\w+): .*? argument "((?:[^"\\]|\\.)*)"', re.MULTILINE)
_WEIGHT = re.compile(r'^input %(\w+): .*? parameter "((?:[^"\\]|\\.)*)"', re.MULTILINE)
_USER = re.compile(r"^output %(\w+) user", re.MULTILINE)
_SYMBOL = re.compile(r"^symbol (\w+)", re.MULTILINE)
_DEFINES = re.compile(r"^output %(\w+) defines=(\d+) dim=(\d+)", re.MULTILINE)
_OPERATORS: "dict[type, Any]" = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.Not: torch.sym_not,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}
_FUNCTIONS: "dict[str, Any]" = {
    "min": torch.sym_min,
    "max": torch.sym_max,
    "int": torch.sym_int,
    "float": lambda value: float(value) if isinstance(value, str) else torch.sym_float(value),
    "complex": complex,
}


def graph_module(texts: "dict[str, str]", weights: "dict[str, torch.Tensor]") -> torch.fx.GraphModule:
    """The graph of a package with these texts; the weights are the very tensors."""
    return _Writer(texts, weights).module()


def exported_program(texts: "dict[str, str]", weights: "dict[str, torch.Tensor]", tensors: "list[torch.Tensor]") -> Any:
    """torch.export of the same, with the package's symbolic sizes, by a call with these tensors."""
    dynamic: "list[dict[int, Any]]" = [{} for _ in tensors]
    for _, argument, dim in _symbols(texts):
        dynamic[argument][dim] = torch.export.Dim.AUTO
    return torch.export.export(graph_module(texts, weights), tuple(tensors), dynamic_shapes=tuple(dynamic))


def _symbols(texts):
    """(name, argument, dimension) of the sizes of arguments."""
    return [(name, int(argument), int(dim)) for name, argument, dim in (line.split() for line in texts["symbols"].splitlines())]


class _Writer:
    def __init__(self, texts, weights):
        self._texts, self._weights = texts, weights
        self._parsed = _graph_text.parse(texts["graph"])
        self._root = torch.nn.Module()
        self._graph = torch.fx.Graph()
        self._tracer = GraphAppendingTracer(self._graph)
        # What the names of the text stand for.
        self._known: "dict[str, Any]" = {}
        self._computed = collections.defaultdict(list)  # value: the symbols that are sizes of it
        symbols = _SYMBOL.findall(texts["graph"])
        for value, place, dim in _DEFINES.findall(texts["graph"]):
            self._computed[value].append((symbols[int(place)], int(dim)))

    def module(self):
        text = self._texts["graph"]
        arguments = _ARGUMENT.findall(text)
        for (value, _), name in zip(arguments, _identifiers([name for _, name in arguments])):
            self._define(value, Proxy(self._graph.placeholder(name), self._tracer))
        for symbol, argument, dim in _symbols(self._texts):
            self._known[symbol] = self._size(self._known[f"v{arguments[argument][0]}"], dim)
        for value, name in _WEIGHT.findall(text):
            self._define(value, self._attribute(name.replace('\\"', '"').replace("\\\\", "\\"), self._weights))
        for value, line in self._parsed.constants.items():
            self._define(value, self._constant(value, line))
        for node in self._parsed.nodes:
            self._call(node)
        users = _USER.findall(text)
        results = [self._known[f"v{users[int(place)]}"].node for place in self._texts["results"].split()]
        self._graph.output(tuple(results))
        self._graph.eliminate_dead_code()
        module = torch.fx.GraphModule(self._root, self._graph, "Exported")
        self._graph.lint()
        return module

    def _define(self, value, proxy):
        self._known[f"v{value}"] = proxy
        for symbol, dim in self._computed[value]:
            self._known[symbol] = self._size(proxy, dim)

    def _size(self, proxy, dim):
        return self._tracer.create_proxy("call_function", torch.ops.aten.sym_size.int, (proxy, dim), {})

    def _attribute(self, name, weights):
        """A module for each part of the name before the last."""
        owner, parts = self._root, name.split(".")
        for part in parts[:-1]:
            if part not in owner._modules:
                owner.add_module(part, torch.nn.Module())
            owner = owner._modules[part]
        tensor = weights[name]
        if tensor.is_floating_point() or tensor.is_complex():
            owner.register_parameter(parts[-1], torch.nn.Parameter(tensor, requires_grad=False))
        else:
            owner.register_buffer(parts[-1], tensor)
        return Proxy(self._graph.get_attr(name), self._tracer)

    def _constant(self, value, line):
        content = line.partition(" = ")[2]
        numbers = self._read(content)[0][0]
        dtype, sizes, device, wrapped = _graph_text.kind_of_constant(line)
        if wrapped:  # a number of Python: it has no part in what dtype a result has
            return numbers[0]
        name = f"constant_{value}"
        return self._attribute(name, {name: torch.tensor(numbers, dtype=dtype, device=device).reshape(sizes)})

    def _read(self, text):
        """Positional and named arguments. Nothing of the text runs: it may come from a file."""
        call = ast.parse(f"f({_graph_text.python_value(text)})", mode="eval").body
        assert isinstance(call, ast.Call)
        return [self._value(argument) for argument in call.args], {str(word.arg): self._value(word.value) for word in call.keywords}

    def _value(self, tree):
        if isinstance(tree, ast.Constant):
            return tree.value
        if isinstance(tree, ast.Name) and tree.id in self._known:
            return self._known[tree.id]
        if isinstance(tree, ast.List):
            return [self._value(item) for item in tree.elts]
        if isinstance(tree, ast.UnaryOp) and type(tree.op) in _OPERATORS:
            return _OPERATORS[type(tree.op)](self._value(tree.operand))
        if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
            return _OPERATORS[type(tree.op)](self._value(tree.left), self._value(tree.right))
        if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and type(tree.ops[0]) in _OPERATORS:
            return _OPERATORS[type(tree.ops[0])](self._value(tree.left), self._value(tree.comparators[0]))
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in _FUNCTIONS and not tree.keywords:
            return _FUNCTIONS[tree.func.id](*map(self._value, tree.args))
        if isinstance(tree, ast.Attribute) and ast.unparse(tree) in _graph_text.TORCH_NAMES.values():
            return getattr(torch, tree.attr)
        raise ValueError(f"{ast.unparse(tree)} of the graph has no form in torch.fx")

    def _call(self, node):
        name, text = _graph_text.call_of(node)
        function = torch.ops
        for part in name.split("."):
            function = getattr(function, part)
        arguments, keywords = self._read(text)
        result = self._tracer.create_proxy("call_function", function, tuple(arguments), keywords)
        result.node.meta["stack_trace"] = node.place
        returns = function._schema.returns
        several = len(returns) > 1 or (len(returns) == 1 and isinstance(returns[0].type, torch._C.ListType))
        for i, value in enumerate(_graph_text.results_of(node)):
            if value is not None:
                self._define(value, result[i] if several else result)


def _identifiers(names):
    """Arguments' names as parameters of a function, each its own: batch['ids'] is batch_ids."""
    taken: "set[str]" = set()
    for name in names:
        word = re.sub(r"\W+", "_", name).strip("_") or "argument"
        word = f"argument_{word}" if word[0].isdigit() or keyword.iskeyword(word) else word
        while word in taken:
            word += "_"
        taken.add(word)
        yield word
