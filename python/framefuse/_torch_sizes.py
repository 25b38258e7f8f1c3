"""Symbolic sizes in the graphs of torch.compile: torch's expressions in the text form of `backends/graph`."""

import torch


class Unreadable(Exception):
    """Why something has no text."""


def is_symbolic(value):
    """Whether there is a symbolic number in it."""
    if isinstance(value, torch.Tensor):
        return any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride(), value.storage_offset()))
    if isinstance(value, (list, tuple)):
        return any(map(is_symbolic, value))
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def sized_by_values(graph):
    """The first node whose sizes, or whose number, no input tells; None: there is none."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    known = set()
    for node in graph.graph.nodes:
        symbols = free_unbacked_symbols(_numbers_of(node.meta.get("val")))
        if node.op == "placeholder":
            known |= symbols
        elif symbols - known:
            return node
    return None


def _numbers_of(value):
    """All numbers that it consists of, tensors' sizes among them."""
    if isinstance(value, torch.Tensor):
        return [*value.shape, *value.stride(), value.storage_offset()] if value.layout == torch.strided else list(value.shape)
    if isinstance(value, (list, tuple)):
        return [number for item in value for number in _numbers_of(item)]
    return [value] if is_symbolic(value) else []


class Symbols:
    """The symbols of one graph: what each is in a call, and the numbers that are made of them."""

    def __init__(self):
        self._places = {}  # symbol → (input, dimension); of a number None
        self._hints = {}
        self._env = None

    @property
    def any(self):
        return bool(self._places)

    def note_input(self, index, value):
        """A placeholder of the graph: its sizes, or a number."""
        if isinstance(value, torch.SymInt):
            self._note(value, (index, None))
        elif isinstance(value, torch.Tensor):
            for dim, size in enumerate(value.shape):
                self._note(size, (index, dim))

    def _note(self, number, place):
        if not isinstance(number, torch.SymInt) or not number.node.expr.is_Symbol or not number.node.has_hint():
            return
        self._env = number.node.shape_env
        self._places.setdefault(number.node.expr, place)
        self._hints.setdefault(number.node.expr, number.node.hint)

    def text(self, number):
        """Of an int or a SymInt."""
        if not isinstance(number, torch.SymInt):
            return str(number)
        expression = number.node.expr.expand()
        if unknown := expression.free_symbols - self._places.keys():
            raise Unreadable(f"no input has the size {unknown.pop()}")
        return _text(expression)

    def texts(self, numbers):
        return "[" + ", ".join(map(self.text, numbers)) + "]"

    def lines(self):
        """The definitions, in the order of `values`."""
        return [f"symbol {symbol} = {self._hints[symbol]}{self._range(symbol)}" for symbol in self._places]

    def _range(self, symbol):
        known = self._env.var_to_range[symbol]
        low = f" min={int(known.lower)}" if known.lower.is_Integer else ""
        high = f" max={int(known.upper)}" if known.upper.is_Integer and known.upper < 2**62 else ""
        return low + high

    def values(self, inputs):
        return [inputs[index] if dim is None else inputs[index].shape[dim] for index, dim in self._places.values()]

    def function(self, number):
        """What computes the number from `values`."""
        names = ", ".join(map(str, self._places))
        return eval(f"lambda {names}: {self.text(number)}", {"min": min, "max": max})  # noqa: S307  # the text is ours


def _text(expression):
    """Python's and the text form's; the arguments of sums and products in parentheses."""
    import sympy
    from torch.utils._sympy import functions

    parts = expression.args
    if expression.is_Symbol or expression.is_Integer:
        return str(expression)
    if expression.is_Add or expression.is_Mul:
        return "(" + (" + " if expression.is_Add else " * ").join(map(_text, parts)) + ")"
    if expression.is_Pow and parts[1].is_Integer and 0 < parts[1] < 8:
        return "(" + " * ".join([_text(parts[0])] * int(parts[1])) + ")"
    infix = {"FloorDiv": "//", "CleanDiv": "//", "Mod": "%", "PythonMod": "%"}.get(type(expression).__name__)
    if infix:
        return f"({_text(parts[0])} {infix} {_text(parts[1])})"
    function = {functions.Max: "max", functions.Min: "min", sympy.Max: "max", sympy.Min: "min"}.get(type(expression))
    if function:
        first, *others = map(_text, parts)
        for other in others:
            first = f"{function}({first}, {other})"
        return first
    raise Unreadable(f"the expression {expression}")
