"""Runs one model under the systems, each in a child of its own, and says what each did.

Eager and eager in double precision come first, in the process that builds the model; a system's process starts from a
copy of that. Invariant: every run begins with the same parameters, buffers and random seeds.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import random
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from zoo import device, judge, roundings, systems
from zoo.process import End, Limits, Reply, run_children
from zoo.zoo_model import Built, ZooModel, count_parameters

INFERENCE, TRAINING = "inference", "training"
# The batch sizes of the calls: the second should run what the first captured, the third has another size.
BATCHES = (2, 2, 3)

# In double precision a difference of rounding is less than this, however much it grows on the way.
_SAME_IN_DOUBLE = 1e-6

# So many models with other parameters, and with operations that round otherwise, are asked what a rounding does: a kink
# is crossed by some of them only.
_ROUNDINGS = 12

OK, WRONG, ERROR, CRASH, TIMEOUT, NOTHING = "ok", "wrong", "error", "crash", "timeout", "nothing compiled"
MEMORY, MISSED, SKIPPED = "memory", "missed", "skipped"
# Not as eager is, but as eager is when torch.compiler.is_compiling() says yes: the model's own code does something else then.
TOLD = "told"
# Right in double precision, but in single precision further from it than eager is.
ROUNDING = "rounding"


@dataclasses.dataclass
class Call:
    """What one call gave: lists of (path, value)."""

    outputs: list
    gradients: list
    buffers: list


class SingleDraws(TorchDispatchMode):
    """Random numbers in double precision are those of single precision, so that both runs draw the same."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in function.tags:
            return function(*args, **kwargs)
        with torch.utils._python_dispatch._disable_current_modes():
            tensors = [a for a in args if isinstance(a, torch.Tensor) and a.dtype == torch.float64]
            single = [a.to(torch.float32) if any(a is t for t in tensors) else a for a in args]
            asked = kwargs.get("dtype") == torch.float64
            if not tensors and not asked:
                return function(*args, **kwargs)
            result = function(*single, **({**kwargs, "dtype": torch.float32} if asked else kwargs))
            if tensors and result is single[0]:
                return args[0].copy_(result)
            return torch.utils._pytree.tree_map_only(torch.Tensor, _widened, result)


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.dtype == torch.float32 else tensor


def seed() -> None:
    torch.manual_seed(1234)
    random.seed(1234)
    with contextlib.suppress(ImportError):
        import numpy

        numpy.random.seed(1234)


def loss_of(value: Any) -> torch.Tensor | None:
    """A number that every output has part in, each element with a weight of its own."""
    terms = []
    for n, (_, item) in enumerate(judge.leaves(value)):
        if isinstance(item, torch.Tensor) and item.requires_grad and item.dtype.is_floating_point and item.numel():
            weights = torch.cos(torch.arange(item.numel(), dtype=item.dtype, device=item.device) + n).view(item.shape)
            terms.append((item * weights).sum() / item.numel() ** 0.5)
    return sum(terms[1:], terms[0]) if terms else None


def call(
    model: torch.nn.Module, function: Any, built: Built, batch: int, training: bool, double: bool = False, draws: Any = None
) -> Call:
    """One call of `function`, which is the model or its compiled form, with a backward pass in training."""
    args, kwargs = device.moved(built.inputs(batch, training))
    if double:
        args, kwargs = torch.utils._pytree.tree_map_only(torch.Tensor, _widened, (args, kwargs))
    seed()
    model.zero_grad(set_to_none=True)
    with torch.set_grad_enabled(training), draws or contextlib.nullcontext():
        value = function(*args, **kwargs)
        outputs = judge.kept(value)
        loss = loss_of(value) if training else None
        if training and loss is None:
            raise NoGradient("no output requires grad")
        if loss is not None:
            loss.backward()
    gradients = [(f".{n}", None if p.grad is None else p.grad.clone()) for n, p in model.named_parameters()]
    return Call(outputs, gradients, [(f".{n}", b.clone()) for n, b in model.named_buffers()])


@contextlib.contextmanager
def told_that_it_compiles() -> Iterator[None]:
    """Eager code that asks whether it is compiled hears yes."""
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


class NoGradient(Exception):
    """A model that cannot be trained as it is called here."""


def reference(built: Built, training: bool, double: bool = False, mode: Any = None) -> list[Call]:
    model = copy.deepcopy(built.model).train(training)
    if double:
        model, mode = model.double(), SingleDraws()
    return [call(model, model, built, batch, training, double, mode) for batch in BATCHES]


def double_reference(built: Built, training: bool) -> list[Call] | None:
    """The witness. Where single precision is written into a model: eager with parameters that are a rounding off."""
    default = torch.get_default_dtype()
    for double in (True, False):
        try:
            return reference(built if double else roundings.with_other_parameters(built), training, double)
        except Exception:
            continue
        finally:
            torch.set_default_dtype(default)
    return None


def run_system(system: Any, built: Built, training: bool, eager: list[Call], double: list[Call] | None) -> dict[str, Any]:
    """A row: the calls under the system, judged."""
    model = copy.deepcopy(built.model).train(training)
    function = system.compile(model)
    start, seen, calls, error = time.monotonic(), [], [], None
    for batch in BATCHES:
        try:
            with system.watch() as watched:
                seen.append(watched)
                calls.append(call(model, function, built, batch, training))
        except Exception as raised:
            error = raised
            break
    row = {"status": OK, "details": [], "seconds": round(time.monotonic() - start, 2), **what_was_seen(seen)}
    verdict = judge_calls(calls, eager, double)
    if verdict.differences and error is None:
        verdict.differences, eagers = _not_of_rounding(verdict.differences, calls, eager, double, built, training)
        calls_off = {text.partition(":")[0] for text in verdict.differences}
        alike = ("call 1" in calls_off) == ("call 2" in calls_off)  # they are the same call
        of_numbers = bool(verdict.differences) and all(": off by " in text for text in verdict.differences)
        if of_numbers and alike and _same_in_double(system, built, training):
            unknown = all(judge.NO_WITNESS in text for text in verdict.differences)
            row["status"] = OK if unknown or any(_is_as_far(other, verdict.differences) for other in eagers) else ROUNDING
            row["details"], verdict.differences = verdict.differences[:3], []
    row.update(worst=verdict.worst, by_witness=verdict.by_witness, without_witness=verdict.without_witness)
    if error is not None:
        row["status"] = ERROR
        row["details"].append(f"call {len(calls) + 1}: {type(error).__name__}: {str(error)[:600]}{_place(error)}")
    if verdict.differences:
        row["status"] = WRONG if row["status"] == OK else row["status"]
        row["details"] += verdict.differences[:12] + [f"{len(verdict.differences)} differences"]
    if row["status"] in (WRONG, ERROR) and _as_told(built, training, calls, error):
        row["status"] = TOLD
    if row["status"] == OK:
        row["status"] = NOTHING if row["operations"] == 0 else MISSED if row["second"]["captures"] else OK
    return row


def judge_calls(calls: list[Call], eager: list[Call], double: list[Call] | None, trusting: bool = False) -> judge.Verdict:
    verdict = judge.Verdict(trusting=trusting)
    for n, ours in enumerate(calls):
        before = len(verdict.differences)
        for kind in ("outputs", "gradients", "buffers"):
            witness = getattr(double[n], kind) if double else None
            judge.compare(kind, getattr(ours, kind), getattr(eager[n], kind), witness, verdict)
        verdict.differences[before:] = [f"call {n + 1}: {text}" for text in verdict.differences[before:]]
    return verdict


def _not_of_rounding(
    differences: list[str], calls: list[Call], eager: list[Call], double: list[Call] | None, built: Built, training: bool
) -> tuple[list[str], list[list[str]]]:
    """Those that are larger than what a rounding of the parameters, or of each operation, makes in eager: a step or a
    kink may be that near.

    And what double precision does not acquit of each model a rounding off: each crosses kinks of its own.
    """
    eagers = []
    for number in range(2 * _ROUNDINGS):
        if not differences:
            break
        with contextlib.suppress(Exception):
            if number % 2 == 0:
                other = reference(roundings.with_other_parameters(built, number // 2), training)
            else:
                other = reference(built, training, mode=roundings.RoundedOtherwise(number))
            again = {_where(text) for text in judge_calls(calls, eager, other, True).differences}
            differences = [text for text in differences if _where(text) in again]
            eagers.append(judge_calls(other, eager, double).differences)
        other = None  # a model's gradients are large
    return differences, eagers


def _where(difference: str) -> tuple[str, ...]:
    """The call and the tensor."""
    return tuple(difference.split(": ")[:2])


def _is_as_far(one: list[str], other: list[str]) -> bool:
    """Whether one has as many differences, and one as large."""
    return len(one) >= len(other) and _farthest(one) >= _farthest(other)


def _farthest(differences: list[str]) -> float:
    """The largest, as a part of its tensor's largest number."""
    return max((float(text.partition(": off by ")[2].split()[0]) for text in differences if ": off by " in text), default=0.0)


def _same_in_double(system: Any, built: Built, training: bool) -> bool:
    """Whether the model is compiled right in double precision: where a rounding changes all, that is what can be known."""
    with contextlib.suppress(Exception):
        model, other = (copy.deepcopy(built.model).train(training).double() for _ in range(2))
        function = system.compile(model)
        for batch in BATCHES:  # one by one: all gradients in double precision at once take gigabytes
            ours = call(model, function, built, batch, training, double=True)
            eager = call(other, other, built, batch, training, double=True)
            verdict = judge_calls([ours], [eager], None)
            if verdict.differences or verdict.worst >= _SAME_IN_DOUBLE:
                return False
        return True
    return False


def _as_told(built: Built, training: bool, calls: list[Call], error: Exception | None) -> bool:
    """Whether eager does the same when it is told that it is compiled."""
    with told_that_it_compiles():
        try:
            eager = reference(built, training)
        except Exception as raised:
            return type(raised) is type(error) and str(raised) == str(error) and not calls
        double = double_reference(built, training)
    return error is None and not judge_calls(calls, eager, double).differences


def _place(error: BaseException) -> str:
    """The last frames of an error, innermost last."""
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append(f"{trace.tb_frame.f_code.co_filename.split('/')[-1]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f" [{' '.join(frames[-4:])}]"


def what_was_seen(seen: list[systems.Seen]) -> dict[str, Any]:
    first, second = seen[0], seen[1] if len(seen) > 1 else systems.Seen()
    return {
        "graphs": first.graphs,
        "operations": first.operations,
        "captures": first.captures,
        "breaks": len(first.breaks),
        "reasons": [[*b, count] for b, count in collections.Counter(first.breaks).items()],
        "fallbacks": [s.fallbacks for s in seen],
        "bugs": [text[:500] for s in seen for text in s.bugs],
        "second": {
            "captures": second.captures,
            "hits": second.hits,
            "recompiles": second.recompiles,
            "misses": list(dict.fromkeys(text[:300] for text in second.misses))[:3],
            "breaks": len(second.breaks),
        },
    }


def run_model(entry: ZooModel, modes: list[str], names: list[str], limits: Limits, reply: Reply) -> None:
    """Builds the model and sends a row for each mode and system."""
    try:
        device.show()
        built = entry.build()
        built.model.to(device.name)
        parameters = count_parameters(built.model)
    except Exception as error:
        reply({"status": SKIPPED, "details": [f"{type(error).__name__}: {str(error).strip()[:300]}{_place(error)}"]})
        return
    for mode in modes:
        training = mode == TRAINING
        about = {"mode": mode, "parameters": parameters}
        try:
            eager = reference(built, training)
            _check_repeats(eager, reference(built, training))
        except Exception as error:
            reply({**about, "status": SKIPPED, "details": [f"eager: {type(error).__name__}: {str(error)[:300]}{_place(error)}"]})
            continue
        double = double_reference(built, training)
        for row in _under_each(names, built, training, eager, double, limits):
            reply({**about, **row})


def _check_repeats(eager: list[Call], again: list[Call]) -> None:
    """Eager that differs from itself cannot be a measure."""
    for n, (one, other) in enumerate(zip(eager, again, strict=True)):
        verdict = judge.Verdict()
        for kind in ("outputs", "gradients", "buffers"):
            judge.compare(kind, getattr(other, kind), getattr(one, kind), None, verdict)
        if verdict.differences:
            raise RuntimeError(f"differs from itself in call {n + 1}: {verdict.differences[0]}")


def _under_each(names, built, training, eager, double, limits) -> Iterator[dict[str, Any]]:
    def work(name: str):
        return lambda reply: reply(run_system(systems.make_system(name), built, training, eager, double))

    if device.name != "cpu":  # which a child of this process could not use
        for name in names:
            yield {"backend": name, **run_system(systems.make_system(name), built, training, eager, double)}
        return
    for name, reply in run_children([(name, work(name)) for name in names], limits):
        if not isinstance(reply, End):
            yield {"backend": name, **reply}
        elif reply.kind != "done":
            yield {"backend": name, "status": reply.kind, "details": [reply.text[:1500]]}
