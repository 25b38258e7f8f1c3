"""Runs a built case under one way and records all that can be seen of it.

Seen are: the result or the exception of each call, gradients, every object reachable from function, arguments and
`observe`, stdout, warnings, random state, torch's global modes, live tensors and reference counts. Invariant: global
state is put back after a run, whatever the program did.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import io
import os
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.hooks import RemovableHandle

from conformance.program import Args, Case
from conformance.snapshot import Line, Snapshot, is_program_code
from conformance.ways import Way

# Warnings that the systems under test give about themselves are no part of a program's behaviour.
_OWN_WARNINGS = ("/torch/_dynamo/", "/torch/_inductor/", "/torch/_functorch/", "/framefuse/")


class Observation:
    """The lines of a run, and the exceptions that its calls raised."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.raised: list[BaseException] = []
        self.defects: list[str] = []


def observe(build: Callable[[], Case], way: Way, compile_: Callable[[Any], Any]) -> Observation:
    """Builds the case, compiles its wrapped function, makes the calls, records."""
    if way.leaks:
        return _observe_leaks(build, way, compile_)
    observation = Observation()

    def run() -> None:
        with _protected_globals():
            case = build()
            compiled = compile_(way.wrap(case.f))
            _make_calls(case, compiled, way.repeats, observation)

    if way.threaded:
        _in_thread(run)
    else:
        run()
    return observation


def _in_thread(run: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            run()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


@contextlib.contextmanager
def _protected_globals() -> Iterator[None]:
    dtype, grad, threads = torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads()
    recursion, path, environment = sys.getrecursionlimit(), list(sys.path), dict(os.environ)
    hook_number, RemovableHandle.next_id = RemovableHandle.next_id, 0
    torch.default_generator.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    try:
        with warnings.catch_warnings():
            yield
    finally:
        RemovableHandle.next_id = hook_number
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(grad)
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(False)
        sys.setrecursionlimit(recursion)
        sys.path[:] = path
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)


def _make_calls(case: Case, compiled: Callable[..., Any], repeats: bool, observation: Observation) -> tuple[Any, Any]:
    """Returns the arguments of the last call."""
    args, kwargs = case.args, case.kwargs
    changes: list[Callable[[], Args | None]] = [lambda: None]
    if repeats:
        changes += [*case.then, lambda: None]
    for number, change in enumerate(changes):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fresh = change()
        if isinstance(fresh, Args):
            args, kwargs = fresh.args, fresh.kwargs
        _one_call(case, compiled, args, kwargs, f"call{number}", observation)
    return args, kwargs


def _one_call(case: Case, compiled: Any, args: Any, kwargs: Any, path: str, observation: Observation) -> None:
    output = io.StringIO()
    result, error, backward_error = None, None, None
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(output):
        warnings.simplefilter("always")
        try:
            result = compiled(*args, **kwargs)
            if not case.forward_only:
                backward_error = _backward(result)
        except BaseException as raised:
            if isinstance(raised, KeyboardInterrupt):
                raise
            error = raised
    picture = Snapshot(case.versions)
    if error is not None:
        observation.raised.append(error)
        picture.add_exception(path + ".raised", error)
    else:
        picture.add(path + ".result", result)
    if backward_error is not None:
        picture.lines.append((path + ".backward", f"{type(backward_error).__name__} {str(backward_error)[:60]}"))
    picture.add(path + ".args", args)
    picture.add(path + ".kwargs", kwargs)
    picture.add(path + ".function", case.f)
    picture.add(path + ".observed", case.observe)
    if case.look is not None:
        try:
            picture.add(path + ".looked", case.look())
        except Exception as raised:  # it may look for what a refused call did not leave
            picture.add_exception(path + ".looked.raised", raised)
    picture.lines.append((path + ".stdout", output.getvalue()))
    picture.lines.append((path + ".warnings", tuple(_warning_text(w) for w in caught if not _is_own(w))))
    picture.lines.append((path + ".rng", _random_state()))
    picture.lines.append((path + ".modes", _modes()))
    observation.lines += picture.lines


def _tensors_in(value: Any, seen: set[int] | None = None) -> Iterator[torch.Tensor]:
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors_in(item, seen)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors_in(item, seen)


def _weights(t: torch.Tensor) -> torch.Tensor:
    """A weight for each element, with the tensor's own strides: a sum's last bit depends on the order in memory."""
    weights = torch.linspace(0.5, 1.5, max(t.numel(), 1)).reshape(t.shape)
    return torch.empty_like(t, dtype=weights.dtype, requires_grad=False).copy_(weights)


def _backward(result: Any) -> BaseException | None:
    outputs = [t for t in _tensors_in(result) if t.requires_grad and t.grad_fn is not None and t.is_floating_point()]
    if not outputs:
        return None
    try:
        with torch.enable_grad():
            torch.autograd.backward([(t * _weights(t)).sum() for t in outputs])
    except RuntimeError as error:
        return error
    return None


def _is_own(warning: warnings.WarningMessage) -> bool:
    return any(part in warning.filename for part in _OWN_WARNINGS) or str(warning.message).startswith("framefuse: ")


def _warning_text(warning: warnings.WarningMessage) -> str:
    place = f"{warning.lineno}" if is_program_code(warning.filename) else "elsewhere"
    return f"{warning.category.__name__} at {place}: {str(warning.message)[:120]}"


def _random_state() -> str:
    digest = hashlib.sha1(torch.get_rng_state().numpy().tobytes())
    digest.update(str(hash(random.getstate())).encode())
    numpy_state = np.random.get_state(legacy=False)["state"]
    digest.update(numpy_state["key"].tobytes() + str(numpy_state["pos"]).encode())
    return digest.hexdigest()


def _modes() -> tuple[Any, ...]:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        sys.gettrace() is None,
        sys.getprofile() is None,
        sys.getrecursionlimit(),
    )


def live_tensors() -> int:
    """Tensors made since `forget_what_exists`, fakes of torch's own not counted."""
    gc.collect()
    kinds = [type(o) for o in gc.get_objects()]
    return sum(1 for kind in kinds if issubclass(kind, torch.Tensor) and not issubclass(kind, FakeTensor))


def forget_what_exists() -> None:
    """Moves every object out of the collector's sight: what exists before a run can't be its leak."""
    with _protected_globals():
        pass  # imports thousands of objects of torch's, which each collection would visit
    gc.collect()
    gc.freeze()


def _observe_leaks(build: Callable[[], Case], way: Way, compile_: Callable[[Any], Any]) -> Observation:
    """What three more calls, after everything is compiled, add to live tensors and to the arguments' references."""
    observation = Observation()
    with _protected_globals():
        case = build()
        compiled = compile_(way.wrap(case.f))
        args, kwargs = _make_calls(case, compiled, way.repeats, Observation())
        watched = list(_tensors_in([args, kwargs]))
        tensors, references = live_tensors(), [sys.getrefcount(t) for t in watched]
        for _ in range(3):
            _one_call(case, compiled, args, kwargs, "call", Observation())
        gc.collect()
        changes = [sys.getrefcount(t) - count for t, count in zip(watched, references)]
        observation.lines.append(("leaks.references", changes))
        observation.lines.append(("leaks.growth", live_tensors() - tensors))
        del case, compiled, watched, args, kwargs
    return observation


def finish_leaks(observation: Observation) -> None:
    """Records what is still alive once the system has forgotten the run."""
    observation.lines.append(("leaks.after", live_tensors()))
