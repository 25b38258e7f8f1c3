"""How far rounding alone moves a run's numbers: plain Python runs again, each inexact operation a little off.

A kernel that sums in another order, or computes `tanh` by another formula, gives the last bits otherwise; where a
program subtracts near numbers and divides by what is left, the last bits become the first ones. No fixed tolerance knows
that. Here the numbers that float32 operations read, where they round at all, are moved by an ulp, at random, forward and
backward, and the spread of the results is what rounding does to this program.

Gradients of several graphs are sums of sums. Where nothing else may differ, only the sums of backward passes are moved:
what no such sum reaches is not excused.

Invariant: what is exact in float32 is not moved, so that a comparison or an index depends on rounding only where it does
in eager; a number is explained by its own spread alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from conformance.snapshot import Line, TensorData, Tolerance

RUNS = 8
# A kernel may round in more places than it reads numbers, and eight runs seldom show the farthest.
_FACTOR = 4.0
# Another order rounds the same sums as often.
_FACTOR_OF_ORDER = 2.0
_ANY = 1.0


class Inexact(TorchDispatchMode):
    """Operations whose float32 results differ from those in double precision are given operands that are an ulp off."""

    def __init__(self, seed: int):
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not _is_moved(function) or torch.float32 not in _types_of((args, kwargs)):
            return function(*args, **kwargs)
        if function._schema.is_mutable:
            return self._in_place(function, args, kwargs)
        result = function(*args, **kwargs)
        if not _is_exact(result, _in_double(function, args, kwargs)):
            moved = function(*tree_map(self._moved, args), **tree_map(self._moved, kwargs))
            for one, other in zip(_floats_of(result), _floats_of(moved)):
                if one.shape == other.shape:
                    one.copy_(other)
        return result

    def _in_place(self, function: Any, args: Any, kwargs: Any) -> Any:
        others = tree_map(_copied, args[1:])
        exact = _in_double(function, (_copied(args[0]), *others), kwargs)
        moved = tree_map(self._moved, (args[0], *others))
        result = function(*args, **kwargs)
        if not _is_exact(result, exact) and isinstance(args[0], torch.Tensor):
            function(*moved, **kwargs)
            args[0].copy_(moved[0])
        return result

    def _moved(self, value: Any) -> Any:
        if not _is_float(value):
            return value
        up = torch.rand(value.shape, generator=self._generator) < 0.5
        towards = torch.where(up, torch.inf, -torch.inf)
        moved = torch.where(value.isfinite() & (value != 0), torch.nextafter(value, towards), value)
        return torch.empty_strided(value.size(), value.stride()).copy_(moved) if _is_dense(value) else moved


class SumsOfGradients(Inexact):
    """Of these only the sums that a backward pass makes."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_sum = function in (torch.ops.aten.add.Tensor, torch.ops.aten.add_.Tensor)
        if not is_sum or torch._C._current_graph_task_id() < 0:
            return function(*args, **(kwargs or {}))
        return super().__torch_dispatch__(function, types, args, kwargs)


def _is_moved(function: Any) -> bool:
    """Draws would leave another random state, and a view must stay one."""
    if torch.Tag.nondeterministic_seeded in function.tags or function.namespace != "aten":
        return False
    schema = function._schema
    returns_alias = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
    out_of_order = schema.is_mutable and (not schema.arguments[0].alias_info or len(schema.returns) != 1)
    return not returns_alias and not out_of_order


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype is torch.float32 and value.layout is torch.strided and not value.is_meta


def _is_dense(value: torch.Tensor) -> bool:
    return torch.ops.aten.is_non_overlapping_and_dense(value)


def _types_of(values: Any) -> set[torch.dtype]:
    return {v.dtype for v in tree_flatten(values)[0] if isinstance(v, torch.Tensor)}


def _floats_of(values: Any) -> list[torch.Tensor]:
    return [v for v in tree_flatten(values)[0] if _is_float(v)]


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _in_double(function: Any, args: Any, kwargs: Any) -> Any:
    def double(value: Any) -> Any:
        return value.double() if _is_float(value) else value

    try:
        return function(*tree_map(double, args), **tree_map(double, kwargs))
    except Exception:
        return None


def _is_exact(result: Any, exact: Any) -> bool:
    floats = _floats_of(result)
    doubles = [v for v in tree_flatten(exact)[0] if isinstance(v, torch.Tensor) and v.is_floating_point()]
    if len(doubles) < len(floats):
        return not floats
    return all(torch.equal(a.double().nan_to_num(), b.double().nan_to_num()) for a, b in zip(floats, doubles))


class MovedRuns:
    """Runs of plain Python with the rounding moved, made when they are asked for and kept."""

    def __init__(self, run: Callable[[], Sequence[Line]], mode: type[Inexact] = Inexact) -> None:
        self._run = run
        self._mode = mode
        self._runs: list[dict[str, Any] | None] = []

    def __iter__(self) -> Iterator[dict[str, Any] | None]:
        """Each run's lines by path; None: the program does not bear a mode."""
        for seed in range(RUNS):
            if seed == len(self._runs):
                self._runs.append(self._moved(seed))
            yield self._runs[seed]

    def _moved(self, seed: int) -> dict[str, Any] | None:
        try:
            with self._mode(seed):
                return dict(self._run())
        except Exception:
            return None


def explained(
    expected: Sequence[Line],
    actual: Sequence[Line],
    tolerance: Tolerance,
    runs: MovedRuns,
    factor: float = _FACTOR,
    tolerated: float | None = None,
) -> list[Line]:
    """The actual lines, where those that rounding explains are replaced by the expected ones.

    Only what may differ at all under the tolerance is looked at. `tolerated` is allowed beside the spread, in its place.
    """
    wanted, given = dict(expected), dict(actual)
    open_paths = [path for path, value in wanted.items() if path in given and _may_be_rounding(path, value, given[path], tolerance)]
    if not open_paths:
        return list(actual)
    spread = {path: torch.zeros_like(_numbers(wanted[path])) for path in open_paths}
    for moved in runs:
        if moved is None:  # nothing is known of it
            return list(actual)
        for path in open_paths:
            numbers = _numbers(moved.get(path))
            if numbers is not None and numbers.shape == spread[path].shape:
                spread[path] = torch.maximum(spread[path], (numbers - _numbers(wanted[path])).abs().nan_to_num(0.0, 0.0, 0.0))
    within = {path for path in open_paths if _is_within(_numbers(wanted[path]), _numbers(given[path]), factor * spread[path], _of(path, tolerance) if tolerated is None else tolerated)}
    return [(path, wanted[path] if path in within else value) for path, value in actual]


def explained_by_order(expected: Sequence[Line], actual: Sequence[Line], runs: MovedRuns) -> list[Line]:
    """As `explained`, of numbers that may not differ but by the order in which gradients add up (SumsOfGradients)."""
    every = Tolerance(_ANY, _ANY)
    within = dict(explained(expected, actual, every, runs, factor=_FACTOR_OF_ORDER, tolerated=0.0))
    return [(path, within[path]) for path, _ in actual]


def _of(path: str, tolerance: Tolerance) -> float:
    return tolerance.gradients if path.endswith(".grad.data") else tolerance.values


def _may_be_rounding(path: str, value: Any, other: Any, tolerance: Tolerance) -> bool:
    if not _of(path, tolerance) or type(value) is not type(other):
        return False
    mine, theirs = _numbers(value), _numbers(other)
    return mine is not None and theirs is not None and mine.shape == theirs.shape and not torch.equal(mine, theirs)


def _numbers(value: Any) -> torch.Tensor | None:
    """A float32 tensor's content, or a float of Python's, in double precision; None: anything else."""
    if isinstance(value, TensorData):
        return value.content.double() if value.content.dtype is torch.float32 else None
    if isinstance(value, str) and value.startswith("float "):
        return torch.tensor(float(value.partition(" ")[2]), dtype=torch.float64)
    return None


def _is_within(wanted: torch.Tensor, given: torch.Tensor, spread: torch.Tensor, tolerance: float) -> bool:
    allowed = spread + tolerance * (1 + wanted.abs())
    same = (wanted == given) | (wanted.isnan() & given.isnan())
    return bool((same | ((wanted - given).abs() <= allowed)).all())
