"""The ways of running a program: how its function is wrapped and what surrounds the calls.

A wrapper is user code too: the system under test compiles it and inlines the program. Invariant: the reference run uses
the same wrapper on plain Python, so that a difference can only come from the system under test.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint


def _same(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


def _between(f: Callable[..., Any]) -> Callable[..., Any]:
    probe = torch.arange(4, dtype=torch.float32)

    def between_two_operations(*args: Any, **kwargs: Any) -> Any:
        before = probe * 2 + 1
        result = f(*args, **kwargs)
        after = before.sum() + probe
        return result, before, after

    return between_two_operations


def _inlined(f: Callable[..., Any]) -> Callable[..., Any]:
    probe = torch.ones(3)

    def second_frame(args: Any, kwargs: Any) -> Any:
        scaled = probe * 3
        result = f(*args, **kwargs)
        return [result, scaled - 1]

    def first_frame(*args: Any, **kwargs: Any) -> Any:
        local = probe + 2
        result, extra = second_frame(args, kwargs)
        return result, extra * local

    return first_frame


def _in_checkpoint(compiled: Callable[..., Any]) -> Callable[..., Any]:
    def kept(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(compiled, *args, use_reentrant=False, **kwargs)

    return kept


@dataclasses.dataclass(frozen=True)
class Way:
    """One way of running. `repeats`: the state changes of the program follow, then one more call without a change."""

    name: str
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
    about: str
    repeats: bool = False
    fullgraph: bool = False
    behind: bool = False  # another compiled object, without fullgraph, has run the same code
    threaded: bool = False
    apart: bool = False  # each call in a thread that does nothing else
    leaks: bool = False
    memory: bool = False
    breaks: bool = False
    fx: bool = False
    sizes: bool = False
    around: Callable[[Callable[..., Any]], Callable[..., Any]] = _same  # what calls the compiled function; plain Python


WAYS = {
    way.name: way
    for way in (
        Way("alone", _same, "compiled alone, one call"),
        Way("between", _between, "inlined between two tensor operations"),
        Way("inlined", _inlined, "inlined two frames deep"),
        Way("fullgraph", _same, "compiled alone with fullgraph", fullgraph=True),
        Way("fullgraph-behind", _same, "the same, after it ran compiled without", fullgraph=True, behind=True),
        Way("twice", _same, "called again after each state change", repeats=True),
        Way("thread", _between, "called again after each state change, in a thread", repeats=True, threaded=True),
        Way("threads", _same, "the same, each call in a thread of its own", repeats=True, apart=True),
        Way("leaks", _between, "live tensors and reference counts after it", repeats=True, leaks=True),
        Way("memory", _same, "the most memory that a call holds at a time", memory=True),
        Way("breaks", _same, "a break forced before every instruction in turn", repeats=True, breaks=True),
        Way("breaks-inlined", _inlined, "the same, inlined two frames deep", breaks=True),
        Way("sizes", _same, "with all sizes symbolic, called again after each state change and with other sizes", repeats=True, sizes=True),
        Way("kept", _same, "inside a checkpoint, which calls it again in the backward", repeats=True, around=_in_checkpoint),
        Way("fx-kept", _same, "the same by a backend in Python", repeats=True, around=_in_checkpoint, fx=True),
        Way("fx", _same, "by a backend in Python, called again after each state change", repeats=True, fx=True),
        Way("fx-sizes", _same, "by a backend in Python that takes symbolic sizes, called again with other sizes", repeats=True, sizes=True, fx=True),
        Way("fx-breaks", _same, "by a backend in Python, a break before every instruction", breaks=True, fx=True),
    )
}
