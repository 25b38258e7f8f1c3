"""Bugs to plant in the judge's own text, each of which a self-check must find.

Two kinds: those of the table, each a replacement that would leave one fact uncompared or compared wrongly, and those
that `deletions` makes of the text itself, one for each statement that records or restores something. Invariant: a bug
changes the text of one module at one place, else planting it is an error.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Mapping

from conformance.checks import MODULES, source_of, with_replacements


@dataclasses.dataclass(frozen=True)
class Bug:
    """A module of the judge's and its text with the bug in."""

    name: str
    module: str
    text: str


_NO_ORDER = {"if not differences and [p for p, _ in expected] != [p for p, _ in actual]:": "if False:"}
_TOLERANCE = 'tolerance.gradients if path.endswith(".grad.data") else tolerance.values'

# name: (module, {text: what is planted for it})
_TABLE: dict[str, tuple[str, Mapping[str, str]]] = {
    "identity": ("snapshot", {'self.lines.append((path, f"is {first}"))': "del self._seen[id(value)]; self.add(path, value)"}),
    "value of a number": ("snapshot", {"{_without_addresses(repr(value))}": ""}),
    "address that differs": ("snapshot", {'_ADDRESS.sub(" at …", text)': "text"}),
    "number taken for an address": ("snapshot", {" at 0x[0-9a-f]{8,}": "0x[0-9a-f]+"}),
    "what stands behind an address": ("snapshot", {"[0-9a-f]{8,}": ".*"}),
    "type of an object": ("snapshot", {'f"<{kind.__qualname__}>"': '"<object>"'}),
    "dtype": (
        "snapshot",
        {
            "add((path + \".dtype\", str(value.dtype)))": "pass",
            " or self.content.dtype != other.content.dtype": "",
        },
    ),
    "requires_grad": ("snapshot", {'".requires_grad", value.requires_grad)': '".requires_grad", False)'}),
    "is_leaf": ("snapshot", {'".is_leaf", value.is_leaf)': '".is_leaf", True)'}),
    "conjugation": ("snapshot", {"(value.is_conj(), ": "("}),
    "negation": ("snapshot", {"value.is_neg(), ": ""}),
    "inference": ("snapshot", {"value.is_inference(), str": "str"}),
    "layout": ("snapshot", {'".layout", str(value.layout))': '".layout", "")'}),
    "shape": (
        "snapshot",
        {"(tuple(value.shape), _strides(path, value)": "(_strides(path, value)", "if mine.shape != theirs.shape:": "if False:"},
    ),
    "strides": ("snapshot", {"_strides(path, value), ": ""}),
    "strides of a gradient": ("snapshot", {"if n > 1 or not of_gradient": "if not of_gradient"}),
    "storage offset": ("snapshot", {", value.storage_offset()))": "))"}),
    "shared storage": ("snapshot", {'"own" if first == path else f"shares {first}"': '"own"'}),
    "whose storage is shared": ("snapshot", {'f"shares {first}"': '"shares"'}),
    "data": ("snapshot", {"if _bits(mine) == _bits(theirs):": "if True:"}),
    "NaN equal to everything": (
        "snapshot",
        {
            "if _bits(mine) == _bits(theirs):": "if not (mine > theirs).any() and not (mine < theirs).any():",
        },
    ),
    "data by value": ("snapshot", {"if _bits(mine) == _bits(theirs):": "if torch.equal(mine, theirs):"}),
    "data of a sparse tensor": ("snapshot", {"TensorData(plain.to_dense())": "TensorData(plain.to_dense() * 0)"}),
    ".grad": ("snapshot", {'self.add(path + ".grad", value.grad)': 'add((path + ".grad", "there"))'}),
    "hooks": ("snapshot", {"len(value._backward_hooks)": "1"}),
    "version": ("snapshot", {'(path + ".version", value._version)': '(path + ".version", 0)'}),
    "strides of an array": ("snapshot", {"content.strides if isinstance(value, np.ndarray) else None": "None"}),
    "shape of an array": ("snapshot", {"content.shape, ": ""}),
    "type of an array": ("snapshot", {"(str(content.dtype), ": "("}),
    "read-only array": ("snapshot", {"content.flags.writeable, ": ""}),
    "array that is a view": ("snapshot", {", content.flags.owndata": ""}),
    "program code": ("snapshot", {'or "<fuzz" in filename': ""}),
    "finished generator": ("snapshot", {'"finished" if frame is None else f"line {frame.f_lineno}"': '"somewhere"'}),
    "dict order": ("snapshot", {'f"{path}.key{index}", _atom_text(key)': 'f"{path}.key of {key!r}", ""', **_NO_ORDER}),
    "order of an ordered dict": ("snapshot", {"if issubclass(type(value), collections.OrderedDict):": "if False:"}),
    "order of the parts": ("snapshot", _NO_ORDER),
    "elements of a set": ("snapshot", {"tuple(sorted(plain) if others else plain)": "len(plain)"}),
    "order of a set": ("snapshot", {"sorted(plain) if others else plain": "sorted(plain)"}),
    "objects in a set": ("snapshot", {"tuple(sorted(type(e).__qualname__ for e in others))": "len(others)"}),
    "empty cell": ("snapshot", {'(path + ".content", "empty")': '(path + ".content", "str \'empty\'")'}),
    "unset slot": ("snapshot", {'self.lines.append((path, "unset"))': "self.lines.append((path, \"str 'unset'\"))"}),
    "notes": ("snapshot", {'getattr(error, "__notes__", None)': "None"}),
    "number of notes": ("snapshot", {'getattr(error, "__notes__", None)': 'len(getattr(error, "__notes__", ())) > 0'}),
    "cause": ("snapshot", {"error.__cause__)": "None)"}),
    "context": ("snapshot", {"error.__context__)": "None)"}),
    "context taken for the cause": ("snapshot", {'".cause", error.__cause__': '".cause", error.__context__'}),
    "suppressed context": ("snapshot", {"error.__suppress_context__)": "False)"}),
    "lines of a traceback": ("snapshot", {"{code.co_name}:{_line_of(step, error)}": "{code.co_name}"}),
    "line of an unbound name in warm code": ("snapshot", {"_line_of(step, error)}": "step.tb_lineno}"}),
    "line after any unbound name": ("snapshot", {"merged = not _uses_local(code, at, error) and ": "merged = "}),
    "functions of a traceback": ("snapshot", {"{code.co_name}:{_line_of(step, error)}": ""}),
    "module of an exception's class": (
        "snapshot",
        {
            "{type(error).__module__}.{type(error).__qualname__}": "{type(error).__qualname__}",
        },
    ),
    "tolerance that is too wide": ("snapshot", {"rtol=tolerance": "rtol=1.0"}),
    "absolute tolerance that is too wide": ("snapshot", {"atol=tolerance": "atol=1e-1"}),
    "no tolerance": ("snapshot", {"if tolerance and (mine.is_floating_point() or mine.is_complex()):": "if False:"}),
    "tolerance of integers": ("snapshot", {"if tolerance and (mine.is_floating_point() or mine.is_complex()):": "if tolerance:"}),
    "tolerance of Python's floats that is too wide": ("snapshot", {"rel_tol=tolerance": "rel_tol=1.0"}),
    "no tolerance of Python's floats": ("snapshot", {"return math.isclose(": "return False and math.isclose("}),
    "tolerance that forgets NaN": ("snapshot", {"equal_nan=True": "equal_nan=False"}),
    "gradients' tolerance for values": ("snapshot", {_TOLERANCE: "tolerance.gradients"}),
    "values' tolerance for gradients": ("snapshot", {_TOLERANCE: "tolerance.values"}),
    "more than was expected": ("snapshot", {"if path not in expected_paths:": "if False:", **_NO_ORDER}),
    "less than was expected": (
        "snapshot",
        {
            'actual_by_path.get(path, "nothing")': "actual_by_path.get(path, value)",
            **_NO_ORDER,
        },
    ),
    "no difference is told": ("snapshot", {"return differences[:limit]": "return []"}),
    "no backward": ("gradients", {"if not outputs:": "if True:"}),
    "backward of tensors only": ("gradients", {"elif isinstance(value, (list, tuple)):": "elif False:"}),
    "backward of no dicts": ("gradients", {"elif isinstance(value, dict):": "elif False:"}),
    "backward of the first result": (
        "gradients",
        {
            "for t in tensors_in(result) if": "for t in list(tensors_in(result))[:1] if",
        },
    ),
    "backward's error": ("gradients", {"        return error\n": "        return None\n"}),
    "backward without gradients on": ("gradients", {"with torch.enable_grad():": "with torch.no_grad():"}),
    "equal weights": ("gradients", {"torch.linspace(0.5, 1.5, ": "torch.linspace(1.0, 1.0, "}),
    "transposed gradient": ("gradients", {".permute(order).contiguous().permute(order)": ""}),
    "expanded gradient": ("gradients", {".expand(t.shape)\n": ".repeat(t.shape)\n"}),
    "gradient with gaps": ("gradients", {", -1)[..., 0]": ", -1)[..., 0].contiguous()"}),
    "gaps that hold nothing": ("gradients", {"weights * 0 + 1e4": "weights"}),
    "missing gradient of the first": ("gradients", {"outputs[1::2] or outputs": "outputs"}),
    "missing gradient of the second": ("gradients", {"_by_a_loss(outputs[::2])": "_by_a_loss(outputs)"}),
    "no gradient where there is one result": (
        "gradients",
        {
            "outputs[1::2] or outputs": "outputs[1::2] or outputs[0].new_ones(1, requires_grad=True)[None]",
        },
    ),
    "one kind of gradient": ("gradients", {"number % len(KINDS)": "0"}),
    "kind that stays": ("observation", {"gradients + number)": "gradients)"}),
    "forward only": ("observation", {"if not case.forward_only:\n                backward_error": "if True:\n                backward_error"}),
    "warnings": ("observation", {"if not _is_own(w)": "if False"}),
    "warnings of libraries": (
        "observation",
        {
            "if not _is_own(w)": 'if not _is_own(w) and _warning_text(w).split()[2] != "elsewhere:"',
        },
    ),
    "category of a warning": ("observation", {"{warning.category.__name__} at": "at"}),
    "line of a warning": ("observation", {'f"{warning.lineno}" if': '"a program" if'}),
    "text of a warning": ("observation", {": {str(warning.message)[:120]}": ""}),
    "repeated warnings": ("observation", {'warnings.simplefilter("always")': 'warnings.simplefilter("once")'}),
    "stdout": ("observation", {"output.getvalue()": '""'}),
    "stderr": ("observation", {"native_errors.warnings_since(errors)": "()"}),
    "number of warnings on stderr": ("observation", {"native_errors.warnings_since(errors)": "len(native_errors.warnings_since(errors))"}),
    "exception taken for a result": ("observation", {"if error is not None:": "if False:"}),
    "state changes": ("observation", {"fresh = change()": "fresh = None"}),
    "arguments of a later call": ("observation", {"args, kwargs = fresh.args, fresh.kwargs": "pass"}),
    "call after the last change": ("observation", {"[*case.then, lambda: None]": "[*case.then]"}),
    "thread": ("observation", {"if way.threaded:": "if False:"}),
    "a thread for each call": ("observation", {"_in_thread(one_call) if way.apart else one_call()": "one_call()"}),
    "growth": ("observation", {"live_tensors() - tensors": "0"}),
    "references": ("observation", {"sys.getrefcount(t) - count for": "0 for"}),
    "alive after a run": ("observation", {'("leaks.after", live_tensors())': '("leaks.after", 0)'}),
    "cycles taken for leaks": (
        "observation",
        {
            "    gc.collect()\n    kinds": "    kinds",
            "        gc.collect()\n        changes": "        changes",
        },
    ),
    "what existed taken for a leak": ("observation", {"    gc.freeze()\n": "    pass\n"}),
    "numbers kept by a random state": ("global_state", {', state["has_gauss"], state["gauss"])': ",)"}),
    "warn-only determinism": (
        "global_state",
        {
            ", torch.is_deterministic_algorithms_warn_only_enabled())": ",)",
            "mode[0], warn_only=mode[1]": "mode[0]",
        },
    ),
}  # fmt: skip


def table() -> Iterator[Bug]:
    for name, (module, replacements) in _TABLE.items():
        yield Bug(name, module, with_replacements(module, replacements))


def without_entries() -> Iterator[Bug]:
    """Each mode and each random state left out, and each kind of gradient."""
    for module, variable in (("global_state", "MODES"), ("global_state", "RANDOM_STATES"), ("gradients", "KINDS")):
        tree = ast.parse(source_of(module))
        for statement in tree.body:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
            if isinstance(target, ast.Name) and target.id == variable:
                entries = statement.value
        assert isinstance(entries, ast.Dict)
        for index in range(len(entries.keys)):
            key, value = entries.keys.pop(index), entries.values.pop(index)
            yield Bug(f"{variable} without {ast.literal_eval(key)}", module, ast.unparse(tree))
            entries.keys.insert(index, key)
            entries.values.insert(index, value)


# Statements whose loss no self-check sees, and why.
NOT_SEEN_BY_CHECKS = {
    'self.lines.append((path + ".len", len(items)))': "the items' own lines say it",
    'self.lines.append((path + ".text", _without_addresses(BaseException.__str__(error))))': "made of the arguments, and told first",
    "self._alive.append(value)": "keeps ids from being used again, which is up to the allocator",
    "self._alive.append(storage)": "keeps ids from being used again, which is up to the allocator",
    'add((path + ".dtype", str(value.dtype)))': "the data has it, too: the table has a bug in both",
    'self.lines.append((f"{path}.key{index}", _atom_text(key)))': "the paths and their order have it, too: the table has a bug in both",
    'differences.append(f"{path}: expected nothing, got {value!r}")': "so has the order of the parts: the table has a bug in both",
    'self.lines.append((path + ".content", "empty"))': "so has no content",
    'self.lines.append((path, "unset"))': "so has no content",
    "torch.clear_autocast_cache()": "the cache is by tensor, and each run makes its own",
    "torch.set_warn_always(True)": "a process can be told only once of what torch says once, and no check is its first",
    "torch.set_warn_always(warned_always)": "each run sets it",
    "observation.raised.append(error)": "the judge looks there for refusals: test_harness.py",
    "failures.append(error)": "of a factory that raises in a thread: test_harness.py",
    '_one_call(case, compiled, (case.args, case.kwargs), "call", Observation(), gradients)': "before memory is measured: test_work.py",
    "observation.peak = _peak(profile)": "a system's, compared with the saved list: test_work.py",
    "backward(result, gradients)": "as its memory is measured: test_work.py",
    "thread.join()": "a run that is compared before it has ended is a race",
    "differences.sort(key=lambda text: 0 if text.split(': expected')[0]"
    ".endswith(('.raised.type', '.raised.text')) else 1)": "what is told first",
    "gc.collect()": "the collector may have run anyway",
    "warnings.simplefilter('ignore')": "what a state change warns of is printed, not compared",
}


def deletions() -> Iterator[Bug]:
    """Each statement that is a call, left out: all that records a fact or puts one back is one. The last two modules
    compare what the others record."""
    for module in MODULES[:-2]:
        tree = ast.parse(source_of(module))
        excepted = {ast.unparse(ast.parse(text)) for text in NOT_SEEN_BY_CHECKS}
        for block in _blocks(tree):
            for index, statement in enumerate(block):
                if not _records(statement) or ast.unparse(statement) in excepted:
                    continue
                block[index] = ast.copy_location(ast.Pass(), statement)
                yield Bug(f"{module}:{statement.lineno} without {ast.unparse(statement)[:70]}", module, ast.unparse(tree))
                block[index] = statement


def _records(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.AugAssign):
        return "lines" in ast.unparse(statement.target)
    if isinstance(statement, ast.Assign):  # of an attribute or an item: something is put back
        target = statement.targets[0]
        return isinstance(target, (ast.Attribute, ast.Subscript)) and "self." not in ast.unparse(target)
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)


def _blocks(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    """Every list of statements, but for the module's and the classes' own."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef)):
            continue
        for field in ("body", "orelse", "finalbody"):
            if isinstance(block := getattr(node, field, None), list):
                yield block
