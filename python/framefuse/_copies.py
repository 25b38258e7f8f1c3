"""Deep copies and pickles of compiled functions, as of functions: what C++ calls for __deepcopy__ and __reduce_ex__.

Invariant: a copy has the settings of what it is a copy of, and shares its compiled code; only what it wraps may be another.
"""

import copy
import sys


def deep_copy(function, memo):
    wrapped = copy.deepcopy(function.__wrapped__, memo)
    if wrapped is function.__wrapped__:
        return function  # a function is its own copy
    return _make(function._framefuse_remake, wrapped, copy.deepcopy(vars(function), memo))


def reduce(function, protocol):
    return _global_name(function) or (_make, (function._framefuse_remake, function.__wrapped__, vars(function)))


def _make(remake, wrapped, attributes):
    made = remake(wrapped)
    vars(made).update({name: value for name, value in attributes.items() if not name.startswith("_is_coroutine")})
    return made


def _global_name(function):
    """The name by which another process finds this very object, or None; that of what it wraps may be a decorated one's."""
    name = getattr(function, "__qualname__", None)
    found = sys.modules.get(getattr(function, "__module__", None))
    for part in name.split(".") if isinstance(name, str) else ():
        found = getattr(found, part, None)
    return name if found is function else None
