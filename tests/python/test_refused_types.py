"""Types that eager's kernels were never made for: the program gets eager's error where the operator stands, read or not."""

import framefuse
import pytest
import torch

_UNARY = (
    "abs acos acosh angle asin asinh atan ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac lgamma log log10 log1p "
    "log2 logit neg positive rad2deg reciprocal relu round rsqrt sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc "
    "bitwise_not logical_not isfinite isnan nan_to_num sgn silu gelu mish hardswish hardsigmoid leaky_relu elu softplus celu selu "
    "cumsum cumprod sort argsort median mode mean var std prod logsumexp softmax cummax tril diag max argmax"
).split()
_BINARY = (
    "add sub rsub mul div true_divide floor_divide remainder fmod pow atan2 hypot bitwise_and bitwise_or bitwise_xor logical_and "
    "maximum minimum fmax copysign heaviside gcd lcm lt eq nextafter logaddexp xlogy ldexp matmul where_ lerp_"
).split()
_TYPES = {"bool": torch.bool, "int8": torch.int8, "int64": torch.int64, "bfloat16": torch.bfloat16, "complex64": torch.complex64}


def _unary(name):
    function = getattr(torch, name, None) or getattr(torch.nn.functional, name)
    if name in ("cumsum", "cumprod", "logsumexp", "softmax", "cummax"):
        return lambda x: function(x, 0)
    return function


def _binary(name):
    if name == "where_":
        return lambda x, y: torch.where(x, x, y)
    if name == "lerp_":
        return lambda x, y: torch.lerp(x, y, 0.5)
    return getattr(torch, name)


def _result(function, *args):
    try:
        result = function(*args)
    except Exception as e:
        return f"{type(e).__name__}: {e}".split("\n")[0]
    return result


def _agree(ours, eagers):
    if isinstance(eagers, str) or isinstance(ours, str):
        return isinstance(ours, str) and isinstance(eagers, str) and ours.split(": ")[0] == eagers.split(": ")[0]
    for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (ours, eagers)), strict=True):
        torch.testing.assert_close(a, b, equal_nan=True)
    return True


def _check(form, args, backend):
    """All three programs: the result returned, dropped, and computed in place of its operand's copy."""

    def used(*args):
        return form(*args)

    def dropped(*args):
        form(*args)
        return args[0].logical_not()

    for program in used, dropped:
        eagers = _result(program, *args)
        ours = _result(framefuse.compile(program, backend=backend), *args)
        assert _agree(ours, eagers), (program.__name__, ours, eagers)


@pytest.mark.parametrize("backend", ["aten", "fuse"])
@pytest.mark.parametrize("kind", _TYPES)
def test_unary(kind, backend):
    framefuse.reset()
    x = torch.tensor([[1, 0, 1], [1, 1, 0]]).to(_TYPES[kind])
    for name in _UNARY:
        _check(_unary(name), (x,), backend)
        if hasattr(torch.Tensor, name + "_"):
            _check(lambda x, name=name: getattr(x.clone(), name + "_")(), (x,), backend)


@pytest.mark.parametrize("backend", ["aten", "fuse"])
@pytest.mark.parametrize("kind", _TYPES)
def test_binary(kind, backend):
    framefuse.reset()
    x = torch.tensor([[1, 0, 1], [1, 1, 0], [1, 1, 1]]).to(_TYPES[kind])
    for name in _BINARY:
        for y in (torch.ones(3, 3), torch.ones(3, 3, dtype=torch.bool), torch.ones_like(x), 2.5, True, 1):
            if isinstance(y, torch.Tensor) or name not in ("matmul", "where_", "lerp_"):
                _check(_binary(name), (x, y), backend)
            if hasattr(torch.Tensor, name + "_") and name != "rsub":
                _check(lambda x, y, name=name: getattr(x.clone(), name + "_")(y), (x, y), backend)
