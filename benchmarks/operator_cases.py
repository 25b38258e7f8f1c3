"""The operators that generated kernels must get right, each as a function of one or two tensors, and the layouts to try them in."""

import math

import torch
import torch.nn.functional as F

UNARY = ["neg", "abs", "sqrt", "rsqrt", "reciprocal", "exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "tanh", "erf",
         "erfc", "sigmoid", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "floor", "ceil", "trunc", "round",
         "relu", "square", "sign", "isnan", "logical_not"]
FUNCTIONAL = {
    "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "hardtanh": F.hardtanh,
    "leaky_relu": F.leaky_relu, "elu": F.elu, "softplus": F.softplus, "hardswish": F.hardswish, "mish": F.mish,
    "clamp": lambda x: x.clamp(-0.5, 1.5), "pow2": lambda x: x**2, "pow3": lambda x: x**3, "pow_half": lambda x: x.abs() ** 0.5,
    "softmax": lambda x: F.softmax(x, -1), "log_softmax": lambda x: F.log_softmax(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]), "sum_rows": lambda x: x.sum(-1), "sum_columns": lambda x: x.sum(0),
    "sum_all": lambda x: x.sum(), "mean": lambda x: x.mean(-1, keepdim=True), "amax": lambda x: x.amax(-1),
    "amin": lambda x: x.amin(0), "var": lambda x: x.var(-1), "rms": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, True) + 1e-5),
    "to_bf16": lambda x: x.to(torch.bfloat16).float() + 1, "to_int": lambda x: x.nan_to_num(0, 9, -9).clamp(-99, 99).int() * 3,
}
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "atan2", "fmod", "pow", "eq", "ne", "lt", "le", "gt", "ge"]


def operators():
    for name in UNARY:
        yield name, getattr(torch, name), 1
    for name, function in FUNCTIONAL.items():
        yield name, function, 1
    for name in BINARY:
        yield name, getattr(torch, name), 2
    yield "where", lambda x, y: torch.where(x > y, x, y * 2), 2
    yield "addcmul", lambda x, y: torch.addcmul(x, x, y, value=0.5), 2
    yield "lerp", lambda x, y: torch.lerp(x, y, 0.25), 2


def layouts(dtype, device):
    """Names and pairs of inputs: shapes and strides that kernels take different ways through."""

    def draw(*shape):
        t = torch.randn(*shape, device=device, dtype=torch.float32) * 2
        special = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 1e-30, 50.0, -50.0], device=device)
        flat = t.view(-1)
        flat[: min(len(special), flat.numel() // 4)] = special[: min(len(special), flat.numel() // 4)]
        return t.to(dtype)

    yield "contiguous", draw(37, 96), draw(37, 96)
    yield "odd", draw(5, 71), draw(5, 71)
    yield "broadcast", draw(24, 64), draw(64)
    yield "column", draw(40, 64), draw(40, 1)
    yield "transposed", draw(72, 80).t(), draw(80, 72)
    yield "unaligned", draw(1 + 33 * 64)[1:].view(33, 64), draw(33, 64)
    yield "strided", draw(20, 128)[:, ::2], draw(20, 64)
