"""Random programs over one shape, its broadcast forms and its reductions, compiled and checked against eager and fp64."""

import math
import random

import torch
import torch.nn.functional as F
from compare import tensors_of
from kernel_cases import DTYPES

import framefuse


def kernels_in(records):
    """(groups that are kernels, reasons for those that are not)."""
    texts = [text for artifact, text in records if artifact == "fusion"]
    not_fused = [t for t in texts if t.startswith(("not fused", "kernel given up", "ATen: "))]
    return len(texts) - len(not_fused), not_fused


class RandomProgram:
    """A function's source over one shape, its broadcast forms and its reductions; numbers stay small."""

    UNARY = ["torch.sin({0})", "torch.tanh({0})", "torch.sigmoid({0})", "F.relu({0})", "-{0}", "{0}.abs()", "F.silu({0})",
             "torch.exp(torch.tanh({0}))", "torch.erf({0})", "F.gelu({0})", "({0} * 0.5 + 1)", "torch.cos({0})",
             "torch.log1p({0}.abs())", "torch.rsqrt({0} * {0} + 1)", "({0} > 0).to({0}.dtype)", "{0}.float().to({0}.dtype)"]
    BINARY = ["{0} + {1}", "{0} - {1}", "{0} * {1}", "torch.maximum({0}, {1})", "torch.where({0} > {1}, {0}, {1} * 0.5)",
              "{0} / (1 + {1} * {1})"]

    def __init__(self, seed, device):
        r = self.random = random.Random(seed)
        self.dtype = r.choice(["f32", "f32", "bf16", "f16"])
        extents = [1, 2, 3, 7, 8, 9, 16, 17, 32, 33, 64, 70, 128, 257]
        self.full = [r.choice(extents) for _ in range(r.randint(1, 3))]
        generator = torch.Generator().manual_seed(seed)
        self.inputs = []
        for i in range(r.randint(1, 4)):
            shape = [d if i == 0 or r.random() < 0.75 else 1 for d in self.full]
            t = torch.randn(shape, generator=generator).to(DTYPES[self.dtype]).to(device)
            if len(shape) > 1 and r.random() < 0.3:
                t = t.transpose(-1, -2).contiguous().transpose(-1, -2)
            self.inputs.append(t)
        self.shapes = [list(t.shape) for t in self.inputs]
        self.lines = []
        for _ in range(r.randint(2, 14)):
            self.node()
        keep = sorted({len(self.shapes) - 1, *(r.randrange(len(self.shapes)) for _ in range(3))})
        arguments = ", ".join(f"v{i}" for i in range(len(self.inputs)))
        body = "\n    ".join(self.lines)
        self.source = f"def program({arguments}):\n    {body}\n    return [{', '.join(f'v{i} + 0' for i in keep)}]\n"

    def add(self, text, shape):
        self.lines.append(f"v{len(self.shapes)} = {text}")
        self.shapes.append(shape)

    def node(self):
        r, n = self.random, len(self.shapes)
        a, b, kind = r.randrange(n), r.randrange(n), r.randrange(8)
        x, y = self.shapes[a], self.shapes[b]
        if kind < 3 and len(x) == len(y) and all(p == q or 1 in (p, q) for p, q in zip(x, y)):
            self.add(r.choice(self.BINARY).format(f"v{a}", f"v{b}"), [max(p, q) for p, q in zip(x, y)])
        elif kind == 3:
            begin = r.randrange(len(x))
            dims = list(range(begin, r.randint(begin + 1, len(x))))
            op = r.choice(["mean({}, True)", "amax({}, True)", "sum({}, True) * 0.1"])
            self.add(f"v{a}." + op.format(dims), [1 if d in dims else s for d, s in enumerate(x)])
        elif kind == 4:
            self.add(r.choice(["F.softmax(v{}, -1)", "F.layer_norm(v{0}, v{0}.shape[-1:])"]).format(a), x)
        else:
            self.add(r.choice(self.UNARY).format(f"v{a}"), x)


def check_program(seed, device):
    """(why it fails or "", source, kernels)."""
    program = RandomProgram(seed, device)
    space = {"torch": torch, "F": F}
    exec(compile(program.source, f"<fuzz {seed}>", "exec"), space)
    function = space["program"]
    train = seed % 3 == 0

    def run(call, inputs):
        inputs = [t.detach().requires_grad_(train) for t in inputs]
        outputs = call(*inputs)
        if not train:
            return tensors_of(outputs)
        total = sum((t.double() * (0.5 + 0.5 * torch.linspace(0, 1, t.numel(), device=t.device).view(t.shape))).sum() for t in outputs)
        if total.requires_grad:  # a program may hold nothing but comparisons
            total.backward()
        return tensors_of(outputs) + [t.grad for t in inputs if t.grad is not None]

    with framefuse.capture_logs("fusion") as records:
        got = run(framefuse.compile(function, backend="fuse"), program.inputs)
    eager, exact = run(function, program.inputs), run(function, [t.double() for t in program.inputs])
    kernels, _ = kernels_in(records)
    if len(got) != len(eager):
        return "number of results", program.source, kernels
    for i, (g, e, x) in enumerate(zip(got, eager, exact)):
        scale = 1 + x.abs().max().item()
        differences = (g.double() - e.double()).abs() / scale
        difference = differences.max().item()
        allowed = 64 * torch.finfo(g.dtype).eps + 16 * ((e.double() - x).abs().max().item() / scale)
        # In halves a maximum may have two equal operands in one order of rounding and not in the other: single elements
        # of gradients differ then.
        single = train and g.dtype in (torch.float16, torch.bfloat16) and int((differences > allowed).sum()) <= max(1, g.numel() // 100)
        if not difference <= allowed and not single and not (math.isnan(difference) and torch.equal(g.isnan(), e.isnan())):
            return f"result {i} of {g.dtype} differs by {difference:.3g}, allowed {allowed:.3g}", program.source, kernels
    return "", program.source, kernels
