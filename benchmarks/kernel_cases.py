"""The list of kernels that the backend is measured by, on every device: functions of torch and example inputs.

`cases(dtype, rows, columns, device)` yields `Case`s: `function(*inputs)` returns tensors, or writes the first `written` inputs and
returns nothing. `size` is how many bytes must be read and written at least, `specials` how many exponentials, reciprocals and roots are
taken at least (a sigmoid or tanh is an exponential and a reciprocal). Inputs are small numbers, so that halves stay finite.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from compare import largest_error, mismatch, tensors_of, widened

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}
ADAM_TENSORS = 50


class Case(NamedTuple):
    name: str
    function: "Callable[..., object]"
    inputs: "list[torch.Tensor]"
    size: int
    specials: int = 0
    written: int = 0

    def results(self, call):
        """What `call` returns, or writes, starting from copies of what it writes."""
        inputs = [t.clone() for t in self.inputs[: self.written]] + self.inputs[self.written :]
        returned = call(*inputs)
        return inputs[: self.written] if self.written else tensors_of(returned)

    def check(self, got):
        """(empty, or what is wrong with `got`; its largest error against fp64)"""
        eager = self.results(self.function)
        exact = self._replace(inputs=[widened(t) for t in self.inputs]).results(self.function)
        if len(got) != len(eager):
            return "number of results", math.nan
        reasons = (mismatch(g, e, x, 8) for g, e, x in zip(got, eager, exact))
        return next(filter(None, reasons), ""), largest_error(got, exact)


def chain(x, y):
    a = x * 1.5 + y
    t, c = torch.tanh(a), torch.sigmoid(y)
    e = torch.clamp_max(t * c - x, 5.0)
    g = (torch.exp(e * 0.25) + a) * 0.5
    return t / ((torch.relu(g) - c).abs() + 0.1)


def residual_norm(x, y, w, b):
    s = x + y
    return s, F.layer_norm(s, w.shape, w, b)


def rms_norm(x, w):
    wide = x.float() if x.dtype.itemsize < 4 else x
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, True) + 1e-6)).to(x.dtype) * w


def wide_float(x):
    return x.float() if x.dtype.itemsize < 4 else x


def adam(*tensors):
    """New parameters and moments as new tensors."""
    out = []
    for i in range(ADAM_TENSORS):
        p, g, m, v = tensors[i::ADAM_TENSORS]
        m = m * 0.9 + g * 0.1
        v = v * 0.999 + g * g * 0.001
        out += [p - 1e-3 * m / (v.sqrt() + 1e-8), m, v]
    return out


def adam_in_place(*tensors):
    """As optimizers do: parameters and moments are written."""
    for i in range(ADAM_TENSORS):
        p, m, v, g = tensors[i::ADAM_TENSORS]
        m.lerp_(g, 0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        p.addcdiv_(m, v.sqrt().add_(1e-8), value=-1e-3)


def cases(dtype_name, rows, columns, device):
    dtype = DTYPES[dtype_name]
    torch.manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, device=device, dtype=torch.float32).to(dtype)

    x, y, w, b = draw(rows, columns), draw(rows, columns), draw(columns), draw(columns)
    element = x.element_size()
    points = rows * columns
    one = points * element
    yield Case("bias+gelu_tanh", lambda x, b: F.gelu(x + b, approximate="tanh"), [x, b], 2 * one, 2 * points)
    yield Case("bias+gelu_erf", lambda x, b: F.gelu(x + b), [x, b], 2 * one, points)
    yield Case("chain16", chain, [x, y], 3 * one, 6 * points)
    for width in sorted({min(1024, columns), columns} | ({4096} if rows * columns % 4096 == 0 else set())):
        shape = (rows * columns // width, width)
        yield Case(f"residual+layer_norm {width}", residual_norm, [draw(*shape), draw(*shape), draw(width), draw(width)], 4 * one)
    yield Case("rms_norm", rms_norm, [x, w], 2 * one)
    yield Case("softmax", lambda x: F.softmax(x, -1), [x], 2 * one, points)
    yield Case("log_softmax", lambda x: F.log_softmax(x, -1), [x], 2 * one, points)
    yield Case("logsumexp", lambda x: wide_float(x).logsumexp(-1), [x], one, points)
    yield Case("swiglu", lambda x, y: F.silu(x) * y, [x, y], 3 * one, 2 * points)
    yield Case("column_sum", lambda x: x.sum(0), [x], one)
    yield Case("row_sum", lambda x: wide_float(x).sum(-1), [x], one)
    yield Case("full_sum", lambda x: wide_float(x).sum(), [x], one)
    side = max(32, int(math.sqrt(rows * columns)) // 32 * 32)
    yield Case("transpose+add", lambda p, q: p.t() + q, [draw(side, side), draw(side, side)], 3 * side * side * element)
    target = torch.randint(0, columns, (rows,), device=device)
    yield Case("cross_entropy", lambda x, t: F.cross_entropy(wide_float(x), t), [x, target], one, points)
    yield Case("cross_entropy of each row", lambda x, t: F.cross_entropy(wide_float(x), t, reduction="none"), [x, target], one, points)
    channels = 64 if rows * columns % (64 * 1024) == 0 else 4
    image = draw(max(1, rows * columns // (channels * 1024)), channels, 32, 32)
    yield Case("group_norm+silu", lambda x, w, b: F.silu(F.group_norm(x, channels // 2, w, b)), [image, draw(channels), draw(channels)],
               2 * image.numel() * element, 2 * image.numel())
    sizes = [max(64, rows * columns // ADAM_TENSORS // 16 * 16) + 16 * i for i in range(ADAM_TENSORS)]
    p, g, m = ([draw(s) for s in sizes] for _ in range(3))
    v = [draw(s).abs() + 0.01 for s in sizes]
    yield Case("adam 50 tensors", adam, [*p, *g, *m, *v], 7 * element * sum(sizes), 2 * sum(sizes))
    yield Case("adam 50 tensors in place", adam_in_place, [*p, *m, *v, *g], 7 * element * sum(sizes), 2 * sum(sizes), 3 * ADAM_TENSORS)
