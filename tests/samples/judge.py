"""Compares an observation of a compiled call with eager's.

Values may differ by rounding: then the same call in double precision says who is nearer to the truth. What eager does not
repeat, such as the content of torch.empty, is compared by its metadata. Invariant: no operator is known here by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from samples.observation import Observation, Seen

# Differences up to this part of a tensor's largest number need no second look.
_SMALL = {torch.float64: 1e-10, torch.float32: 2e-6, torch.bfloat16: 1.6e-2, torch.float16: 1e-3}
# As near to double precision as eager is, up to this factor.
_FACTOR = 4.0
# What is nothing but rounding beside the largest number of its kind (all gradients, all of an optimizer's state) may differ.
_SMALL_OF_ALL = 0.05
# Where double precision is no witness, this many times as much may differ.
_WITHOUT_WITNESS = 8.0

WRONG, ERROR, MISSING_ERROR, OTHER_ERROR = "wrong", "error", "missing error", "other error"

Again = Callable[[], list[Observation]]
Wide = Callable[[], Observation]
Others = Callable[[], list[tuple[Observation, Observation]]]


def judge(
    ours: Observation, eager: Observation, again: Again, wide: Wide, others: Others, nudged: Again = list
) -> tuple[str, str] | None:
    """None if they are the same, else a status and the first difference.

    `again` runs eager some more times, `wide` in double precision, `others` eager and in double precision from other
    cotangents: where a sum's terms cancel, eager may be near to the truth by luck. `nudged` runs eager from numbers that are
    the next ones: to double precision nothing is wider, but what differs no more than these do is right for such numbers.
    """
    if ours.error is not None or eager.error is not None:
        return _errors(ours, eager)
    if list(ours.seen) != list(eager.seen):
        return WRONG, f"other structure: {sorted(set(ours.seen) ^ set(eager.seen))[:4]}"
    differences = {path for path, mine in ours.seen.items() if _text(mine, eager.seen[path]) or not _equal(mine, eager.seen[path])}
    if not differences:
        return None
    repeated = again()
    witness: Observation | None = None
    for path in ours.seen:
        if path not in differences:
            continue
        mine, other = ours.seen[path], eager.seen[path]
        if text := _text(mine, other):
            return WRONG, f"{path}: {text}"
        if any(run.error is not None or path not in run.seen or _differs(run.seen[path], other) for run in repeated):
            continue  # eager differs from itself
        witness = witness or wide()
        kind = path.partition("[")[0]
        largest = max(_largest(seen.value) for name, seen in eager.seen.items() if name.partition("[")[0] == kind)
        if text := _values(mine.value, other.value, witness.seen.get(path), largest):
            if _is_between(mine, other, [run.seen.get(path) for run in nudged()]):
                continue
            if not _is_luck(mine, witness.seen.get(path), [(one.seen.get(path), two.seen.get(path)) for one, two in others()]):
                return WRONG, f"{path}: {text}"
    return None


def _is_between(mine: Seen, other: Seen, nudged: list[Seen | None]) -> bool:
    """Whether ours is as near to eager as eager is to itself, from inputs that only the last bit tells apart."""
    if not isinstance(mine.value, torch.Tensor) or mine.value.dtype != torch.float64:
        return False
    off = _distance(mine, other)
    distances = [distance for one in nudged if (distance := _distance(one, other)) is not None]
    return off is not None and bool(distances) and off <= max(distances)


def _is_luck(mine: Seen, witness: Seen | None, others: list[tuple[Seen | None, Seen | None]]) -> bool:
    """Whether ours is no further from the truth than eager is in the other runs."""
    ours = _distance(mine, witness)
    distances = [distance for one, two in others if (distance := _distance(one, two)) is not None]
    return ours is not None and bool(distances) and ours <= max(distances)


def _distance(narrow: Seen | None, wide: Seen | None) -> float | None:
    """The largest difference; None where one of them is no witness of it."""
    if narrow is None or wide is None or not isinstance(narrow.value, torch.Tensor) or not isinstance(wide.value, torch.Tensor):
        return None
    one, two = narrow.value, wide.value
    if one.shape != two.shape or two.dtype != torch.float64 or not one.is_floating_point() or not one.numel():
        return None
    distance = float((one.double() - two).abs().max())
    return distance if math.isfinite(distance) else None


def _errors(ours: Observation, eager: Observation) -> tuple[str, str] | None:
    mine, other = ours.error, eager.error
    if other is None:
        return ERROR, f"{ours.phase}: {type(mine).__name__}: {str(mine)[:400]}"
    if mine is None:
        return MISSING_ERROR, f"{eager.phase}: {type(other).__name__}: {str(other)[:200]}"
    if type(mine) is type(other) and ours.phase == eager.phase:
        return None
    eagers = f"eager: {eager.phase}: {type(other).__name__}: {str(other)[:150]}"
    return OTHER_ERROR, f"{ours.phase}: {type(mine).__name__}: {str(mine)[:250]}; {eagers}"


def _text(mine: Seen, other: Seen) -> str:
    return "" if mine.about == other.about else f"is {mine.about}, not {other.about}"


def _equal(mine: Seen, other: Seen) -> bool:
    one, two = mine.value, other.value
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        return all(_equal(Seen("", a), Seen("", b)) for a, b in zip(one, two, strict=True))
    if not isinstance(one, torch.Tensor) or not isinstance(two, torch.Tensor):
        return _plain_equal(one, two)
    if one.dtype != two.dtype or one.shape != two.shape:
        return False
    if one.dtype == torch.complex32:  # it has no operators to compare with
        one, two = one.to(torch.complex64), two.to(torch.complex64)
    if torch.equal(one, two):
        return True
    return _is_float(one) and bool(((one == two) | (one.isnan() & two.isnan())).all())


def _differs(one: Seen, other: Seen) -> bool:
    if _equal(one, other):
        return False
    return one.about != other.about or bool(_values(one.value, other.value, None))


def _plain_equal(one: Any, two: Any) -> bool:
    if type(one) is not type(two):
        return False
    try:
        return bool(one == two) or (one != one and two != two)
    except Exception:
        return True  # objects without an equality of their own


def _is_float(value: torch.Tensor) -> bool:
    return value.is_floating_point() or value.is_complex()


def _largest(value: Any) -> float:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return 0.0
    finite = value[torch.isfinite(value)]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _values(mine: Any, other: Any, witness: Seen | None, largest: float = 0.0) -> str:
    if not isinstance(mine, torch.Tensor):
        return _plain_values(mine, other)
    truth = witness.value if witness is not None else None
    if mine.dtype == torch.complex32:
        mine, other = mine.to(torch.complex64), other.to(torch.complex64)
    if not _is_float(mine):
        if isinstance(truth, torch.Tensor) and truth.dtype == other.dtype and truth.shape == other.shape and not torch.equal(truth, other):
            return ""  # eager itself is undecided
        return f"{int((mine != other).sum())} of {mine.numel()} differ: {_first(mine, other)}"
    if mine.is_complex():
        mine, other = torch.view_as_real(mine), torch.view_as_real(other)
        truth = torch.view_as_real(truth) if isinstance(truth, torch.Tensor) and truth.is_complex() else None
    return _float_values(mine, other, truth, largest)


def _plain_values(mine: Any, other: Any) -> str:
    pairs = list(zip(mine, other, strict=True)) if isinstance(mine, list) and isinstance(other, list) else []
    if pairs and all(isinstance(one, torch.Tensor) for pair in pairs for one in pair):
        return next((text for one, two in pairs if (text := _values(one, two, None))), "")
    close = isinstance(mine, (float, complex)) and type(mine) is type(other) and abs(mine - other) <= 1e-5 * max(abs(mine), abs(other))
    return "" if close else f"is {mine!r}, not {other!r}"


def _float_values(mine: torch.Tensor, other: torch.Tensor, truth: Any, largest: float) -> str:
    small = _SMALL.get(mine.dtype, torch.finfo(mine.dtype).eps)
    finite = torch.isfinite(mine) & torch.isfinite(other)
    same = (mine == other) | (mine.isnan() & other.isnan())
    if bool((~finite & ~same).any()):
        if not _undecided(mine, other, truth, finite, same):
            return f"{int((~finite & ~same).sum())} of {mine.numel()} infinities or NaNs differ: {_first(mine, other)}"
        return ""
    one, two = mine[finite].double(), other[finite].double()
    if not one.numel():
        return ""
    scale, off = float(two.abs().max()), float((one - two).abs().max())
    if off <= small * max(scale, _SMALL_OF_ALL * largest):
        return ""
    if isinstance(truth, torch.Tensor) and truth.shape == other.shape and truth.dtype == torch.float64 and mine.dtype != torch.float64:
        exact = truth[finite]
        ours, eagers = float((one - exact).abs().max()), float((two - exact).abs().max())
        if ours <= _FACTOR * eagers + small * scale:
            return ""
        return f"off by {off:.2g}, the largest is {scale:.2g}; from double precision: ours {ours:.1e}, eager {eagers:.1e}"
    if off <= _WITHOUT_WITNESS * small * scale:
        return ""
    return f"off by {off:.2g}, the largest is {scale:.2g}: {_first(mine, other)}"


def _undecided(mine, other, truth, finite, same) -> bool:
    """Whether double precision is where ours is in all places where only one is finite."""
    if not isinstance(truth, torch.Tensor) or truth.shape != mine.shape or truth.dtype != torch.float64:
        return False
    where = ~finite & ~same
    narrow = truth.to(mine.dtype)[where]
    ours = mine[where]
    return bool(((ours == narrow) | (ours.isnan() & narrow.isnan()) | ((ours - narrow).abs() <= 1e-3 * narrow.abs())).all())


def _first(mine: torch.Tensor, other: torch.Tensor) -> str:
    where = ((mine != other) & ~(mine.isnan() & other.isnan())).flatten().nonzero()
    if not len(where):
        return ""
    place = int(where[0])
    return f"at {place} {mine.flatten()[place].item()!r}, not {other.flatten()[place].item()!r}"
