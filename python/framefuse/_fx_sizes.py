"""Symbolic sizes of FX graphs: the nodes that compute them, and the callable that serves all sizes.

C++ describes a symbolic number as a tree: an int, a float, ("symbol", number), or (operation, tree) or (operation, tree, tree).
"""

import builtins
import math
import operator
import threading

import torch
from torch import fx

from framefuse import _C
from framefuse._fake_mode import fake_mode, forget_tensors

# By the names that symbolic/executables/fx_numbers.cpp has. Each takes plain numbers and torch's symbolic ones.
OPERATIONS = {
    "add": operator.add, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod, "neg": operator.neg,
    "truediv": operator.truediv, "pow": operator.pow, "min": torch.sym_min, "max": torch.sym_max, "float": torch.sym_float,
    "int": math.trunc, "floor": math.floor, "ceil": math.ceil, "round": builtins.round, "sqrt": torch._sym_sqrt,
    "log2": torch._sym_log2, "abs": abs, "round_to": builtins.round,
    **{name: getattr(torch, f"_sym_{name}", getattr(math, name)) for name in (
        "log", "exp", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp2", "expm1", "log10",
        "log1p", "cbrt", "erf", "erfc", "atan2", "fmod", "copysign",
    )},
}  # fmt: skip
_MOST_SIZES = 1024  # that are known to be served
_MOST_CALLABLES = 16


class NumberNodes:
    """The nodes of a graph that stand for symbolic numbers."""

    def __init__(self, graph, symbols):
        self.used = set()  # symbols, by number
        self.trees = {}  # name of a node → its tree
        self._graph = graph
        self._nodes = {}
        for index, (name, _) in enumerate(symbols):
            self._keep(("symbol", index), graph.placeholder(name))

    def node(self, tree):
        """The node, or the number that it is. Raises KeyError where an operation has no form."""
        if not isinstance(tree, tuple):
            return tree
        known = self._nodes.get(repr(tree))  # 1 and 1.0 are two trees
        if known is None:
            name, *parts = tree
            known = self._keep(tree, self._graph.call_function(OPERATIONS[name], tuple(map(self.node, parts))))
        return known

    def placeholder(self, symbol):
        return self._nodes[repr(("symbol", symbol))]

    def _keep(self, tree, node):
        self._nodes[repr(tree)] = node
        self.trees[node.name] = tree
        return node


def _value_of(tree, symbols):
    if not isinstance(tree, tuple):
        return tree
    name, *parts = tree
    return symbols[parts[0]] if name == "symbol" else OPERATIONS[name](*(_value_of(part, symbols) for part in parts))


class SizedGraph:
    """A graph with symbolic sizes as a callable: the numbers come first, then the tensors.

    A backend may decide something by the sizes that it is shown, which torch's ShapeEnv notes. For sizes that are otherwise it is called again.
    """

    def __init__(self, make, module, symbols, shapes):
        """`make(module, examples)` calls the backend. `symbols`: (number, whether it is a size) of each placeholder for one; `shapes`: (sizes,
        strides) of each tensor, as trees, or None."""
        self._make = make
        self._module = _copy_of(module)  # the backend may change the one it gets
        self._symbols = symbols
        self._shapes = shapes
        self._made = []  # (_Admitted, callable)
        self._known = {}  # numbers → callable
        self._lock = threading.RLock()

    def __call__(self, *inputs):
        found = self._known.get(inputs[: len(self._symbols)])
        return (self._find(inputs) if found is None else found)(*inputs)

    def add(self, module, numbers, tensors):
        """Call the backend for sizes like these."""
        examples, admitted = _examples(numbers, tensors, self._symbols, self._shapes)
        made = self._make(module, examples)
        self._made.append((admitted, made))
        return made

    def _find(self, inputs):
        numbers, tensors = inputs[: len(self._symbols)], inputs[len(self._symbols) :]
        with self._lock, torch.set_grad_enabled(torch.is_grad_enabled()):
            found = next((made for admitted, made in self._made if admitted.holds(numbers)), None)
            if found is None and len(self._made) == _MOST_CALLABLES:
                _C.write_log("recompiles", f"an FX backend was called for {_MOST_CALLABLES} sets of sizes; others run operator by operator")
                found = self._module.forward
            elif found is None:
                found = self.add(_copy_of(self._module), numbers, tensors)
            if len(self._known) == _MOST_SIZES:
                self._known.clear()
            self._known[numbers] = found
        return found


def _copy_of(module):
    """Another module with the same tensors."""
    graph = fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    return fx.GraphModule(module, graph)


def _examples(numbers, tensors, symbols, shapes):
    """What a backend is shown, and for which numbers that holds."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    env = ShapeEnv()
    mode = fake_mode(shape_env=env)
    # Where two tensors share memory the backend is to see that they do, and sees all sizes as they are.
    apart = len({tensor.untyped_storage()._cdata for tensor in tensors}) == len(tensors)
    made = {
        number: _symbol(env, f"s{number}", value, is_size) if apart else (value, value)
        for (number, is_size), value in zip(symbols, numbers, strict=True)
    }
    known = {number: value for number, (value, _) in made.items()}
    admitted = _Admitted(env, [symbol for _, symbol in made.values()])
    fakes = [_fake_of(mode, tensor, shape, known) for tensor, shape in zip(tensors, shapes, strict=True)]
    forget_tensors(mode)
    return [*known.values(), *fakes], admitted


def _symbol(env, name, value, is_size):
    """torch's symbolic number and its symbol, or the number twice: a size that is 0 or 1 stays what it is."""
    from torch._dynamo.source import ConstantSource
    from torch.fx.experimental.symbolic_shapes import DimDynamic

    source = ConstantSource(name)
    if is_size and value < 2:
        return value, value
    make = env.create_symbol if is_size else env.create_unspecified_symbol
    symbol = make(value, source, DimDynamic.DYNAMIC)
    return env.create_symintnode(symbol, hint=value, source=source), symbol


def _fake_of(mode, tensor, shape, known):
    sizes, strides = ([_value_of(tree, known) for tree in part] for part in shape or (tensor.shape, tensor.stride()))
    if not any(isinstance(size, torch.SymInt) for size in (*sizes, *strides)):
        return plain_fake(mode, tensor)
    with mode:
        return torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=tensor.device, requires_grad=tensor.requires_grad)


def plain_fake(mode, tensor):
    """torch's FakeTensor for a tensor."""
    try:
        return mode.from_tensor(tensor, static_shapes=True)
    except Exception:  # an autograd history that torch cannot describe: a backend needs what the tensor is like
        with mode:
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device, requires_grad=tensor.requires_grad)


class _Admitted:
    """For which numbers a backend's work holds: those that its ShapeEnv's guards and ranges allow."""

    def __init__(self, env, symbols):
        self._env, self._symbols = env, symbols

    def holds(self, numbers):
        import sympy

        values = {}
        for symbol, number in zip(self._symbols, numbers, strict=True):
            if isinstance(symbol, sympy.Symbol):
                values[symbol] = sympy.Integer(number)
            elif symbol != number:
                return False
        in_range = all(self._env.var_to_range[s].lower <= v <= self._env.var_to_range[s].upper for s, v in values.items())
        return bool(in_range) and all(guard.expr.xreplace(values) == sympy.true for guard in self._env.guards)
