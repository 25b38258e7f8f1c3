"""Flattens any object graph to lines `(path, value)` that two runs can be compared by.

Identity is part of the picture: an object met again yields `is <first path>`, a storage `shares <first path>`.
Invariant: taking a snapshot runs no user code (no property, no __getattr__, no user __eq__, __hash__, __iter__ or
__repr__) and changes nothing.
"""

from __future__ import annotations

import array
import collections
import dis
import enum
import functools
import hashlib
import math
import random
import re
import types
from typing import Any, NamedTuple

import numpy as np
import torch

Line = tuple[str, Any]

_ATOMS = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented), range, slice)
GRAD_FN = ".grad_fn"
_TORCH_ATOMS = (torch.dtype, torch.device, torch.layout, torch.memory_format)
# Marks that a system leaves on a user's module or tensor to know it again; no program reads them.
_MARKS_OF_SYSTEMS = ("_is_torch_compile", "_dynamo_", "_framefuse_")
_ITERATOR_STATES = {
    type(iter([])),
    type(iter(())),
    type(iter({})),
    type(iter(range(0))),
    type(iter("")),
    enumerate,
    zip,
    map,
    filter,
}


# No two runs have an object at the same place.
_ADDRESS = re.compile(r" at 0x[0-9a-f]{8,}")


def _atom_text(value: Any) -> str:
    return f"{type(value).__name__} {_without_addresses(repr(value))}"


def _without_addresses(text: str) -> str:
    return _ADDRESS.sub(" at …", text)


def _random_state_of(generator: Any) -> str:
    if isinstance(generator, torch.Generator):
        state = generator.get_state().numpy().tobytes()
    elif isinstance(generator, np.random.Generator):
        state = repr(generator.bit_generator.state).encode()
    else:
        state = repr(generator.getstate() if isinstance(generator, random.Random) else generator.get_state(legacy=False)).encode()
    return hashlib.sha1(state).hexdigest()


def is_program_code(filename: str) -> bool:
    """Whether a file holds user code of a conformance run (programs, ways, fuzzed programs)."""
    return "/conformance/programs/" in filename or filename.endswith("/conformance/ways.py") or "<fuzz" in filename


def _strides(path: str, value: torch.Tensor) -> tuple[int, ...]:
    """Of a gradient only where they lead to another element: torch promises no more of a sum of gradients."""
    of_gradient = path.endswith(".grad")
    return tuple(s for s, n in zip(value.stride(), value.shape) if n > 1 or not of_gradient)


def _name_of_history(value: torch.Tensor) -> str | None:
    """As the text of a tensor has it."""
    try:
        return value.grad_fn.name() if value.grad_fn is not None else None
    except RuntimeError:  # a view whose base was written in a way that it has no gradient for
        return "Invalid"


class Snapshot:
    """One picture; objects added by several calls share its identities."""

    def __init__(self, versions: bool = False, grad_fns: bool = True):
        self.lines: list[Line] = []
        self._versions = versions
        self._grad_fns = grad_fns
        self._seen: dict[int, str] = {}
        self._storages: dict[int, str] = {}
        self._alive: list[Any] = []

    def add(self, path: str, value: Any) -> None:
        """Appends the lines of `value` under `path`."""
        if type(value) in _ATOMS:
            self.lines.append((path, _atom_text(value)))
            return
        if issubclass(type(value), _TORCH_ATOMS):
            self.lines.append((path, repr(value)))
            return
        first = self._seen.get(id(value))
        if first is not None:
            self.lines.append((path, f"is {first}"))
            return
        self._seen[id(value)] = path
        self._alive.append(value)
        self._add_object(path, value)

    def _add_object(self, path: str, value: Any) -> None:
        kind = type(value)
        self.lines.append((path, f"<{kind.__qualname__}>"))
        if issubclass(kind, torch.Tensor):
            self._add_tensor(path, value)
        elif issubclass(kind, (np.ndarray, np.generic)):
            self._add_array(path, value)
        elif issubclass(kind, (types.FunctionType, types.MethodType, functools.partial, types.BuiltinFunctionType)):
            self._add_callable(path, value)
        elif issubclass(kind, type):
            self._add_class(path, value)
        elif issubclass(kind, types.ModuleType):
            self.lines.append((path + ".name", value.__name__))
        elif issubclass(kind, enum.Enum):
            self.lines.append((path + ".member", value._name_))
        elif issubclass(kind, BaseException):
            self.add_exception(path, value)
        elif issubclass(kind, types.GeneratorType):
            self._add_generator(path, value)
        elif issubclass(kind, types.CellType):
            self._add_cell(path, value)
        elif issubclass(kind, (random.Random, torch.Generator, np.random.Generator, np.random.RandomState)):
            self.lines.append((path + ".state", _random_state_of(value)))
        elif kind in _ITERATOR_STATES:
            self._add_iterator(path, value)
        else:
            self._add_contents(path, value)
            self._add_instance_state(path, value)

    def _add_tensor(self, path: str, value: torch.Tensor) -> None:
        with torch._C.DisableTorchFunctionSubclass():  # a subclass may count, and the content is a plain tensor
            self._add_facts_of_tensor(path, value)

    def _add_facts_of_tensor(self, path: str, value: torch.Tensor) -> None:
        add = self.lines.append
        add((path + ".dtype", str(value.dtype)))
        add((path + ".requires_grad", value.requires_grad))
        add((path + ".is_leaf", value.is_leaf))
        add((path + ".flags", (value.is_conj(), value.is_neg(), value.is_inference(), str(value.device))))
        add((path + ".layout", str(value.layout)))
        with torch.no_grad():
            plain = value.detach()
            if value.layout is torch.strided:
                add((path + ".shape", (tuple(value.shape), _strides(path, value), value.storage_offset())))
                storage = value.untyped_storage()
                if storage.nbytes():
                    first = self._storages.setdefault(storage._cdata, path)
                    add((path + ".storage", "own" if first == path else f"shares {first}"))
                    self._alive.append(storage)
                if not value.is_meta:
                    add((path + ".data", TensorData(plain.clone())))
            else:
                add((path + ".data", TensorData(plain.to_dense())))
        if self._grad_fns:
            add((path + GRAD_FN, _name_of_history(value)))
            # A write gives a view the history of its base.
            add((path + ".is_view", value.requires_grad and value._is_view()))
        if self._versions and not value.is_inference():
            add((path + ".version", value._version))
        if value.is_leaf and value.grad is not None:
            self.add(path + ".grad", value.grad)
        attributes = {k: v for k, v in value.__dict__.items() if not k.startswith(_MARKS_OF_SYSTEMS)}
        if attributes:
            self.add(path + ".__dict__", attributes)
        if value._backward_hooks:
            add((path + ".hooks", len(value._backward_hooks)))

    def _add_array(self, path: str, value: np.ndarray | np.generic) -> None:
        content = np.asarray(value)
        layout = (str(content.dtype), content.shape, content.strides if isinstance(value, np.ndarray) else None)
        self.lines.append((path + ".layout", layout))
        self.lines.append((path + ".data", repr(content.tolist())))
        if isinstance(value, np.ndarray):
            self.lines.append((path + ".flags", (content.flags.writeable, content.flags.owndata)))

    def _add_callable(self, path: str, value: Any) -> None:
        kind = type(value)
        if issubclass(kind, functools.partial):
            self.add(path + ".func", value.func)
            self.add(path + ".args", value.args)
            self.add(path + ".keywords", value.keywords)
        elif issubclass(kind, types.MethodType):
            self.add(path + ".__self__", value.__self__)
            self.add(path + ".__func__", value.__func__)
        elif issubclass(kind, types.BuiltinFunctionType):
            self.lines.append((path + ".name", value.__qualname__))
            if value.__self__ is not None and not isinstance(value.__self__, types.ModuleType):
                self.add(path + ".__self__", value.__self__)
        else:
            self.lines.append((path + ".name", value.__qualname__))
            if is_program_code(value.__code__.co_filename):
                self._add_function_state(path, value)

    def _add_function_state(self, path: str, value: types.FunctionType) -> None:
        self.add(path + ".__defaults__", value.__defaults__)
        self.add(path + ".__kwdefaults__", value.__kwdefaults__)
        if value.__dict__:
            self.add(path + ".__dict__", value.__dict__)
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
            # A class's own names, which are compared there. When another took its place, the collector empties them.
            if name != "__classdict__":
                self.add(f"{path}.cell({name})", cell)

    def _add_class(self, path: str, value: type) -> None:
        self.lines.append((path + ".__qualname__", f"{value.__module__}.{value.__qualname__}"))
        if not value.__module__.startswith(("conformance.programs", "<fuzz")):
            return
        for name, attribute in type.__dict__["__dict__"].__get__(value).items():
            if name.startswith("__") and name.endswith("__") and not isinstance(attribute, types.FunctionType):
                continue
            if name in ("_abc_impl",):
                continue
            self.add(f"{path}.{name}", attribute)

    def _add_generator(self, path: str, value: types.GeneratorType) -> None:
        frame = value.gi_frame
        self.lines.append((path + ".name", value.__qualname__))
        self.lines.append((path + ".at", "finished" if frame is None else f"line {frame.f_lineno}"))
        if frame is not None:
            self.add(path + ".locals", dict(frame.f_locals))

    def _add_cell(self, path: str, value: types.CellType) -> None:
        try:
            content = value.cell_contents
        except ValueError:
            self.lines.append((path + ".content", "empty"))
        else:
            self.add(path + ".content", content)

    def _add_iterator(self, path: str, value: Any) -> None:
        # __reduce__ of the builtin iterators names what is left without consuming it.
        try:
            state = value.__reduce__()[1:]
        except TypeError:
            return
        for index, part in enumerate(state):
            self.add(f"{path}.state{index}", part)

    def _add_contents(self, path: str, value: Any) -> None:
        kind = type(value)
        if issubclass(kind, dict):
            self._add_dict(path, value)
        elif issubclass(kind, list):
            self._add_sequence(path, list.__getitem__(value, slice(None)))
        elif issubclass(kind, tuple):
            self._add_sequence(path, tuple.__getitem__(value, slice(None)))
        elif issubclass(kind, (set, frozenset)):
            self._add_set(path, value)
        elif issubclass(kind, collections.deque):
            self.lines.append((path + ".maxlen", value.maxlen))
            self._add_sequence(path, list(collections.deque.__iter__(value)))
        elif issubclass(kind, (types.MappingProxyType, type({}.keys()), type({}.values()), type({}.items()))):
            self._add_sequence(path, list(value))
        elif issubclass(kind, (bytearray, array.array, memoryview)):
            self.lines.append((path + ".data", bytes(value)))
        else:
            for base in (int, float, str, bytes, complex):
                if issubclass(kind, base):
                    self.lines.append((path + ".value", base.__repr__(value)))

    def _add_sequence(self, path: str, items: Any) -> None:
        self.lines.append((path + ".len", len(items)))
        for index, item in enumerate(items):
            self.add(f"{path}[{index}]", item)

    def _add_dict(self, path: str, value: dict[Any, Any]) -> None:
        if issubclass(type(value), collections.defaultdict):
            self.add(path + ".default_factory", value.default_factory)
        items = list(dict.items(value))
        if issubclass(type(value), collections.OrderedDict):  # its order is its own, not the dict's
            places = {id(key): place for place, key in enumerate(collections.OrderedDict.__iter__(value))}
            items.sort(key=lambda item: places.get(id(item[0]), len(places)))
        self.lines.append((path + ".len", len(items)))
        for index, (key, item) in enumerate(items):
            if type(key) in _ATOMS:
                self.add(f"{path}[{key!r}]", item)
                self.lines.append((f"{path}.key{index}", _atom_text(key)))
            else:
                self.add(f"{path}.key{index}", key)
                self.add(f"{path}.value{index}", item)

    def _add_set(self, path: str, value: Any) -> None:
        elements = list(set.__iter__(value) if isinstance(value, set) else frozenset.__iter__(value))
        plain = [_atom_text(e) for e in elements if type(e) in _ATOMS]
        others = [e for e in elements if type(e) not in _ATOMS]
        # A set of address-hashed objects has no order that two runs share: only count and types are compared.
        self.lines.append((path + ".elements", tuple(sorted(plain) if others else plain)))
        self.lines.append((path + ".objects", tuple(sorted(type(e).__qualname__ for e in others))))

    def _add_instance_state(self, path: str, value: Any) -> None:
        try:
            state = object.__getattribute__(value, "__dict__")
        except AttributeError:
            state = None
        if isinstance(state, dict):
            for name, item in list(state.items()):
                if not (type(name) is str and name.startswith(_MARKS_OF_SYSTEMS)):
                    self.add(f"{path}.{name}", item)
        for cls in type(value).__mro__:
            slots = cls.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                descriptor = cls.__dict__.get(name)
                if isinstance(descriptor, types.MemberDescriptorType):
                    self._add_slot(f"{path}.{name}", descriptor, value)

    def _add_slot(self, path: str, descriptor: Any, owner: Any) -> None:
        try:
            content = descriptor.__get__(owner)
        except AttributeError:
            self.lines.append((path, "unset"))
        else:
            self.add(path, content)

    def add_exception(self, path: str, error: BaseException) -> None:
        """Type, text, arguments, notes, traceback lines in user code, cause and context."""
        self._seen.setdefault(id(error), path)
        self.lines.append((path + ".type", f"{type(error).__module__}.{type(error).__qualname__}"))
        self.lines.append((path + ".text", _without_addresses(BaseException.__str__(error))))
        self.add(path + ".args", error.args)
        self.add(path + ".notes", getattr(error, "__notes__", None))
        self.lines.append((path + ".traceback", tuple(user_traceback(error))))
        self.lines.append((path + ".suppress_context", error.__suppress_context__))
        if isinstance(error, StopIteration):
            self.add(path + ".value", error.value)
        self.add(path + ".cause", error.__cause__)
        self.add(path + ".context", error.__context__)
        for name, item in error.__dict__.items():
            if name not in ("__notes__", "_torch_dynamo_tracer_output"):
                self.add(f"{path}.{name}", item)
        if isinstance(error, BaseExceptionGroup):
            for index, child in enumerate(error.exceptions):
                self.add(f"{path}.exceptions[{index}]", child)


class TensorData:
    """A tensor's content, compared bit for bit (or within a tolerance, for systems that may round differently)."""

    def __init__(self, content: torch.Tensor):
        self.content = content

    def same(self, other: Any, tolerance: float) -> bool:
        if not isinstance(other, TensorData) or self.content.dtype != other.content.dtype:
            return False
        mine, theirs = self.content, other.content
        if mine.shape != theirs.shape:
            return False
        if _bits(mine) == _bits(theirs):
            return True
        if tolerance and (mine.is_floating_point() or mine.is_complex()):
            return torch.allclose(mine, theirs, rtol=tolerance, atol=tolerance, equal_nan=True)
        return False

    def __repr__(self) -> str:
        text = repr(self.content).replace("\n", "")
        return text if len(text) < 160 else text[:157] + "..."


def _bits(value: torch.Tensor) -> bytes:
    flat = torch.empty(value.numel(), dtype=value.dtype)
    flat.copy_(value.resolve_conj().resolve_neg().reshape(-1))
    return flat.view(torch.uint8).numpy().tobytes()


def _uses_local(code: types.CodeType, at: int, error: UnboundLocalError) -> bool:
    """Whether the instruction loads or deletes the name that the error is about."""
    if dis.opname[code.co_code[at]] not in ("LOAD_FAST", "DELETE_FAST"):
        return False
    return f"'{code.co_varnames[code.co_code[at + 1]]}'" in str(error)


def _line_of(step: types.TracebackType, error: BaseException) -> int:
    """CPython 3.11 merges a load with the instruction before it once a function is warm, and gives an unbound name that
    one's line: without this, a call has another line than the same call before it."""
    code, at = step.tb_frame.f_code, step.tb_lasti
    if not isinstance(error, UnboundLocalError) or step.tb_next is not None or at + 2 >= len(code.co_code):
        return step.tb_lineno
    merged = not _uses_local(code, at, error) and _uses_local(code, at + 2, error)
    return list(code.co_positions())[at // 2 + 1][0] if merged else step.tb_lineno


def user_traceback(error: BaseException) -> list[str]:
    """The traceback's entries that lie in user code, as `function:line`."""
    entries = []
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        if is_program_code(code.co_filename):
            entries.append(f"{code.co_name}:{_line_of(step, error)}")
        step = step.tb_next
    return entries


class Tolerance(NamedTuple):
    """How far numbers may be apart, relative to them; gradients have a bound of their own."""

    values: float
    gradients: float


def _same(value: Any, other: Any, tolerance: float) -> bool:
    """A float may have been read from a tensor, and then is as near as the tensor's elements are."""
    if value == other or not tolerance:
        return value == other
    kind, _, number = value.partition(" ") if isinstance(value, str) else ("", "", "")
    if kind != "float" or not isinstance(other, str) or not other.startswith("float "):
        return False
    return math.isclose(float(number), float(other.partition(" ")[2]), rel_tol=tolerance, abs_tol=tolerance)


def first_differences(expected: list[Line], actual: list[Line], tolerance: Tolerance, limit: int = 4) -> list[str]:
    """Readable differences between two pictures, the first ones only."""
    differences: list[str] = []
    actual_by_path = dict(actual)
    expected_paths = {path for path, _ in expected}
    for path, value in expected:
        other = actual_by_path.get(path, "nothing")
        allowed = tolerance.gradients if path.endswith(".grad.data") else tolerance.values
        same = value.same(other, allowed) if isinstance(value, TensorData) else _same(value, other, allowed)
        if not same:
            differences.append(f"{path}: expected {value!r}, got {other!r}")
    for path, value in actual:
        if path not in expected_paths:
            differences.append(f"{path}: expected nothing, got {value!r}")
    if not differences and [p for p, _ in expected] != [p for p, _ in actual]:
        differences.append("order: the same parts in another order")
    # An exception that only one run raised explains every other difference.
    differences.sort(
        key=lambda text: 0 if text.split(": expected")[0].endswith((".raised.type", ".raised.text")) else 1
    )
    return differences[:limit]
