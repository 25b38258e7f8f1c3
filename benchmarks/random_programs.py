"""Random programs over one shape, its broadcast forms and its reductions, compiled and checked against eager and fp64."""

import math
import random
import re
from typing import NamedTuple

import torch
import torch.nn.functional as F
from compare import tensors_of
from kernel_cases import DTYPES
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import framefuse


def kernels_in(records):
    """(groups that are kernels, reasons for those that are not)."""
    texts = [text for artifact, text in records if artifact == "fusion"]
    not_fused = [t for t in texts if t.startswith(("not fused", "kernel given up", "ATen: "))]
    return len(texts) - len(not_fused), not_fused


class Cubins(NamedTuple):
    """What was compiled: the time it took, kernels of PTX, and NVRTC's programs (of one kernel or more)."""

    ms: float = 0.0
    ptx: int = 0
    nvrtc: int = 0


def cubins_in(records):
    """What the log `perf` says of it."""
    found = [re.match(r"cubins: (\d+) by nvJitLink, (\d+) by NVRTC, .* in ([\d.e+-]+) ms", text) for artifact, text in records if artifact == "perf"]
    return Cubins(*(sum(kind(m[group]) for m in found if m) for kind, group in ((float, 3), (int, 1), (int, 2))))


MOST_POINTS = 1 << 17  # what programs are compared with is run dozens of times


class RandomProgram:
    """A function's source over one shape, its broadcast forms and its reductions; numbers stay small."""

    UNARY = ["torch.sin({0})", "torch.tanh({0})", "torch.sigmoid({0})", "F.relu({0})", "-{0}", "{0}.abs()", "F.silu({0})",
             "torch.exp(torch.tanh({0}))", "torch.erf({0})", "F.gelu({0})", "({0} * 0.5 + 1)", "torch.cos({0})",
             "torch.log1p({0}.abs())", "torch.rsqrt({0} * {0} + 1)", "({0} > 0).to({0}.dtype)", "{0}.float().to({0}.dtype)"]
    BINARY = ["{0} + {1}", "{0} - {1}", "{0} * {1}", "torch.maximum({0}, {1})", "torch.where({0} > {1}, {0}, {1} * 0.5)",
              "{0} / (1 + {1} * {1})"]

    def __init__(self, seed, device):
        r = self.random = random.Random(seed)
        self.dtype = r.choice(["f32", "f32", "f32", "bf16", "bf16", "f16", "f16", "f64"])
        extents = [1, 2, 3, 7, 8, 9, 16, 17, 32, 33, 64, 70, 128, 257]
        self.full = [r.choice(extents) for _ in range(r.randint(1, 3))]
        while math.prod(self.full) > MOST_POINTS:
            self.full[self.full.index(max(self.full))] = r.choice(extents)
        generator = torch.Generator().manual_seed(seed)
        self.inputs = []
        for i in range(r.randint(1, 4)):
            shape = [d if i == 0 or r.random() < 0.75 else 1 for d in self.full]
            t = torch.randn(shape, generator=generator).to(DTYPES[self.dtype]).to(device)
            if i > 0 and r.random() < 0.2:
                t = (2 * t).abs().to(r.choice([torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool, torch.float64]))
            if len(shape) > 1 and r.random() < 0.3:
                t = t.transpose(-1, -2).contiguous().transpose(-1, -2)
            self.inputs.append(t)
        self.shapes = [list(t.shape) for t in self.inputs]
        self.lines = []
        for i, t in enumerate(self.inputs):
            if t.dtype != self.inputs[0].dtype:
                self.lines.append(f"v{i} = (v0 - v{i} * 0.5).to(v0.dtype)" if r.random() < 0.5 else f"v{i} = (v{i} * v0).to(v0.dtype)")
                self.shapes[i] = list(self.full)
        for _ in range(r.randint(2, 14)):
            self.node()
        keep = sorted({len(self.shapes) - 1, *(r.randrange(len(self.shapes)) for _ in range(3))})
        self.outputs = len(keep)
        arguments = ", ".join(f"v{i}" for i in range(len(self.inputs)))
        body = "\n    ".join(self.lines)
        self.source = f"def program({arguments}):\n    {body}\n    return [{', '.join(f'v{i} + 0' for i in keep)}]\n"

    def add(self, text, shape):
        self.lines.append(f"v{len(self.shapes)} = {text}")
        self.shapes.append(shape)

    def node(self):
        r, n = self.random, len(self.shapes)
        a, b, kind = r.randrange(n), r.randrange(n), r.randrange(9)
        x, y = self.shapes[a], self.shapes[b]
        if kind < 3 and len(x) == len(y) and all(p == q or 1 in (p, q) for p, q in zip(x, y)):
            self.add(r.choice(self.BINARY).format(f"v{a}", f"v{b}"), [max(p, q) for p, q in zip(x, y)])
        elif kind == 3 and r.random() < 0.3:
            # Of what an input holds: which of two computed numbers is larger may be a matter of rounding.
            d, full = r.randrange(len(self.full)), self.shapes[0]
            op = r.choice(["argmax({}, True)", "argmin({}, True)", "max({}, True).indices", "min({}, True)[1]"]).format(d)
            self.add(f"v0.{op}.to(v0.dtype) * 0.01", [1 if i == d else s for i, s in enumerate(full)])
        elif kind == 3:
            begin = r.randrange(len(x))
            dims = list(range(begin, r.randint(begin + 1, len(x))))
            op = r.choice(["mean({}, True)", "amax({}, True)", "sum({}, True) * 0.1", "logsumexp({}, True)"])
            self.add(f"v{a}." + op.format(dims), [1 if d in dims else s for d, s in enumerate(x)])
        elif kind == 4:
            self.add(r.choice(["F.softmax(v{}, -1)", "F.layer_norm(v{0}, v{0}.shape[-1:])"]).format(a), x)
        elif kind == 5 and x == y and max(x) > 1:
            d = r.choice([i for i, size in enumerate(x) if size > 1])
            h = x[d] // 2 if r.random() < 0.7 else r.randrange(1, x[d])
            front, back = r.choice(["{}", "-{}", "torch.sin({})"]), r.choice(["{}", "{} * 0.5"])
            front, back = front.format(f"v{a}.narrow({d}, {h}, {x[d] - h})"), back.format(f"v{b}.narrow({d}, 0, {h})")
            self.add(f"torch.cat(({front}, {back}), {d})", x)
        else:
            self.add(r.choice(self.UNARY).format(f"v{a}"), x)


# What rounds nothing: a choice between values, or a change of sign.
EXACT = {"cat", "amax", "amin", "maximum", "minimum", "where", "neg", "abs", "relu", "clone", "eq", "gt", "lt", "logical_and", "threshold_backward"}
# What cancels inside: its operands are off, too.
SEVERAL_STEPS = re.compile(r"sum|mean|logsumexp|native_layer_norm|_softmax|\w+_backward\w*")


class Roundings(TorchDispatchMode):
    """Each element that an operator rounds is one unit in the last place of `dtype` too large or too small: what a program makes of that
    tells how far its results may be off, the other side of a comparison or another maximum included."""

    def __init__(self, dtype, seed):
        super().__init__()
        self.eps, self.generator = torch.finfo(dtype).eps, torch.Generator().manual_seed(seed)
        self.largest = 1.0  # of all results

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        moves = any(result.alias_info for result in func._schema.returns)  # views and in-place
        if SEVERAL_STEPS.fullmatch(name):
            args = tree_map(self.rounded, args)
        out = func(*args, **(kwargs or {}))
        return out if moves or name in EXACT else tree_map(self.rounded, out)

    def rounded(self, value):
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        self.largest = max(self.largest, value.abs().max().item() if value.numel() else 0.0)
        signs = 2 * torch.randint(0, 2, value.shape, generator=self.generator).to(value.device) - 1
        return value * (1 + self.eps * signs)


def run_program(call, inputs, train):
    """Outputs, and with `train` the gradients of a weighted sum of them."""
    inputs = [t.detach().requires_grad_(train and t.is_floating_point()) for t in inputs]
    outputs = call(*inputs)
    if not train:
        return tensors_of(outputs)
    total = sum((t.double() * (0.5 + 0.5 * torch.linspace(0, 1, t.numel(), device=t.device).view(t.shape))).sum() for t in outputs)
    if total.requires_grad:  # a program may hold nothing but comparisons
        total.backward()
    return tensors_of(outputs) + [t.grad for t in inputs if t.grad is not None]


def allowed_errors(function, inputs, train, exact, outputs, dtype, seed):
    """For each result how far from fp64 it may be: twice what twelve such runs are, and 16 roundings: of an output's largest element; of
    the largest number on the way for a gradient, because a fused formula's common terms (a mean) cancel in sums. A sum in fp64 is not
    kept in anything wider, so that its roundings add up: 4096."""
    steps = 4096 if dtype == torch.float64 else 16
    spread = [0.0] * len(exact)
    for k in range(12):
        with Roundings(dtype, 12 * seed + k) as roundings:
            others = run_program(function, inputs, train)
        spread = [max(s, (other - x).abs().max().item()) for s, other, x in zip(spread, others, exact)]
    scales = [1 + x.abs().max().item() for x in exact[:outputs]] + [1 + roundings.largest] * (len(exact) - outputs)
    return [2 * s + steps * torch.finfo(dtype).eps * scale for s, scale in zip(spread, scales)]


def check_program(seed, device):
    """(why it fails or "", source, kernels, error as a part of what is allowed, what was compiled).

    What is compared with is computed on the CPU: a device would wait for the host after each of its many small operators.
    """
    program = RandomProgram(seed, device)
    space = {"torch": torch, "F": F}
    exec(compile(program.source, f"<fuzz {seed}>", "exec"), space)
    function, train, dtype = space["program"], seed % 3 == 0, DTYPES[program.dtype]
    with framefuse.capture_logs("fusion", "perf") as records:
        got = run_program(framefuse.compile(function, backend="fuse"), program.inputs, train)
    kernels, _ = kernels_in(records)
    compiling = cubins_in(records)
    eager, got = ([t.cpu() for t in results] for results in (run_program(function, program.inputs, train), got))
    wide = [t.cpu().double() if t.is_floating_point() else t.cpu() for t in program.inputs]
    exact = run_program(function, wide, train)
    if [(t.shape, t.dtype) for t in got] != [(t.shape, t.dtype) for t in eager]:
        return "shapes or types", program.source, kernels, math.inf, compiling
    largest = 0.0
    for i, (g, e, x, allowed) in enumerate(zip(got, eager, exact, allowed_errors(function, wide, train, exact, program.outputs, dtype, seed))):
        error, own = (g.double() - x).abs(), (e.double() - x).abs()
        error = torch.where(own.isinf() & (g == e), 0.0, error)  # too large a number for halves
        # Twelve runs may miss what is rare: twice as far off as eager is nowhere wrong, unless another choice put eager far off.
        allowed = max(allowed, min(2 * own.nan_to_num(0, 0, 0).max().item() if own.numel() else 0.0, 4 * allowed))
        # Where eager's rounding decides a comparison in another way than fp64, both ways are right.
        error = torch.where((own > allowed) & own.isfinite(), error - own, error).max().item()
        if math.isnan(error) and torch.equal(g.isnan(), x.isnan()):
            continue
        if not error <= allowed:
            return f"result {i} of {g.dtype} is off by {error:.3g}, allowed {allowed:.3g}", program.source, kernels, error / allowed, compiling
        largest = max(largest, error / allowed)
    return "", program.source, kernels, largest, compiling
