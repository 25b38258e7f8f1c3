"""Numpy's functions on arrays that captured code made of tensors: how C++ (symbolic/journals/array_functions.h) calls them.

Invariant: what an entry calls is the program's own call, on the same operands, so that values, layout and `base` are numpy's.
"""

import functools

from framefuse import _warning_calls

try:
    import numpy as np
except ImportError:  # torch works without, too
    np = None

_SAID = "Warning: "


class _Heard:
    def __init__(self):
        self.texts = []

    def write(self, text):
        self.texts.append(text.removeprefix(_SAID).rstrip("\n"))


def on_zeros(function, named, *args):
    """In a capture, where the arrays hold zeros: the result, and whether numpy would have warned. It says nothing."""
    heard = _Heard()
    with np.errstate(divide="log", over="log", invalid="log", under="ignore", call=heard):
        result = function(*args, **named)
    return result, bool(heard.texts)


def _run(function, named, place, *args):
    heard = _Heard()
    with np.errstate(divide="log", over="log", invalid="log", call=heard):
        result = function(*args, **named)
    for text in heard.texts:
        _warning_calls.say(text, *place)
    return result


def as_entry_calls(function, named, place):
    """What an entry calls with the operands. `place`: where numpy would warn, (category, path, line, module); None: in code of its own."""
    if place is not None:
        return functools.partial(_run, function, named, place)
    return functools.partial(function, **named) if named else function


def warns_in_own_code(function):
    """Whether Python code of numpy's stands between the call and what warns."""
    if isinstance(function, np.ufunc):
        return False
    if type(function) is type(np.ndarray.sum):
        return function.__name__ in ("sum", "prod", "mean", "std", "var", "max", "min", "any", "all", "clip")
    inner = getattr(function, "_implementation", function)
    return hasattr(inner, "__code__")


def copy_of(array):
    """Another array that holds the same, in the same order."""
    return array.copy("K")


def view_like(view):
    """What makes such a view of another array like its base."""
    offset = view.__array_interface__["data"][0] - view.base.__array_interface__["data"][0]
    return functools.partial(_view, view.shape, view.dtype, offset, view.strides, view.flags.writeable)


def _view(shape, dtype, offset, strides, writeable, whole):
    view = np.ndarray(shape, dtype, whole, offset, strides)
    if not writeable:
        view.flags.writeable = False
    return view
