"""Compares what a compiled model gave with what eager gave, number by number.

Rounding may differ: then the same model in double precision says who is nearer to the truth. Invariant: no model and no
system is known here by name.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy
import torch

# Differences below this part of a tensor's largest number, or of the largest number of its kind, need no second look.
_SMALL, _SMALL_OF_ALL = 2e-6, 1e-7
# As near to double precision as eager is, up to this factor; where eager's errors are spread unevenly over the tensors of
# a kind, no further than this many times its worst.
_FACTOR, _FACTOR_OF_WORST = 4.0, 2.0
# Where double precision goes another way (other random numbers, another branch) it is no witness. What should be zero
# is nothing but rounding in eager: there it is one if that is little beside the largest number of the kind.
_WITNESS, _WITNESS_OF_ALL = 0.05, 1e-3
NO_WITNESS = "double precision is no witness"
# With no witness this much of a tensor's largest number may differ.
_WITHOUT_WITNESS = 1e-4


@dataclasses.dataclass
class Verdict:
    """`worst` is the largest difference as a part of its tensor's largest number."""

    differences: list[str] = dataclasses.field(default_factory=list)
    worst: float = 0.0
    trusting: bool = False  # the witness is eager itself, a rounding off: whatever it shows is rounding
    by_witness: int = 0  # tensors that only double precision acquits
    without_witness: int = 0


@dataclasses.dataclass
class Scales:
    """Of all tensors of a kind: the largest number, and eager's worst error as a part of a tensor's largest number."""

    largest: float
    worst: float


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every tensor and plain value in a result, with its path; modules and configurations are passed over."""
    yield from _leaves(value, path, set())


def _leaves(value: Any, path: str, above: set[int]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, torch.Tensor) or value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        yield path, value
        return
    if isinstance(value, numpy.generic):
        yield path, f"{value.dtype} {value.item()!r}"
        return
    if isinstance(value, numpy.ndarray):
        yield f"{path}.layout", f"{value.dtype} {value.strides} {value.flags.writeable}"
        yield path, torch.from_numpy(value.copy()) if value.dtype.kind in "biufc" else str(value)
        return
    if isinstance(value, (torch.nn.Module, type, torch.dtype, torch.device)) or hasattr(value, "to_diff_dict"):
        return
    if id(value) in above or len(above) > 12:
        return
    above = above | {id(value)}
    if isinstance(value, dict):
        items = [(f"{path}[{k!r}]", v) for k, v in value.items()]
    elif isinstance(value, (list, tuple)):
        items = [(f"{path}[{n}]", v) for n, v in enumerate(value)]
    else:
        items = [(f"{path}.{k}", v) for k, v in getattr(value, "__dict__", {}).items()]
    yield path, f"{type(value).__name__} of {len(items)}"
    for inner, item in items:
        yield from _leaves(item, inner, above)


def kept(value: Any) -> list[tuple[str, Any]]:
    """The leaves as they are now: tensors are copied, so that later calls do not change them."""
    found: list[tuple[str, Any]] = []
    for path, item in leaves(value):
        if not isinstance(item, torch.Tensor):
            found.append((path, item))
            continue
        found.append((path, item.detach().clone()))
        if item.requires_grad:
            found.append((f"{path}.requires_grad", True))
    return found


def compare(kind: str, ours: list, eager: list, double: list | None, verdict: Verdict) -> None:
    """Adds to the verdict what differs; `kind` says what these are (outputs, gradients …)."""
    if [p for p, _ in ours] != [p for p, _ in eager]:
        names, others = {p for p, _ in ours}, {p for p, _ in eager}
        lacking, new = sorted(others - names)[:4], sorted(names - others)[:4]
        verdict.differences.append(f"{kind}: other structure: lacking {lacking}, new {new}")
        return
    witness = dict(double or [])
    scales = Scales(max((_largest(v) for _, v in eager if _is_float(v)), default=0.0), _worst_of(eager, witness))
    for (path, mine), (_, other) in zip(ours, eager, strict=True):
        problem = _difference(mine, other, witness.get(path), scales, verdict)
        if problem:
            verdict.differences.append(f"{kind}{path}: {problem}")


def _worst_of(eager: list, witness: dict[str, Any]) -> float:
    worst = 0.0
    for path, value in eager:
        truth = witness.get(path)
        if not _is_float(value) or not _is_float(truth) or value.shape != truth.shape or not _all_finite(value):
            continue
        scale, error = _largest(value), _largest(value.to(truth.dtype) - truth)
        if scale and error <= _WITNESS * scale:  # else it should be zero, or the witness is none
            worst = max(worst, error / scale)
    return worst


def _all_finite(value: torch.Tensor) -> bool:
    return math.isfinite(_bound(value)) or bool(torch.isfinite(value).all())


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _bound(value: torch.Tensor) -> float:
    """The largest number by size in one pass; not finite where one of them is not."""
    if value.is_complex() or not value.numel():
        return float("nan")
    low, high = value.aminmax()
    return max(-float(low), float(high)) if low == low else float("nan")


def _largest(value: torch.Tensor) -> float:
    if math.isfinite(bound := _bound(value)):
        return bound
    finite = value[torch.isfinite(value)]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _difference(mine: Any, other: Any, witness: Any, scales: Scales, verdict: Verdict) -> str | None:
    if not isinstance(mine, torch.Tensor) or not isinstance(other, torch.Tensor):
        return _plain_difference(mine, other)
    if mine.shape != other.shape or mine.dtype != other.dtype:
        return f"is {mine.dtype} of {tuple(mine.shape)}, not {other.dtype} of {tuple(other.shape)}"
    if mine.is_sparse or mine.layout != torch.strided:
        mine, other = mine.to_dense(), other.to_dense()
    if torch.equal(mine, other):
        return None
    if not _is_float(mine):
        return _whole_number_difference(mine, other, witness)
    return _float_difference(mine, other, witness, scales, verdict)


def _plain_difference(mine: Any, other: Any) -> str | None:
    if type(mine) is not type(other):
        return f"is a {type(mine).__name__}, not a {type(other).__name__}"
    if isinstance(mine, float) and mine != other:
        close = abs(mine - other) <= _WITHOUT_WITNESS * max(abs(mine), abs(other)) or (mine != mine and other != other)
        return None if close else f"is {mine}, not {other}"
    return None if mine == other else f"is {mine!r}, not {other!r}"


def _whole_number_difference(mine: torch.Tensor, other: torch.Tensor, witness: Any) -> str | None:
    if isinstance(witness, torch.Tensor) and witness.shape == other.shape and not torch.equal(witness, other):
        return None  # eager itself is undecided
    return f"{int((mine != other).sum())} of {mine.numel()} differ"


def _float_difference(mine, other, witness, scales: Scales, verdict: Verdict) -> str | None:
    wide = torch.complex128 if mine.is_complex() else torch.float64
    shape, kinds = other.shape, None  # None: all are finite
    if not (math.isfinite(_bound(mine)) and math.isfinite(_bound(other))):
        if not torch.equal(torch.isfinite(mine), torch.isfinite(other)):
            count = int((torch.isfinite(mine) != torch.isfinite(other)).sum())
            return f"{count} of {mine.numel()} are finite in only one"
        kinds = torch.isfinite(other)
        special = ~kinds & ~((mine == other) | (torch.isnan(mine) & torch.isnan(other)))
        if bool(special.any()):
            return f"{int(special.sum())} infinities differ"
        mine, other = mine[kinds], other[kinds]
    mine, other = mine.to(wide), other.to(wide)
    scale, error = _largest(other), float((mine - other).abs().max()) if mine.numel() else 0.0
    part = error / scale if scale else (float("inf") if error else 0.0)
    if error <= _SMALL * scale or error <= _SMALL_OF_ALL * scales.largest:
        return None
    verdict.worst = max(verdict.worst, part)
    if isinstance(witness, torch.Tensor) and witness.shape == shape and _is_float(witness):
        truth = (witness if kinds is None else witness[kinds]).to(wide)
        eagers, ours = float((other - truth).abs().max()), float((mine - truth).abs().max())
        nothing = _largest(truth) <= _WITNESS_OF_ALL * scale  # it should be zero
        if verdict.trusting or nothing or eagers <= max(_WITNESS * scale, _WITNESS_OF_ALL * scales.largest):
            allowed = max(_FACTOR * eagers, _FACTOR_OF_WORST * scales.worst * scale)
            if ours <= allowed + _SMALL * scale + _SMALL_OF_ALL * scales.largest:
                verdict.by_witness += 1
                return None
            return f"off by {part:.1e} of the largest ({scale:.2g}); from double: ours {ours:.1e}, eager {eagers:.1e}"
    verdict.without_witness += 1
    if error <= _WITHOUT_WITNESS * scale:
        return None
    return f"off by {part:.1e} of the largest ({scale:.2g}), {NO_WITNESS}"
