"""Training on several devices through `framefuse.compile`, beside eager and torch.compile: DDP, FSDP2, tensor parallel.

    python benchmarks/distributed.py --world 2 [--seconds 460] [--out FILE] [part of a case's or rival's name …]
    torchrun --nproc-per-node 2 benchmarks/distributed.py [the same]       # all cases in one set of processes
    python benchmarks/distributed.py --tiny --device cpu                   # does it run: gloo, tiny models

Without torchrun each case has processes of its own, which are killed when their time is over; what failed is left out and the rest goes on.
A row is a case and a rival: `step_ms`, the time of a training step; `peak_mib` of device memory on the first rank; `start_seconds`, from compile()
to the end of the third step; `hidden`, the share of the time of NCCL's kernels in which kernels of the model run too; `difference`, the largest
relative distance of a loss to eager's over the first steps. A row is ok if that is below the limit, and framefuse ran graphs.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

import models as own
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import framefuse


STEPS = 20
LIMITS = {torch.bfloat16: 0.02, torch.float32: 0.005}


class Model(NamedTuple):
    make: "Callable[[bool], nn.Module]"  # is it tiny
    batch: "Callable[[bool, torch.Generator], tuple[torch.Tensor, torch.Tensor]]"
    blocks: "Callable[[nn.Module], list[nn.Module]]"
    dtype: torch.dtype


def gpt2(tiny):
    sizes = {"n_embd": 64, "n_layer": 2, "n_head": 2, "vocab_size": 256, "n_positions": 64} if tiny else {}
    try:
        import transformers as hf
    except ImportError:
        return own.GPT(sizes.get("n_layer", 12), sizes.get("n_embd", 768), sizes.get("n_head", 12), sizes.get("vocab_size", 50257), 1024)
    return hf.GPT2LMHeadModel(hf.GPT2Config(use_cache=False, **sizes))


def gpt2_blocks(model):
    return list(model.blocks if hasattr(model, "blocks") else model.transformer.h)


def densenet(tiny):
    if tiny:
        return own.DenseNet121(growth=8, layers=(2, 2, 2, 2), classes=10)
    try:
        import torchvision.models as tv
    except ImportError:
        return own.DenseNet121()
    return tv.densenet121()


def dense_blocks(model):
    return [m for m in model.modules() if type(m).__name__ in ("DenseBlock", "_DenseBlock")]


def llama(tiny):
    return own.Llama(2, 64, 4, 2, 256) if tiny else own.Llama(8, 2048, 16, 8, 32000)


def words(vocabulary, length, batch):
    def make(tiny, generator):
        tokens = torch.randint(256 if tiny else vocabulary, (2, 33) if tiny else (batch, length + 1), generator=generator)
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    return make


def images(tiny, generator):
    batch, size, classes = (2, 64, 10) if tiny else (32, 128, 1000)
    return torch.randn(batch, 3, size, size, generator=generator), torch.randint(classes, (batch,), generator=generator)


MODELS = {
    "GPT-2": Model(gpt2, words(50257, 512, 8), gpt2_blocks, torch.bfloat16),
    "DenseNet121": Model(densenet, images, dense_blocks, torch.float32),
    "Llama": Model(llama, words(32000, 1024, 4), lambda model: list(model.blocks), torch.bfloat16),
}
# (model, way of distributing); what is worth most comes first.
CASES = [("GPT-2", "DDP"), ("Llama", "tensor parallel"), ("GPT-2", "FSDP2"), ("DenseNet121", "DDP"), ("DenseNet121", "FSDP2")]
# (who, mode, what is compiled); what is worth most comes first.
RIVALS = [
    ("eager", "default", "nothing"),
    ("framefuse", "default", "whole"),
    ("torch.compile", "default", "whole"),
    ("framefuse", "reduce-overhead", "whole"),
    ("framefuse", "default", "blocks"),
    ("torch.compile", "default", "blocks"),
    ("torch.compile", "reduce-overhead", "whole"),
    ("framefuse", "reduce-overhead", "blocks"),
]


def rival_name(rival):
    who, mode, part = rival
    return who if who == "eager" else f"{who} {mode}, {part}"


def rivals_of(case, chosen, device):
    rivals = [r for r in RIVALS if device.type == "cuda" or r[1] == "default"]
    return [r for r in rivals if r[0] == "eager" or not chosen or any(part in f"{case}: {rival_name(r)}" for part in chosen)]


# ---------------------------------------------------------------- one model, distributed and compiled


def compiler_of(rival):
    who, mode, _ = rival
    options = {} if mode == "default" else {"mode": mode}
    if who == "framefuse":
        return lambda f: framefuse.compile(f, **options)
    return (lambda f: torch.compile(f, **options)) if who == "torch.compile" else (lambda f: f)


def sharded(model, kind, way, device, dtype):
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=dtype) if way == "FSDP2" and dtype != torch.float32 else MixedPrecisionPolicy()
    if way == "FSDP2":
        for block in kind.blocks(model):
            for part in block.children() if isinstance(block, nn.ModuleDict) else [block]:  # which it does not take
                fully_shard(part, mesh=mesh, mp_policy=policy)
        return fully_shard(model, mesh=mesh, mp_policy=policy)
    if way == "tensor parallel":
        by_columns, by_rows = ("q", "k", "v", "gate", "up"), ("o", "down")
        plan = {n: ColwiseParallel() for n in by_columns} | {n: RowwiseParallel() for n in by_rows}
        for block in kind.blocks(model):
            parallelize_module(block, mesh, plan)
            block.heads //= dist.get_world_size()
            block.groups //= dist.get_world_size()
    return model


def without_dropout(model):
    for part in model.modules():  # it draws other numbers in each compiler
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return model


def groups_of(model):
    """One call of torch._foreach_* takes DTensors or tensors, not both."""
    kinds: "dict[type, list[nn.Parameter]]" = {}
    for weight in model.parameters():
        kinds.setdefault(type(weight.data), []).append(weight)
    return [{"params": weights} for weights in kinds.values()]


def logits_of(output):
    return output if isinstance(output, torch.Tensor) else output["logits"]


def training_step(case, rival, tiny, device):
    name, way = case
    kind = MODELS[name]
    torch.manual_seed(0)
    model = without_dropout(kind.make(tiny)).to(device).train()
    if way == "tensor parallel" and device.type == "cuda":
        model = model.to(kind.dtype)
    blocks = kind.blocks(model)
    model = sharded(model, kind, way, device, kind.dtype)
    compiler = compiler_of(rival)
    if rival[2] == "blocks":
        for block in blocks:
            block.forward = compiler(block.forward)
    call = model
    if way == "DDP":
        call = DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
    if rival[2] == "whole":
        call = compiler(call)
    optimizer = torch.optim.AdamW(groups_of(model), lr=1e-4, foreach=True)
    generator = torch.Generator().manual_seed(0 if way == "tensor parallel" else dist.get_rank())
    inputs, targets = (t.to(device) for t in kind.batch(tiny, generator))
    mixed = way == "DDP" and kind.dtype != torch.float32

    def step():
        optimizer.zero_grad()
        with torch.autocast(device.type, kind.dtype) if mixed else contextlib.nullcontext():
            logits = logits_of(call(inputs))
        loss = F.cross_entropy(logits.flatten(0, -2).float(), targets.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


# ---------------------------------------------------------------- measured


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def spans_of(events):
    """(begin, end) of each, joined where they touch."""
    joined = []
    for begin, end in sorted((e.time_range.start, e.time_range.end) for e in events):
        if joined and begin <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([begin, end])
    return joined


def shared_time(left, right):
    total, i, j = 0, 0, 0
    while i < len(left) and j < len(right):
        total += max(0, min(left[i][1], right[j][1]) - max(left[i][0], right[j][0]))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return total


def communication(step, device):
    """Milliseconds a step in which NCCL's kernels run, and the share of them in which others run too."""
    if device.type != "cuda":
        return None, None
    steps = 3
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    kernels = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    theirs = spans_of(e for e in kernels if "nccl" in e.name.lower())
    ours = spans_of(e for e in kernels if "nccl" not in e.name.lower() and not e.name.startswith(("Memcpy", "Memset")))
    total = sum(end - begin for begin, end in theirs)
    if total == 0:
        return 0.0, None
    return round(total / 1e3 / steps, 3), round(shared_time(theirs, ours) / total, 3)


def counted(before, after):
    names = ("captures", "graphs", "graph_breaks", "eager_fallbacks", "bugs")
    kinds = [n for n in after if n.startswith("eager_fallbacks.")]
    return {n: after[n] - before.get(n, 0) for n in (*names, *kinds) if after.get(n, 0) != before.get(n, 0)}


def measured(case, rival, parsed, device):
    """The row of one rival, and its losses."""
    torch._dynamo.reset()
    framefuse.reset()
    before = dict(framefuse.statistics())
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    dist.barrier()
    start = time.perf_counter()
    step = training_step(case, rival, parsed.tiny, device)
    wait(device)
    made = time.perf_counter()
    losses = []
    for number in range(STEPS):
        losses.append(step())
        if number == 2:
            wait(device)
            started = time.perf_counter()
    losses = torch.stack(losses).tolist()
    peak = round(torch.cuda.max_memory_allocated() / 2**20, 1) if device.type == "cuda" else None
    times = []
    for _ in range(1 if parsed.tiny else 3):
        wait(device)
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(10):
            step()
        wait(device)
        times.append((time.perf_counter() - begin) / 10)
    busy, hidden = communication(step, device)
    row = {
        "case": ", ".join(case),
        "rival": rival_name(rival),
        "world": dist.get_world_size(),
        "step_ms": round(min(times) * 1e3, 3),
        "start_seconds": round(started - made, 3),
        "set_up_seconds": round(made - start, 3),
        "peak_mib": peak,
        "communication_ms": busy,
        "hidden": hidden,
        "losses": [round(x, 5) for x in (losses[0], losses[-1])],
    }
    if rival[0] == "framefuse":
        row["counts"] = counted(before, framefuse.statistics())
    return row, losses


def judged(row, losses, expected, dtype):
    row["difference"] = max(abs(a - b) / max(abs(b), 1e-6) for a, b in zip(losses, expected))
    row["limit"] = LIMITS[dtype]
    why = []
    if row["difference"] > row["limit"]:
        why.append("the losses differ")
    if row["rival"].startswith("framefuse") and not row["counts"].get("graphs"):
        why.append("no graph ran")
    if row.get("counts", {}).get("bugs"):
        why.append("internal errors")
    row["ok"] = not why
    if why:
        row["why"] = ", ".join(why)
    return row


def work(parsed):
    """One rank: the cases given, in turns; rows are appended to parsed.rows by the first."""
    device = torch.device(parsed.device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
        torch.set_float32_matmul_precision("high")
    limit = datetime.timedelta(seconds=150)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=limit)
    for case in CASES:
        expected = None
        for rival in rivals_of(", ".join(case), parsed.names, device):
            done = parsed.skip and [", ".join(case), rival_name(rival)] in json.loads(parsed.skip)
            if (parsed.case and ", ".join(case) != parsed.case) or (done and rival[0] != "eager") or late(parsed, device):
                continue
            row, losses = measured(case, rival, parsed, device)
            expected = losses if rival[0] == "eager" else expected
            judged(row, losses, expected, MODELS[case[0]].dtype)
            if dist.get_rank() == 0 and not done:
                with parsed.rows.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(row, flush=True)
    dist.barrier()
    dist.destroy_process_group()


def late(parsed, device):
    """Whether the time is over: as the first rank sees it."""
    said = torch.tensor([time.time() > parsed.deadline], device=device)
    dist.broadcast(said, 0)
    return bool(said.item())


# ---------------------------------------------------------------- a set of processes for each case


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run_ranks(command, world, seconds):
    """True if all ranks ended well; none of them is left."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(world), "NCCL_NVLS_ENABLE": "0"}
    ranks = [subprocess.Popen(command, env={**os.environ, **shared, "RANK": str(r), "LOCAL_RANK": str(r)}) for r in range(world)]
    end = time.monotonic() + seconds
    try:
        while any(r.poll() is None for r in ranks):
            if time.monotonic() > end or any(r.returncode not in (None, 0) for r in ranks):
                return False
            time.sleep(0.1)
        return all(r.returncode == 0 for r in ranks)
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def rows_in(file):
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def first_left(case, parsed, device, done):
    left = [rival_name(r) for r in rivals_of(case, parsed.names, device) if [case, rival_name(r)] not in done]
    return left[0] if left else None


def drive(parsed):
    deadline = time.time() + parsed.seconds
    device = torch.device(parsed.device)
    failed = []
    cases = [", ".join(c) for c in CASES]
    cases = [c for c in cases if not parsed.names or any(f"{c}: {rival_name(r)}".find(n) >= 0 for r in RIVALS for n in parsed.names)]
    for number, case in enumerate(cases):
        share = max(30.0, (deadline - time.time()) / (len(cases) - number) * 1.3)
        stop = min(deadline, time.time() + share)
        while time.time() < stop:
            done = [[r["case"], r["rival"]] for r in rows_in(parsed.rows)] + [[f["case"], f["rival"]] for f in failed]
            left = first_left(case, parsed, device, done)
            if left is None:
                break
            options = [*sys.argv[1:], "--case", case, "--skip", json.dumps(done), "--rows", str(parsed.rows), "--deadline", str(stop)]
            command = [sys.executable, __file__, *options]
            if not run_ranks(command, parsed.world, max(20.0, stop + 30 - time.time())):
                done = [[r["case"], r["rival"]] for r in rows_in(parsed.rows)] + [[f["case"], f["rival"]] for f in failed]
                broken = first_left(case, parsed, device, done)
                failed.append({"case": case, "rival": broken, "ok": False, "why": "failed, or its time was over"})
                print(failed[-1], flush=True)
            if parsed.out:  # who runs this may stop it
                parsed.out.write_text(json.dumps(document(parsed, failed), indent=1))
    return failed


def document(parsed, failed):
    rows = rows_in(parsed.rows) + failed
    facts = {"title": "Several devices", "python": platform.python_version(), "torch": torch.__version__, "world": parsed.world}
    if torch.cuda.is_available():
        facts["device"] = torch.cuda.get_device_name()
    return {**facts, "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only rivals whose `case: rival` contains one of these; eager is always there")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--world", type=int, default=max(2, torch.cuda.device_count()))
    parser.add_argument("--tiny", action="store_true", help="models of a few thousand weights")
    parser.add_argument("--seconds", type=float, default=460, help="for all")
    parser.add_argument("--out", type=pathlib.Path, help="write the rows to this JSON file")
    for name in ("--case", "--skip", "--rows", "--deadline"):  # what the driver tells its processes
        parser.add_argument(name, type={"--rows": pathlib.Path, "--deadline": float}.get(name, str), help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    parsed.deadline = parsed.deadline or time.time() + parsed.seconds
    if "RANK" in os.environ:
        parsed.rows = parsed.rows or (parsed.out or pathlib.Path("distributed.json")).with_suffix(".jsonl")
        work(parsed)
        if parsed.out and os.environ["RANK"] == "0":
            parsed.world = int(os.environ["WORLD_SIZE"])
            parsed.out.write_text(json.dumps(document(parsed, []), indent=1))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        parsed.rows = pathlib.Path(folder, "rows.jsonl")
        failed = drive(parsed)
        whole = document(parsed, failed)
    if parsed.out:
        parsed.out.write_text(json.dumps(whole, indent=1))
    wrong = [r for r in whole["rows"] if not r["ok"]]
    print(json.dumps({"rows": len(whole["rows"]), "wrong": len(wrong)}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
