"""Calls of a program with tensors of other sizes: what a capture with symbolic sizes must get right, too.

Equal sizes stay equal, so that most programs take the new tensors. Where one does not, it must raise as in eager. Values
are those of the old tensor, over and over: an index stays in its range where its range does not depend on a size.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from conformance.program import Args


_DEEPEST = 8  # of containers in containers; one may hold itself


def _tensors(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)) and depth < _DEEPEST:
        for item in value:
            yield from _tensors(item, depth + 1)
    elif type(value) is dict and depth < _DEEPEST:
        for item in value.values():
            yield from _tensors(item, depth + 1)


def _dense_order(t: torch.Tensor) -> list[int] | None:
    """Dimensions from the slowest to the fastest of a tensor without gaps; None for another."""
    order = sorted(range(t.dim()), key=lambda d: (-t.stride(d), d))
    expected = 1
    for d in reversed(order):
        if t.size(d) != 1 and t.stride(d) != expected:
            return None
        expected *= t.size(d)
    return order


def _resized(t: torch.Tensor, size_of: Callable[[int, int], int]) -> torch.Tensor:
    order = _dense_order(t) if type(t) is torch.Tensor and t.layout == torch.strided and t.is_leaf else None
    if order is None or t.numel() == 0 or t.is_quantized or t._is_view() or t.is_inference():
        return t
    sizes = [size_of(d, n) for d, n in enumerate(t.shape)]
    if sizes == list(t.shape):
        return t
    strides, expected = [0] * t.dim(), 1
    for d in reversed(order):
        strides[d] = expected
        expected *= max(sizes[d], 1)
    made = torch.empty_strided(sizes, strides, dtype=t.dtype, device=t.device)
    with torch.no_grad():
        places = torch.arange(made.numel()) % t.numel()
        made.copy_(t.detach().flatten()[places].view(sizes))
    return made.requires_grad_(t.requires_grad)


def _changed(value: Any, size_of: Callable[[int, int], int], depth: int = 0) -> Any:
    if isinstance(value, torch.Tensor):
        return _resized(value, size_of)
    if depth == _DEEPEST or not any(True for _ in _tensors(value)):
        return value
    if type(value) in (list, tuple):
        return type(value)(_changed(item, size_of, depth + 1) for item in value)
    if type(value) is dict:
        return {key: _changed(item, size_of, depth + 1) for key, item in value.items()}
    return value


def resized_calls(args: Any, kwargs: Any) -> list[Callable[[], Args]]:
    """Two calls: one with another batch (the first size of the first tensor, where it comes first), one with all sizes
    other than 1 changed."""
    first = next((t.size(0) for t in _tensors([args, kwargs]) if t.dim() > 0), None)

    def call(size_of: Callable[[int, int], int]) -> Args:
        return Args(*_changed(args, size_of), **_changed(kwargs, size_of))

    return [
        lambda: call(lambda d, n: n + 3 if d == 0 and n == first and n > 1 else n),
        lambda: call(lambda d, n: 2 * n if n > 1 else n),
    ]


def end_frames_of(errors: Iterable[BaseException]) -> None:
    """What ends with a frame does: torch 2.11 leaves a failed checkpoint's hooks to a generator that the traceback holds."""
    for error in errors:
        link: BaseException | None = error
        seen: set[int] = set()
        while link is not None and id(link) not in seen:
            seen.add(id(link))
            traceback.clear_frames(link.__traceback__)
            link = link.__cause__ or link.__context__
