"""Runs one entry with one dtype: every form, every sample, every backend, and counts.

It runs in a child process and sends a row for each backend and form, and before each sample where it is. Invariant: a row
is sent only when all of its samples were run.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from samples import judge, modules, operators, optimizers, systems
from samples.observation import HISTORY, Observation, nudged_inputs, turned_cotangents
from samples.trial import Form, Trial, as_it_is
from zoo import device
from zoo.process import Reply

DATABASES: dict[str, types.ModuleType] = {"op": operators, "module": modules, "optim": optimizers}

OK, NOT_WHOLE, NOTHING = "ok", "not whole", "nothing compiled"
# From the best to the worst: a row has the worst status of its samples.
STATUSES = [OK, NOTHING, NOT_WHOLE, judge.OTHER_ERROR, judge.MISSING_ERROR, judge.ERROR, judge.WRONG]
STATUSES += ["memory", "timeout", "crash"]
RIGHT = STATUSES[:3]
COUNTS = ("samples", "of", "right", "whole")
_RESET_EVERY = 200


class Runner:
    """Eager's observations are kept while the backends are run one after the other."""

    def __init__(self, make_system: Any = systems.make_system, most: int = 0):
        self._make_system, self._most = make_system, most
        self._eager: dict[tuple[str, int], Observation] = {}

    def run(self, database: str, entry: Any, dtype: torch.dtype, backends: list[str], skip: list, reply: Reply) -> None:
        """`skip`: [backend, form] pairs that are done or that killed an earlier process."""
        device.show()
        for form in DATABASES[database].forms(entry, dtype):
            self._eager.clear()
            waiting = [backend for backend in backends if [backend, form.name] not in skip]
            try:
                trials = list(form.trials()) if waiting else []
            except Exception as error:
                text = f"{type(error).__name__}: {str(error)[:150]}"
                for backend in waiting:
                    reply({"backend": backend, "form": form.name, "status": OK, "skipped": text, **dict.fromkeys(COUNTS, 0)})
                continue
            for backend in waiting:
                self._run_form(form, trials, backend, reply)

    def _run_form(self, form: Form, trials: list[Trial], backend: str, reply: Reply) -> None:
        system, counts, reasons = self._make_system(backend), collections.Counter(), collections.Counter()
        row: dict[str, Any] = {"backend": backend, "form": form.name, "status": OK}
        total = 0
        chosen = _spread(len(trials), self._most)
        for number in chosen:
            reply({"at": [backend, form.name, number, len(chosen)]})
            status, detail = self._judged(trials[number], (form.name, number), system)
            counts[status] += 1
            reasons.update(set(system.last.reasons) if status == NOT_WHOLE else ())
            if STATUSES.index(status) > STATUSES.index(row["status"]):
                row.update(status=status, detail=f"sample {number}: {detail}"[:500] if detail else "")
            total += 1
            if total % _RESET_EVERY == 0:
                system.reset()
        right = sum(counts[s] for s in RIGHT)
        row.update(samples=total, of=len(trials), right=right, whole=counts[OK], reasons=dict(reasons), counts=dict(counts))
        reply(row)

    def _judged(self, trial: Trial, key: tuple[str, int], system: Any) -> tuple[str, str]:
        if key not in self._eager:
            self._eager[key] = trial.run(as_it_is, contextlib.nullcontext)
        eager = self._eager[key]
        ours = trial.run(system.compile, system.watch)
        last = system.last

        def again() -> list[Observation]:
            runs = [trial.run(lambda call: _with_dirty_memory(call, eager, n), contextlib.nullcontext) for n in (77, 0, 191)]
            with _filled_memory():
                return [*runs, trial.run(as_it_is, contextlib.nullcontext)]

        def wide() -> Observation:
            return trial.run(as_it_is, contextlib.nullcontext, wide=True)

        def others() -> list[tuple[Observation, Observation]]:
            pairs = []
            for angle in (0.4, 0.8, 1.2, 1.6, 2.0, 2.4, 2.8):  # all round
                with turned_cotangents(angle):
                    pairs.append((trial.run(as_it_is, contextlib.nullcontext), wide()))
            return pairs

        def nudged() -> list[Observation]:
            found = []
            for seed in range(3):
                with nudged_inputs(seed):
                    found.append(trial.run(as_it_is, contextlib.nullcontext))
            return found

        if not system.names_histories and HISTORY in ours.seen and HISTORY in eager.seen:
            ours.seen[HISTORY] = eager.seen[HISTORY]
        verdict = judge.judge(ours, eager, again, wide, others, nudged)
        if verdict is not None:
            return verdict
        if eager.error is not None:  # it raised, as eager does: there is nothing to be whole
            return OK, ""
        if last.reasons:
            return NOT_WHOLE, ""
        return (OK, "") if last.nodes or not _count_operators(trial) else (NOTHING, "")


class _Counter(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


def _count_operators(trial: Trial) -> int:
    """How many operators eager runs: the function may do nothing with these arguments."""
    counter = _Counter()

    def counted(function: Any) -> Any:
        def called(*args: Any, **kwargs: Any) -> Any:
            with counter:
                return function(*args, **kwargs)

        return called

    trial.run(counted, contextlib.nullcontext)
    return counter.count


@contextlib.contextmanager
def _filled_memory() -> Iterator[None]:
    """New memory is filled with NaN, or with the largest number."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def _with_dirty_memory(call: Any, observation: Observation, number: int) -> Any:
    """Leaves a number in free memory that the call may get for its results; returns the call."""
    values = [seen.value for seen in observation.seen.values() if isinstance(seen.value, torch.Tensor)]
    sizes = {v.numel() * v.element_size() for v in values}
    with contextlib.suppress(Exception):
        blocks = [torch.full((size,), number, dtype=torch.uint8, device=device.name) for size in sizes for _ in range(16)]
        del blocks
    return call


def _spread(count: int, most: int) -> list[int]:
    """All numbers below `count`, or `most` of them, evenly spread."""
    if not most or count <= most:
        return list(range(count))
    return sorted({count * n // most for n in range(most)})


def selected(database: str, dtypes: list[torch.dtype], only: list[str], first: int, step: int) -> list[tuple[Any, torch.dtype]]:
    """The entries and dtypes of a database; `only` are parts of names, `=NAME` that name."""
    source = DATABASES[database]
    found = source.entries()
    if only:
        exact = {part[1:] for part in only if part.startswith("=")}
        parts = [part for part in only if not part.startswith("=")]
        found = [e for e in found if source.name_of(e) in exact or any(part in source.name_of(e) for part in parts)]
    return list(itertools.chain.from_iterable([(e, d) for d in dtypes if source.has(e, d)] for e in found[first::step]))
