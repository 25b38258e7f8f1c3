"""The backend `fuse` on one device: every operator against fp64, random graphs, and kernels against their rivals.

    python benchmarks/fuse_on_device.py --device cuda --out rows.jsonl [--parts ops fuzz bench]
    python benchmarks/fuse_on_device.py --device cpu --rows 64 --columns 256 --graphs 40 --out /dev/null   # a dry run

Parts, each with its own time limit (--ops-seconds, --fuzz-seconds, --bench-seconds):
  ops    each pointwise operator and reduction, in each dtype, contiguous, broadcast, transposed and unaligned, with special
         values, against fp64; allowed is eager's own error, four times, and a few roundings of the result.
  fuzz   random programs from --seed on, in --processes processes, forward and backward, against fp64 in the same way.
  bench  the list of kernels at --rows × --columns: error, time beside eager, torch.compile (default; with
         --max-autotune that, too) and a copy of as many bytes, and whether generated kernels ran at all.
One JSON row a case goes to --out as it is made; failures are rows with "ok": false, and do not end the run.
"""

import argparse
import json
import math
import multiprocessing
import statistics
import subprocess
import sys
import time
import traceback

import torch
import torch.nn.functional as F

import framefuse

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}


class Rows:
    """Writes rows, keeps count, says what failed."""

    def __init__(self, path):
        self.file = open(path, "a")
        self.count, self.failed = 0, []

    def add(self, **row):
        self.count += 1
        if not row["ok"]:
            self.failed.append(row.get("case"))
            print("FAILED", json.dumps(row)[:600], flush=True)
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()


def clock(seconds):
    """A function that says whether the part's time is over."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def goes_on_elsewhere(args, part, index, seconds):
    """After an error that the CUDA context does not survive, the cases past `index` run in a process of their own."""
    if args.device != "cuda":
        return False
    try:
        torch.cuda.synchronize()
        return False
    except Exception as error:
        print(f"{part}: the device is lost at case {index}: {str(error)[:200]}", flush=True)
    command = [sys.executable, __file__, *sys.argv[1:], "--parts", part, "--skip", str(index + 1), f"--{part}-seconds", str(max(seconds, 1))]
    subprocess.run(command, check=False)
    return True


# --- comparing


def widened(value):
    if isinstance(value, torch.Tensor):
        return value.detach().double() if value.is_floating_point() else value.detach()
    return value


def mismatch(got, eager, exact, roundings=0):
    """Empty, or how `got` is worse than eager's result allows, both against fp64.

    `roundings`: of the largest element, for sums of many terms and what cancels.
    """
    if got.shape != eager.shape or got.dtype != eager.dtype:
        return f"{got.dtype}{list(got.shape)} for {eager.dtype}{list(eager.shape)}"
    if not got.is_floating_point():
        return "" if torch.equal(got, eager) else "integers differ"
    g, e, x = got.double(), eager.double(), exact.double()
    finite = torch.isfinite(e) & torch.isfinite(x)
    # What overflows in one order of rounding need not in another.
    huge = x.abs() > 0.5 * torch.finfo(got.dtype).max
    if not torch.equal(torch.isnan(g) & ~huge, torch.isnan(e) & ~huge):
        return f"NaN at {int((torch.isnan(g) != torch.isnan(e)).sum())} places that eager has not, or has"
    inf = torch.isinf(e) & ~huge
    if not torch.equal(g[inf], e[inf]):
        return "infinities differ"
    g, e, x = g[finite & ~huge], e[finite & ~huge], x[finite & ~huge]
    if g.numel() == 0:
        return ""
    if not torch.isfinite(g).all():
        return "not finite where eager is"
    eps = torch.finfo(got.dtype).eps
    error, allowed = (g - x).abs(), 4 * (e - x).abs() + 4 * eps * x.abs() + 8 * eps * min(1.0, x.abs().max().item()) + roundings * eps * x.abs().max().item()
    worst = (error - allowed).argmax()
    if error[worst] > allowed[worst]:
        return f"{g[worst].item():.9g} for {x[worst].item():.9g}, eager {e[worst].item():.9g}"
    return ""


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in tensors_of(v)] if isinstance(value, (tuple, list)) else []


def compiled_result(function, inputs, logs=("fusion",)):
    """What framefuse returns, and the log of how it came about."""
    with framefuse.capture_logs(*logs) as records:
        compiled = framefuse.compile(function, backend="fuse")
        result = compiled(*inputs)
    return compiled, result, records


def kernels_in(records):
    """(groups that are kernels, reasons for those that are not)."""
    texts = [text for artifact, text in records if artifact == "fusion"]
    not_fused = [t for t in texts if t.startswith(("not fused", "kernel given up"))]
    return len(texts) - len(not_fused), not_fused


# --- operators

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


def run_operators(args, rows):
    over, start, index = clock(args.ops_seconds), time.monotonic(), 0
    for dtype_name in args.dtypes:
        dtype = DTYPES[dtype_name]
        for layout, x, y in layouts(dtype, args.device):
            for batch in batches(list(operators()), 8):
                if over():
                    print("ops: out of time at", dtype_name, layout, flush=True)
                    return
                index += 1
                if index <= args.skip:
                    continue
                failed = len(rows.failed)
                check_operators(args, rows, f"{dtype_name} {layout}", batch, x, y)
                spent = time.monotonic() - start
                if len(rows.failed) > failed and goes_on_elsewhere(args, "ops", index, args.ops_seconds - spent):
                    return
        print(f"ops: {dtype_name} done, {rows.count} rows, {len(rows.failed)} failed", flush=True)


def batches(items, size):
    return [items[i : i + size] for i in range(0, len(items), size)]


def check_operators(args, rows, where, batch, x, y):
    """Several operators in one program: they share kernels, and one failure is looked into one by one."""

    def program(x, y):
        return [function(x) if arity == 1 else function(x, y) for _, function, arity in batch]

    names = [name for name, _, _ in batch]
    try:
        compiled, got, records = compiled_result(program, (x, y))
        synchronize(args.device)
    except Exception as error:
        if len(batch) > 1:
            for one in batch:
                check_operators(args, rows, where, [one], x, y)
            return
        rows.add(part="ops", case=f"{names[0]} {where}", ok=False, why=f"{type(error).__name__}: {str(error)[:400]}")
        return
    kernels, reasons = kernels_in(records)
    for (name, function, arity), g in zip(batch, got):
        wide = (x.double(), y.double())[:arity]
        why = mismatch(g, function(*(x, y)[:arity]), function(*wide))
        rows.add(part="ops", case=f"{name} {where}", ok=not why, why=why, kernels=kernels, not_fused=reasons[:2])


# --- random programs


class RandomProgram:
    """A function's source over one shape, its broadcast forms and its reductions; numbers stay small."""

    UNARY = ["torch.sin({0})", "torch.tanh({0})", "torch.sigmoid({0})", "F.relu({0})", "-{0}", "{0}.abs()", "F.silu({0})",
             "torch.exp(torch.tanh({0}))", "torch.erf({0})", "F.gelu({0})", "({0} * 0.5 + 1)", "torch.cos({0})",
             "torch.log1p({0}.abs())", "torch.rsqrt({0} * {0} + 1)", "({0} > 0).to({0}.dtype)", "{0}.float().to({0}.dtype)"]
    BINARY = ["{0} + {1}", "{0} - {1}", "{0} * {1}", "torch.maximum({0}, {1})", "torch.where({0} > {1}, {0}, {1} * 0.5)",
              "{0} / (1 + {1} * {1})"]

    def __init__(self, seed, device):
        import random

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


def fuzz_worker(device, first, step, count, seconds, queue):
    torch.set_num_threads(1)
    over = clock(seconds)
    for seed in range(first, first + step * count, step):
        if over():
            break
        try:
            queue.put((seed, *check_program(seed, device)))
        except Exception as error:
            source = RandomProgram(seed, device).source
            queue.put((seed, f"{type(error).__name__}: {str(error)[:300]}", source, 0))
        framefuse.reset()
    queue.put(None)


def run_fuzz(args, rows):
    context = multiprocessing.get_context("spawn")
    queue, n = context.Queue(), args.processes
    workers = [
        context.Process(target=fuzz_worker, daemon=True,
                        args=(args.device, args.seed + w, n, -(-args.graphs // n), args.fuzz_seconds, queue))
        for w in range(n)
    ]
    start = time.monotonic()
    for w in workers:
        w.start()
    done, failed, kernels, open_workers = 0, 0, 0, n
    while open_workers and time.monotonic() - start < args.fuzz_seconds + 60:
        try:
            item = queue.get(timeout=5)
        except Exception:
            if not any(w.is_alive() for w in workers):
                break
            continue
        if item is None:
            open_workers -= 1
            continue
        seed, why, source, k = item
        done, kernels = done + 1, kernels + k
        if why:
            failed += 1
            if failed <= 40:
                rows.add(part="fuzz", case=f"seed {seed}", ok=False, why=why, source=source)
        if done % 500 == 0:
            print(f"fuzz: {done} graphs, {failed} failed, {time.monotonic() - start:.0f} s", flush=True)
    died = sum(w.exitcode not in (0, None) for w in workers)
    for w in workers:
        w.terminate()
    rows.add(part="fuzz", case="all", ok=failed == 0 and done > 0 and died == 0, graphs=done, failed=failed, kernels=kernels,
             seed=args.seed, died=died, seconds=round(time.monotonic() - start, 1))


# --- kernels


def benchmark_cases(args):
    """(name, function, inputs, bytes that must be read and written)."""
    rows, columns, device = args.rows, args.columns, args.device
    for name in args.bench_dtypes:
        dtype = DTYPES[name]

        def draw(*shape, dtype=dtype):
            return torch.randn(*shape, device=device, dtype=torch.float32).to(dtype)

        x, y, w, b = draw(rows, columns), draw(rows, columns), draw(columns), draw(columns)
        size = x.element_size()
        one = rows * columns * size

        def chain(x, y):
            a = x * 1.5 + y
            t, c = torch.tanh(a), torch.sigmoid(y)
            e = torch.clamp_max(t * c - x, 5.0)
            g = (torch.exp(e * 0.25) + a) * 0.5
            return t / ((torch.relu(g) - c).abs() + 1e-3)

        def residual_norm(x, y, w, b):
            s = x + y
            return s, F.layer_norm(s, (columns,), w, b)

        yield f"copy {name}", lambda x: x.clone(), [x], 2 * one
        yield f"bias+gelu_tanh {name}", lambda x, b: F.gelu(x + b, approximate="tanh"), [x, b], 2 * one
        yield f"bias+gelu_erf {name}", lambda x, b: F.gelu(x + b), [x, b], 2 * one
        yield f"chain16 {name}", chain, [x, y], 3 * one
        yield f"residual+layer_norm {name}", residual_norm, [x, y, w, b], 4 * one
        narrow = min(1024, columns)
        m, n = draw(rows * columns // narrow, narrow), draw(rows * columns // narrow, narrow)
        wn, bn = draw(narrow), draw(narrow)
        yield f"residual+layer_norm {narrow} {name}", lambda x, y, w, b: (x + y, F.layer_norm(x + y, (narrow,), w, b)), \
            [m, n, wn, bn], 4 * one
        yield f"rms_norm {name}", lambda x, w: (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, True) + 1e-6)).to(x.dtype) * w, \
            [x, w], 2 * one
        yield f"softmax {name}", lambda x: F.softmax(x, -1), [x], 2 * one
        yield f"log_softmax {name}", lambda x: F.log_softmax(x, -1), [x], 2 * one
        yield f"swiglu {name}", lambda x, y: F.silu(x) * y, [x, y], 3 * one
        yield f"column_sum {name}", lambda x: x.sum(0), [x], one
        yield f"row_sum {name}", lambda x: x.float().sum(-1), [x], one
        yield f"full_sum {name}", lambda x: x.float().sum(), [x], one
        side = int(math.sqrt(rows * columns)) // 64 * 64
        p, q = draw(side, side), draw(side, side)
        yield f"transpose+add {name}", lambda p, q: p.t() + q, [p, q], 3 * side * side * size
        target = torch.randint(0, columns, (rows,), device=device)
        yield f"cross_entropy {name}", lambda x, t: F.cross_entropy(x.float(), t), [x, target], one
        channels = 64 if columns % 64 == 0 else 4
        image = draw(max(1, rows * columns // (channels * 1024)), channels, 32, 32)
        gw, gb = draw(channels), draw(channels)
        yield f"group_norm+silu {name}", lambda x, w, b: F.silu(F.group_norm(x, channels // 2, w, b)), [image, gw, gb], 2 * one
        count = 50
        sizes = [max(1024, rows * columns // 8 // count) + 16 * i for i in range(count)]
        state = [[torch.randn(s, device=device) for s in sizes] for _ in range(2)]
        moments = [[torch.rand(s, device=device) for s in sizes] for _ in range(2)]

        def adam(*tensors):
            out = []
            for i in range(count):
                p, g, m, v = tensors[i::count]
                m = m * 0.9 + g * 0.1
                v = v * 0.999 + g * g * 0.001
                out += [p - 1e-3 * m / (v.sqrt() + 1e-8), m, v]
            return out

        if name == args.bench_dtypes[0]:
            yield "adam 50 tensors f32", adam, [t for group in state + moments for t in group], 7 * 4 * sum(sizes)


def time_of(device, functions, rounds):
    """Median microseconds of each, interleaved; on CUDA by events around calls whose inputs do not fit the L2 cache."""
    if device != "cuda":
        samples = [[] for _ in functions]
        for _ in range(rounds):
            for f, s in zip(functions, samples):
                start = time.perf_counter()
                f()
                s.append((time.perf_counter() - start) * 1e6)
        return [statistics.median(s) for s in samples]
    calls = 8
    samples = [[] for _ in functions]
    for _ in range(rounds):
        for f, s in zip(functions, samples):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(200_000)  # so that the calls queue up and the host's time does not show
            begin.record()
            for _ in range(calls):
                f()
            end.record()
            end.synchronize()
            s.append(begin.elapsed_time(end) * 1e3 / calls)
    return [statistics.median(s) for s in samples]


def run_bench(args, rows):
    over, start = clock(args.bench_seconds), time.monotonic()
    ratios = {}
    for index, (name, function, inputs, size) in enumerate(benchmark_cases(args)):
        if index < args.skip:
            continue
        if args.only and args.only not in name:
            continue
        if over():
            print("bench: out of time before", name, flush=True)
            break
        try:
            bench_one(args, rows, ratios, name, function, inputs, size)
        except Exception as error:
            traceback.print_exc(limit=-3)
            rows.add(part="bench", case=name, ok=False, why=f"{type(error).__name__}: {str(error)[:400]}")
            if goes_on_elsewhere(args, "bench", index, args.bench_seconds - (time.monotonic() - start)):
                break
        framefuse.reset()
        torch._dynamo.reset()
        if args.device == "cuda":
            torch.cuda.empty_cache()
    for rival in ("inductor", "max_autotune", "copy", "eager"):
        found = [r[rival] for r in ratios.values() if rival in r]
        if found:
            mean = math.exp(statistics.fmean(math.log(r) for r in found))
            rows.add(part="bench", case=f"geometric mean of framefuse/{rival}", ok=True, ratio=round(mean, 4), cases=len(found))
            print(f"bench: framefuse/{rival} {mean:.3f} over {len(found)} cases", flush=True)


def exact_results(function, inputs):
    try:
        return tensors_of(function(*[widened(t) for t in inputs]))
    except torch.cuda.OutOfMemoryError:
        return None


def bench_one(args, rows, ratios, name, function, inputs, size):
    start = time.perf_counter()
    compiled, result, records = compiled_result(function, inputs, ("fusion", "perf"))
    synchronize(args.device)
    first_call = (time.perf_counter() - start) * 1e3
    kernels, reasons = kernels_in(records)
    got, eager, exact = tensors_of(result), tensors_of(function(*inputs)), exact_results(function, inputs)
    why = next(filter(None, (mismatch(g, e, x, 8) for g, e, x in zip(got, eager, exact or eager))), "")
    error = max(((g.double() - x).abs() / (1 + x.abs())).max().item() for g, x in zip(got, exact or eager))
    del got, eager, exact, result
    source = torch.empty(size // 2, dtype=torch.uint8, device=args.device)
    target = torch.empty_like(source)
    rivals = {"framefuse": lambda: compiled(*inputs), "eager": lambda: function(*inputs), "copy": lambda: target.copy_(source)}
    modes = ["default"] if args.peer else []
    modes += ["max-autotune-no-cudagraphs"] if args.peer and args.max_autotune else []
    for mode in modes:
        torch._dynamo.reset()
        peer = torch.compile(function, dynamic=False, mode=None if mode == "default" else mode)
        rivals["inductor" if mode == "default" else "max_autotune"] = lambda peer=peer: peer(*inputs)
    with torch.no_grad():
        for f in rivals.values():
            f(), f()
        synchronize(args.device)
        times = dict(zip(rivals, time_of(args.device, list(rivals.values()), args.rounds)))
    ratios[name] = {rival: times["framefuse"] / t for rival, t in times.items() if rival != "framefuse"}
    if name.startswith("copy"):
        ratios.pop(name)
    rows.add(part="bench", case=name, ok=not why, why=why, error=error, kernels=kernels, not_fused=reasons[:3],
             us={k: round(t, 2) for k, t in times.items()}, gb_per_s=round(size / times["framefuse"] / 1e3, 1),
             copy_gb_per_s=round(size / times["copy"] / 1e3, 1), first_call_ms=round(first_call, 1),
             nvrtc=[text for artifact, text in records if artifact == "perf" and text.startswith("NVRTC")])
    print(f"bench: {name:32} " + "  ".join(f"{k} {t:.1f}" for k, t in times.items()) + f" us, {kernels} kernels", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--out", required=True)
    parser.add_argument("--parts", nargs="+", default=["ops", "fuzz", "bench"])
    parser.add_argument("--dtypes", nargs="+", default=list(DTYPES))
    parser.add_argument("--ops-seconds", type=float, default=90)
    parser.add_argument("--graphs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=max(1, (multiprocessing.cpu_count() or 2) - 2))
    parser.add_argument("--fuzz-seconds", type=float, default=120)
    parser.add_argument("--rows", type=int, default=32768)
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--bench-dtypes", nargs="+", default=["bf16"])
    parser.add_argument("--bench-seconds", type=float, default=240)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--skip", type=int, default=0, help="leave out the first so many cases of the part")
    parser.add_argument("--only", default="")
    parser.add_argument("--peer", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--max-autotune", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    rows = Rows(args.out)
    device = torch.cuda.get_device_name() if args.device == "cuda" else "cpu"
    rows.add(part="machine", case=device, ok=True, torch=torch.__version__, python=sys.version.split()[0],
             framefuse=framefuse.__version__)
    for part, run in (("ops", run_operators), ("bench", run_bench), ("fuzz", run_fuzz)):
        if part not in args.parts:
            continue
        start = time.monotonic()
        try:
            run(args, rows)
        except Exception:
            traceback.print_exc()
            rows.add(part=part, case="the part itself", ok=False, why=traceback.format_exc(limit=-3))
        print(f"{part}: {time.monotonic() - start:.0f} s", flush=True)
    print(json.dumps({"rows": rows.count, "failed": len(rows.failed), "first": rows.failed[:20]}))
    return 1 if rows.failed else 0


if __name__ == "__main__":
    sys.exit(main())
