"""What a process pays at its start: the first call of a model, in a process of its own, over what eager pays there.

    python benchmarks/start.py --device cpu --out rows.json [--train] [--models mlp gpt2] [--rivals framefuse] [--small]

A row is one model and direction. `first_ms` has for each rival the time from before its import to the end of the first call (for eager, of the
first call), the median over --repeats processes, and `cpu_ms` the processor time of the same, which other programs do not lengthen.
`…-cold` begins with an empty cache folder, `…-warm` with what a cold process left, `framefuse-file` without a folder and with the file of
`save_cache`. `over_eager_ms` is the difference to eager, of `first_ms` on a GPU and of `cpu_ms` on the CPU. A row is `ok` if all results
agreed with eager's. The compilers that Inductor runs are processes of their own: on the CPU they are in `first_ms` alone.
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

RIVALS = ("framefuse", "inductor")
LOCAL = ("mlp", "convnet")
NAMES = (*LOCAL, "small_gpt", "densenet121", "bert", "gpt2")


def model_of(name, device, small, train):
    """The model and its inputs; framefuse is not to be imported yet."""
    import models
    import torch

    torch.manual_seed(0)
    if name == "mlp":
        model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.LayerNorm(256), torch.nn.Linear(256, 64))
        return model.train(train).to(device), {"input": torch.randn(32, 64, device=device)}
    if name == "convnet":
        return models.ConvNet().train(train).to(device), {"x": torch.randn(4, 3, 32, 32, device=device)}
    from device_models import Models

    made = Models(device, small, train)
    if device == "cpu":  # where little work is done, the start is seen
        made.dtype = torch.float32
        made.tokens = lambda vocabulary: torch.randint(0, vocabulary, (2, 16))
    model, inputs = getattr(made, name)()
    return model, {"x": inputs["x"][:2, :, :64, :64].contiguous()} if name == "densenet121" else inputs


def child(arguments):
    name, rival = arguments.child
    import device_models

    model, inputs = model_of(name, arguments.device, arguments.small, arguments.train)
    passes = device_models.passes
    device_models.synchronize(arguments.device)
    with contextlib.redirect_stdout(sys.stderr):
        wall, cpu = time.perf_counter(), time.process_time()
        call = compiled(model, rival, arguments.file)
        results = passes(model, call, inputs, arguments.train)
        device_models.synchronize(arguments.device)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if rival == "framefuse-cold":
            import framefuse

            framefuse.save_cache(arguments.file)
        exact = [t.double() for t in passes(model, model, inputs, arguments.train)]
        far = device_models.error(results, exact)
    print(json.dumps({"first_ms": wall * 1e3, "cpu_ms": cpu * 1e3, "error": far}))


def compiled(model, rival, file):
    import torch

    if rival == "eager":
        return model
    if rival.startswith("inductor"):
        return torch.compile(model)
    import framefuse

    if rival == "framefuse-file":
        framefuse.load_cache(file)
    return framefuse.compile(model)


def start(name, rival, arguments, folder):
    environment = {**os.environ, "FRAMEFUSE_CACHE_DIR": f"{folder}/framefuse", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
    if rival == "framefuse-file":
        environment["FRAMEFUSE_CACHE_DIR"] = f"{folder}/nothing"
    options = ["--device", arguments.device, *(["--train"] if arguments.train else []), *(["--small"] if arguments.small else [])]
    command = [sys.executable, __file__, *options, "--file", f"{folder}/saved.ffcache", "--child", name, rival]
    ended = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if ended.returncode != 0:
        return {"failed": ended.stderr[-400:]}
    return json.loads(ended.stdout.splitlines()[-1])


def row_of(name, arguments):
    steps = ["eager"]
    if "framefuse" in arguments.rivals:
        steps += ["framefuse-cold", "framefuse-warm", "framefuse-file"]
    if "inductor" in arguments.rivals:
        steps += ["inductor-cold", "inductor-warm"]
    runs = {step: [] for step in steps}
    for _ in range(arguments.repeats):
        with tempfile.TemporaryDirectory() as folder:
            for step in steps:
                runs[step].append(start(name, step, arguments, folder))
    row = {"model": name, "device": arguments.device, "train": arguments.train, "repeats": arguments.repeats}
    row["failed"] = {step: r["failed"] for step, done in runs.items() for r in done if "failed" in r}
    done = {step: [r for r in some if "failed" not in r] for step, some in runs.items()}
    for key in ("first_ms", "cpu_ms"):
        row[key] = {step: round(statistics.median(r[key] for r in some), 1) for step, some in done.items() if some}
    chosen = row["cpu_ms" if arguments.device == "cpu" else "first_ms"]
    row["over_eager_ms"] = {step: round(ms - chosen["eager"], 1) for step, ms in chosen.items() if step != "eager" and "eager" in chosen}
    row["error"] = {step: float(f"{max(r['error'] for r in some):.2g}") for step, some in done.items() if some}
    limit = 1e-3 if name in LOCAL or name == "small_gpt" else 5e-2  # the others compute in bf16, or in many layers
    row["ok"] = not row["failed"] and all(far <= limit for far in row["error"].values())
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--out", type=pathlib.Path, help="write the rows to this JSON file")
    parser.add_argument("--machine", help="what to call this machine in that file, and what else ran on it")
    parser.add_argument("--models", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--rivals", nargs="*", choices=RIVALS, default=RIVALS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--train", action="store_true", help="training steps instead of forward passes")
    parser.add_argument("--small", action="store_true", help="small models: does it run")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--file", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return child(arguments)
    rows = []
    for name in arguments.models:
        rows.append(row_of(name, arguments))
        print(json.dumps(rows[-1]), flush=True)
    if arguments.out:
        import torch

        document = {"machine": arguments.machine or platform.node(), "torch": torch.__version__, "rows": rows}
        arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
