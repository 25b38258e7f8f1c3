"""Callables without code in Python (torch.softmax, a scripted function): a frame of our own calls them, which is captured."""

import functools
import types
from typing import Any

from torch._ops import OpOverload, OpOverloadPacket

from framefuse import _C

_COMPILED_OR_DISABLED = type(_C.make_disabled_function(abs, True, None))


def has_python_code(callable: Any) -> bool:
    """Whether a call of it runs a frame that the hook gets."""
    while isinstance(callable, functools.partial | types.MethodType):
        callable = callable.func if isinstance(callable, functools.partial) else callable.__func__
    if isinstance(callable, types.FunctionType | _COMPILED_OR_DISABLED):
        return True
    if isinstance(callable, OpOverload | OpOverloadPacket):  # capture knows the operator, not how they call it
        return False
    return isinstance(getattr(type(callable), "__call__", None), types.FunctionType)


class CCallable:
    """Calls `function`; as that in all else."""

    def __init__(self, function: Any):
        self.function = function

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)

    def __getattr__(self, name):
        if name == "function":  # while it is made anew
            raise AttributeError(name)
        return getattr(self.function, name)

    def __reduce__(self):
        return CCallable, (self.function,)
