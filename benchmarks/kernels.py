"""Fused kernels against Inductor and eager, in one process, interleaved.

    FF_BUILD_DIR=<build folder> python benchmarks/kernels.py [--threads 1 2] [--peer inductor|none] [--check]

Prints one JSON row a case: median microseconds of each, ratio to the peer, error against fp64; then the geometric
mean and the worst case. --check exits 1 if the targets (geometric mean <= 0.6, none above 1.05) are missed or a result
is wrong. Graphs run on the device they name; CUDA cases need a build with CUDA kernels and are left out without a GPU.
"""

import argparse
import json
import math
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "graph"))
from graph_module import native  # noqa: E402

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def tensor_text(dtype, shape):
    return f"{dtype}[{', '.join(map(str, shape))}]"


class Case:
    """A function of torch, its graph in text form and example inputs."""

    def __init__(self, name, function, inputs, nodes):
        self.name, self.function, self.inputs = name, function, inputs
        names = {torch.float32: "f32", torch.bfloat16: "bf16", torch.int64: "i64"}
        lines = ['graph "case" functional']
        for i, t in enumerate(inputs):
            strides = "" if t.is_contiguous() else "{strides=[" + ", ".join(map(str, t.stride())) + "]}"
            lines.append(f"input %{i}: {tensor_text(names[t.dtype], t.shape)}{strides} argument")
        self.text = "\n".join(lines + nodes) + "\n"

    def error(self, got):
        wide = [t.double() if t.is_floating_point() else t for t in self.inputs]
        exact = self.function(*wide)
        return ((got.double() - exact).abs() / (1 + exact.abs())).max().item()


def cases(dtype, rows, columns):
    d = DTYPES[dtype]
    kind = tensor_text(dtype, (rows, columns))
    torch.manual_seed(0)
    x, y = torch.randn(rows, columns, dtype=d), torch.randn(rows, columns, dtype=d)
    w, b = torch.randn(columns, dtype=d), torch.randn(columns, dtype=d)
    tag = f"{dtype} {rows}x{columns}"
    yield Case(f"bias+gelu_tanh {tag}", lambda x, b: F.gelu(x + b, approximate="tanh"), [x, b], [
        f"%2: {kind} = aten.add.Tensor(%0, %1, alpha=1)",
        f'%3: {kind} = aten.gelu(%2, approximate="tanh")', "output %3 user"])
    yield Case(f"bias+gelu_erf {tag}", lambda x, b: F.gelu(x + b), [x, b], [
        f"%2: {kind} = aten.add.Tensor(%0, %1, alpha=1)",
        f'%3: {kind} = aten.gelu(%2, approximate="none")', "output %3 user"])

    def chain(x, y):
        a = x * 1.5 + y
        t, c = torch.tanh(a), torch.sigmoid(y)
        e = torch.clamp_max(t * c - x, 5.0)
        g = (torch.exp(e * 0.25) + a) * 0.5
        return t / ((torch.relu(g) - c).abs() + 1e-3)

    steps = [("mul.Scalar", "%0, 1.5"), ("add.Tensor", "%2, %1, alpha=1"), ("tanh", "%3"), ("sigmoid", "%1"),
             ("mul.Tensor", "%4, %5"), ("sub.Tensor", "%6, %0, alpha=1"), ("clamp_max", "%7, 5.0"),
             ("mul.Scalar", "%8, 0.25"), ("exp", "%9"), ("add.Tensor", "%10, %3, alpha=1"), ("mul.Scalar", "%11, 0.5"),
             ("relu", "%12"), ("sub.Tensor", "%13, %5, alpha=1"), ("abs", "%14"), ("add.Scalar", "%15, 0.001"),
             ("div.Tensor", "%4, %16")]
    yield Case(f"chain16 {tag}", chain, [x, y],
               [f"%{i + 2}: {kind} = aten.{op}({args})" for i, (op, args) in enumerate(steps)] + ["output %17 user"])
    row = tensor_text("f32", (rows, 1))
    yield Case(f"add+layer_norm {tag}", lambda x, y, w, b: F.layer_norm(x + y, (columns,), w, b), [x, y, w, b], [
        f"%4: {kind} = aten.add.Tensor(%0, %1, alpha=1)",
        f"%5: {kind}, %6: {row}, %7: {row} = aten.native_layer_norm(%4, [{columns}], %2, %3, 1e-05)", "output %5 user"])
    yield Case(f"softmax {tag}", lambda x: torch.softmax(x, -1), [x],
               [f"%1: {kind} = aten._softmax(%0, -1, False)", "output %1 user"])
    if dtype == "f32":
        yield Case(f"rms_norm {tag}", lambda x, w: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w, [x, w], [
            f"%2: {kind} = aten.mul.Tensor(%0, %0)", f"%3: {row} = aten.mean.dim(%2, [-1], True)",
            f"%4: {row} = aten.add.Scalar(%3, 1e-06)", f"%5: {row} = aten.rsqrt(%4)",
            f"%6: {kind} = aten.mul.Tensor(%0, %5)", f"%7: {kind} = aten.mul.Tensor(%6, %1)", "output %7 user"])
    yield Case(f"swiglu {tag}", lambda x, y: F.silu(x) * y, [x, y], [
        f"%2: {kind} = aten.silu(%0)", f"%3: {kind} = aten.mul.Tensor(%2, %1)", "output %3 user"])
    yield Case(f"column_sum {tag}", lambda x: x.sum(0), [x], [
        f"%1: {tensor_text(dtype, (columns,))} = aten.sum.dim_IntList(%0, [0], False)", "output %1 user"])
    z = torch.randn(columns, rows, dtype=d).t()
    yield Case(f"transpose+add {tag}", lambda x, z: x + z, [x, z],
               [f"%2: {kind} = aten.add.Tensor(%0, %1, alpha=1)", "output %2 user"])


def measure(functions, seconds):
    """Median microseconds of each, taken in turn so that noise falls on all alike."""
    batch = []
    for f in functions:
        f(), f()
        start = time.perf_counter()
        f()
        batch.append(max(1, int(0.002 / max(time.perf_counter() - start, 1e-7))))
    samples = [[] for _ in functions]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(samples[0]) < 5:
        for f, n, s in zip(functions, batch, samples):
            start = time.perf_counter()
            for _ in range(n):
                f()
            s.append((time.perf_counter() - start) / n * 1e6)
    return [statistics.median(s) for s in samples]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--dtypes", nargs="+", default=["f32", "bf16"])
    parser.add_argument("--shapes", nargs="+", default=["256x1024", "1024x4096"])
    parser.add_argument("--peer", choices=["inductor", "none"], default="inductor")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    ratios, wrong = {}, []
    for dtype in args.dtypes:
        for shape in args.shapes:
            for case in cases(dtype, *map(int, shape.split("x"))):
                if args.only not in case.name:
                    continue
                start = time.perf_counter()
                plan = native.Plan(case.text, "fuse")
                compile_ms = (time.perf_counter() - start) * 1e3
                got = plan.run(case.inputs)[0]
                error = case.error(got)
                if not error < (3e-2 if dtype == "bf16" else 1e-4):
                    wrong.append(case.name)
                torch._dynamo.reset()
                compiled = torch.compile(case.function, dynamic=False) if args.peer == "inductor" else None
                for threads in args.threads:
                    torch.set_num_threads(threads)
                    functions = [lambda: plan.run(case.inputs), lambda: case.function(*case.inputs)]
                    if compiled is not None:
                        functions.append(lambda: compiled(*case.inputs))
                    with torch.no_grad():
                        times = measure(functions, args.seconds)
                    row = {"case": case.name, "threads": threads, "framefuse_us": times[0], "eager_us": times[1],
                           "error": error, "compile_ms": compile_ms, "groups": plan.explain()["groups"]}
                    if compiled is not None:
                        row |= {"inductor_us": times[2], "ratio": times[0] / times[2]}
                        ratios[f"{case.name}, {threads} threads"] = row["ratio"]
                    print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}), flush=True)
    summary = {"wrong": wrong}
    if ratios:
        worst = max(ratios, key=ratios.get)
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        summary |= {"geomean": round(mean, 3), "worst": round(ratios[worst], 3), "worst_case": worst}
    print(json.dumps(summary))
    if args.check and (wrong or (ratios and (summary["geomean"] > 0.6 or summary["worst"] > 1.05))):
        sys.exit(1)


if __name__ == "__main__":
    main()
