"""Whole models through torch.compile: backend="framefuse" against Inductor, each in default mode and in "reduce-overhead", and eager.

    python benchmarks/whole_graphs.py --device cuda --out rows.jsonl [--train] [GPT Llama …]

One JSON row a model and direction: medians of step times in microseconds, interleaved in one process, seconds of the first call (which
compiles), largest error against eager, and the ratio of our better mode to Inductor's better one. Rows are written as they come.
"""

import argparse
import json
import pathlib
import statistics
import time

import torch

import framefuse
import models
from measure import interleaved, significant

CASES = {
    "GPT, 6 blocks of 512": lambda: (models.GPT(6, 512, 8), torch.randint(0, 256, (4, 64))),
    "Llama, 6 blocks of 512": lambda: (models.Llama(6, 512, 8, 4), torch.randint(0, 256, (4, 64))),
    "encoder, 6 layers of 512": lambda: (models.Encoder(6, 512, 8), torch.randn(4, 64, 512)),
    "ResNet18": lambda: (models.ResNet18(), torch.randn(8, 3, 64, 64)),
    "DenseNet121": lambda: (models.DenseNet121(), torch.randn(8, 3, 64, 64)),
}
RIVALS = {
    "framefuse": dict(backend="framefuse"),
    "framefuse reduce-overhead": dict(backend="framefuse", mode="reduce-overhead"),
    "inductor": dict(),
    "inductor reduce-overhead": dict(mode="reduce-overhead"),
}


def steps(module, call, x, train):
    if not train:
        def forward():
            with torch.no_grad():
                return [call(x)]

        return forward

    def step():
        module.zero_grad(set_to_none=True)
        loss = call(x).float().square().mean()
        loss.backward()
        return [loss.detach(), *(p.grad for p in module.parameters())]

    return step


def synchronized(function, device):
    def timed():
        start = time.perf_counter()
        function()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    return timed


def error_of(got, expected):
    """The largest difference, relative to the largest element of what it differs from."""
    return max(((g - e).abs().max() / e.abs().max().clamp_min(1e-6)).item() for g, e in zip(got, expected, strict=True))


def run(name, make, parsed):
    torch._dynamo.reset()
    torch.manual_seed(0)
    module, x = make()
    module, x = module.to(parsed.device), x.to(parsed.device)
    module.train(parsed.train)
    eager = steps(module, module, x, parsed.train)
    expected = [t.clone() for t in eager()]
    row = {"case": name, "direction": "step" if parsed.train else "forward", "ok": True, "first_call_s": {}, "error": {}, "us": {}}
    timed = {"eager": synchronized(eager, parsed.device)}
    for rival in parsed.rivals:
        torch._dynamo.reset()
        function = steps(module, torch.compile(module, dynamic=False, **RIVALS[rival]), x, parsed.train)
        start = time.perf_counter()
        got = function()
        row["first_call_s"][rival] = round(time.perf_counter() - start, 2)
        for _ in range(6):
            got = function()
        row["error"][rival] = significant(error_of(got, expected))
        row["ok"] = row["ok"] and (not rival.startswith("framefuse") or row["error"][rival] < 2e-2)
        timed[rival] = synchronized(function, parsed.device)
    for rival, times in interleaved(timed, parsed.rounds).items():
        row["us"][rival] = round(statistics.median(times) * 1e6, 1)
    best = {ours: min(t for rival, t in row["us"].items() if rival.startswith(ours)) for ours in ("framefuse", "inductor")
            if any(rival.startswith(ours) for rival in row["us"])}  # fmt: skip
    if len(best) == 2:
        row["ratio"] = significant(best["framefuse"] / best["inductor"])
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="only models whose name contains one of these")
    parser.add_argument("--device", type=torch.device, default=torch.device("cuda"))
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--rivals", nargs="+", choices=list(RIVALS), default=list(RIVALS))
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parsed = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False  # so that errors can be read
    for name, make in CASES.items():
        if parsed.cases and not any(part in name for part in parsed.cases):
            continue
        try:
            row = run(name, make, parsed)
        except Exception as error:  # one model that fails must not hide the others
            row = {"case": name, "ok": False, "why": f"{type(error).__name__}: {error}"[:600]}
        device = torch.cuda.get_device_name() if parsed.device.type == "cuda" else "cpu"
        row |= {"device": device, "torch": torch.__version__, "framefuse": framefuse.__version__}
        print(json.dumps(row), flush=True)
        with parsed.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
