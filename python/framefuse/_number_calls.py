"""Functions of torch that are given a symbolic number where torch's own code in C++ takes a plain one.

They are made of operators that take symbolic numbers, as torch makes them. What is not written here is left to torch, and so are its errors.
"""

import torch
import torch.nn.functional as F

from framefuse import _C
from framefuse._sized_calls import _is_float, _is_plain


def install():
    for owner, functions in _FUNCTIONS:
        for name, replacement in functions.items():
            original = getattr(owner, name, None)
            if original is not None:
                _C.register_sized_substitute(original, replacement, of_numbers=True)


def _noise(like, p):
    """What torch multiplies with, of which each is kept with the probability 1 - p."""
    return torch.ops.framefuse.draw_(like, "bernoulli", 1 - p, 0.0).div_(1 - p)


def _drops(input, p, train):
    return type(p) is float and train is True and _is_float(input) and input.is_cpu and 0 < p < 1 and input.numel() > 0


def _dropout(input, p=0.5, training=True, inplace=False):
    if training is False and type(p) is float and 0 <= p <= 1:
        return F.dropout(input, 0.5, False, inplace)  # none is dropped
    if inplace is not False or not _drops(input, p, training):
        return F.dropout(input, p, training, inplace)
    return input * _noise(torch.empty_like(input), p)


def _channel_dropout(name, dims):
    original = getattr(F, name)

    def dropout(input, p=0.5, training=True, inplace=False):
        if inplace is not False or not _drops(input, p, training) or input.dim() not in dims:
            return original(input, p, training, inplace)
        return input * _noise(input.new_empty([*input.shape[:2], *[1] * (input.dim() - 2)]), p)

    return dropout


def _bernoulli_(self, p=0.5, *, generator=None):
    if type(p) is not float or generator is not None or not _is_float(self) or not self.is_cpu or not 0 <= p <= 1:
        return torch.Tensor.bernoulli_(self, p, generator=generator)
    return torch.ops.framefuse.draw_(self, "bernoulli", p, 0.0)


def _drawn_between(name, kind, check):
    original = getattr(torch.Tensor, name)

    def draw(self, first=0, second=1, *, generator=None):
        numbers = type(first) in (int, float) and type(second) in (int, float) and generator is None
        if not numbers or not _is_float(self) or not self.is_cpu or not check(first, second):
            return original(self, first, second, generator=generator)
        return torch.ops.framefuse.draw_(self, kind, float(first), float(second))

    return draw


def _celu(input, alpha=1.0, inplace=False):
    if type(alpha) is not float or alpha == 0 or inplace is not False or not _is_float(input):
        return F.celu(input, alpha, inplace)
    return torch._C._nn.elu(input, alpha, 1.0, 1.0 / alpha)


def _pad(input, pad, mode="constant", value=None):
    if mode != "constant" or type(value) not in (int, float) or not _is_plain(input):
        return F.pad(input, pad, mode, value)
    return torch.constant_pad_nd(input, list(pad), value)


_REDUCTIONS = {"none": lambda loss: loss, "mean": torch.mean, "sum": torch.sum}


def _is_loss(input, target, reduction, threshold):
    fits = _is_float(input, target) and input.dtype == target.dtype and input.device == target.device and input.shape == target.shape
    return fits and reduction in ("none", "mean", "sum") and type(threshold) is float and threshold > 0


def _smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    if size_average is not None or reduce is not None or not _is_loss(input, target, reduction, beta):
        return F.smooth_l1_loss(input, target, size_average, reduce, reduction, beta)
    away = (input - target).abs()
    return _REDUCTIONS[reduction](torch.where(away < beta, 0.5 * away * away / beta, away - 0.5 * beta))


def _huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    if weight is not None or not _is_loss(input, target, reduction, delta):
        return F.huber_loss(input, target, reduction, delta, weight)
    away = (input - target).abs()
    return _REDUCTIONS[reduction](torch.where(away <= delta, 0.5 * away * away, delta * (away - 0.5 * delta)))


def _shape(data, deepest=8):
    """Of a number, or of a list of what has one shape; else None, also where lists are nested deeper: one may hold itself."""
    if type(data) in (int, float):
        return ()
    if type(data) not in (list, tuple, torch.Size) or len(data) == 0 or deepest == 0:
        return None
    shapes = [_shape(v, deepest - 1) for v in data]
    return (len(data), *shapes[0]) if shapes[0] is not None and all([s == shapes[0] for s in shapes]) else None


def _flat(data):
    return [data] if type(data) in (int, float) else [number for part in data for number in _flat(part)]


def _tensor(data, **named):
    shape = _shape(data)
    if not shape or not all([name in ("dtype", "device") for name in named]):
        return torch.tensor(data, **named)
    numbers = _flat(data)
    if named.get("dtype") is None:
        named["dtype"] = torch.get_default_dtype() if any([type(v) is float for v in numbers]) else torch.int64
    made = torch.stack([torch.tensor(v, **named) for v in numbers])
    return made if len(shape) == 1 else made.reshape(shape)


def _unfold(input, dimension, size, step):
    plain = _is_plain(input) and input.dim() > 0 and type(dimension) is int and type(size) is int and type(step) is int
    if not plain or not -input.dim() <= dimension < input.dim() or size < 1 or step < 1:
        return torch.Tensor.unfold(input, dimension, size, step)
    dimension %= input.dim()
    if size > input.shape[dimension]:
        return torch.Tensor.unfold(input, dimension, size, step)
    sizes, strides = [*input.shape, size], [*input.stride(), input.stride(dimension)]
    sizes[dimension], strides[dimension] = (input.shape[dimension] - size) // step + 1, strides[dimension] * step
    return input.as_strided(sizes, strides)


def _diagonal(input, offset=0, dim1=0, dim2=1):
    plain = _is_plain(input) and type(offset) is int and type(dim1) is int and type(dim2) is int
    if not plain or not -input.dim() <= min(dim1, dim2) <= max(dim1, dim2) < input.dim() or dim1 % input.dim() == dim2 % input.dim():
        return torch.diagonal(input, offset, dim1, dim2)
    dim1, dim2 = dim1 % input.dim(), dim2 % input.dim()
    below, right = (0, offset) if offset >= 0 else (-offset, 0)
    length = min(input.shape[dim1] - below, input.shape[dim2] - right)
    if length < 1:
        return torch.diagonal(input, offset, dim1, dim2)
    others = [d for d in range(input.dim()) if d not in (dim1, dim2)]
    sizes = [*[input.shape[d] for d in others], length]
    strides = [*[input.stride(d) for d in others], input.stride(dim1) + input.stride(dim2)]
    corner = input.narrow(dim1, below, length).narrow(dim2, right, length)
    return corner.as_strided(sizes, strides)


def _diag(input, diagonal=0):
    if not _is_plain(input) or input.dim() != 2:
        return torch.diag(input, diagonal)
    return _diagonal(input, diagonal).clone(memory_format=torch.contiguous_format)


_DRAWS = {
    "bernoulli_": _bernoulli_,
    "uniform_": _drawn_between("uniform_", "uniform", lambda first, second: first <= second),
    "normal_": _drawn_between("normal_", "normal", lambda first, second: second >= 0),
}
_CHANNELS = {f"dropout{n}d": _channel_dropout(f"dropout{n}d", (n + 2,)) for n in (1, 2, 3)}
_FUNCTIONS = (
    (torch, {"tensor": _tensor, "diagonal": _diagonal, "diag": _diag}),
    (F, {"pad": _pad, "dropout": _dropout, "celu": _celu, "smooth_l1_loss": _smooth_l1_loss, "huber_loss": _huber_loss, **_CHANNELS}),
    (torch.Tensor, {"unfold": _unfold, "diagonal": _diagonal, "diag": _diag, **_DRAWS}),
)
