"""Copies what a sample is called with, calls, and keeps everything of the result that a user can see.

Invariant: an observation holds no tensor that later code can change.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

HISTORY = "history"
_WIDER = {torch.float32: torch.float64, torch.bfloat16: torch.float64, torch.complex64: torch.complex128}


@dataclasses.dataclass
class Seen:
    """A tensor: its metadata as text, and its values; of another object, its type and the object."""

    about: str
    value: Any


@dataclasses.dataclass
class Observation:
    """What a call gave, by path; or the exception it raised."""

    seen: dict[str, Seen] = dataclasses.field(default_factory=dict)
    error: BaseException | None = None
    phase: str = ""  # where the exception was raised

    def add(self, path: str, tree: Any, sources: list[torch.Tensor] | None = None, strides: bool = True) -> None:
        """Keeps the leaves of a tree; `sources` are the tensors that an output may share memory with."""
        leaves, structure = pytree.tree_flatten(tree)
        self.seen[f"{path} structure"] = Seen(str(structure), None)
        earlier = list(sources or [])
        for number, leaf in enumerate(leaves):
            self.seen[f"{path}[{number}]"] = _seen(leaf, earlier if sources is not None else [], strides)
            if isinstance(leaf, torch.Tensor):
                earlier.append(leaf)


    def add_names(self, tree: Any) -> None:
        """Keeps the names of the histories of the tensors in a tree, which their texts show."""
        names = [t.grad_fn.name() for t in tensors_of(tree) if t.grad_fn is not None]
        self.seen[HISTORY] = Seen(" ".join(names), None)


def _seen(leaf: Any, sources: list[torch.Tensor], strides: bool) -> Seen:
    if not isinstance(leaf, torch.Tensor):
        return Seen(type(leaf).__name__, leaf)
    parts = [type(leaf).__name__, str(leaf.dtype).removeprefix("torch."), str(leaf.layout).removeprefix("torch.")]
    parts += ["requires_grad"] if leaf.requires_grad else []
    if leaf.is_nested:
        return Seen(" ".join(parts), [part.detach().clone() for part in leaf.unbind()])
    parts.append(f"shape {tuple(leaf.shape)}")
    if leaf.layout != torch.strided:
        return Seen(" ".join(parts), leaf.detach().to_dense().clone())
    if strides and leaf.numel():
        parts.append(f"strides {tuple(s for s, size in zip(leaf.stride(), leaf.shape, strict=True) if size > 1)}")
    parts += [f"is tensor {n}" if leaf is t else f"shares memory with {n}" for n, t in enumerate(sources) if _share(leaf, t)]
    return Seen(" ".join(parts), leaf.detach().clone().resolve_conj().resolve_neg())


def _share(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one is other:
        return True
    if one.layout != torch.strided or other.layout != torch.strided or other.is_nested:
        return False
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr() != 0


def tensors_of(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


_nudged: torch.Generator | None = None


@contextlib.contextmanager
def nudged_inputs(seed: int) -> Iterator[None]:
    """Within it a copied number in double precision is the next one above or below, or itself: what no computation can tell."""
    global _nudged
    _nudged = torch.Generator().manual_seed(seed)
    try:
        yield
    finally:
        _nudged = None


def _nudge(t: torch.Tensor) -> torch.Tensor:
    ways = torch.randint(-1, 2, t.shape, generator=_nudged).to(t.device)
    with torch.no_grad():
        t.copy_(torch.where(ways == 0, t, torch.nextafter(t, ways * torch.full_like(t, torch.inf))))
    return t


def copied(tree: Any, wide: bool = False) -> Any:
    """The tree with copies of its tensors that have their strides, and share memory and identity among each other as they do.

    `wide`: floating-point tensors and dtypes become double precision.
    """
    memo: dict[int, Any] = {}
    kept: list[torch.Tensor] = []  # the memo knows objects by id: they must live
    found: dict[int, torch.Tensor] = {}

    def one(leaf: Any) -> Any:
        if isinstance(leaf, torch.Generator):
            return torch.Generator(leaf.device).set_state(leaf.get_state())
        if isinstance(leaf, torch.dtype):
            return _WIDER.get(leaf, leaf) if wide else leaf
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in found:
            kept.append(leaf.detach())
            new = copy.deepcopy(kept[-1], memo) if leaf.layout == torch.strided and not leaf.is_nested else leaf.detach().clone()
            new = new.to(_WIDER.get(new.dtype, new.dtype)) if wide else new
            new = _nudge(new) if _nudged and new.dtype == torch.float64 and new.layout == torch.strided else new
            found[id(leaf)] = new.requires_grad_(leaf.requires_grad)
        return found[id(leaf)]

    return pytree.tree_map(one, tree)


def differentiable(tree: Any) -> list[torch.Tensor]:
    return [t for t in tensors_of(tree) if t.requires_grad and not t.is_nested]


_turned = 0.0


@contextlib.contextmanager
def turned_cotangents(angle: float) -> Iterator[None]:
    """Within it the backward pass starts from other numbers."""
    global _turned
    _turned = angle
    try:
        yield
    finally:
        _turned = 0.0


def backward(outputs: list[torch.Tensor]) -> None:
    """The backward pass from all outputs, each number with a cotangent of its own."""
    cotangents = []
    for number, output in enumerate(outputs):
        steps = torch.arange(output.numel(), dtype=torch.float64) + number + _turned
        weights = torch.complex(steps.cos(), steps.sin()) if output.is_complex() else steps.cos()
        cotangents.append(weights.to(output.device, output.dtype).view(output.shape))
    torch.autograd.backward(outputs, cotangents)


def observed(work: Callable[[Observation], None]) -> Observation:
    """Runs the work, which adds to the observation and sets its phase."""
    observation = Observation()
    try:
        work(observation)
    except Exception as error:
        observation.error = error.with_traceback(None)
        observation.error.__context__ = observation.error.__cause__ = None
    return observation
