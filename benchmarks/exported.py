"""What a packaged model costs: its start and its calls, in Python and in the C++ program without Python, on the CPU.

    python benchmarks/exported.py --out rows.json [--models mlp gpt] [--rounds 200]

A row is one model of the tests (tests/python/exported_models.py). `bytes`: of the package. `load_ms`: from the file to a callable, kernels
made. `call_us`: the median of calls, one thread: `eager`, `compiled` and `loaded` in Python under no_grad, `runner` through
framefuse_run.h (examples/run_package). `start_ms` and `cpu_ms`: the runner's whole process with one call, and the processor time of it. A row is
`ok` if the runner's results are those of Python bit by bit.
"""

import argparse
import json
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "python"))
NAMES = ("mlp", "convnet", "gpt", "lstm", "symbolic batch")


def built_program(folder):
    import framefuse

    build = pathlib.Path(framefuse._C.__file__).parents[2]
    configure = ["cmake", "-S", ROOT / "examples" / "run_package", "-B", folder, f"-DFRAMEFUSE_BUILD={build}", "-DCMAKE_BUILD_TYPE=Release"]
    for command in (configure, ["cmake", "--build", folder]):
        subprocess.run(command, check=True, capture_output=True)
    return folder / "run_package"


def median_us(call, arguments, rounds):
    import torch

    samples = []
    with torch.no_grad():
        for _ in range(rounds):
            start = time.perf_counter()
            call(*arguments)
            samples.append((time.perf_counter() - start) * 1e6)
    return round(statistics.median(samples[len(samples) // 4 :]), 1)


def bytes_of(tensor):
    import torch

    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()


def run_program(program, package, arguments, folder, rounds):
    names = {"torch.float32": "f32", "torch.int64": "i64"}
    words = []
    for i, tensor in enumerate(arguments):
        file = folder / f"argument{i}"
        file.write_bytes(bytes_of(tensor))
        words.append(f"{file}:{names[str(tensor.dtype)]}:{'x'.join(map(str, tensor.shape))}")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    command = [program, package, str(rounds), folder / "result", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={"OMP_NUM_THREADS": "1"})
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = done.stderr.splitlines()
    calls = [float(line.split()[2]) * 1e3 for line in lines if line.startswith("call ")]
    return wall * 1e3, cpu * 1e3, float(lines[0].split()[2]), calls


def row_of(name, made, program, folder, rounds):
    import torch
    from torch.utils import _pytree

    import framefuse

    model, dynamic, example, calls = made
    path = folder / "model.ffpkg"
    framefuse.export(model, dynamic=dynamic)(*example).package(path)
    start = time.perf_counter()
    loaded = framefuse.load(path)
    load_ms = (time.perf_counter() - start) * 1e3
    arguments = calls[0]
    wall, cpu, _, _ = run_program(program, path, arguments, folder, 1)
    _, _, runner_load, runner_calls = run_program(program, path, arguments, folder, rounds)
    results = [t for t in _pytree.tree_leaves(loaded(*arguments)) if isinstance(t, torch.Tensor)]
    same = all((folder / f"result{i}").read_bytes() == bytes_of(t) for i, t in enumerate(results))
    compiled = framefuse.compile(model, dynamic=False)
    call_us = {kind: median_us(call, arguments, rounds) for kind, call in (("eager", model), ("compiled", compiled), ("loaded", loaded))}
    call_us["runner"] = round(statistics.median(runner_calls[len(runner_calls) // 4 :]), 1)
    return {
        "model": name,
        "bytes": path.stat().st_size,
        "load_ms": {"python": round(load_ms, 2), "runner": round(runner_load, 2)},
        "start_ms": round(wall, 1),
        "cpu_ms": round(cpu, 1),
        "call_us": call_us,
        "ok": same,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, help="write the rows to this JSON file")
    parser.add_argument("--machine", help="what to call this machine in that file, and what else ran on it")
    parser.add_argument("--models", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--rounds", type=int, default=200, help="calls of each way that are timed")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    import exported_models
    import torch

    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program = built_program(folder / "program")
        models = exported_models.models()
        for model in arguments.models:
            rows.append(row_of(model, models[model], program, folder, arguments.rounds))
            print(json.dumps(rows[-1]), flush=True)
    if arguments.out:
        document = {"machine": arguments.machine or platform.node(), "torch": torch.__version__, "rows": rows}
        arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
