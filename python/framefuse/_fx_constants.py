"""What the code that FX generates can hold: constants that print as expressions, and functions that have a name in it."""

import builtins
import math
import struct
import types

import torch
from torch import fx

NO_LITERAL = object()

_EXACT = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), torch.dtype, torch.device, torch.layout, torch.memory_format)
_BASES = ((int, int.__index__), (float, float.__float__), (complex, complex.__complex__), (str, str.__str__), (bytes, bytes.__bytes__))


def _prints_itself(value):
    """Whether a number's text is an expression for the same bits."""
    if isinstance(value, complex):  # the text is a sum, which has no `infj` and drops the sign of a zero
        real, imag = value.real, value.imag
        return math.isfinite(real) and math.isfinite(imag) and (imag > 0 if real == 0 else imag != 0) and _bits(real) != _bits(-0.0)
    return not isinstance(value, float) or value == value or _bits(value) == _bits(math.nan)


def _bits(number):
    return struct.pack("d", number)


def as_literal(value, keeps_types=False):
    """A constant of a builtin type or of torch's that is equal to `value` and prints as an expression, or NO_LITERAL.

    With `keeps_types` a number of numpy's has none: a tensor that is made of it has its type.
    """
    plain = NO_LITERAL if keeps_types and _is_of_numpy(value) else _as_builtin(value)
    return plain if _prints_itself(plain) else NO_LITERAL


def _is_of_numpy(value):
    return type(value).__module__ == "numpy" and not isinstance(value, type)


def _as_builtin(value):
    if type(value) in _EXACT:
        return value
    if _is_of_numpy(value):
        plain = value.item()
        if type(plain) is bool:  # torch parses numpy's as a number, where it takes no bool
            return NO_LITERAL
        return plain if type(plain) in _EXACT else NO_LITERAL
    for base, convert in _BASES:  # IntEnum and its like: torch takes them for what they are
        if isinstance(value, base):
            return convert(value)
    return NO_LITERAL


def can_be_called_by_name(function):
    """Whether the name that FX prints for a call of `function` means `function` where the code runs."""
    if isinstance(function, torch._ops.OpOverload):
        return True
    if not isinstance(function, (types.FunctionType, types.BuiltinFunctionType, type)):
        return False
    if getattr(builtins, function.__name__, None) is function:
        return True
    try:
        name = fx.node._get_qualified_name(function)
    except Exception:  # FX asserts and looks up attributes
        return False
    if not name.startswith("torch."):
        return True  # the module's globals hold the function under a name of its own
    found = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found is function or found == function
