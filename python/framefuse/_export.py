"""export: a function or module as one graph with its weights, to be run without its Python code (docs/export.md)."""

import contextlib
import functools
import inspect
import json
import os
import re
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from framefuse import _C, _call_tree
from framefuse._c_callables import CCallable, has_python_code
from framefuse._errors import Unsupported
from framefuse._package import LoadedPackage
from framefuse._torch_backend import DTYPES

Dynamic = bool | None | Mapping[str, int | Iterable[int]]
_MARK = "_dynamo_dynamic_indices"  # torch's, which capture reads (mark_dynamic)


class Exported(LoadedPackage):
    """What `export(f)(…)` returns: call it, print it, or write it with `package(path)`.

    Its weights are the model's own tensors until they are written. `result` is what the call returned.
    """

    def __init__(self, package: "_C.LoadedPackage", result: Any):
        super().__init__(package)
        self.result = result

    def package(self, path: "str | os.PathLike[str]") -> str:
        """Write graph, weights, signature and guards as one file, whole or not at all, and return its SHA-256.

        The file is one of the format safetensors: other programs can read its weights by name. Raises `OSError` where it cannot be written.
        """
        return _C.write_package(os.fspath(path), self._package)


def export(f: "Callable[..., Any]", *, dynamic: Dynamic = None) -> "Callable[..., Exported]":
    """Return a function that calls `f` once, captures it as one graph without gradients, and returns an `Exported`.

    Args:
        f: a function, a method or an `nn.Module`; a module in training mode writes its statistics, so `eval()` comes first.
        dynamic: which sizes of tensors are symbolic, so that the package serves many of them. None, False: none. True: all sizes of arguments
            that are at least 2 and that the code does not need as numbers. A dict: of the arguments that it names these dimensions, as in
            {"x": 0, "batch['ids']": [0, 1]}.

    What is no tensor becomes part of the package as it is in this call: numbers and texts that are arguments, attributes, globals.

    Raises:
        Unsupported: `f` is not one graph (the message names each break with its line), or does what a package cannot: it writes what is
            outside of it, reads values of tensors, needs a size that was to be symbolic.
        TypeError, ValueError: an argument is none that can be exported.
    """
    if isinstance(f, type) or not callable(f):
        raise TypeError(f"export() takes a function, a method or an nn.Module, not {f!r}")
    if dynamic is not None and not isinstance(dynamic, bool | Mapping):
        raise TypeError(f"dynamic must be None, True, False or a dict of arguments' names and dimensions, not {dynamic!r}")
    f = getattr(f, "_orig_mod", f)
    if _C.is_compiled_function(f):
        f = f.__wrapped__
    return functools.partial(_export, f, dynamic)


def _export(f, dynamic, /, *args, **kwargs):
    call = _Call(f, args, kwargs)
    target = types.MethodType(type(f).__call__, f) if isinstance(f, torch.nn.Module) else f
    if not has_python_code(target):
        target = CCallable(target)
    with torch.no_grad(), _marked(call, dynamic) as wanted:
        result, found = _capture(target, args, kwargs)
    _refuse(call, found, wanted if isinstance(dynamic, Mapping) else ())
    return Exported(_make(f, call, result, found), result)


class _Call:
    """The arguments of the example call: their tensors by name, and the tree of each parameter."""

    def __init__(self, f, args, kwargs):
        self.names: "list[str]" = []
        self.tensors: "list[torch.Tensor]" = []
        self.rows: "list[dict[str, Any]]" = []
        bound = _signature_of(f).bind(*args, **kwargs)
        given = set(bound.arguments)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            try:
                tree = _call_tree.tree_of(value, name, self._number)
            except TypeError:
                if name in given:
                    raise
                continue  # a default of another kind, which no call of the package can replace
            self.rows.append({"name": name, "kind": bound.signature.parameters[name].kind.name, "tree": tree})
        self._name_those_behind(list(bound.signature.parameters))

    def _name_those_behind(self, all_names):
        """What stands behind a parameter that was left out can only be given by its name."""
        for place, row in enumerate(self.rows):
            if row["kind"] in ("VAR_POSITIONAL", "POSITIONAL_ONLY") and all_names[place] != row["name"]:
                raise TypeError(f"{row['name']} stands behind a parameter with a default that packages do not know")
            if row["kind"] == "POSITIONAL_OR_KEYWORD" and all_names[place] != row["name"]:
                row["kind"] = "KEYWORD_ONLY"

    def _number(self, tensor, name):
        if any(tensor is other for other in self.tensors):
            raise ValueError(f"{name} is the same tensor as another argument: give each a tensor of its own")
        if tensor.requires_grad:
            raise ValueError(f"{name} requires grad, and a package has no gradients: give {name}.detach()")
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested or tensor.is_conj() or tensor.is_neg():
            raise ValueError(f"{name} is not a dense, plain tensor")
        self.names.append(name)
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def place(self, tensor):
        """The number of an argument; None: it is none."""
        return next((i for i, own in enumerate(self.tensors) if own is tensor), None)


def _signature_of(f):
    try:
        return inspect.signature(f.forward if isinstance(f, torch.nn.Module) else f)
    except (TypeError, ValueError):  # a C function without one
        variable = inspect.Parameter
        return inspect.Signature([variable("args", variable.VAR_POSITIONAL), variable("kwargs", variable.VAR_KEYWORD)])


def _wanted_sizes(call, dynamic):
    """(argument, dimension) of each size that is to be symbolic."""
    if dynamic is None or isinstance(dynamic, bool):
        return [(i, d) for i, t in enumerate(call.tensors) for d in range(t.dim()) if dynamic and t.size(d) > 1]
    wanted = []
    for name, dims in dynamic.items():
        if name not in call.names:
            raise ValueError(f"dynamic names {name!r}, and the tensors are: {', '.join(call.names)}")
        i = call.names.index(name)
        tensor = call.tensors[i]
        for dim in [dims] if isinstance(dims, int) else dims:
            if type(dim) is not int or not -tensor.dim() <= dim < tensor.dim():
                raise ValueError(f"{name} has no dimension {dim!r}: it has {tensor.dim()}")
            dim %= tensor.dim()
            if tensor.size(dim) < 2:
                raise ValueError(f"size {dim} of {name} is {tensor.size(dim)}: export with one that is at least 2, so that it can be symbolic")
            wanted.append((i, dim))
    return wanted


@contextlib.contextmanager
def _marked(call, dynamic):
    wanted = _wanted_sizes(call, dynamic)
    before = [tensor.__dict__.get(_MARK) for tensor in call.tensors]
    try:
        for i, tensor in enumerate(call.tensors):
            _set_mark(tensor, {dim for at, dim in wanted if at == i} or None)
        yield wanted
    finally:
        for tensor, marks in zip(call.tensors, before, strict=True):
            _set_mark(tensor, marks)


def _set_mark(tensor, marks):
    tensor.__dict__.pop(_MARK, None)
    if marks is not None:
        setattr(tensor, _MARK, marks)


def _capture(target, args, kwargs):
    try:
        result, found, graphs = _C.export_capture(target, _C.CompileOptions(fullgraph=True, name="export"), args, kwargs)
    except Unsupported as error:
        breaks = _breaks(target, args, kwargs)
        if len(breaks) < 2:
            raise
        raise Unsupported("\n  ".join(["export needs one graph, and it breaks:", *breaks]), error.reason, error.compile_id) from None
    if graphs == 1 and found["runs"] == 1:
        return result, found
    if graphs == 0:
        raise Unsupported("export found no tensor operation: framefuse.explain(f)(…) says what ran as Python")
    raise Unsupported("export needs one graph that runs: framefuse.explain(f)(…) says what ran as Python")


def _breaks(target, args, kwargs):
    """All breaks with their lines; none where the code cannot be called once more."""
    from framefuse._explain import explain

    try:
        reasons = explain(target)(*args, **kwargs).break_reasons
    except Exception:
        return []
    return [f"{reason.user_stack[-1].filename}:{reason.user_stack[-1].lineno}: {reason.reason}" for reason in reasons]


def _refuse(call, found, wanted):
    refusals = list(dict.fromkeys(found["refusals"]))
    for one, other in found["compared"]:
        places = [place for tensor in (one, other) if (place := call.place(tensor)) is not None]
        if places:
            refusals.append(f"it asks whether {call.names[places[0]]} is a certain tensor")
    for name, tensor, dim in found["symbols"]:
        place = call.place(tensor)
        if tensor is not None and place is None:
            refusals.append("the size of a tensor that is no argument is symbolic")
        pinned = [m[1] or m[2] for fact in found["facts"] if (m := re.fullmatch(rf"{name} == (\d+)|(\d+) == {name}", fact))]
        if pinned and (place, dim) in wanted:
            refusals.append(f"size {dim} of {call.names[place]} was to be symbolic, and the code needs it to be {pinned[0]}")
    known = [(call.place(tensor), dim) for _, tensor, dim in found["symbols"]]
    for place, dim in wanted:
        if (place, dim) not in known:
            refusals.append(f"size {dim} of {call.names[place]} was to be symbolic, and the code does not read it")
    if refusals:
        hint = " (eval() keeps a module from writing its statistics)" if any("writes" in why for why in refusals) else ""
        raise Unsupported(f"a package cannot do what this code does: {'; '.join(refusals)}{hint}")


class _Weights:
    """Names of the tensors that are no arguments; those that are one memory have one name."""

    def __init__(self, f):
        owner = getattr(f, "__self__", f)
        self._known = {}
        if isinstance(owner, torch.nn.Module):
            for named in (owner.named_parameters(remove_duplicate=False), owner.named_buffers(remove_duplicate=False)):
                for name, tensor in named:
                    self._known.setdefault(id(tensor), name)
        self._by_memory: "dict[Any, str]" = {}
        self.tensors: "dict[str, torch.Tensor]" = {}

    def name(self, tensor):
        if not _call_tree.is_plain(tensor) or tensor.layout != torch.strided or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
            raise Unsupported(f"a package cannot hold a weight of type {type(tensor).__name__}, layout {tensor.layout}")
        memory = (tensor.data_ptr() or id(tensor), tensor.dtype, tensor.device, tuple(tensor.shape), tensor.stride())
        if memory not in self._by_memory:
            name = self._known.get(id(tensor), f"tensor_{len(self.tensors)}")
            while name in self.tensors or name == "__metadata__":
                name += "_"
            self._by_memory[memory] = name
            self.tensors[name] = tensor.detach()
        return self._by_memory[memory]


def _make(f, call, result, found):
    weights = _Weights(f)
    inputs = found["inputs"]
    rows, returned = [], []
    for i, tensor in enumerate(call.tensors):
        place = next((at for at, own in enumerate(inputs) if own is tensor), -1)
        symbols = [(dim, number) for number, (_, own, dim) in enumerate(found["symbols"]) if own is tensor]
        rows.append((place, [] if place >= 0 else [tensor], symbols, False, call.names[i]))
    for at, tensor in enumerate(inputs):
        if call.place(tensor) is None:
            rows.append((at, [], [], True, weights.name(tensor)))
    outputs = {id(tensor): i for i, tensor in reversed(list(enumerate(found["outputs"])))}
    results: "list[int]" = []

    def number(tensor, path):
        if id(tensor) not in outputs:
            if (place := call.place(tensor)) is None:
                place = len(rows)
                rows.append((-1, [tensor.detach()], [], True, weights.name(tensor)))
            outputs[id(tensor)] = len(found["outputs"]) + len(returned)
            returned.append(place)
        if outputs[id(tensor)] not in results:
            results.append(outputs[id(tensor)])
        return results.index(outputs[id(tensor)])

    try:
        tree = _call_tree.tree_of(_call_tree.with_dicts(result), "the result", number)
    except TypeError as error:
        raise Unsupported(str(error)) from None
    symbols = [f"{name} {call.place(tensor)} {dim}" for name, tensor, dim in found["symbols"] if tensor is not None]
    from framefuse import __version__

    texts = {
        "graph": _C.arrange_export(found["text"], rows, returned),
        "results": "\n".join(map(str, results)),
        "symbols": "\n".join(symbols),
        "facts": "\n".join(found["facts"]),
        "deferred": "\n".join(found["deferred"]),
        "guessed": "\n".join(map(str, found["guessed"])),
        "default_dtype": DTYPES[torch.get_default_dtype()],
        "guards": found["guards"],
        "call": json.dumps({"parameters": call.rows, "result": tree}),
        "made_by": f"framefuse {__version__}, torch {torch.__version__}",
    }
    return _C.make_package(texts, list(weights.tensors), list(weights.tensors.values()))
