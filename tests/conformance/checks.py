"""What a self-check of the judge is: one program in two forms that differ in one thing that a user can see.

The judge must call the first form equal to itself, and see that the second differs. `machine` loads the judge's modules
afresh, as they are or with a bug planted in their text. Invariant: a check knows nothing of what is planted, and a
replacement that does not match its module exactly once is an error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch.utils.hooks import RemovableHandle

from conformance import global_state, native_errors
from conformance.program import Case, Program
from conformance.ways import WAYS

# The modules that make and compare pictures of runs, each after those that it imports.
MODULES = ("snapshot", "gradients", "global_state", "observation", "rounding", "judge")


@dataclasses.dataclass(frozen=True)
class Check:
    """`build(differs)` gives the case; `tolerance` is that of values and of gradients."""

    name: str
    build: Callable[[bool], Case]
    way: str
    tolerance: tuple[float, float]
    number: int


CHECKS: dict[str, Check] = {}


def check(
    build: Callable[[bool], Case] | None = None, *, way: str = "alone", tolerance: tuple[float, float] = (0.0, 0.0), number: int = 0
) -> Any:
    """Registers a check by its function's name; `number` says which gradient its backward starts from."""

    def register(build: Callable[[bool], Case]) -> Callable[[bool], Case]:
        assert build.__name__ not in CHECKS, build.__name__
        CHECKS[build.__name__] = Check(build.__name__, build, way, tolerance, number)
        return build

    return register if build is None else register(build)


def as_program(f: types.FunctionType) -> types.FunctionType:
    """The function, as code of a program: its lines count in tracebacks and warnings, and its state is compared."""
    f.__code__ = f.__code__.replace(co_filename="<fuzz check>")
    return f


def source_of(module: str) -> str:
    return (pathlib.Path(__file__).parent / f"{module}.py").read_text(encoding="utf-8")


def with_replacements(module: str, replacements: Mapping[str, str]) -> str:
    """The module's text with each of the replacements made, at the one place where its old text is."""
    text = source_of(module)
    for old, new in replacements.items():
        if text.count(old) != 1:
            raise ValueError(f"{text.count(old)} places in {module}.py, not one, have the text {old!r}")
        text = text.replace(old, new)
    return text


def machine(texts: Mapping[str, str] | None = None) -> types.SimpleNamespace:
    """Fresh copies of the judge's modules, with other texts for some of them; nothing else sees these copies."""
    loaded = {}
    with _modules_put_back():
        for name in MODULES:
            module = types.ModuleType(f"conformance.{name}")
            sys.modules[module.__name__] = loaded[name] = module
            setattr(sys.modules["conformance"], name, module)
            text = (texts or {}).get(name) or source_of(name)
            exec(compile(text, f"planted {name}.py", "exec", dont_inherit=True), module.__dict__)
    return types.SimpleNamespace(**loaded)


@contextlib.contextmanager
def _modules_put_back() -> Iterator[None]:
    import conformance

    before = {name: sys.modules.get(f"conformance.{name}") for name in MODULES}
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(f"conformance.{name}", None)
                delattr(conformance, name)
            else:
                sys.modules[f"conformance.{name}"] = module
                setattr(conformance, name, module)


def _lines(judging: types.SimpleNamespace, check: Check, differs: bool) -> list[Any]:
    program = Program("test/check", "test", lambda: check.build(differs), True, None, None, (), None, (3, 11))
    with native_errors.as_file():
        return judging.judge._observe_and_forget(program, WAYS[check.way], None, check.number).lines


def failure(judging: types.SimpleNamespace, check: Check) -> str | None:
    """How this judge fails the check: it sees a difference where there is none, or none where there is one."""
    tolerance = judging.snapshot.Tolerance(*check.tolerance)
    first = _lines(judging, check, False)
    seen = judging.snapshot.first_differences(first, _lines(judging, check, False), tolerance)
    if seen:
        return f"{check.name}: equal runs differ: {seen}"
    if not judging.snapshot.first_differences(first, _lines(judging, check, True), tolerance):
        return f"{check.name}: the difference is not seen"
    return None


def _global_state() -> dict[str, Any]:
    return {**global_state.modes(), "number of the next hook": RemovableHandle.next_id}


def first_failure(judging: types.SimpleNamespace, checks: list[Check]) -> str | None:
    """The first check that this judge fails; a judge that raises, or that leaves global state changed, fails, too."""
    before = _global_state()
    for one in checks:
        try:
            failed = failure(judging, one)
        except Exception as error:
            failed = f"{one.name}: {type(error).__name__}: {error}"
        if failed is None and _global_state() != before:
            failed = f"{one.name}: global state is left changed"
        if failed:
            return failed
    return None
