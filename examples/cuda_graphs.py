"""`mode="reduce-overhead"` on a GPU: the kernels of a graph are recorded once and replayed as one CUDA graph.

A small model's step takes longer to launch than to compute. The example times eager, compiled and replayed calls of the
same model beside each other, in inference, and checks their results. Without a GPU it says so and ends.

    python examples/cuda_graphs.py
"""

import statistics
import sys
import time

import torch
from torch import nn

import framefuse


def median_us(call, rounds=200):
    """Microseconds of a call until the GPU is done, the median of `rounds`."""
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def main():
    if not torch.cuda.is_available():
        print("no GPU here: this example needs one")
        return 0
    torch.manual_seed(0)
    layers = [layer for _ in range(12) for layer in (nn.Linear(256, 256), nn.LayerNorm(256), nn.GELU())]
    model = nn.Sequential(*layers).cuda().eval()
    x = torch.randn(16, 256, device="cuda")
    with torch.no_grad():
        wanted = model(x)
        calls = {
            "eager": model,
            "compiled": framefuse.compile(model),
            "reduce-overhead": framefuse.compile(model, mode="reduce-overhead"),
        }
        wrong = []
        for name, call in calls.items():
            for _ in range(3):  # the second run of a graph records it
                result = call(x)
            if not torch.allclose(result, wanted, atol=1e-4):
                wrong.append(f"{name}: another result")
            print(f"  {name:16} {median_us(lambda call=call: call(x)):8.1f} us a call")
        again = calls["reduce-overhead"](x * 2)  # other values in the same graph
        if not torch.allclose(again, model(x * 2), atol=1e-4):
            wrong.append("reduce-overhead: another result for other values")
    for message in wrong:
        print(f"WRONG: {message}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
