"""Runs a built case under one way and records all that can be seen of it.

Seen are: the result or the exception of each call, gradients, every object reachable from function, arguments and
`observe`, stdout, warnings, random state, torch's global modes, live tensors and reference counts. Invariant: global
state is put back after a run, whatever the program did.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from conformance import global_state, native_errors
from conformance.gradients import backward, has_other_strides, tensors_in
from conformance.program import Args, Case
from conformance.resized import end_frames_of, resized_calls
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
        self.other_strides = False  # of a gradient that a backward started from
        self.peak: int | None = None  # bytes


def observe(build: Callable[[], Case], way: Way, compile_: Callable[[Any], Any], gradients: int = 0) -> Observation:
    """Builds the case, compiles its wrapped function, makes the calls, records.

    `gradients` says which kind of gradient the first backward starts from (gradients.py).
    """
    if way.leaks:
        return _observe_leaks(build, way, compile_, gradients)
    if way.memory:
        return _observe_memory(build, way, compile_, gradients)
    observation = Observation()

    def run() -> None:
        with global_state.protected():
            case = build()
            compiled = way.around(compile_(way.wrap(case.f)))
            _make_calls(case, compiled, way, observation, gradients)

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


def _make_calls(
    case: Case, compiled: Callable[..., Any], way: Way, observation: Observation, gradients: int
) -> tuple[Any, Any]:
    """Returns the arguments of the last call."""
    args, kwargs = case.args, case.kwargs
    changes: list[Callable[[], Args | None]] = [lambda: None]
    if way.repeats:
        changes += [*case.then, lambda: None]
    if way.sizes:
        changes += resized_calls(args, kwargs)
    for number, change in enumerate(changes):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fresh = change()
        if isinstance(fresh, Args):
            args, kwargs = fresh.args, fresh.kwargs
        one_call = functools.partial(_one_call, case, compiled, (args, kwargs), f"call{number}", observation, gradients + number)
        _in_thread(one_call) if way.apart else one_call()
        if way.sizes:
            end_frames_of(observation.raised)
    return args, kwargs


def _one_call(case: Case, compiled: Any, given: tuple[Any, Any], path: str, observation: Observation, gradients: int) -> None:
    args, kwargs = given
    output, errors = io.StringIO(), native_errors.position()
    result, error, backward_error = None, None, None
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(output):
        warnings.simplefilter("always")
        try:
            result = compiled(*args, **kwargs)
            if not case.forward_only:
                backward_error = backward(result, gradients)
                observation.other_strides |= has_other_strides(result, gradients)
        except BaseException as raised:
            if isinstance(raised, KeyboardInterrupt):
                raise
            error = raised
    modes = global_state.modes()  # before anything here reads one
    picture = Snapshot(case.versions, case.named)
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
    picture.lines.append((path + ".stderr", native_errors.warnings_since(errors)))
    picture.lines += [(f"{path}.rng.{name}", state) for name, state in global_state.random_states().items()]
    picture.lines += [(f"{path}.modes.{name}", mode) for name, mode in modes.items()]
    observation.lines += picture.lines


def _is_own(warning: warnings.WarningMessage) -> bool:
    return any(part in warning.filename for part in _OWN_WARNINGS) or str(warning.message).startswith("framefuse: ")


def _warning_text(warning: warnings.WarningMessage) -> str:
    place = f"{warning.lineno}" if is_program_code(warning.filename) else "elsewhere"
    return f"{warning.category.__name__} at {place}: {str(warning.message)[:120]}"


def _observe_memory(build: Callable[[], Case], way: Way, compile_: Callable[[Any], Any], gradients: int) -> Observation:
    """The most bytes that the second call and its backward hold at a time."""
    observation = Observation()
    with global_state.protected(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        case = build()
        compiled = compile_(way.wrap(case.f))
        _one_call(case, compiled, (case.args, case.kwargs), "call", Observation(), gradients)
        with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            with contextlib.suppress(Exception, SystemExit):
                result = compiled(*case.args, **case.kwargs)
                if not case.forward_only:
                    backward(result, gradients)
    observation.peak = _peak(profile)
    return observation


def _peak(profile: torch.profiler.profile) -> int:
    now = most = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most


def live_tensors() -> int:
    """Tensors made since `forget_what_exists`, fakes of torch's own not counted."""
    gc.collect()
    kinds = [type(o) for o in gc.get_objects()]
    return sum(1 for kind in kinds if issubclass(kind, torch.Tensor) and not issubclass(kind, FakeTensor))


def forget_what_exists() -> None:
    """Moves every object out of the collector's sight: what exists before a run can't be its leak."""
    with global_state.protected():
        pass  # imports thousands of objects of torch's, which each collection would visit
    gc.collect()
    gc.freeze()


def _observe_leaks(
    build: Callable[[], Case], way: Way, compile_: Callable[[Any], Any], gradients: int
) -> Observation:
    """What three more calls, after everything is compiled, add to live tensors and to the arguments' references."""
    observation = Observation()
    with global_state.protected():
        case = build()
        compiled = compile_(way.wrap(case.f))
        args, kwargs = _make_calls(case, compiled, way, Observation(), gradients)
        watched = list(tensors_in([args, kwargs]))
        tensors, references = live_tensors(), [sys.getrefcount(t) for t in watched]
        for _ in range(3):
            _one_call(case, compiled, (args, kwargs), "call", Observation(), gradients)
        gc.collect()
        changes = [sys.getrefcount(t) - count for t, count in zip(watched, references)]
        observation.lines.append(("leaks.references", changes))
        observation.lines.append(("leaks.growth", live_tensors() - tensors))
        del case, compiled, watched, args, kwargs
    return observation


def finish_leaks(observation: Observation) -> None:
    """Records what is still alive once the system has forgotten the run."""
    observation.lines.append(("leaks.after", live_tensors()))
