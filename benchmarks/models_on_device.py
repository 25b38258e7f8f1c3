"""Runs models eager and compiled on one device and compares values, gradients and buffers; JSON rows.

    python benchmarks/models_on_device.py --device cuda --out rows.jsonl

Each row: model, device, torch and Python versions, number of graphs and breaks, whether outputs, gradients and
buffers equal eager's (largest absolute difference), device memory taken while tracing (bytes), and the medians of
step times in milliseconds for eager, framefuse and (with --peer) torch.compile, interleaved in one process.
"""

import argparse
import copy
import json
import platform
import statistics
import time

import torch

import framefuse


def models(device):
    """(name, factory, example inputs) of what is installed."""
    rows = []
    try:
        import torchvision.models as tv

        image = torch.randn(4, 3, 128, 128, device=device)
        rows.append(("densenet121", lambda: tv.densenet121(num_classes=10), (image,)))
        rows.append(("resnet18", lambda: tv.resnet18(num_classes=10), (image,)))
    except ImportError:
        pass
    encoder = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
    rows.append(("encoder", lambda: torch.nn.TransformerEncoder(copy.deepcopy(encoder), 2),
                 (torch.randn(4, 16, 64, device=device),)))
    rows.append(("mlp", lambda: torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.LayerNorm(128),
                                                    torch.nn.Linear(128, 10)), (torch.randn(32, 64, device=device),)))
    return rows


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def step(call, model, inputs):
    model.zero_grad(set_to_none=True)
    output = call(*inputs)
    output.float().pow(2).mean().backward()
    return output


def largest_difference(pairs):
    worst = 0.0
    for a, b in pairs:
        if a is None or b is None:
            if a is not b:
                return float("inf")
            continue
        if a.is_floating_point():
            worst = max(worst, (a.double() - b.double()).abs().max().item())
        elif not torch.equal(a, b):
            return float("inf")
    return worst


def median_times(calls, device, rounds):
    times = {name: [] for name in calls}
    names = list(calls)
    for r in range(rounds):
        for name in names[r % len(names):] + names[:r % len(names)]:
            synchronize(device)
            start = time.perf_counter()
            calls[name]()
            synchronize(device)
            times[name].append((time.perf_counter() - start) * 1e3)
    return {name: round(statistics.median(t), 4) for name, t in times.items()}


def run(name, factory, inputs, device, backend, peer, rounds):
    torch.manual_seed(0)
    eager = factory().to(device)
    twin = copy.deepcopy(eager)
    before = framefuse._C.statistics()
    compiled = framefuse.compile(twin, backend=backend)
    expected = step(eager, eager, inputs)
    synchronize(device)
    start = time.perf_counter()
    actual = step(compiled, twin, inputs)
    synchronize(device)
    first_call = time.perf_counter() - start
    after = framefuse._C.statistics()
    row = {
        "model": name, "device": torch.cuda.get_device_name() if device == "cuda" else platform.processor() or "cpu",
        "torch": torch.__version__, "python": platform.python_version(), "backend": backend,
        "graphs": after["graphs"] - before["graphs"], "graph_breaks": after["graph_breaks"] - before["graph_breaks"],
        "eager_fallbacks": after["eager_fallbacks"] - before["eager_fallbacks"], "bugs": after["bugs"] - before["bugs"],
        "live_fakes": after["live_fakes"],
        "capture_seconds": round(after["capture_seconds"] - before["capture_seconds"], 5),
        "backend_seconds": round(after["backend_seconds"] - before["backend_seconds"], 5),
        "first_call_seconds": round(first_call, 4),
        "output_difference": largest_difference([(expected, actual)]),
        "gradient_difference": largest_difference(
            [(a.grad, b.grad) for a, b in zip(eager.parameters(), twin.parameters())]),
        "buffer_difference": largest_difference(zip(eager.buffers(), twin.buffers())),
    }
    del expected, actual
    calls = {"eager": lambda: step(eager, eager, inputs), "framefuse": lambda: step(compiled, twin, inputs)}
    if peer:
        third = copy.deepcopy(eager)
        reference = torch.compile(third, backend=peer)
        start = time.perf_counter()
        step(reference, third, inputs)
        synchronize(device)
        row["peer"] = peer
        row["peer_first_call_seconds"] = round(time.perf_counter() - start, 4)
        calls["peer"] = lambda: step(reference, third, inputs)
    row["step_ms"] = median_times(calls, device, rounds)
    return row


def tracing_takes_memory(device):
    """Bytes of device memory that a capture alone takes (the backend is made to do nothing)."""
    if device != "cuda":
        return 0
    layer = torch.nn.Linear(512, 512, device=device)
    value = torch.randn(256, 512, device=device)
    taken = []

    def backend(graph_module, example_inputs):
        taken.append(torch.cuda.memory_allocated() - base)
        return graph_module.forward

    base = torch.cuda.memory_allocated()
    framefuse.compile(lambda x: torch.relu(layer(x)) * 2, backend=backend)(value)
    return taken[0] if taken else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--backend", default="aten")
    parser.add_argument("--peer", default="", help="a torch.compile backend to time beside, such as eager or inductor")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", default="")
    arguments = parser.parse_args()
    lines = [json.dumps({"tracing_memory_bytes": tracing_takes_memory(arguments.device), "device": arguments.device})]
    for name, factory, inputs in models(arguments.device):
        try:
            row = run(name, factory, inputs, arguments.device, arguments.backend, arguments.peer, arguments.rounds)
        except Exception as error:  # one model that fails must not hide the others
            row = {"model": name, "error": f"{type(error).__name__}: {error}"}
        lines.append(json.dumps(row))
        print(lines[-1], flush=True)
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
