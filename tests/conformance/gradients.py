"""The gradients that a backward through a program's results starts from.

Which kind a call takes follows from a number that the judge makes of the program's name and the way, and grows by one
with each call: all kinds run somewhere, and all of them in a program that is called often enough. Invariant: a result's
gradient has the result's shape and type and depends on nothing but these and the kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch


def tensors_in(value: Any, seen: set[int] | None = None) -> Iterator[torch.Tensor]:
    """The tensors of nested lists, tuples and dicts, each once."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item, seen)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item, seen)


def _weights(t: torch.Tensor) -> torch.Tensor:
    """A weight for each element, with the tensor's own strides: a sum's last bit depends on the order in memory."""
    weights = torch.linspace(0.5, 1.5, max(t.numel(), 1), dtype=torch.float32, device="cpu").reshape(t.shape)
    return torch.empty_like(t, dtype=weights.dtype, requires_grad=False).copy_(weights)


def _transposed(t: torch.Tensor) -> torch.Tensor:
    order = tuple(reversed(range(t.dim())))
    return _weights(t).to(t.dtype).permute(order).contiguous().permute(order)


def _expanded(t: torch.Tensor) -> torch.Tensor:
    return torch.full((), 1.25, dtype=t.dtype, device=t.device).expand(t.shape)


def _with_gaps(t: torch.Tensor) -> torch.Tensor:
    weights = _weights(t).to(t.dtype)
    return torch.stack([weights, weights * 0 + 1e4], -1)[..., 0]


def _by_a_loss(outputs: list[torch.Tensor]) -> None:
    torch.autograd.backward([(t * _weights(t)).sum() for t in outputs])


def _of_the_second(outputs: list[torch.Tensor]) -> None:
    _by_a_loss(outputs[1::2] or outputs)


def _of_the_first(outputs: list[torch.Tensor]) -> None:
    _by_a_loss(outputs[::2])


def _given(make: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[list[torch.Tensor]], None]:
    return lambda outputs: torch.autograd.backward(outputs, [make(t) for t in outputs])


KINDS: dict[str, Callable[[list[torch.Tensor]], None]] = {
    "by a loss": _by_a_loss,
    "transposed": _given(_transposed),
    "of every second result": _of_the_second,
    "expanded": _given(_expanded),
    "of every other result": _of_the_first,
    "with gaps": _given(_with_gaps),
}
_GIVEN = {"transposed": _transposed, "expanded": _expanded, "with gaps": _with_gaps}


def kind_of(number: int) -> str:
    return tuple(KINDS)[number % len(KINDS)]


def _outputs(result: Any) -> list[torch.Tensor]:
    return [t for t in tensors_in(result) if t.requires_grad and t.grad_fn is not None and t.is_floating_point()]


def has_other_strides(result: Any, number: int) -> bool:
    """Whether a result's gradient lies otherwise in memory than the result: its elements may be summed in another order."""
    make = _GIVEN.get(kind_of(number))
    return make is not None and any(make(t).stride() != t.stride() for t in _outputs(result))


def backward(result: Any, number: int) -> BaseException | None:
    """Runs a backward through what requires a gradient in a result; returns how it failed."""
    outputs = _outputs(result)
    if not outputs:
        return None
    try:
        with torch.enable_grad():
            KINDS[kind_of(number)](outputs)
    except RuntimeError as error:
        return error
    return None
