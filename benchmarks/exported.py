"""What a packaged model costs: its start and its calls, in Python and in the C++ program without Python, on the CPU.

    python benchmarks/exported.py --out rows.json [--models mlp gpt] [--rounds 200] [--check]

A row is one model of the tests (tests/python/exported_models.py). `package_s`: from the model to the file, and `peer`'s: torch.export and
AOTInductor, for the sizes of the call alone. `bytes`: of the package. `load_ms`: from the file to a callable, kernels made. `call_us`: the
median of interleaved calls, one thread: `eager`, `compiled`, `loaded` and `peer` in Python under no_grad, `runner` through framefuse_run.h
(examples/run_package). Without a row's `peer` torch.export or AOTInductor refused the model. `start_ms` and `cpu_ms`: the runner's whole process with one call, and the processor time of it. A row is
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


def medians_us(rivals, arguments, rounds):
    import torch

    samples = {name: [] for name in rivals}
    with torch.no_grad():
        for _ in range(rounds):
            for name, call in rivals.items():
                start = time.perf_counter()
                call(*arguments)
                samples[name].append((time.perf_counter() - start) * 1e6)
    return {name: round(statistics.median(of_one[len(of_one) // 4 :]), 1) for name, of_one in samples.items()}


def peer_of(model, arguments, folder):
    """AOTInductor's callable, and the seconds that its package and its load took; None if it refuses the model."""
    import torch

    try:
        with torch.no_grad():
            start = time.perf_counter()
            program = torch.export.export(model, arguments)
            path = torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "peer.pt2"))
            packaged = time.perf_counter()
            loaded = torch._inductor.aoti_load_package(path)
            return loaded, packaged - start, time.perf_counter() - packaged
    except Exception as error:
        print(f"torch: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
        return None


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


def row_of(name, made, program, folder, rounds, with_peer):
    import torch
    from torch.utils import _pytree

    import framefuse

    model, dynamic, example, calls = made
    path = folder / "model.ffpkg"
    start = time.perf_counter()
    framefuse.export(model, dynamic=dynamic)(*example).package(path)
    package_s = {"framefuse": round(time.perf_counter() - start, 3)}
    start = time.perf_counter()
    loaded = framefuse.load(path)
    load_ms = (time.perf_counter() - start) * 1e3
    arguments = calls[0]
    wall, cpu, _, _ = run_program(program, path, arguments, folder, 1)
    _, _, runner_load, runner_calls = run_program(program, path, arguments, folder, rounds)
    results = [t for t in _pytree.tree_leaves(loaded(*arguments)) if isinstance(t, torch.Tensor)]
    same = all((folder / f"result{i}").read_bytes() == bytes_of(t) for i, t in enumerate(results))
    rivals = {"eager": model, "compiled": framefuse.compile(model, dynamic=False), "loaded": loaded}
    peer_load = {}
    if with_peer and (peer := peer_of(model, arguments, folder)) is not None:
        rivals["peer"], seconds, load = peer
        package_s["peer"], peer_load = round(seconds, 3), {"peer": round(load * 1e3, 2)}
    call_us = medians_us(rivals, arguments, rounds)
    call_us["runner"] = round(statistics.median(runner_calls[len(runner_calls) // 4 :]), 1)
    return {
        "model": name,
        "bytes": path.stat().st_size,
        "package_s": package_s,
        "load_ms": {"python": round(load_ms, 2), "runner": round(runner_load, 2), **peer_load},
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
    parser.add_argument("--check", action="store_true", help="does it run: without torch, whose packages take seconds; write nothing")
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
            rows.append(row_of(model, models[model], program, folder, arguments.rounds, not arguments.check))
            print(json.dumps(rows[-1]), flush=True)
    if arguments.out and not arguments.check:
        document = {"machine": arguments.machine or platform.node(), "torch": torch.__version__, "rows": rows}
        arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
