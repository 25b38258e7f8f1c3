"""What a conformance program is, and the registry of all of them.

A program is a factory: each call of it builds fresh state and returns a `Case`, so that a run can never see what an
earlier run left behind. Everything reachable from the function (closure, defaults), its arguments and `observe` is
compared after every call. Invariant: a factory is deterministic and touches nothing but what it builds or resets.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import pkgutil
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_REGISTRY: dict[str, "Program"] = {}


class Args:
    """New arguments for the next call, returned by a state change."""

    def __init__(self, *args: Any, **kwargs: Any):
        self.args = args
        self.kwargs = kwargs


class Case:
    """One built program: the function, its arguments, and the state changes between calls.

    `then` holds one callable a further call: it changes state and may return `Args`. `observe` is compared beside what
    the function reaches itself, and so is what `look` returns after each call. `versions` also compares
    version counters. With `named=False` the names of results' histories are not compared: a conditional's branches give
    different ones (docs/architecture/autograd.md).
    `forward_only` stops the judge from running a backward through the results.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        *args: Any,
        kwargs: dict[str, Any] | None = None,
        then: Sequence[Callable[[], Args | None]] = (),
        observe: Any = None,
        look: Callable[[], Any] | None = None,
        versions: bool = False,
        named: bool = True,
        forward_only: bool = False,
    ):
        self.f = f
        self.args = args
        self.kwargs = kwargs or {}
        self.then = tuple(then)
        self.observe = observe
        self.look = look
        self.versions = versions
        self.named = named
        self.forward_only = forward_only


@dataclasses.dataclass(frozen=True)
class Program:
    """A factory with what it states: captured whole or not, how many graphs, which soundness rule it shows.

    `whole`: capture must succeed with fullgraph. `graphs`: graphs of the first call, counted when stated.
    `not_ways`: ways of running that have no meaning for it, or would take minutes. `known_bug`: the torch.compile bug that it must find.
    `runs`: a module of models that a rewrite changes with the factory; the factory's module names it.
    `break_step`: a break is forced before every so manieth instruction; more than 1 where every one takes minutes.
    """

    name: str
    topic: str
    factory: Callable[[], Case]
    whole: bool
    graphs: int | None
    rule: int | None
    not_ways: tuple[str, ...]
    known_bug: str | None
    minimum_python: tuple[int, int]
    runs: types.ModuleType | None = None
    break_step: int = 1

    def build(self) -> Case:
        case = self.factory()
        if not isinstance(case, Case):
            raise TypeError(f"program {self.name} built {type(case).__name__}, not a Case")
        return case

    @contextlib.contextmanager
    def names_put_back(self) -> Iterator[None]:
        """A run may write names of the factory's module: others find the same there whichever ran before them."""
        names = self.factory.__globals__
        before = dict(names)
        try:
            yield
        finally:
            for name in names.keys() - before.keys():
                del names[name]
            for name, value in before.items():
                if name not in names or names[name] is not value:
                    names[name] = value

    def runs_here(self) -> bool:
        return sys.version_info[:2] >= self.minimum_python


def program(
    factory: Callable[[], Case] | None = None,
    *,
    whole: bool = True,
    graphs: int | None = None,
    rule: int | None = None,
    not_ways: Sequence[str] = (),
    known_bug: str | None = None,
    minimum_python: tuple[int, int] = (3, 11),
    runs: types.ModuleType | None = None,
    break_step: int = 1,
) -> Any:
    """Registers a program; its name is topic/function."""

    def register(build: Callable[[], Case]) -> Callable[[], Case]:
        topic = build.__module__.rpartition(".")[2]
        name = f"{topic}/{build.__name__}"
        # A rewrite executes a program's module again under another name; only the original registers.
        if build.__module__.startswith("conformance.programs."):
            if name in _REGISTRY:
                raise ValueError(f"two programs are named {name}")
            _REGISTRY[name] = Program(
                name, topic, build, whole, graphs, rule, tuple(not_ways), known_bug, minimum_python, runs, break_step
            )
        return build

    return register if factory is None else register(factory)


def all_programs(select: Sequence[str] = ()) -> list[Program]:
    """Every program that runs on this Python, in a stable order; `select` keeps names that contain one of its texts."""
    from conformance import programs

    for module in pkgutil.iter_modules(programs.__path__):
        importlib.import_module(f"conformance.programs.{module.name}")
    found = [p for p in _REGISTRY.values() if p.runs_here()]
    if select:
        found = [p for p in found if any(text in p.name for text in select)]
    return sorted(found, key=lambda p: p.name)
