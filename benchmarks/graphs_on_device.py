"""Whole models through `torch.compile(backend="framefuse")` beside Inductor, forward passes or training steps; JSON rows.

    python benchmarks/graphs_on_device.py --device cuda --out rows.jsonl [--train]
    python benchmarks/graphs_on_device.py --device cpu --small --out /dev/null     # does it run

A row is one model and direction (forward without gradients, or a step: forward, loss, backward): the median step of eager and of each rival (framefuse, framefuse-reduce-overhead, inductor, inductor-reduce-overhead), all
in one process and interleaved; how long each one's first call took, and of that its backend (caches on disk are empty at first; a second
mode finds the first one's kernels there); errors against the model in fp64, as parts of the result's size; how many
groups are generated kernels and which operators still run as ATen. A rival that fails leaves its error in the row. Each model runs in the
same child process until one dies; the parent notes that and goes on behind it. Models of libraries (llama, gpt2, bert, t5 in bf16; densenet121)
stay in eval mode also in training steps, since their dropout draws other numbers in each rival; our own ones (small_…, in fp32) train.

With --compile-first all models are compiled at once, a process each, and only then run, one after the other, with what the caches hold:
times of compiling are then those of the first processes, all rivals' beside as many others (`compiled_beside` says how many).
--profile writes what runs on the device in a step, kernel by kernel, framefuse beside Inductor.
"""

import argparse
import collections
import contextlib
import copy
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import torch
from device_models import NAMES, Models, error, passes, synchronize
from measure import interleaved
from random_programs import cubins_in, kernels_in

import framefuse

RIVALS = ("framefuse", "framefuse-reduce-overhead", "inductor", "inductor-reduce-overhead")


class TimedBackend:
    """A backend of torch.compile that adds up how long it takes."""

    def __init__(self, rival):
        self.seconds = 0.0
        name, _, mode = rival.partition("-")
        if name == "framefuse":
            from framefuse._torch_backend import torch_backend

            self.backend = functools.partial(torch_backend, mode=mode or "default")
        else:
            from torch._inductor.compile_fx import compile_fx

            self.backend = functools.partial(compile_fx, config_patches={"triton.cudagraphs": True} if mode else {})

    def __call__(self, graph, inputs):
        start = time.perf_counter()
        try:
            return self.backend(graph, inputs)
        finally:
            self.seconds += time.perf_counter() - start


def prepare(rival, model, inputs, exact, arguments, row):
    """Compiles `model` for a rival and returns the call, or None where that fails; what is to be known of it goes into the row."""
    backend, device = TimedBackend(rival), arguments.device
    own = copy.deepcopy(model)
    call = functools.partial(passes, own, torch.compile(own, backend=backend, dynamic=False), inputs, arguments.train)
    try:
        with framefuse.capture_logs("fusion", "perf", "output_code") as records:
            start = time.perf_counter()
            call()
            synchronize(device)
            row["first_call_s"][rival] = round(time.perf_counter() - start, 3)
        row["backend_s"][rival] = round(backend.seconds, 3)
        for _ in range(3):  # a recording of CUDA graphs takes more than one call
            output = call()
        row["error"][rival] = float(f"{error(output, exact):.3g}")
        synchronize(device)
    except Exception as problem:
        row["failed"][rival] = f"{type(problem).__name__}: {str(problem)[:400]}"
        return None
    if rival == "framefuse":
        row["cubins_ms"] = round(cubins_in(records).ms, 1)
        row["new_kernels"] = sum(text.count("__global__") for artifact, text in records if artifact == "output_code")
        row["kernels"], left = kernels_in(records)
        names = [name for text in left if text.startswith("ATen: ") for name in text[6:].split(", ")]
        row["aten"] = dict(collections.Counter(names).most_common())
        row["given_up"] = [text[:200] for text in left if not text.startswith("ATen: ")][:4]
    return call


def step_times(calls, device, rounds, together):
    """Median milliseconds of one step; `together` steps are queued before the device is waited for."""

    def timed(call):
        synchronize(device)
        start = time.perf_counter()
        for _ in range(together):
            call()
        synchronize(device)
        return (time.perf_counter() - start) * 1e3 / together

    samples = interleaved({name: functools.partial(timed, call) for name, call in calls.items()}, rounds)
    return {name: round(sorted(times)[len(times) // 2], 4) for name, times in samples.items()}


def device_time(call, steps=4):
    """What the device does in a step: (name of a kernel, microseconds, how often), the longest first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(steps):
            call()
        torch.cuda.synchronize()
    events = [e for e in profile.key_averages() if e.self_device_time_total > 0]
    return sorted(((e.key[:90], e.self_device_time_total / steps, e.count / steps) for e in events), key=lambda event: -event[1])


def profile(name, calls, path):
    """Only the ways without CUDA graphs: their kernels are the same ones."""
    for rival in ("framefuse", "inductor"):
        if rival not in calls:
            continue
        events = device_time(calls[rival])
        add(path, {"model": name, "rival": rival, "device_us": round(sum(t for _, t, _ in events), 1), "launches": round(sum(n for _, _, n in events), 1),
                   "kernels": [[key, round(t, 1), n] for key, t, n in events[:40]]})  # fmt: skip


def run(name, arguments):
    torch.manual_seed(0)
    torch._dynamo.reset()
    row = {"model": name, "direction": "step" if arguments.train else "forward", "ok": False, "device": arguments.device, "torch": torch.__version__,
           "first_call_s": {}, "backend_s": {}, "error": {}, "failed": {}}  # fmt: skip
    model, inputs = getattr(Models(arguments.device, arguments.small, arguments.train), name)()
    wide = copy.deepcopy(model).double()
    exact = passes(wide, wide, {k: t.double() if t.is_floating_point() else t for k, t in inputs.items()}, arguments.train)
    calls = {"eager": functools.partial(passes, model, model, inputs, arguments.train)}
    row["error"]["eager"] = float(f"{error(calls['eager'](), exact):.3g}")
    del wide
    for rival in arguments.rivals:
        call = prepare(rival, model, inputs, exact, arguments, row)
        if call is not None:
            calls[rival] = call
    if arguments.compile_only:
        return row
    row["step_ms"] = step_times(calls, arguments.device, arguments.rounds, arguments.together)
    if arguments.profile:
        profile(name, calls, arguments.profile)
    ours = [rival for rival in calls if rival.startswith("framefuse")]
    row["ok"] = bool(ours) and all(row["error"][rival] <= 3 * row["error"]["eager"] + 1e-6 for rival in ours)
    return row


COMPILING = ("first_call_s", "backend_s", "cubins_ms", "new_kernels")


def compile_first(arguments, environment):
    """All models at once, in a process each; returns model → what its row says of compiling."""
    folder = environment["TORCHINDUCTOR_CACHE_DIR"]
    started = [
        subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--here", "--compile-only", "--models", name, "--out", f"{folder}/{name}.jsonl"],
                         env=environment, stdout=subprocess.DEVNULL)
        for name in arguments.models
    ]  # fmt: skip
    for process in started:
        process.wait()
    rows = {}
    for path in pathlib.Path(folder).glob("*.jsonl"):
        row = json.loads(path.read_text())
        rows[row["model"]] = {key: row[key] for key in COMPILING if key in row} | {"compiled_beside": len(started) - 1}
        print(row["model"], rows[row["model"]], row["failed"], flush=True)
    return rows


def children(arguments):
    """Runs the models in a process of their own, and in a new one behind each that dies."""
    left, out = list(arguments.models), pathlib.Path(arguments.out)
    out.write_text("")
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "FRAMEFUSE_CACHE_DIR": f"{cache}/framefuse"}
        compiling = compile_first(arguments, environment) if arguments.compile_first else {}
        while left:
            command = [sys.executable, __file__, *sys.argv[1:], "--here", "--models", *left]
            code = subprocess.run(command, env=environment, check=False).returncode
            done = [json.loads(line) for line in out.read_text().splitlines()]
            if code == 0:
                break
            left = [name for name in left if name not in {row["model"] for row in done}]
            if left:
                add(arguments.out, {"model": left.pop(0), "ok": False, "failed": {"process": f"ended with {code}"}})
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    out.write_text("".join(json.dumps(row | compiling.get(row["model"], {})) + "\n" for row in rows))
    return code


def add(path, row):
    line = json.dumps(row)
    print(line, flush=True)
    with open(path, "a", encoding="utf-8") as file:
        file.write(line + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--out", required=True)
    parser.add_argument("--models", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--rivals", nargs="+", choices=RIVALS, default=RIVALS)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--together", type=int, default=5, help="steps that are queued before the device is waited for")
    parser.add_argument("--seconds", type=float, default=1e9, help="no model is begun after that")
    parser.add_argument("--train", action="store_true", help="training steps instead of forward passes")
    parser.add_argument("--small", action="store_true", help="small models: does it run")
    parser.add_argument("--compile-first", action="store_true", help="all models at once, before any is timed")
    parser.add_argument("--profile", help="a file for what runs on the device")
    parser.add_argument("--compile-only", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False  # so that errors can be read
    if not arguments.here:
        return children(arguments)
    start = time.monotonic()
    for name in arguments.models:
        if time.monotonic() - start > arguments.seconds:
            print("out of time before", name, flush=True)
            break
        try:
            row = run(name, arguments)
        except Exception as problem:
            row = {"model": name, "ok": False, "failed": {"model": f"{type(problem).__name__}: {str(problem)[:400]}"}}
        add(arguments.out, row)
        with contextlib.suppress(Exception):
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
