"""Self-checks of the judge: runs that differ in one thing that observation.py, gradients.py or global_state.py must see."""

import os
import random
import sys
import threading
import types
import warnings

import numpy as np
import torch

from conformance import gradients
from conformance.checks import as_program, check
from conformance.program import Args, Case


def doing(name, one, other, **settings):
    """A check whose two forms do something else in the call; what a form returns is the result."""

    def build(differs):
        chosen = other if differs else one
        return Case(lambda: chosen(), forward_only=True)

    build.__name__ = name
    check(build, **settings)


def fails(kind, text):
    def f():
        raise kind(text)

    return as_program(f)


doing("result", lambda: 1, lambda: 2)
doing("raised", lambda: None, fails(ValueError, "e"))
doing("type of what is raised", fails(ValueError, "e"), fails(TypeError, "e"))
doing("text of what is raised", fails(ValueError, "e"), fails(ValueError, "f"))
doing("order of the parts", lambda: [1, {"a": 1, 1: 2}], lambda: [1, {1: 2, "a": 1}])
doing("stdout", lambda: print("a"), lambda: print("b"))
doing("what C++ code warns of on stderr", lambda: None, lambda: os.write(2, b"[W1130 07:35:04.12 a.cpp:1] Warning: a\n") and None)
doing("text on stderr", *(lambda text=text: os.write(2, b"[W1130 07:35:04.12 a.cpp:1] %s\n" % text) and None for text in (b"a", b"b")))
doing("no stdout", lambda: None, lambda: print("b"))


def warning(text="a", kind=UserWarning):
    return as_program(lambda: warnings.warn(text, kind, stacklevel=1))


def warning_of_another_line():
    return warnings.warn(
        "a",
        UserWarning,
        stacklevel=1,
    )


doing("no warning", lambda: None, warning())
doing("text of a warning", warning(), warning("b"))
doing("category of a warning", warning(), warning(kind=DeprecationWarning))
doing("line of a warning", warning(), as_program(warning_of_another_line))
doing("warning of a library", lambda: None, lambda: warnings.warn_explicit("a", UserWarning, "library.py", 1))
doing("second warning", warning(), lambda: (warning()(), warning()())[0])


_PLACES = []  # kept, so that each is another one


def text_of_an_object(end=""):
    _PLACES.append(object())
    return f"{_PLACES[-1]!r} {end}"


def of_texts(name, one, other):
    """What differs is beside the address of an object, which differs in each run."""

    def build(differs):
        return Case(lambda: None, observe=[text_of_an_object(other if differs else one)])

    build.__name__ = name
    check(build)


of_texts("text beside an address", "a", "b")
of_texts("number that is no address", "0x11", "0x12")


@check
def error_with_an_address(differs):
    def f():
        raise ValueError(text_of_an_object(differs))

    return Case(f)


@check
def arguments(differs):
    return Case(lambda items: items.append(differs), [1])


@check
def keyword_arguments(differs):
    return Case(lambda items: items.append(differs), kwargs={"items": [1]})


@check
def cell_of_the_function(differs):
    items = []
    add = lambda: items.append(differs)  # no code of a program: what it holds is not compared

    def f():
        add()
        return len(items)

    return Case(as_program(f))


@check
def observed(differs):
    return Case(lambda: None, observe=[differs])


@check
def looked_at(differs):
    return Case(lambda: None, look=lambda: differs)


@check
def error_of_a_look(differs):
    return Case(lambda: None, look=fails(ValueError, differs))


@check(way="twice")
def state_change(differs):
    state = [1]
    return Case(lambda: state[0], then=[lambda: state.append(0) if not differs else state.insert(0, 2)])


@check(way="twice")
def arguments_of_a_later_call(differs):
    return Case(lambda n: n, 1, then=[lambda: Args(2 + differs)])


@check(way="twice")
def call_after_the_last_change(differs):
    calls = []

    def f():
        calls.append(1)
        return len(calls) == 3 and differs

    return Case(f, then=[lambda: None])


@check(way="thread")
def result_in_a_thread(differs):
    return Case(lambda: differs)


@check(way="thread")
def thread_is_another(differs):
    main = threading.main_thread()
    return Case(lambda: differs and threading.current_thread() is not main)


@check(way="threads")
def each_call_in_another_thread(differs):
    here, calls = threading.local(), []

    def f():
        seen, here.called = hasattr(here, "called"), True
        calls.append(1)
        return differs and len(calls) > 1 and not seen

    return Case(f, then=[lambda: None])


# Gradients: `number` chooses the kind.
KIND = {kind: number for number, kind in enumerate(gradients.KINDS)}


def with_backward(count, wrong):
    """A function with `count` results; backward's gradient is wrong where `wrong(gradients)`."""

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            made = tuple(x * (n + 2) for n in range(count))
            return made if count > 1 else made[0]

        @staticmethod
        def backward(ctx, *given):
            there = [g for g in given if g is not None]
            scale = 2 if wrong(given) else 1
            return sum(there) * scale

    return lambda x: Scaled.apply(x)


def backward_check(name, kind, wrong, count=1):
    def build(differs):
        return Case(with_backward(count, wrong if differs else lambda given: False), torch.ones(2, 3, requires_grad=True))

    build.__name__ = name
    check(build, number=KIND[kind])


def is_transposed(given):
    return given[0].stride() == (1, 2)


def is_expanded(given):
    return given[0].stride() == (0, 0)


def has_gaps(given):
    return given[0].stride() == (6, 2)


backward_check("backward", "by a loss", lambda given: True)
backward_check("gradient that differs from element to element", "by a loss", lambda given: given[0][0, 0] != given[0][1, 2])
backward_check("contiguous gradient", "by a loss", lambda given: given[0].is_contiguous())
backward_check("transposed gradient", "transposed", is_transposed)
backward_check("expanded gradient", "expanded", is_expanded)
backward_check("gradient with gaps", "with gaps", has_gaps)
backward_check("gradient beside large numbers", "with gaps", lambda g: g[0].as_strided((1,), (1,), 1).item() > 1000)
backward_check("no gradient of the first result", "of every second result", lambda given: given[0] is None, 2)
backward_check("no gradient of the second result", "of every other result", lambda given: given[1] is None, 2)
backward_check("gradients of both results", "by a loss", lambda given: None not in given, 2)
backward_check("one result by every second", "of every second result", lambda given: True)


@check(way="twice", number=KIND["by a loss"])
def another_kind_of_gradient_in_the_next_call(differs):
    wrong = is_transposed if differs else lambda given: False
    return Case(with_backward(1, wrong), torch.ones(2, 3, requires_grad=True))


@check
def backward_without_gradients_on(differs):
    torch.set_grad_enabled(True)

    def f(x):
        y = x * 2
        torch._C._set_grad_enabled(False)
        return y * (1 + differs)

    return Case(f, torch.ones(2, requires_grad=True))


def backward_of_nested(name, pack):
    def build(differs):
        x = torch.ones(2, requires_grad=True)
        scaled = with_backward(1, lambda given: differs)
        return Case(lambda x: pack(scaled(x)), x)

    build.__name__ = name
    check(build)


backward_of_nested("backward of a list", lambda y: [y])
backward_of_nested("backward of a tuple in a dict", lambda y: {"a": (1, y)})


@check
def backward_of_a_list_that_holds_itself(differs):
    scaled = with_backward(1, lambda given: differs)

    def f(x):
        made = [scaled(x)]
        made.append(made)
        return made

    return Case(f, torch.ones(2, requires_grad=True))


@check
def error_of_the_backward(differs):
    def wrong(given):
        raise RuntimeError("backward" if differs else "other")

    return Case(with_backward(1, wrong), torch.ones(2, requires_grad=True))


@check
def no_backward_where_the_case_says_so(differs):
    x = torch.ones(2, requires_grad=True)
    return Case(lambda x: x * 2, x, forward_only=differs)


# Tolerance: what a system may be off by, in values and in gradients.
def off_by(size):
    return lambda differs: Case(lambda: torch.ones(2) * (1 + (size if differs else 0)), forward_only=True)


def gradient_off_by(size):
    def build(differs):
        x = torch.ones(2, requires_grad=True)
        x.grad = torch.ones(2) * (1 + (size if differs else 0))
        return Case(lambda: None, observe=x, forward_only=True)

    return build


def tolerance_check(name, build, tolerance):
    build.__name__ = name
    check(build, tolerance=tolerance)


tolerance_check("values beyond the tolerance", off_by(1e-3), (1e-5, 1e-1))
tolerance_check("gradients beyond the tolerance", gradient_off_by(1e-3), (1e-1, 1e-5))
tolerance_check("small values beyond the tolerance", lambda d: Case(lambda: torch.full((2,), 1e-3 * (1 + d))), (1e-5, 0.0))
tolerance_check("NaN beside a tolerance", lambda d: Case(lambda: torch.full((2,), float("nan") if d else 1.0)), (1e-1, 1e-1))
tolerance_check("integers beside a tolerance", lambda d: Case(lambda: torch.full((2,), 1000 + d)), (1e-1, 1e-1))
tolerance_check("floats of Python beyond the tolerance", lambda d: Case(lambda: 1.0 + 1e-3 * d), (1e-5, 1e-1))
tolerance_check("integers of Python beside a tolerance", lambda d: Case(lambda: 1000 + d), (1e-1, 1e-1))
tolerance_check("shape beside a tolerance", lambda d: Case(lambda: torch.ones(1, 2) if d else torch.ones(2)), (1e-1, 1e-1))


@check(tolerance=(1e-5, 0.0))
def values_within_the_tolerance_are_equal(differs):
    """Each run is a little further off than the former one: equal within the tolerance only."""
    _runs.append(1)
    return Case(lambda: torch.ones(2) * (2 if differs else 1 + 1e-6 * (len(_runs) % 2)), forward_only=True)


@check(tolerance=(1e-5, 0.0))
def floats_of_python_within_the_tolerance_are_equal(differs):
    _runs.append(1)
    return Case(lambda: 2.0 if differs else 1 + 1e-6 * (len(_runs) % 2), forward_only=True)


@check(tolerance=(0.0, 1e-5))
def gradients_within_the_tolerance_are_equal(differs):
    _runs.append(1)
    return gradient_off_by(1 if differs else 1e-6 * (len(_runs) % 2))(True)


@check(tolerance=(1e-5, 0.0))
def nan_within_the_tolerance_is_equal(differs):
    _runs.append(1)
    off = 2 if differs else 1e-6 * (len(_runs) % 2)
    return Case(lambda: torch.tensor([float("nan"), 1 + off]), forward_only=True)


_runs: list[int] = []

# Random states and modes: one check each.
DRAWS = {"torch": lambda: torch.rand(1), "python": random.random, "numpy": np.random.rand}

for _name, _draw in DRAWS.items():
    doing(f"random state of {_name}", lambda: None, lambda draw=_draw: draw() and None)


def half_of_a_pair():
    np.random.randn(1)
    state = np.random.get_state(legacy=False)
    np.random.set_state(state | {"has_gauss": 0, "gauss": 0.0})


doing("number kept by numpy's random state", lambda: np.random.randn(1) and None, lambda: half_of_a_pair())


def starting_with(name, change, read):
    """Global state that is not compared itself: each run must start with the same."""

    def build(differs):
        before = read()
        return Case(lambda: change() and None, observe=[before, differs], forward_only=True)

    build.__name__ = name
    check(build)


starting_with("search path is put back", lambda: sys.path.append("left"), lambda: list(sys.path))
starting_with("environment is put back", lambda: os.environ.update(LEFT_BY_A_RUN="1"), lambda: dict(os.environ))
starting_with(
    "number of hooks starts anew",
    lambda: torch.ones(1, requires_grad=True).register_hook(abs) and None,
    lambda: torch.utils.hooks.RemovableHandle.next_id,
)
starting_with("warnings' filters are put back", lambda: warnings.simplefilter("error"), lambda: [str(f) for f in warnings.filters])
for _name, _draw in DRAWS.items():
    starting_with(f"random state of {_name} starts anew", _draw, lambda draw=_draw: str(draw()))


# Leaks: what three more calls add, and what is alive when the system has forgotten the run.
_kept: list[object] = []


@check(way="leaks")
def tensor_kept_by_each_call_until_the_end(differs):
    kept = []
    return Case(lambda x: kept.append(torch.ones(1)) if differs else None, torch.ones(2))


@check(way="leaks")
def reference_kept_by_each_call_until_the_end(differs):
    kept = []
    return Case(lambda x: kept.append(x) if differs else None, torch.ones(2))


@check(way="leaks")
def tensor_alive_after_the_run(differs):
    _kept.clear()

    def f(x):
        if differs and not _kept:
            _kept.append(torch.ones(1))

    return Case(f, torch.ones(2))


@check(way="leaks")
def tensor_in_a_cycle_is_no_leak(differs):
    _kept.clear()

    def f(x):
        box = types.SimpleNamespace(t=torch.ones(1))
        box.me = box
        if differs:
            _kept.append(box)

    return Case(f, torch.ones(2))


@check(way="leaks")
def tensors_of_former_runs_are_no_leak(differs):
    _older.append(torch.ones(1))  # one that each run leaves: what other runs left must not count
    kept = []
    return Case(lambda x: kept.append(torch.ones(1)) if differs else None, torch.ones(2))


_older: list[torch.Tensor] = []
