"""`torch.compile(f, backend="framefuse")`: torch captures, framefuse fuses and runs.

Torch's own AOT tools make ATen graphs, for forward and backward, which are written here in the text form of `backends/graph` and compiled
by C++. A node that has no kernel runs as its ATen operator; one that cannot be read raises `BackendError` with the user's line. A graph with
symbolic sizes becomes one plan for all sizes, or, where its text has no form for something, one for each set of sizes that it is called with.
A graph in which values decide sizes runs operator by operator.
"""

import copy
import operator
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import _disable_current_modes

from framefuse import _C
from framefuse._backends import BUILT_IN
from framefuse._errors import BackendError
from framefuse._fake_mode import fake_mode
from framefuse._torch_sizes import Symbols, is_symbolic, sized_by_values
from framefuse._torch_sizes import Unreadable as _Unreadable

DTYPES = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64", torch.int32: "i32",
    torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
    torch.bool: "bool", torch.complex64: "c64", torch.complex128: "c128", torch.complex32: "c32",
    torch.float8_e4m3fn: "f8e4m3fn", torch.float8_e5m2: "f8e5m2", torch.float8_e4m3fnuz: "f8e4m3fnuz", torch.float8_e5m2fnuz: "f8e5m2fnuz",
}  # fmt: skip
_MEMORY_FORMATS = {
    torch.contiguous_format: "contiguous_format", torch.preserve_format: "preserve_format",
    torch.channels_last: "channels_last", torch.channels_last_3d: "channels_last_3d",
}  # fmt: skip
_MODES = ("default", "reduce-overhead")
_LARGEST_CONSTANT = 16  # elements that are written into the text


def torch_backend(
    gm: "torch.fx.GraphModule", example_inputs: "list[Any]", *, mode: str = "default", options: "dict[str, Any] | None" = None
) -> "Callable[..., Any]":
    """The backend for `torch.compile`; `mode` is "default" or "reduce-overhead"; `options` may name framefuse's own backend,
    {"backend": "fuse"} or "aten", and the mode, {"mode": …}, since torch.compile takes only one of the two arguments."""
    from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd

    settings = _checked_options(mode, options)
    _make_masks_dense(gm)

    def compile_graph(graph, inputs):
        return make_boxed_func(_compiled(graph, settings))

    def compile_forward(graph, inputs):
        context = torch._guards.TracingContext.try_get()
        facts = context.fw_metadata if context is not None else None
        kept = facts.num_forward if facts is not None else -1
        return make_boxed_func(_compiled(graph, settings._replace(first_kept_output=kept)))

    compiler = aot_autograd(
        fw_compiler=compile_forward,
        bw_compiler=compile_graph,
        inference_compiler=compile_graph,
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
    return compiler(gm, example_inputs)


def _make_masks_dense(gm):
    """torch's fused attention on CUDA wants masks whose last dimension lies densely in memory, and else takes matrix products and a softmax
    apart; masks that a model expanded are often not so."""
    for module in gm.modules():
        nodes = module.graph.find_nodes(op="call_function", target=F.scaled_dot_product_attention) if isinstance(module, torch.fx.GraphModule) else []
        for node in nodes:
            mask = node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")
            if isinstance(mask, torch.fx.Node):
                with module.graph.inserting_before(node):
                    dense = module.graph.call_function(_dense_mask, (mask,))
                dense.meta = {key: node.meta[key] for key in ("stack_trace",) if key in node.meta}
                node.replace_input_with(mask, dense)
        if nodes:
            module.recompile()


def _dense_mask(mask):
    """The same values, dense in the last dimension; dimensions before it that were expanded still are."""
    if mask.dim() == 0 or mask.stride(-1) == 1:
        return mask
    part = mask
    for dim in range(mask.dim() - 1):
        if mask.stride(dim) == 0:
            part = part.narrow(dim, 0, min(1, mask.size(dim)))
    return part.contiguous().expand(mask.shape)


class _Settings(NamedTuple):
    backend: str
    mode: str
    first_kept_output: int = -1  # the graph's outputs from here on are for the backward graph only


def _checked_options(mode, options):
    unknown = set(options or {}) - {"backend", "mode"}
    if unknown:
        raise ValueError(f"torch.compile(backend='framefuse') has no options {sorted(unknown)}; it has 'backend' and 'mode'")
    name = (options or {}).get("backend", "fuse")
    if name not in BUILT_IN:
        raise ValueError(f"options['backend'] is one of {', '.join(BUILT_IN)}, not {name!r}")
    mode = (options or {}).get("mode", mode) or "default"
    if mode not in _MODES:
        raise ValueError(f"torch.compile(backend='framefuse') has no mode {mode!r}; it has {', '.join(_MODES)}")
    return _Settings(name, mode)


def _compiled(graph, settings):
    """A callable of the graph's inputs."""
    values = [node.meta.get("val") for node in graph.graph.nodes]
    if not any(is_symbolic(value) for value in values):
        return _made_later(graph, settings) if _C.is_stream_recorded() else _make_plan(graph, settings)
    if (node := sized_by_values(graph)) is not None:
        _C.write_log("dynamic", f"a graph of torch.compile runs operator by operator: values decide the sizes of {node.name}{_user_line(node)}")
        return graph
    if not _C.is_stream_recorded() and (plan := _plan_for_all_sizes(graph, settings)) is not None:
        return plan
    plans = {}

    def call(*inputs):
        key = tuple((t.shape, t.stride(), t.dtype) if isinstance(t, torch.Tensor) else t for t in inputs)
        if key not in plans:
            if _C.is_stream_recorded():
                return graph(*inputs)
            plans[key] = _make_plan(_with_sizes(graph, inputs), settings)
        return plans[key](*inputs)

    return call


def _made_later(graph, settings):
    """Runs operators while the stream is recorded, where nothing may be compiled; the first call after that makes the plan."""
    plan = None

    def call(*inputs):
        nonlocal plan
        if plan is None and not _C.is_stream_recorded():
            plan = _make_plan(graph, settings)
        return (plan or graph)(*inputs)

    return call


def _with_sizes(graph, inputs):
    """The graph with metadata for these inputs' sizes."""
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    class Propagation(FakeTensorProp):
        def run_node(self, n):
            result = super().run_node(n)
            if isinstance(result, (bool, int, float)):  # torch 2.11 leaves the symbol there
                n.meta["val"] = result
            return result

    own = copy.deepcopy(graph)
    mode = fake_mode(allow_non_fake_inputs=True)
    detached = [t.detach() if isinstance(t, torch.Tensor) else t for t in inputs]
    Propagation(own, mode).propagate(*detached)
    return own


def _plan_for_all_sizes(graph, settings):
    """None: something in it can be said of given sizes only."""
    try:
        return _make_plan(graph, settings)
    except BackendError as error:
        _C.write_log("dynamic", f"a graph of torch.compile gets a plan for each set of sizes: {str(error).splitlines()[0]}")
        return None


def _make_plan(graph, settings):
    reader = _GraphReader(graph)
    text = reader.read()
    # Of the outputs that are tensors.
    kept = sum(at is not None for at, _ in reader.results[: settings.first_kept_output]) if settings.first_kept_output >= 0 else -1
    try:
        with _disable_current_modes():  # torch's fake tensor mode is on while it captures; constants are real
            plan = _C.compile_graph_text(text, settings.backend, settings.mode, kept)
    except RuntimeError as error:
        raise BackendError(f"framefuse cannot compile a graph of torch.compile: {error}\n{text}", "framefuse") from error
    tensor_inputs, attributes, results, symbols = reader.tensor_inputs, reader.attributes, reader.results, reader.symbols

    def call(*inputs):
        outputs = plan([inputs[i] for i in tensor_inputs] + attributes)
        return [outputs[at] if at is not None else value for at, value in results]

    def call_sized(*inputs):
        sizes = symbols.values(inputs)
        outputs = plan([inputs[i] for i in tensor_inputs] + attributes, sizes)
        return [outputs[at] if at is not None else value(*sizes) if callable(value) else value for at, value in results]

    return call_sized if symbols.any else call


class _GraphReader:
    """Writes one FX graph of ATen operators as text, and keeps what the text does not say: which inputs are tensors, tensors that the
    module holds (`attributes`, passed after the inputs), and results that are no tensors."""

    def __init__(self, graph):
        self.module, self.graph = graph, graph.graph
        self.tensor_inputs, self.attributes, self.results = [], [], []
        self._inputs, self._lines = [], []
        self._texts = {}  # node → text of its value: %name, or a number
        self._parts = {}  # node of several results → their texts
        self._numbers = {}  # wrapped numbers → %name
        self._written = set()
        self.symbols = Symbols()
        for index, node in enumerate(node for node in self.graph.nodes if node.op == "placeholder"):
            self.symbols.note_input(index, node.meta.get("val"))

    def read(self):
        for node in self.graph.nodes:
            try:
                getattr(self, "_" + node.op)(node)
            except _Unreadable as error:
                raise BackendError(f"framefuse cannot read the node {node.format_node()}: {error}{_user_line(node)}", "framefuse") from None
        inputs = [line + (" mutated" if name in self._written else "") for name, line in self._inputs]
        return "\n".join(['graph "fx"', *self.symbols.lines(), *inputs, *self._lines]) + "\n"

    # --- nodes

    def _placeholder(self, node):
        value = node.meta.get("val")
        index = sum(n.op == "placeholder" for n in self._texts)
        if isinstance(value, torch.Tensor):
            self.tensor_inputs.append(index)
            self._inputs.append((node.name, f'input {self._definition(node.name, value)} argument "{node.name}"'))
            self._texts[node] = f"%{node.name}"
        else:
            self._texts[node] = None if value is None and node.users else self._number(value)

    def _number(self, value):
        return self.symbols.text(value) if isinstance(value, torch.SymInt) else _number(value)

    def _get_attr(self, node):
        value = operator.attrgetter(node.target)(self.module)
        if not isinstance(value, torch.Tensor):  # a graph of its own; the node that takes it says what it is
            self._texts[node] = None
            return
        plain = value.device.type == "cpu" and value.layout == torch.strided and value.is_contiguous() and not value.is_complex()
        if plain and not value.requires_grad and value.numel() <= _LARGEST_CONSTANT and value.dtype in DTYPES:
            elements = ", ".join(map(_number, value.flatten().tolist()))
            self._lines.append(f"constant {self._definition(node.name, value)} = [{elements}]")
        else:
            self.attributes.append(value)
            self._inputs.append((node.name, f'input {self._definition(node.name, value)} constant "{node.name}"'))
        self._texts[node] = f"%{node.name}"

    def _call_function(self, node):
        if node.target is operator.getitem and node.args[0] in self._parts:
            self._texts[node] = self._parts[node.args[0]][node.args[1]]
            return
        value = node.meta.get("val")
        if isinstance(value, (bool, int, float, torch.SymInt)):  # a size, computed by torch when it made the graph
            self._texts[node] = self._number(value)
            return
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            self._texts[node] = None
            return
        if node.target is torch.ops.higher_order.cond:
            self._cond(node)
            return
        if not isinstance(node.target, torch._ops.OpOverload):
            raise _Unreadable(f"{node.target} is no ATen operator")
        schema = node.target._schema
        call = f"{_operator_name(node.target)}({self._arguments(node, schema)}){_comment(node)}"
        if schema.name.startswith("aten::copy_") or (schema.is_mutable and node.target.overloadpacket._qualified_op_name.endswith("_")):
            written = node.args[0]
            self._lines.append(call)
            self._texts[node] = self._texts[written]
            self._written.add(written.name)
            return
        if schema.is_mutable:
            raise _Unreadable("it writes its arguments, and is not in place")
        results = self._results(node, value, schema)
        self._lines.append(f"{results} = {call}" if results else call)

    def _cond(self, node):
        """Both branches become texts of their own; framefuse::cond runs the one that the condition chooses."""
        if self.symbols.any:
            raise _Unreadable("its branches are texts of their own")
        condition, *branches, operands = node.args
        texts, results = [], node.meta["val"]
        for branch in branches:
            reader = _GraphReader(operator.attrgetter(branch.target)(self.module))
            text = reader.read()
            outputs = next(iter(reader.graph.find_nodes(op="output"))).args[0]
            if reader.attributes or reader._written or " input=" in text:
                raise _Unreadable("a branch holds a tensor, writes one, or returns one that it was given")
            if any(_facts(o.meta["val"] if isinstance(o, torch.fx.Node) else o) != _facts(r) for o, r in zip(outputs, results, strict=True)):
                raise _Unreadable("its branches give different results")
            texts.append(_constant(text))
        names = [self._texts[o] for o in operands if isinstance(o, torch.fx.Node) and isinstance(o.meta["val"], torch.Tensor)]
        definitions, self._parts[node] = self._named_parts(node.name, results)
        made = [d for d in definitions if d != "_"]
        call = f"framefuse.cond({self._texts[condition]}, {', '.join(texts)}, [{', '.join(names)}]){_comment(node)}"
        self._lines.append(f"[{', '.join(made)}] = {call}")

    def _call_module(self, node):
        raise _Unreadable("a call of a module")

    _call_method = _call_module

    def _output(self, node):
        outputs = node.args[0] if isinstance(node.args[0], (list, tuple)) else [node.args[0]]
        names = {f"%{name}": i for i, (name, _) in enumerate(self._inputs)}
        count = 0
        for value in outputs:
            text = self._texts.get(value) if isinstance(value, torch.fx.Node) else None
            if text is None or not text.startswith("%"):
                number = value.meta.get("val") if isinstance(value, torch.fx.Node) else value
                if isinstance(number, (torch.SymFloat, torch.SymBool)):
                    raise _Unreadable("it returns a symbolic number that is no integer")
                self.results.append((None, self.symbols.function(number) if isinstance(number, torch.SymInt) else number))
                continue
            self._lines.append(f"output {text} user" + (f" input={names[text]}" if text in names else ""))
            self.results.append((count, None))
            count += 1

    # --- their parts

    def _definition(self, name, value):
        return f"%{name}: {_type(value, self.symbols)}"

    def _results(self, node, value, schema):
        if value is None:
            return ""
        if isinstance(value, torch.Tensor):
            self._texts[node] = f"%{node.name}"
            if isinstance(schema.returns[0].type, torch.ListType):
                raise _Unreadable("one tensor for a list")
            return self._definition(node.name, value)
        if not isinstance(value, (list, tuple)):
            raise _Unreadable(f"it gives {type(value).__name__}")
        if len(schema.returns) == 1 and isinstance(schema.returns[0].type, torch.ListType):
            definitions, self._parts[node] = self._named_parts(node.name, value)
            return "[" + ", ".join(definitions) + "]"
        definitions, self._parts[node] = self._named_parts(node.name, value)
        return ", ".join(definitions)

    def _named_parts(self, name, values):
        definitions, texts = [], []
        for i, value in enumerate(values):
            if isinstance(value, torch.Tensor):
                definitions.append(self._definition(f"{name}.{i}".replace(".", "__"), value))
                texts.append(f"%{name}__{i}")
            elif value is None or isinstance(value, (int, torch.SymInt)):  # no tensor, or a size that torch computed when it made the graph
                definitions.append("_")
                texts.append(None if value is None else self._number(value))
            else:
                raise _Unreadable(f"result {i} is {type(value).__name__}")
        return definitions, texts

    def _arguments(self, node, schema):
        texts = []
        for position, argument in enumerate(schema.arguments):
            if position < len(node.args) and not argument.kwarg_only:
                texts.append(self._literal(node.args[position], argument))
            elif argument.name in node.kwargs:
                texts.append(f"{argument.name}={self._literal(node.kwargs[argument.name], argument)}")
        return ", ".join(texts)

    def _literal(self, value, argument):
        if isinstance(value, torch.fx.Node):
            text = self._texts.get(value)
            if text is None:
                raise _Unreadable(f"its argument {value} has no value")
            if not text.startswith("%") and _takes_tensor(argument):
                return self._wrapped(value.meta["val"])
            return text
        if isinstance(value, (bool, int, float)) and _takes_tensor(argument):
            return self._wrapped(value)
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(self._literal(item, argument) for item in value) + "]"
        return _constant(value)

    def _wrapped(self, number):
        """A number where the operator wants a tensor: 0-dim, and weak in type promotion."""
        if isinstance(number, torch.SymInt):
            name = f"%size__{len(self._lines)}"
            self._lines.append(f"{name}: i64[]{{wrapped}} = aten.scalar_tensor({self._number(number)}, dtype=i64)")
            return name
        key = (type(number), repr(number))
        if key not in self._numbers:
            self._numbers[key] = f"%number__{len(self._numbers)}"
            dtype = {bool: "bool", int: "i64", float: "f64"}[type(number)]
            self._lines.append(f"constant {self._numbers[key]}: {dtype}[]{{wrapped}} = [{_number(number)}]")
        return self._numbers[key]


def _facts(value):
    return (value.dtype, value.device, value.shape, value.stride()) if isinstance(value, torch.Tensor) else value


def _takes_tensor(argument):
    kind = argument.type
    while isinstance(kind, (torch.OptionalType, torch.ListType)):
        kind = kind.getElementType()
    return isinstance(kind, torch.TensorType)


def _operator_name(overload):
    namespace, _, name = overload._schema.name.partition("::")
    suffix = overload._schema.overload_name
    return f"{namespace}.{name}" + (f".{suffix}" if suffix else "")


def _type(value, symbols):
    if value.dtype not in DTYPES:
        raise _Unreadable(f"a tensor of {value.dtype}")
    if value.layout != torch.strided:
        raise _Unreadable(f"a tensor of {value.layout}")
    facts = []
    if is_symbolic(value):
        facts.append(f"strides={symbols.texts(value.stride())}, offset={symbols.text(value.storage_offset())}")
    else:
        if not _is_dense(value):
            facts.append(f"strides={list(value.stride())}")
        if value.storage_offset():
            facts.append(f"offset={value.storage_offset()}")
    if value.device.type != "cpu":
        facts.append(f"device={value.device}")
    return f"{DTYPES[value.dtype]}{symbols.texts(value.shape)}" + ("{" + ", ".join(facts) + "}" if facts else "")


def _is_dense(value):
    """Strides are row-major for every size: also where that is 1, as the text form assumes."""
    step = 1
    for size, stride in zip(reversed(value.shape), reversed(value.stride())):
        if stride != step:
            return False
        step *= max(size, 1)
    return True


def _number(value):
    if isinstance(value, complex):
        return f"complex({_number(value.real)}, {_number(value.imag)})"
    if isinstance(value, (bool, int, float)):
        return repr(value)
    raise _Unreadable(f"a value of type {type(value).__name__}")


def _constant(value):
    if value is None:
        return "None"
    if isinstance(value, torch.dtype):
        if value not in DTYPES:
            raise _Unreadable(f"the dtype {value}")
        return DTYPES[value]
    if isinstance(value, torch.memory_format):
        return _MEMORY_FORMATS[value]
    if isinstance(value, torch.layout):
        return str(value).removeprefix("torch.")
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return _number(value)


def _location(node):
    """(file, line, function, source) of the innermost user frame that torch kept, or None."""
    frames = re.findall(r'File "(.+?)", line (\d+), in (\S+)\n\s*(.*)', node.meta.get("stack_trace") or "")
    return frames[-1] if frames else None


def _comment(node):
    found = _location(node)
    return f"  # {found[0]}:{found[1]} in {found[2]}: {found[3]}" if found else ""


def _user_line(node):
    found = _location(node)
    return f"\n  from {found[0]}:{found[1]} in {found[2]}: {found[3]}" if found else ""
