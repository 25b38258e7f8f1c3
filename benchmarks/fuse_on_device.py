"""The backend `fuse` on one device: every operator against fp64, random graphs, and kernels against their rivals.

    python benchmarks/fuse_on_device.py --device cuda --out rows.jsonl [--parts ops fuzz bench]
    python benchmarks/fuse_on_device.py --device cpu --rows 64 --columns 256 --graphs 40 --out /dev/null   # a dry run

Parts; the first three have their own time limits (--ops-seconds, --fuzz-seconds, --bench-seconds):
  ops    each pointwise operator and reduction, in each dtype, contiguous, broadcast, transposed and unaligned, with special
         values, against fp64; allowed is eager's own error, four times, and a few roundings of the result.
  fuzz   random programs from --seed on, in --processes processes, forward and backward, against fp64 in the same way.
  bench  the list of kernels at --rows × --columns: error, time beside eager, the --peers (torch.compile in these modes) and a copy of as
         many bytes, and whether generated kernels ran at all. The floor of a row is the copy, or the time that its exponentials,
         reciprocals and roots take at the rate that a chain of exponentials was measured to reach, if that is longer.
  compile  how long the list's kernels take to become cubins, each case a graph, and a graph of all of them, whose programs are compiled
         side by side: three times each, with an empty cache (NVRTC's own is never asked), nothing else between them.
--ways: `ptx` takes PTX for the kernels that it is printed for, `nvrtc` CUDA C++ for all. With both, compile and bench have rows of both,
made and timed in turn; ops and fuzz take the first.
One JSON row a case goes to --out as it is made; failures are rows with "ok": false, and do not end the run.
"""

import argparse
import json
import math
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

import torch
from compare import mismatch
from kernel_cases import DTYPES, Case, cases
from operator_cases import layouts, operators
from random_programs import SEVERAL_STEPS, Cubins, RandomProgram, check_program, cubins_in, kernels_in

import framefuse


class Rows:
    """Writes rows, keeps count, says what failed."""

    def __init__(self, path):
        self.file = open(path, "a")
        self.count, self.failed = 0, []

    def add(self, **row):
        self.count += 1
        if not row["ok"]:
            self.failed.append(row.get("case"))
            print("FAILED", json.dumps(row)[:600], flush=True)
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()


def clock(seconds):
    """A function that says whether the part's time is over."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def goes_on_elsewhere(args, part, index, seconds):
    """After an error that the CUDA context does not survive, the cases past `index` run in a process of their own."""
    if args.device != "cuda":
        return False
    try:
        torch.cuda.synchronize()
        return False
    except Exception as error:
        print(f"{part}: the device is lost at case {index}: {str(error)[:200]}", flush=True)
    command = [sys.executable, __file__, *sys.argv[1:], "--parts", part, "--skip", str(index + 1), f"--{part}-seconds", str(max(seconds, 1))]
    subprocess.run(command, check=False)
    return True


# --- compiling


WAYS = {"ptx": True, "nvrtc": False}


def use(way):
    framefuse.config.cuda_ptx = WAYS[way]


def compiled_result(function, inputs, logs=("fusion", "perf")):
    """What framefuse returns, and the log of how it came about."""
    with framefuse.capture_logs(*logs) as records:
        compiled = framefuse.compile(function, backend="fuse")
        result = compiled(*inputs)
    return compiled, result, records


# --- operators


def roundings(name, dtype):
    """Of the largest element. What sums or subtracts cancels; for fp64, eager is its own reference, and may be the one that is off."""
    return 64 if dtype == torch.float64 else 2 if SEVERAL_STEPS.search(name) else 0


def run_operators(args, rows):
    over, start, index = clock(args.ops_seconds), time.monotonic(), 0
    for dtype_name in args.dtypes:
        dtype = DTYPES[dtype_name]
        for layout, x, y in layouts(dtype, args.device):
            for batch in batches(list(operators()), 8):
                if over():
                    print("ops: out of time at", dtype_name, layout, flush=True)
                    return
                index += 1
                if index <= args.skip:
                    continue
                framefuse.reset()  # a function has so many compilations, and these are one function's
                failed = len(rows.failed)
                check_operators(args, rows, f"{dtype_name} {layout}", batch, x, y)
                spent = time.monotonic() - start
                if len(rows.failed) > failed and goes_on_elsewhere(args, "ops", index, args.ops_seconds - spent):
                    return
        print(f"ops: {dtype_name} done, {rows.count} rows, {len(rows.failed)} failed", flush=True)


def batches(items, size):
    return [items[i : i + size] for i in range(0, len(items), size)]


def check_operators(args, rows, where, batch, x, y):
    """Several operators in one program: they share kernels, and one failure is looked into one by one."""

    def program(x, y):
        return [function(x) if arity == 1 else function(x, y) for _, function, arity in batch]

    names = [name for name, _, _ in batch]
    try:
        compiled, got, records = compiled_result(program, (x, y))
        synchronize(args.device)
    except Exception as error:
        if len(batch) > 1:
            for one in batch:
                check_operators(args, rows, where, [one], x, y)
            return
        try:
            program(x, y)
            same = False
        except Exception as eager:
            same = type(eager) is type(error)
        rows.add(part="ops", case=f"{names[0]} {where}", ok=same, why=f"{'eager, too, ' if same else ''}{type(error).__name__}: {str(error)[:400]}")
        return
    kernels, reasons = kernels_in(records)
    made = cubins_in(records)
    for (name, function, arity), g in zip(batch, got):
        wide = (x.double(), y.double())[:arity]
        why = mismatch(g, function(*(x, y)[:arity]), function(*wide), roundings(name, x.dtype))
        rows.add(part="ops", case=f"{name} {where}", ok=not why, why=why, kernels=kernels, not_fused=reasons[:2], of_ptx=made.ptx, nvrtc_programs=made.nvrtc)


# --- random programs


def fuzz_worker(device, way, first, step, count, seconds, queue):
    torch.set_num_threads(1)
    use(way)
    over = clock(seconds)
    for seed in range(first, first + step * count, step):
        if over():
            break
        try:
            queue.put((seed, *check_program(seed, device)))
        except Exception as error:
            source = RandomProgram(seed, device).source
            queue.put((seed, f"{type(error).__name__}: {str(error)[:300]}", source, 0, math.inf, Cubins()))
        framefuse.reset()
    queue.put(("over",))


def run_fuzz(args, rows):
    context = multiprocessing.get_context("spawn")
    queue, n = context.Queue(), args.processes
    workers = [
        context.Process(target=fuzz_worker, daemon=True,
                        args=(args.device, args.ways[0], args.seed + w, n, -(-args.graphs // n), args.fuzz_seconds, queue))
        for w in range(n)
    ]
    start = time.monotonic()
    for w in workers:
        w.start()
    done, failed, kernels, open_workers, nearest, made, first = 0, 0, 0, n, 0.0, Cubins(), None
    while open_workers and time.monotonic() - start < args.fuzz_seconds + 60:
        try:
            item = queue.get(timeout=5)
        except Exception:
            if not any(w.is_alive() for w in workers):
                break
            continue
        if item[0] == "over":
            open_workers -= 1
            continue
        seed, why, source, k, part, compiling = item
        done, kernels, made = done + 1, kernels + k, Cubins(*map(sum, zip(made, compiling)))
        first = first or time.monotonic() - start
        nearest = max(nearest, 0.0 if why else part)
        if why:
            failed += 1
            if failed <= 40:
                rows.add(part="fuzz", case=f"seed {seed}", ok=False, why=why, source=source)
        if done % 500 == 0:
            print(f"fuzz: {done} graphs, {failed} failed, {time.monotonic() - start:.0f} s", flush=True)
    died = sum(w.exitcode not in (0, None) for w in workers)
    for w in workers:
        w.terminate()
    rows.add(part="fuzz", case="all", ok=failed == 0 and done > 0 and died == 0, graphs=done, failed=failed, kernels=kernels, largest_part_of_allowed=round(nearest, 3),
             seed=args.seed, died=died, seconds=round(time.monotonic() - start, 1), first_result_s=round(first or 0.0, 1),
             compiling_s_of_all_processes=round(made.ms / 1e3, 1), of_ptx=made.ptx, nvrtc_programs=made.nvrtc, processes=n)


# --- kernels


def cycles_to_queue(f, calls):
    """Cycles of the device in which the host queues so many calls; of what launches more than a queue holds, some of them."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        f()
    seconds = time.perf_counter() - start
    torch.cuda.synchronize()
    return min(200_000 + int(2.4e9 * seconds), 50_000_000)


def time_of(device, functions, rounds):
    """Median microseconds of each, interleaved; on CUDA by events around calls whose inputs do not fit the L2 cache."""
    if device != "cuda":
        samples = [[] for _ in functions]
        for _ in range(rounds):
            for f, s in zip(functions, samples):
                start = time.perf_counter()
                f()
                s.append((time.perf_counter() - start) * 1e6)
        return [statistics.median(s) for s in samples]
    calls = 8
    samples = [[] for _ in functions]
    order = [(f, s, cycles_to_queue(f, calls)) for f, s in zip(functions, samples)]
    chance = random.Random(0)
    for _ in range(rounds):
        chance.shuffle(order)  # who follows a copy waits for what that left to be written
        for f, s, cycles in order:
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(cycles)  # so that the calls queue up and the host's time does not show
            begin.record()
            for _ in range(calls):
                f()
            end.record()
            end.synchronize()
            s.append(begin.elapsed_time(end) * 1e3 / calls)
    return [statistics.median(s) for s in samples]


def run_bench(args, rows):
    over, start = clock(args.bench_seconds), time.monotonic()
    ratios = {}
    special = seconds_of_special(args)
    print(f"bench: {1e-12 / special:.2f} T exponentials a second", flush=True)
    every = (c._replace(name=f"{c.name} {dtype}") for dtype in args.bench_dtypes for c in cases(dtype, args.rows, args.columns, args.device))
    for index, case in enumerate(every):
        if index < args.skip or args.only not in case.name:
            continue
        if over():
            print("bench: out of time before", case.name, flush=True)
            break
        try:
            bench_one(args, rows, ratios, case, special)
        except Exception as error:
            traceback.print_exc(limit=-3)
            rows.add(part="bench", case=case.name, ok=False, why=f"{type(error).__name__}: {str(error)[:400]}")
            if goes_on_elsewhere(args, "bench", index, args.bench_seconds - (time.monotonic() - start)):
                break
        framefuse.reset()
        torch._dynamo.reset()
        if args.device == "cuda":
            torch.cuda.empty_cache()
    for rival in (*(f"framefuse {way}" for way in args.ways[1:]), *args.peers, "best peer", "floor", "copy", "eager"):
        found = [r[rival] for r in ratios.values() if rival in r]
        if found:
            mean = math.exp(statistics.fmean(math.log(r) for r in found))
            rows.add(part="bench", case=f"geometric mean of framefuse/{rival}", ok=True, ratio=round(mean, 4), cases=len(found))
            print(f"bench: framefuse/{rival} {mean:.3f} over {len(found)} cases", flush=True)


def seconds_of_special(args):
    """How long one exponential takes when all of the device computes nothing else."""

    def chain(n):
        def function(x):
            for _ in range(n):
                x = torch.exp(-x)
            return x

        return framefuse.compile(function, backend="fuse")

    x = torch.rand(args.rows, args.columns, device=args.device, dtype=torch.bfloat16)
    few, many = chain(8), chain(32)
    for f in (few, many):
        f(x), f(x)
    short, long = time_of(args.device, [lambda: few(x), lambda: many(x)], args.rounds)
    return (long - short) / 24 / x.numel() * 1e-6


MODES = {"inductor": "default", "max-autotune": "max-autotune-no-cudagraphs", "reduce-overhead": "reduce-overhead"}


def bench_one(args, rows, ratios, case, special):
    name, function, inputs, size = case[:4]
    calls, first_call, made, errors, texts = {}, {}, {}, {}, []
    for way, same in zip(args.ways, (function, lambda *inputs: function(*inputs))):  # a function's entries are one for all who compile it
        use(way)
        start = time.perf_counter()
        with framefuse.capture_logs("fusion", "perf") as records:
            compiled = framefuse.compile(same, backend="fuse")
            got = case.results(compiled)
        synchronize(args.device)
        first_call[way] = round((time.perf_counter() - start) * 1e3, 1)
        calls["framefuse" if way == args.ways[0] else f"framefuse {way}"] = lambda compiled=compiled: compiled(*inputs)
        kernels, reasons = kernels_in(records)
        made[way] = cubins_in(records)[1:]
        texts += [text for artifact, text in records if artifact == "perf" and text.startswith(("cubins", "by NVRTC", "all by NVRTC"))]
        why, errors[way] = case.check(got)
        del got
        if why:
            break
    source = torch.empty(size // 2, dtype=torch.uint8, device=args.device)
    target = torch.empty_like(source)
    rivals = {**calls, "eager": lambda: function(*inputs), "copy": lambda: target.copy_(source)}
    for peer in args.peers:
        torch._dynamo.reset()
        rivals[peer] = torch.compile(function, dynamic=False, mode=MODES[peer])
        rivals[peer] = lambda call=rivals[peer]: call(*inputs)
    with torch.no_grad():
        for f in rivals.values():
            f(), f()
        synchronize(args.device)
        times = dict(zip(rivals, time_of(args.device, list(rivals.values()), args.rounds)))
    floor = max(times["copy"], case.specials * special * 1e6)
    others = {**times, "floor": floor} | ({"best peer": min(times[peer] for peer in args.peers)} if args.peers else {})
    ratios[name] = {rival: times["framefuse"] / t for rival, t in others.items() if rival != "framefuse"}
    rows.add(part="bench", case=name, ok=not why, why=why, error=errors, kernels=kernels, not_fused=reasons[:3],
             us={k: round(t, 2) for k, t in times.items()}, floor_us=round(floor, 2), part_of_floor=round(floor / times["framefuse"], 3), gb_per_s=round(size / times["framefuse"] / 1e3, 1),
             copy_gb_per_s=round(size / times["copy"] / 1e3, 1), first_call_ms=first_call, of_ptx_and_nvrtc_programs=made,
             cubins=texts)
    print(f"bench: {name:32} " + "  ".join(f"{k} {t:.1f}" for k, t in times.items()) + f" us, floor {floor:.1f}, {kernels} kernels", flush=True)


# --- compile times


def making(way, results):
    """(what was compiled, new kernels) of what `results` compiles, with no cache."""
    framefuse.reset()
    use(way)
    with tempfile.TemporaryDirectory() as folder, framefuse.capture_logs("perf", "output_code") as records:
        os.environ["FRAMEFUSE_CACHE_DIR"] = folder
        results()
    return cubins_in(records), max(1, sum(text.count("__global__") for artifact, text in records if artifact == "output_code"))


def add_making(rows, ways, case, results, **more):
    """Adds a row for each way, of three times in turn; returns each way's milliseconds a kernel."""
    took = {way: [] for way in ways}
    for _ in range(3):
        for way in ways:
            took[way].append(making(way, results))
    for way, made in took.items():
        cubins, kernels = made[0]
        rows.add(part="compile", case=case, way=way, ok=True, kernels=kernels, of_ptx=cubins.ptx, nvrtc_programs=cubins.nvrtc,
                 ms=[round(cubins.ms, 1) for cubins, _ in made], **more)
    return {way: [cubins.ms / kernels for cubins, kernels in made] for way, made in took.items()}


def several(every):
    """All cases as one function: one graph."""

    def program(*inputs):
        results, first = [], 0
        for case in every:
            results.append(case.function(*inputs[first : first + len(case.inputs)]))
            first += len(case.inputs)
        return results

    return program, [t for case in every for t in case.inputs]


def run_compile(args, rows):
    """Sizes matter little for that: a 64th of the rows. What the shortest program takes comes first, and takes the process's first time."""
    least = Case("x + 1 of one number", lambda x: x + 1, [torch.zeros(1, device=args.device)], 8)
    every = list(cases(args.bench_dtypes[0], max(64, args.rows // 64), args.columns, args.device))
    add_making(rows, args.ways, least.name, lambda: least.results(framefuse.compile(least.function, backend="fuse")))
    each = {way: [] for way in args.ways}
    for case in every:
        for way, ms in add_making(rows, args.ways, case.name, lambda: case.results(framefuse.compile(case.function, backend="fuse"))).items():
            each[way] += ms
    for way, ms in each.items():
        rows.add(part="compile", case="a kernel of a small graph", way=way, ok=True, median_ms=round(statistics.median(ms), 1), least_ms=round(min(ms), 1),
                 most_ms=round(max(ms), 1))
    program, inputs = several([case for case in every if not case.written])
    add_making(rows, args.ways, "all kernels in a graph", lambda: framefuse.compile(program, backend="fuse")(*inputs), processors=len(os.sched_getaffinity(0)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--out", required=True)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["ptx"])
    parser.add_argument("--parts", nargs="+", default=["ops", "fuzz", "bench"])
    parser.add_argument("--dtypes", nargs="+", default=list(DTYPES))
    parser.add_argument("--ops-seconds", type=float, default=90)
    parser.add_argument("--graphs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=max(1, (multiprocessing.cpu_count() or 2) - 2))
    parser.add_argument("--fuzz-seconds", type=float, default=120)
    parser.add_argument("--rows", type=int, default=32768)
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--bench-dtypes", nargs="+", default=["bf16"])
    parser.add_argument("--bench-seconds", type=float, default=240)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--skip", type=int, default=0, help="leave out the first so many cases of the part")
    parser.add_argument("--only", default="")
    parser.add_argument("--peers", type=lambda text: [p for p in text.split(",") if p], default=["inductor"],
                        help=f"with commas between them, of {', '.join(MODES)}; or none")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    rows = Rows(args.out)
    device = torch.cuda.get_device_name() if args.device == "cuda" else "cpu"
    rows.add(part="machine", case=device, ok=True, torch=torch.__version__, python=sys.version.split()[0],
             framefuse=framefuse.__version__)
    use(args.ways[0])
    for part, run in (("ops", run_operators), ("bench", run_bench), ("compile", run_compile), ("fuzz", run_fuzz)):
        if part not in args.parts:
            continue
        start = time.monotonic()
        try:
            run(args, rows)
        except Exception:
            traceback.print_exc()
            rows.add(part=part, case="the part itself", ok=False, why=traceback.format_exc(limit=-3))
        print(f"{part}: {time.monotonic() - start:.0f} s", flush=True)
    print(json.dumps({"rows": rows.count, "failed": len(rows.failed), "first": rows.failed[:20]}))
    return 1 if rows.failed else 0


if __name__ == "__main__":
    sys.exit(main())
