"""The operators that generated kernels must get right, each as a function of one or two tensors, and the layouts to try them in."""

import math

import torch
import torch.nn.functional as F

aten = torch.ops.aten


def known(x):
    """Without NaNs: on which side of a boundary they are, eager's own kernels for vectors and for the rest disagree."""
    return torch.where(x.isnan(), 1.5, x)


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
    "prod_rows": lambda x: x.prod(-1), "prod_columns": lambda x: x.prod(0, keepdim=True),
    "amin": lambda x: x.amin(0), "var": lambda x: x.var(-1), "rms": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, True) + 1e-5),
    "logsumexp": lambda x: x.logsumexp(-1), "logsumexp_kept": lambda x: x.logsumexp(-1, True), "logsumexp_columns": lambda x: x.logsumexp(0),
    "var_kept": lambda x: x.var(-1, keepdim=True), "hardsigmoid": F.hardsigmoid, "sub_scalar": lambda x: x - 0.5, "div_scalar": lambda x: x / 3, "rsub_scalar": lambda x: 2 - x,
    "clamp_min": lambda x: torch.clamp_min(x, 0.25), "clamp_max": lambda x: torch.clamp_max(x, 0.25),
    "clone": lambda x: x.mT.clone(memory_format=torch.contiguous_format) * 2,
    "compare_scalar": lambda x: torch.stack([x == 1, x != 1, x < 0.5, x <= 1, x > 0.5, x >= 1]),
    "group_norm": lambda x: F.group_norm(x, 1), "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "masked_fill": lambda x: x.masked_fill(x > 0.5, 7.0), "masked_fill_tensor": lambda x: x.masked_fill(x > 0.5, x.amax()),
    "selu": F.selu, "celu": lambda x: F.celu(x, 0.7), "threshold": lambda x: F.threshold(x, 0.1, 2.0), "hardshrink": F.hardshrink,
    "log_sigmoid": F.logsigmoid, "frac": torch.frac, "glu": lambda x: F.glu(torch.stack((x, x * 2)), 0), "norm_rows": lambda x: x.norm(dim=-1),
    "norm_one": lambda x: x.norm(p=1, dim=-1, keepdim=True), "norm_all": lambda x: x.norm(), "normalize_sum": lambda x: F.normalize(x, dim=-1),
    "std_kept": lambda x: x.std(-1, keepdim=True), "std_var": lambda x: x.std(0), "largest": lambda x: x.max(), "smallest": lambda x: x.min(),
    "any": lambda x: (x > 1).any(-1), "all": lambda x: (x > -2).all(0), "any_all": lambda x: (x == 50).any(), "any_of_numbers": lambda x: x.any(-1),
    "to_bf16": lambda x: x.to(torch.bfloat16).float() + 1, "to_int": lambda x: x.nan_to_num(0, 9, -9).clamp(-99, 99).int() * 3,
    "argmax_rows": lambda x: x.argmax(-1), "argmin_columns": lambda x: x.argmin(0, keepdim=True), "argmax_all": lambda x: x.argmax(),
    "max_rows": lambda x: tuple(x.max(-1)), "min_columns": lambda x: tuple(x.abs().min(0)), "argmax_inside": lambda x: (x.abs().argmin(-1) + 1, x.amin(-1)),
    "cumsum_rows": lambda x: x.cumsum(-1), "cumsum_columns": lambda x: x.abs().cumsum(0), "cumsum_inside": lambda x: torch.relu(-(x * 2).cumsum(-1)),
}
FUNCTIONAL_BINARY = {
    "where": lambda x, y: torch.where(x > y, x, y * 2), "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.5),
    "addcdiv": lambda x, y: torch.addcdiv(x, x, y, value=0.5), "lerp": lambda x, y: torch.lerp(x, y, 0.25),
    "lerp_tensor": lambda x, y: torch.lerp(x, y.expand_as(x), x), "clamp_tensor": lambda x, y: torch.clamp(x, y, y + 1),
    "rsub": lambda x, y: torch.rsub(x, y, alpha=0.5), "sub_alpha": lambda x, y: torch.sub(x, y, alpha=3),
    "logical": lambda x, y: torch.stack([torch.logical_and(x, y), torch.logical_or(x, y), torch.logical_xor(x, y)]),
    "gelu_backward": lambda x, y: aten.gelu_backward(x * y, x), "gelu_tanh_backward": lambda x, y: aten.gelu_backward(x * y, x, approximate="tanh"),
    "silu_backward": lambda x, y: aten.silu_backward(x * y, x), "sigmoid_backward": lambda x, y: aten.sigmoid_backward(x * y, x),
    "tanh_backward": lambda x, y: aten.tanh_backward(x * y, x), "threshold_backward": lambda x, y: aten.threshold_backward(x * y, x, 0.5),
    "logaddexp": torch.logaddexp, "xlogy": torch.xlogy, "fmax": torch.fmax, "fmin": torch.fmin,
    "mse": lambda x, y: F.mse_loss(x, y.expand_as(x), reduction="none"), "mse_mean": lambda x, y: F.mse_loss(x, y.expand_as(x)),
    "smooth_l1": lambda x, y: F.smooth_l1_loss(x, y.expand_as(x), reduction="none", beta=0.7), "smooth_l1_mean": lambda x, y: F.smooth_l1_loss(x, y.expand_as(x)),
    "huber": lambda x, y: F.huber_loss(x, y.expand_as(x), reduction="none", delta=1.3), "huber_sum": lambda x, y: F.huber_loss(x, y.expand_as(x), reduction="sum"),
    "bce_logits": lambda x, y: F.binary_cross_entropy_with_logits(x, torch.sigmoid(y).expand_as(x), reduction="none"),
    "bce_logits_weights": lambda x, y: F.binary_cross_entropy_with_logits(x, torch.sigmoid(y).expand_as(x), y.abs(), pos_weight=y.abs() + 1, reduction="none"),
    "mse_backward": lambda x, y: aten.mse_loss_backward(x * 2, x, y.expand_as(x), 0), "smooth_l1_backward": lambda x, y: aten.smooth_l1_loss_backward(y.expand_as(x) * 2, x, y.expand_as(x), 0, 0.7),
    "huber_backward": lambda x, y: aten.huber_loss_backward(y.expand_as(x) * 2, x, y.expand_as(x), 0, 1.3),
    "elu_backward": lambda x, y: aten.elu_backward(y.expand_as(x) * 2, 0.7, 1.1, 1.2, False, known(x)), "elu_result_backward": lambda x, y: aten.elu_backward(y.expand_as(x) * 2, 0.7, 1.1, 1.2, True, known(x)),
    "mish_backward": lambda x, y: aten.mish_backward(y.expand_as(x) * 2, x), "hardsigmoid_backward": lambda x, y: aten.hardsigmoid_backward(y.expand_as(x) * 2, x),
    "hardtanh_backward": lambda x, y: aten.hardtanh_backward(y.expand_as(x) * 2, known(x), -1, 1), "hardshrink_backward": lambda x, y: aten.hardshrink_backward(y.expand_as(x) * 2, known(x), 0.5),
    "log_sigmoid_backward": lambda x, y: aten.log_sigmoid_backward(y.expand_as(x) * 2, x, torch.exp(-x.abs())),
    "glu_backward": lambda x, y: aten.glu_backward(y.expand_as(x)[None] * 2, torch.stack((x, x * y)), 0),
    # Of a softmax, as in use: with any other second argument the two terms cancel and a result is rounding.
    "softmax_backward": lambda x, y: aten._softmax_backward_data(x * y, torch.softmax(x, -1), -1, x.dtype),
    "log_softmax_backward": lambda x, y: aten._log_softmax_backward_data(x * y, -(x * x), -1, x.dtype),
}
INTEGER = {
    "bitwise_and": lambda x, y: (x & y, x & 6), "bitwise_or": lambda x, y: (x | y, x | 6), "bitwise_xor": lambda x, y: (x ^ y, x ^ 6),
    "bitwise_not": lambda x, y: ~x, "add": lambda x, y: (x + y, x + 3), "sub": lambda x, y: (x - y, 3 - x), "mul": lambda x, y: (x * y, x * 3),
    "abs": lambda x, y: x.abs(), "neg": lambda x, y: -x, "maximum": torch.maximum, "minimum": torch.minimum, "clamp": lambda x, y: x.clamp(-3, 5),
    "compare": lambda x, y: (x == y, x != y, x < y, x <= y, x > y, x >= y), "where": lambda x, y: torch.where(x > y, x, y),
    "div": lambda x, y: x / (y * y + 1), "sum": lambda x, y: (x.sum(), x.sum(-1), (x * y).sum(0)), "amax": lambda x, y: (x.amax(-1), x.amin(0)), "cumsum": lambda x, y: (x.cumsum(-1), x.cumsum(0) + 1), "argmax": lambda x, y: (x.argmax(-1), x.argmin(0), *x.max(-1), *y.min(0)),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, 3), "to_float": lambda x, y: x.float() * 0.5, "to_double": lambda x, y: x.double() * 0.5,
    "to_bool": lambda x, y: (x.bool(), torch.logical_not(x)), "to_byte": lambda x, y: x.to(torch.uint8) + 1, "to_long": lambda x, y: x.long() * 5,
}
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "atan2", "fmod", "pow", "eq", "ne", "lt", "le", "gt", "ge"]


def operators():
    for name in UNARY:
        yield name, getattr(torch, name), 1
    for name, function in FUNCTIONAL.items():
        yield name, function, 1
    for name in BINARY:
        yield name, getattr(torch, name), 2
    for name, function in FUNCTIONAL_BINARY.items():
        yield name, function, 2


def layouts(dtype, device):
    """Names and pairs of inputs: shapes and strides that kernels take different ways through."""

    def draw(*shape):
        t = torch.randn(shape, device=device, dtype=torch.float32) * 2
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
    yield "channels_last", draw(2, 8, 5, 6).to(memory_format=torch.channels_last), draw(2, 8, 5, 6).to(memory_format=torch.channels_last)
    yield "channels_last_and_not", draw(2, 8, 5, 6).to(memory_format=torch.channels_last), draw(2, 8, 5, 6)
    yield "no_rows", draw(0, 7), draw(0, 7)
    yield "no_columns", draw(5, 0), draw(5, 0)
    yield "zero_dim", draw(), draw()


def integer_layouts(dtype, device):
    for name, x, y in layouts(torch.float32, device):
        yield name, *((t.nan_to_num(9, 127, -127) * 3).to(torch.int8).to(dtype) for t in (x, y))
