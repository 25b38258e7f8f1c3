"""What a call of compiled code costs on top of its operations: eager, framefuse and torch.compile in one process.

torch.compile runs with backend "eager", framefuse with "aten": both then run the same ATen operations, so the difference is the cost of
entering compiled code: binding arguments, checking guards, calling the graph, returning.

    python benchmarks/call_cost.py [--out FILE] [--check] [case …]
"""

import sys

import measure
import torch
from torch import nn

import framefuse


def two_ops(x, y):
    return torch.sin(x) + torch.cos(y)


def many_arguments(x, a=1, b=2.0, c="c", d=None, e=True, *, f=(1, 2), g=3):
    return x * a + b if d is None and c == "c" and e and f[0] < g else x


TABLE = {"scale": 2.0, "shift": [1.0, 2.0]}


def reads_globals(x):
    return x * TABLE["scale"] + TABLE["shift"][1]


class Deep(nn.Module):
    """Many submodules and parameters, little work: guards dominate."""

    def __init__(self, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def cases(device):
    """Name → (function, arguments)."""
    torch.manual_seed(0)
    x, y = torch.randn(10, 10, device=device), torch.randn(10, 10, device=device)
    small = torch.randn(2, 4, device=device)
    linear = nn.Sequential(nn.Linear(10, 10), nn.ReLU()).to(device).eval()
    deep = Deep(40).to(device).eval()
    return {
        "sin(x)+cos(y) 10x10": (two_ops, (x, y)),
        "many arguments": (many_arguments, (x,)),
        "reads globals": (reads_globals, (x,)),
        "Linear+ReLU module": (linear, (x,)),
        "40 blocks of Linear+ReLU": (deep, (small,)),
    }


def measure_case(name, function, inputs, rounds):
    rivals = {
        "eager": function,
        "framefuse": framefuse.compile(function, backend="aten"),
        "torch.compile": torch.compile(function, backend="eager"),
    }
    with torch.no_grad():
        expected = function(*inputs)
        graphs = framefuse.statistics()["graphs"]
        ok = all(measure.same(rival(*inputs), expected) for rival in rivals.values())
        before = framefuse.statistics()
        ok = ok and before["graphs"] > graphs
        timed = {name: lambda rival=rival: measure.seconds_per_call(lambda: rival(*inputs)) for name, rival in rivals.items()}
        seconds = measure.interleaved(timed, rounds)
        after = framefuse.statistics()
    ok = ok and after["captures"] == before["captures"] and after["eager_fallbacks"] == before["eager_fallbacks"]
    return measure.row(name, seconds, "torch.compile", "framefuse", ok)


def main():
    parsed = measure.arguments(__doc__.splitlines()[0], default_rounds=15)
    rows = [
        measure_case(name, function, inputs, parsed.rounds)
        for name, (function, inputs) in measure.chosen(cases(parsed.device), parsed.cases).items()
    ]
    return measure.report("Cost of a call", rows, parsed, "torch.compile", "framefuse")


if __name__ == "__main__":
    sys.exit(main())
