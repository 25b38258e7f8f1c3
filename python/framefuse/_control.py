"""What user code calls to steer capture: disable, graph_break, is_compiling, reset, set_stance and their like."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, overload

import torch

from framefuse import _C
from framefuse._module import make_disabled_function, make_disabled_module

is_compiling = _C.is_compiling
graph_break = _C.graph_break

STANCES = tuple(_C.Stance.__members__)
Stance = Literal["default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile"]
F = TypeVar("F", bound=Callable[..., Any])


@overload
def disable(fn: F, recursive: bool = ..., *, reason: str | None = ...) -> F: ...
@overload
def disable(fn: None = ..., recursive: bool = ..., *, reason: str | None = ...) -> Callable[[F], F]: ...
def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Run a function or module without capture; usable as a decorator with or without arguments.

    In captured code a call of it breaks the graph, and the message gives the `reason`, if there is one. With `recursive=False`
    only `fn` itself is left alone: compiled functions that it calls run their compiled code. As `torch.compiler.disable` does.
    Raises `TypeError` for what cannot be called and for arguments of other types.
    """
    if not isinstance(recursive, bool):
        raise TypeError(f"recursive must be True or False, not {recursive!r}")
    if reason is not None and not isinstance(reason, str):
        raise TypeError(f"reason must be None or a str, not {reason!r}")
    again = functools.partial(disable, recursive=recursive, reason=reason)
    if fn is None:
        return again
    if not callable(fn):
        raise TypeError(f"disable() takes a function or an nn.Module, not {type(fn).__name__}")
    if isinstance(fn, torch.nn.Module):
        return make_disabled_module(fn, recursive, again, reason)
    return make_disabled_function(fn, recursive, again, reason)


def reset() -> None:
    """Drop all compiled code and everything learnt from calls; compiled functions stay usable and start afresh."""
    _C.reset()


class set_stance:
    """Set what compiled functions do, until it is set again; as a context manager or decorator, for a block or a call.

    "default": compile and run; "force_eager": run the Python code; "eager_on_recompile": use what is compiled, and Python
    where nothing fits, at the first call too; "fail_on_recompile": raise there; "eager_then_compile": the first call of a function
    runs the Python code, and sizes and integers that the second one has otherwise are symbolic from its capture on.
    """

    def __init__(self, stance: Stance = "default"):
        if stance not in STANCES:
            raise ValueError(f"unknown stance {stance!r}; the stances are: {', '.join(STANCES)}")
        self._stance = _C.Stance.__members__[stance]
        self._before = [_C.get_stance()]
        _C.set_stance(self._stance)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        _C.set_stance(self._before.pop())

    def __call__(self, fn):
        # As a decorator the stance holds for calls of fn only, not from here on.
        _C.set_stance(self._before.pop())
        stance = self._stance

        @functools.wraps(fn)
        def with_stance(*args, **kwargs):
            before = _C.get_stance()
            _C.set_stance(stance)
            try:
                return fn(*args, **kwargs)
            finally:
                _C.set_stance(before)

        return with_stance


# Captured code writes it as any global; a break asks for its value there (symbolic/attempt/breaks_as_errors.h).
_breaks_are_errors = False
_C.register_breaks_as_errors(globals(), "_breaks_are_errors")


class error_on_graph_break:
    """Make graph breaks errors, or breaks again, in a block or in the calls of a decorated function.

    Where `error` is true a break raises `Unsupported`, as `compile(fullgraph=True)` does for the whole function; with
    `fullgraph=True` this changes nothing. It is asked for when code is compiled: a block that has an entry runs it.
    `torch._dynamo.error_on_graph_break` means the same. Raises `TypeError` for anything but a bool.
    """

    def __init__(self, error: bool):
        if not isinstance(error, bool):
            raise TypeError(f"error must be True or False, not {error!r}")
        self._error = error
        self._before: list[bool] = []

    def __enter__(self):
        global _breaks_are_errors
        self._before.append(_breaks_are_errors)
        _breaks_are_errors = self._error
        return self

    def __exit__(self, *exc_info):
        global _breaks_are_errors
        _breaks_are_errors = self._before.pop()

    def __call__(self, fn: F) -> F:
        error = self._error

        @functools.wraps(fn)
        def with_setting(*args, **kwargs):
            with error_on_graph_break(error):
                return fn(*args, **kwargs)

        return with_setting  # type: ignore[return-value]


def allow_in_graph(fn: Callable[..., Any] | Sequence[Callable[..., Any]]) -> Any:
    """Record calls of `fn` as one node of the graph, without looking into it; returns `fn`. Takes a list or tuple too.

    `fn` must depend on its arguments only and have no side effect: nothing checks that.
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(one) for one in fn]
    if not callable(fn):
        raise TypeError(f"allow_in_graph() takes a function, not {type(fn).__name__}")
    _C.allow_in_graph(fn)
    return fn


def mark_dynamic(tensor: torch.Tensor, index: int | Sequence[int], *, min: int | None = None, max: int | None = None) -> None:
    """Ask that `tensor.size(index)` be symbolic from the first capture on, as `torch._dynamo.mark_dynamic` does.

    One or several indices, negative ones count from the end. A size of 0 or 1 stays what it is. `min` and `max` are kept for
    torch; framefuse finds the range that the code allows by itself. Without effect under `compile(dynamic=False)` and for
    backends in Python. Raises `TypeError` for what is no tensor or no index, `IndexError` for a dimension that is not there.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"mark_dynamic() takes a tensor, not {type(tensor).__name__}")
    if isinstance(index, (list, tuple)):
        for one in index:
            mark_dynamic(tensor, one, min=min, max=max)
        return
    if not isinstance(index, int):
        raise TypeError(f"mark_dynamic() takes the number of a dimension, not {index!r}")
    if not -tensor.dim() <= index < tensor.dim():
        raise IndexError(f"the tensor has no dimension {index}: it has {tensor.dim()}")
    torch._dynamo.mark_dynamic(tensor, index % tensor.dim(), min=min, max=max)


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """Return `true_fn(*operands)` if `pred` holds, else `false_fn(*operands)`.

    `pred`: a bool, or a tensor of one element. In captured code a tensor makes one operator of the graph with both branches in
    it; each call runs the one that its value chooses. So both are captured, and neither may write to what is outside of it,
    raise, or return memory that it was given; they return tensors of the same sizes, strides, dtypes and devices, in the same
    structure of tuples, lists and dicts, and equal constants. Where a branch does otherwise the graph breaks (`Unsupported`
    under fullgraph=True) and Python takes one of them. Results require grad if either branch's would, and tensors that only the
    other branch reads get gradients of zeros, as with `torch.cond`.
    """
    if not (callable(true_fn) and callable(false_fn)):
        raise TypeError("cond() takes two callables")
    if isinstance(pred, torch.Tensor):
        return _C.cond(pred, true_fn, false_fn, operands)
    return true_fn(*operands) if pred else false_fn(*operands)


def statistics() -> "dict[str, float]":
    """Counters since the process started: captures, graphs, their nodes and symbols, graph_breaks, recompiles, hits,
    eager_fallbacks, live_fakes, seconds.

    `eager_fallbacks` counts the frames that ran as Python inside compiled calls, `eager_fallbacks.KIND` those of a kind;
    the log `fallbacks` and `explain` say of which functions, and why.
    """
    return _C.statistics()
