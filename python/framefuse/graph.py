"""framefuse-graph: runs graphs in text form (backends/graph) on random inputs, as ATen operators and fused.

    framefuse-graph [--device cuda] [--size s0=7] [--rounds 20] [--quiet] FILE …        (or: python -m framefuse.graph; - is standard input)

For each graph it prints what was grouped, the kernels' code, the largest difference between the two ways' results, written inputs
included, and the time of a call of each. The exit status is 1 if a difference is too large, 2 if a graph cannot be run.
"""

import argparse
import dataclasses
import pathlib
import re
import sys
import time

import torch

from framefuse import _C
from framefuse._logs import capture_logs
from framefuse._torch_backend import DTYPES

_SYMBOL = re.compile(r"^symbol (\w+) = (-?\d+).*\n", re.MULTILINE)
_INPUT = re.compile(r"^input (%\w+): (\w+)\[([\d, ]*)\](?:\{([^}]*)\})? (.*)$", re.MULTILINE)
_STRIDES = re.compile(r"strides=\[([\d, ]*)\]")
# Of one result: of its largest element, and of each element.
_ALLOWED = {torch.float64: (1e-12, 1e-11), torch.float32: (1e-5, 1e-4), torch.float16: (2e-3, 2e-3), torch.bfloat16: (1.6e-2, 1.6e-2)}


@dataclasses.dataclass
class GraphRun:
    """What `run` found; `print` it for a report."""

    groups: "list[str]"
    code: "list[str]"
    difference: float  # the largest, as a part of what is allowed
    microseconds: "dict[str, float]"  # of a call, by backend

    @property
    def ok(self):
        return self.difference <= 1

    def __str__(self):
        times = ", ".join(f"{backend} {us:.1f} us" for backend, us in self.microseconds.items())
        return "\n".join([*self.groups, *self.code, f"difference: {self.difference:.3g} of what is allowed\na call: {times}"])


def run(text, *, device="cpu", sizes=None, rounds=20, seed=0):
    """Compile and run one graph with the backends aten and fuse. `sizes` maps symbols to values other than their hints."""
    text = with_sizes(text, sizes or {})
    with capture_logs("fusion", "output_code") as records:
        plans = {backend: _C.compile_graph_text(text, backend) for backend in ("aten", "fuse")}
        inputs, results = {}, {}
        for backend, plan in plans.items():
            torch.manual_seed(seed)
            inputs[backend] = random_inputs(text, device)
            results[backend] = plan(inputs[backend]) + inputs[backend]
    difference = max(map(_difference, results["fuse"], results["aten"]), default=0.0)
    by_artifact = {name: [record for artifact, record in records if artifact == name] for name in ("fusion", "output_code")}
    return GraphRun(by_artifact["fusion"], by_artifact["output_code"], difference, _times(plans, inputs, rounds))


def compile(text, backend="fuse", *, verify=True):
    """A graph in text form as a function of a list of its inputs, which returns the list of its results.

    `verify` computes sizes, dtypes and strides of all values once more; what framefuse's passes made may have others.
    """
    return _C.compile_graph_text(text, backend, verify=verify)


def with_sizes(text, sizes):
    symbols = {name: int(hint) for name, hint in _SYMBOL.findall(text)}
    if unknown := set(sizes) - set(symbols):
        raise ValueError(f"the graph has no symbol {', '.join(sorted(unknown))}")
    text = _SYMBOL.sub("", text)
    for name, value in {**symbols, **sizes}.items():
        text = re.sub(rf"\b{name}\b", str(value), text)
    return text


def random_inputs(text, device="cpu"):
    """For a graph without symbols."""
    return [_random(*match.groups()[1:4], device) for match in _INPUT.finditer(text)]


def _random(dtype_name, sizes, facts, device):
    dtype = next(dtype for dtype, name in DTYPES.items() if name == dtype_name)
    sizes = [int(n) for n in sizes.split(",") if n.strip()]
    if dtype.is_floating_point or dtype.is_complex:
        values = torch.randn(sizes, dtype=torch.complex64 if dtype.is_complex else torch.float32, device=device).to(dtype)
    else:
        values = torch.randint(0, 2, sizes, device=device).to(dtype)
    strides = _STRIDES.search(facts or "")
    if not strides:
        return values
    result = torch.empty_strided(sizes, [int(n) for n in strides[1].split(",") if n.strip()], dtype=dtype, device=device)
    # A dimension of stride 0 has one element.
    part = result
    for dim, stride in enumerate(result.stride()):
        if stride == 0:
            part, values = part.narrow(dim, 0, min(1, part.size(dim))), values.narrow(dim, 0, min(1, values.size(dim)))
    part.copy_(values)
    return result


def _difference(got, want):
    if got is None or want is None:
        return 0.0 if got is want else float("inf")
    if got.dtype != want.dtype or got.shape != want.shape:
        return float("inf")
    if want.dtype not in _ALLOWED:
        return 0.0 if torch.equal(got, want) else float("inf")
    of_largest, of_each = _ALLOWED[want.dtype]
    exact, wide = want.double(), got.double()
    finite = exact.isfinite()
    if not torch.equal(finite, wide.isfinite()) or not torch.equal(exact[~finite].nan_to_num(7.0), wide[~finite].nan_to_num(7.0)):
        return float("inf")
    if not finite.any():
        return 0.0
    exact, wide = exact[finite], wide[finite]
    allowed = of_each * exact.abs() + of_largest * max(1.0, float(exact.abs().max()))
    return float(((exact - wide).abs() / allowed).max())


def _times(plans, inputs, rounds):
    def seconds(backend, plan):
        start = time.perf_counter()
        plan(inputs[backend])
        if any(t.is_cuda for t in inputs[backend]):
            torch.cuda.synchronize()
        return time.perf_counter() - start

    samples = {backend: [] for backend in plans}
    for _ in range(rounds):
        for backend, plan in plans.items():
            samples[backend].append(seconds(backend, plan))
    return {backend: min(values) * 1e6 for backend, values in samples.items() if values}


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="framefuse-graph", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", action="append", default=[], metavar="SYMBOL=VALUE", help="instead of the symbol's hint")
    parser.add_argument("--rounds", type=int, default=20, help="calls of each way that are timed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quiet", action="store_true", help="no kernels' code")
    parsed = parser.parse_args(arguments)
    worst = 0
    for name in parsed.files:
        try:
            sizes = {symbol: int(value) for symbol, value in (size.split("=") for size in parsed.size)}
            text = sys.stdin.read() if name == "-" else pathlib.Path(name).read_text()
            result = run(text, device=parsed.device, sizes=sizes, rounds=parsed.rounds, seed=parsed.seed)
        except (AttributeError, OSError, RuntimeError, ValueError) as error:  # an unknown operator is an AttributeError
            print(f"{name}: {error}", file=sys.stderr)
            worst = 2
            continue
        print(f"== {name}\n{dataclasses.replace(result, code=[]) if parsed.quiet else result}")
        worst = max(worst, 0 if result.ok else 1)
    return worst


if __name__ == "__main__":
    sys.exit(main())
