"""The FX side of a Python backend: the `fx.GraphModule` of what a capture recorded, and the user's backend around it.

C++ calls the methods of `FxBackend`. The graph's nodes are the calls that the capture journalled. Values are known by their fake's identity:
one that is an argument somewhere was an input or part of an earlier result. What no entry of the journal stands for is written as the ATen
operators that were recorded; there values are known by number. Nothing here computes with fakes but `run_on_fakes`, which checks the graph.
"""

import keyword
import operator
import os
import re

import torch
from torch import fx

from framefuse import _fx_constants, _fx_sizes, _fx_tracebacks, _fx_versions
from framefuse._errors import BackendError
from framefuse._fake_mode import fake_mode, forget_tensors

_INPLACE = {
    getattr(operator, "i" + name): getattr(operator, plain)
    for name, plain in (
        *((name, name) for name in ("add", "sub", "mul", "matmul", "floordiv", "truediv", "mod", "pow", "lshift", "rshift", "xor")),
        ("and", "and_"),
        ("or", "or_"),
    )
}


_NUMBER = "number"  # how C++ marks a symbolic one


class _Refused(Exception):
    """Node `node` of the recording, or what was done before it, has no form in FX."""

    def __init__(self, node, why):
        super().__init__(why)
        self.node = node


class _Expand(Exception):
    """Entry `entry` of the journal hides a value that is used later: its ATen operators take its place."""

    def __init__(self, entry):
        super().__init__(entry)
        self.entry = entry


class Recording:
    """What C++ says of the operators that were recorded; see `FxBackend.build`."""

    def __init__(self, value_of, node, constant, origin, number, count):
        self.value_of, self.node, self.constant, self.origin, self.number, self.count = value_of, node, constant, origin, number, count


class _GraphBuilder:
    def __init__(self, inputs, symbols, entries, outputs, values, recording, expanded):
        self.graph = fx.Graph()
        self.root = torch.nn.Module()
        self.host_tensors = set()  # names of nodes
        self.journalled = True  # all of it: no ATen operators, no values known by their number alone
        self._entries = entries
        self._outputs = outputs
        self._returned_values = values
        self._recording = recording
        self._expanded = expanded
        self._nodes = {}  # id of a fake → its node; the capture keeps fakes alive while we run
        self._values = {}  # number of a value → (id of the fake that it is known by, or None, and its node)
        self._doubtful = set()  # values with several fakes, of which autograd knows different things
        self._constants = {}
        self._parts = []  # getitem nodes, used or not
        self._versions = _fx_versions.Versions()
        self._used = None  # numbers of values that operators or the outputs use
        self._at = 0  # node of the recording
        self._inputs = inputs
        self._symbols = symbols
        self.numbers = _fx_sizes.NumberNodes(self.graph, symbols)
        self._keeps_types = False  # of numbers of numpy, for the call at hand
        self._operands = {}  # number of a value that is a symbolic number as an operand → its tree

    def build(self):
        """The tensors and the symbols that the graph has placeholders for."""
        placeholders = []
        for name, fake, value in self._inputs:
            placeholders.append(self.graph.placeholder(_identifier(name)))
            self._remember(fake, placeholders[-1], value)
        for index, (op, _, args, _, result, begin, end) in enumerate(self._entries):
            self._write_aten(begin)
            if index in self._expanded or op == "becomes":
                self._write_aten(end)
                if op == "becomes":
                    self._rename(args, result)
            else:
                self._write_entry(index)
            self._at = max(self._at, end)
        self._write_aten(self._recording.count)
        self._end_in_start_mode()
        self._count_as_eager()
        values = [self._node_of_value(value) for value in self._returned_values]
        self.graph.output((*(self._node_of(fake) for fake in self._outputs), *values))
        for node in [*reversed(self._parts), *self._constants.values()]:
            if not node.users:
                self.graph.erase_node(node)
        used = [index for index, node in enumerate(placeholders) if node.users]
        sizes = [self.numbers.placeholder(index) for index in range(len(self._symbols))]
        symbols = [index for index, (_, of) in enumerate(self._symbols) if of in used or sizes[index].users]
        for node in [*placeholders, *(node for index, node in enumerate(sizes) if index not in symbols)]:
            if not node.users:
                self.graph.erase_node(node)
        return used, symbols

    def _end_in_start_mode(self):
        """The entry sets grad mode itself after the graph; AOTAutograd takes the mode at the end for that of the results."""
        modes = [args[0] for _, target, args, *_ in self._entries if target is torch._C._set_grad_enabled]
        if modes and modes[-1] != torch.is_grad_enabled():
            self.graph.call_function(torch._C._set_grad_enabled, (torch.is_grad_enabled(),))

    def _count_as_eager(self):
        for fake in self._outputs:
            if fake.is_inference():  # has no version
                continue
            for _ in range(self._versions.missing(self._recording.value_of(fake), fake._version)):
                self.graph.call_function(torch.autograd.graph.increment_version, (self._node_of(fake),))

    # ---- entries of the journal

    def _write_entry(self, index):
        op, target, args, kwargs, result, begin, end = self._entries[index]
        host_tensor = op == "host_tensor"
        if op == "get_attr":  # an attribute of a tensor, args are (tensor, name): a call of getattr, as torch records it
            target = getattr
        if op != "call_method":
            op = "call_function"
            if not _fx_constants.can_be_called_by_name(target):
                if end == begin:
                    raise _Refused(begin, f"{target} has no name")
                self._expanded.add(index)
                return self._write_aten(end)
        self._keeps_types = host_tensor
        fakes = [self._recording.value_of(arg) for arg in args if isinstance(arg, torch.Tensor)]
        self._versions.note_call(target, fakes, map(self._recording.node, range(begin, end)))
        args, kwargs = self._with_nodes(args), self._with_nodes(kwargs or {})
        if target in _INPLACE and not isinstance(args[0], fx.Node):  # `0 += t` is no statement
            target = _INPLACE[target]
        node = self.graph.create_node(op, target, args, kwargs)
        self._place(node, begin if begin < end else -1)
        if host_tensor:
            self.host_tensors.add(node.name)
        self._note(result, node)

    def _place(self, node, index):
        """Give `node`, which stands for node `index` of the recording, the program's frames."""
        if rows := self._recording.origin(index):
            node.meta["stack_trace"] = _fx_tracebacks.stack_text(rows)

    def _with_nodes(self, value):
        """`value` with nodes for fakes, to any depth of list, tuple, dict and slice, and nothing that cannot be printed."""
        if isinstance(value, torch.Tensor):
            return self._node_of(value)
        if isinstance(value, list):
            return [self._with_nodes(item) for item in value]
        if isinstance(value, tuple):
            return tuple(self._with_nodes(item) for item in value)
        if isinstance(value, dict):
            return {key: self._with_nodes(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(*(self._with_nodes(part) for part in (value.start, value.stop, value.step)))
        if self._symbols and type(value) in (int, float) and (tree := self._recording.number(value)) is not None:
            return self.numbers.node(tree)
        plain = _fx_constants.as_literal(value, self._keeps_types)
        return self._attribute(value) if plain is _fx_constants.NO_LITERAL else plain

    def _attribute(self, value):
        """A node for an object that the module holds."""
        node = self._constants.get(id(value))
        if node is None:
            name = f"_constant{len(self._constants)}"
            if isinstance(value, torch.Tensor):
                self.root.register_buffer(name, value, persistent=False)
            else:
                setattr(self.root, name, value)
            node = self._constants[id(value)] = self.graph.get_attr(name)
        return node

    def _node_of(self, fake):
        node = self._nodes.get(id(fake))
        if node is not None:
            return node
        self.journalled = False
        value = self._recording.value_of(fake)
        known = self._values.get(value)
        if known is None and value < 0:
            raise _Refused(self._at, f"a tensor of shape {tuple(fake.shape)} was used that no recorded call returned")
        return self._node_of_value(value)

    # ---- results

    def _note(self, result, node):
        """Remember which node gives each fake of a result; parts of a sequence become getitem nodes."""
        if isinstance(result, torch.Tensor):
            self._remember(result, node)
        elif isinstance(result, (list, tuple)):
            self._note_parts(enumerate(result), node)
        elif isinstance(result, dict):
            self._note_parts(result.items(), node)

    def _note_parts(self, items, node):
        for key, part in items:
            if _holds_tensor(part):
                self._parts.append(self.graph.call_function(operator.getitem, (node, key)))
                self._note(part, self._parts[-1])

    def _rename(self, fakes, values):
        """From here on these fakes are other values of the recording."""
        for fake, value in zip(fakes, values, strict=True):
            node = self._node_of_value(value)
            self._nodes[id(fake)] = node
            self._values[value] = (id(fake), node)

    def _remember(self, fake, node, value=None):
        self._nodes[id(fake)] = node
        value = self._recording.value_of(fake) if value is None else value
        known = self._values.get(value)
        if known is not None and known[0] != id(fake):
            self._doubtful.add(value)  # one of them may be detached
        elif value >= 0:
            self._values[value] = (id(fake), node)

    # ---- ATen operators

    def _write_aten(self, end):
        for index in range(self._at, end):
            self._at = index
            row = self._recording.node(index)
            if row is None:
                raise _Refused(index, "an operator with an argument that Python has no form of")
            self.journalled = False
            if row[0] == _NUMBER:
                self._operands[row[2]] = row[1]
                continue
            after = self._recording.node(index + 1) if index + 1 < self._recording.count else None
            if _fx_versions.is_made_by_autograd(row, after, self._used_values()):
                continue
            name, args, kwargs, results = row
            self._versions.note(name, args, kwargs, results)
            args = tuple(self._with_values(arg) for arg in args)
            node = self.graph.call_function(_fx_versions.overload_of(name), args, {key: self._with_values(arg) for key, arg in kwargs.items()})
            self._place(node, index)
            self._note_values(results, node)
        self._at = max(self._at, end)

    def _used_values(self):
        if self._used is None:
            rows = [row for row in map(self._recording.node, range(self._recording.count)) if row is not None and row[0] != _NUMBER]
            arguments = [*(list(row[1]) for row in rows), *(list(row[2].values()) for row in rows)]
            self._used = _fx_versions.values_in(arguments) | {self._recording.value_of(fake) for fake in self._outputs}
            self._used.update(self._returned_values)
        return self._used

    def _with_values(self, arg):
        if isinstance(arg, tuple):
            if arg[0] == _NUMBER:
                return self.numbers.node(arg[1])
            return None if arg[0] < 0 else self._node_of_value(arg[0])
        if isinstance(arg, list):
            return [self._with_values(item) for item in arg]
        return arg

    def _note_values(self, results, node):
        if isinstance(results, tuple):
            if results[0] >= 0:
                self._values[results[0]] = (None, node)
            return
        for index, part in enumerate(results):
            if part != (-1,):
                self._parts.append(self.graph.call_function(operator.getitem, (node, index)))
                self._note_values(part, self._parts[-1])

    def _node_of_value(self, value):
        if value in self._doubtful:
            raise _Refused(self._at, "one of several aliases of a tensor")
        known = self._values.get(value)
        if known is not None:
            return known[1]
        if value in self._operands:
            return self.numbers.node(self._operands[value])
        constant = self._recording.constant(value)
        if constant is not None:
            tensor, is_number = constant
            return tensor.item() if is_number else self._attribute(tensor)
        for index, entry in enumerate(self._entries):
            if index not in self._expanded and self._makes(entry, value):
                raise _Expand(index)
        raise _Refused(self._at, "a tensor that no recorded operator made")

    def _makes(self, entry, value):
        begin, end = entry[-2:]
        rows = map(self._recording.node, range(begin, end))
        return any(row is None or (value == row[2] if row[0] == _NUMBER else value in _fx_versions.numbers(row[3])) for row in rows)


def _holds_tensor(value):
    if isinstance(value, (list, tuple)):
        return any(map(_holds_tensor, value))
    if isinstance(value, dict):
        return any(map(_holds_tensor, value.values()))
    return isinstance(value, torch.Tensor)


_NOT_IN_NAMES = re.compile(r"[^0-9a-zA-Z]+")  # once: a program that is captured may look at re's cache


def _identifier(text):
    """A Python identifier that reads like `text` (a source such as L['x'].weight), as torch's placeholder names do."""
    name = _NOT_IN_NAMES.sub("_", text) or "value"
    return f"{name}_" if keyword.iskeyword(name) or name[0].isdigit() else name


def build_graph_module(inputs, symbols, entries, outputs, values, recording):
    """The module, the indices of the inputs that it has, whether all of it was journalled, the names of its host tensors' nodes, the symbols
    that it has, and the trees of its nodes that are numbers."""
    expanded = set()
    while True:
        builder = _GraphBuilder(inputs, symbols, entries, outputs, values, recording, expanded)
        try:
            used, symbols_used = builder.build()
        except _Expand as more:
            expanded.add(more.entry)
            continue
        builder.graph.lint()
        module = fx.GraphModule(builder.root, builder.graph)
        return module, used, builder.journalled, builder.host_tensors, symbols_used, builder.numbers.trees


class FxBackend:
    """A user's backend as C++ calls it: `backend` with its name, and keywords for it (mode, options)."""

    def __init__(self, backend, keywords):
        self._backend = backend
        self._keywords = keywords

    def build(self, inputs, symbols, entries, outputs, values, recording):
        """`build_graph_module`'s tuple, or (None, a node of the recording, why): from there on there is no form in FX.

        Args:
            inputs: (name, fake, the number of its value as it came in, or -1) for each tensor that may be an input.
            symbols: (name, the input whose size it is, or -1) for each symbolic size.
            entries: (op, target, args, kwargs, result, begin, end) of each journalled call, and the recording's nodes that it made; op is
                "call_function", "call_method", "get_attr" (of a tensor: args are the tensor and the name), "host_tensor" (a function
                that makes a tensor of numbers) or "becomes" (a call that is written as its operators; from there on the fakes in args are the
                values with the numbers in result). None where the operators are all there is: a backward pass ran.
            outputs: fakes.
            values: numbers of more values that the graph returns, behind these.
            recording: (value_of, node, constant, origin, number, count): the number of a fake's value; the row of a node, see `_write_aten`; a
                constant's tensor and whether it is a number of the program's; the program's frames at a node; the tree of a symbolic number; how many nodes
                there are.
        """
        try:
            return build_graph_module(inputs, symbols, entries, outputs, values, Recording(*recording))
        except _Refused as refused:
            return None, refused.node, str(refused)

    def run_on_fakes(self, built, fakes, host_tensor, constant, call, number):
        """The module's results on fakes, as a list. What real tensors take part in is made by C++'s first two functions; with symbolic sizes
        the other two call torch, and make numbers of trees."""
        module, _, _, host_tensors, _, trees = built
        if not trees:
            call = _call
        values = {}
        rest = iter(fakes)
        for node in module.graph.nodes:
            args, kwargs = _as_written(fx.node.map_arg((node.args, node.kwargs), values.__getitem__))
            if node.name in trees:
                values[node] = number(trees[node.name])
            elif node.op == "placeholder":
                values[node] = next(rest)
            elif node.op == "get_attr":
                held = getattr(module, node.target)
                values[node] = constant(held) if isinstance(held, torch.Tensor) else held
            elif node.name in host_tensors:
                values[node] = host_tensor(node.target, args, kwargs)
            elif node.op == "call_method":
                values[node] = call(getattr(args[0], node.target), tuple(args[1:]), dict(kwargs))
            elif node.op == "call_function":
                values[node] = call(node.target, tuple(args), dict(kwargs))
            else:
                return list(args[0])

    def compile(self, module, reals, sizes):
        """Give the module to the user's backend, with fakes of the tensors at hand, and return what it made, checked to be callable.

        None: the program has used up the stack, and goes on as Python.

        Args:
            sizes: None, or the module's symbolic ones: (number, whether it is a size, the number at hand) of each symbol that it has, then
                (sizes, strides) of each tensor, as trees, or None.
        """
        try:
            if sizes is None:
                return self._make(module, _examples(reals))
            symbols = [row for row in sizes if row is not None and len(row) == 3]
            sized = _fx_sizes.SizedGraph(self._make, module, [row[:2] for row in symbols], sizes[len(symbols) :])
            sized.add(module, tuple(number for *_, number in symbols), reals)
            reals.clear()
            return sized
        except RecursionError as error:
            if _has_no_room(error):
                return None
            raise

    def _make(self, module, examples):
        placeholders = (node for node in module.graph.nodes if node.op == "placeholder")
        for node, example in zip(placeholders, examples, strict=True):
            node.meta["example_value"] = example
        try:
            compiled = self._backend.fx(module, examples, **self._keywords)
        except Exception as error:
            if _has_no_room(error):
                raise
            raise self._error(f"raised {type(error).__name__}: {error}") from error
        if not callable(compiled):
            raise self._error(f"returned {type(compiled).__name__}, not a callable")
        return compiled

    def judge(self, error):
        """`error` came out of the compiled graph. True: the program's own operators raised it. False: it is to be raised as it is."""
        if not isinstance(error, Exception) or isinstance(error, BackendError):  # it was called again for other sizes
            return False
        if _is_of_a_hook(error):  # a checkpoint stops there, and the graph is not run again
            return False
        if not _is_of_operators(error) and not _has_no_room(error):
            raise self._error(f"raised {type(error).__name__} when it was called: {error}") from error
        return True

    def show(self, error):
        """Give an error of the program's operators the program's lines: inputs were written, and nothing runs twice."""
        _fx_tracebacks.show_program(error)

    def complain(self, what):
        """Raise the error that says what the compiled graph returned instead of the graph's outputs."""
        raise self._error(f"returned {what}")

    def _error(self, what):
        return BackendError(f"backend '{self._backend.name}' {what}", self._backend.name)


def _examples(reals):
    """torch's FakeTensors for the tensors, as torch.compile's backends get them."""
    mode = fake_mode()
    fakes = [_fx_sizes.plain_fake(mode, real) for real in reals]
    forget_tensors(mode)
    reals.clear()  # what the backend keeps is not kept alive by us
    return fakes


def _as_written(value):
    """With lists and dicts as the generated code has them; FX keeps its own kinds."""
    if isinstance(value, list):
        return [_as_written(item) for item in value]
    if type(value) is tuple:
        return tuple(_as_written(item) for item in value)
    return {key: _as_written(item) for key, item in value.items()} if isinstance(value, dict) else value


def _call(callable, args, kwargs):
    return callable(*args, **kwargs)


def _has_no_room(error):
    """Whether the program, and not what raised the error, has used up the stack."""
    depth, last = 0, error.__traceback__
    while last is not None:
        depth, last = depth + 1, last.tb_next
    return isinstance(error, RecursionError) and depth < 100


_TORCH = os.path.dirname(torch.__file__) + os.sep
_WITH_HOOKS = (os.path.join("torch", "utils", "checkpoint.py"), os.path.join("torch", "autograd", "graph.py"))


def _is_of_a_hook(error):
    """Whether one of torch's hooks for saved tensors raised the error while the graph ran."""
    last = error.__traceback__
    while last is not None:
        code = last.tb_frame.f_code
        if code.co_name.startswith("pack_") and code.co_filename.endswith(_WITH_HOOKS):
            return True
        last = last.tb_next
    return False


def _is_of_operators(error):
    """Whether an operator of the graph raised the error: from torch's code, or from code that FX generated."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    file = last.tb_frame.f_code.co_filename
    return file.startswith(("<eval_with_key>", _TORCH))
