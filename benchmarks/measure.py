"""How every benchmark of ours measures: rivals in one process, interleaved and rotated; JSON rows; a summary that names the worst.

A *row* is one case: each rival's median in microseconds, the ratio to the reference rival, and whether it is `ok`: the results agreed
with eager's, and framefuse really ran a graph. Other times are not worth reading, so one row that is not `ok` fails the run.
"""

import argparse
import gc
import json
import math
import os
import pathlib
import platform
import statistics
import time

import torch

import framefuse


def arguments(description, default_rounds, training=False, options=None):
    """The command line that all benchmarks share; with `training` it has --train; `options(parser)` adds a benchmark's own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="only cases whose name contains one of these")
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--rounds", type=int, default=default_rounds, help="measurements of each rival")
    parser.add_argument("--check", action="store_true", help="does it run: one round, nothing is written")
    parser.add_argument("--out", type=pathlib.Path, help="write the rows to this JSON file")
    parser.add_argument("--machine", help="what to call this machine in that file, and what else ran on it")
    if options:
        options(parser)
    if training:
        parser.add_argument("--train", action="store_true", help="forward and backward")
    parsed = parser.parse_args()
    if parsed.check:
        parsed.rounds = 1
    return parsed


def chosen(cases, names):
    return {name: case for name, case in cases.items() if not names or any(part in name for part in names)}


def interleaved(rivals, rounds):
    """Call each rival once a round, every round in another order; returns name → list of what the calls returned."""
    names = list(rivals)
    results = {name: [] for name in names}
    for number in range(rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            results[name].append(rivals[name]())
    return results


def seconds_of(function, clock=time.perf_counter):
    gc.collect()
    start = clock()
    function()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return clock() - start


def seconds_per_call(function, least=0.02, clock=time.perf_counter):
    """Seconds of one call, from a loop that runs at least `least` seconds by that clock."""
    calls = 1
    while True:
        start = clock()
        for _ in range(calls):
            function()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        elapsed = clock() - start
        if elapsed >= least:
            return elapsed / calls
        calls = max(calls * 2, int(calls * least / max(elapsed, 1e-9)))


def fastest_call(function, least=0.02):
    """Seconds of the fastest of as many calls as take `least` seconds: on a shared machine, one whose threads all ran at once."""
    fastest, end = math.inf, time.perf_counter() + least
    while True:
        start = time.perf_counter()
        function()
        now = time.perf_counter()
        fastest = min(fastest, now - start)
        if now >= end:
            return fastest


def row(name, seconds, reference, ours, ok, typical=statistics.median, **more):
    """One case's row out of name → list of seconds, of which `typical` gives the one that counts."""
    medians = {rival: typical(times) * 1e6 for rival, times in seconds.items()}
    return {
        "case": name,
        "ok": ok,
        "us": {rival: round(median, 3) for rival, median in medians.items()},
        "spread": {rival: round(max(times) / min(times), 2) for rival, times in seconds.items()},
        "ratio": significant(medians[ours] / medians[reference]),
        **more,
    }


def significant(number):
    return float(f"{number:.4g}")


def report(title, rows, parsed, reference, ours, typical="median", **more):
    """Print the table and the summary, write the file if asked for, and return the exit status."""
    print(f"{title}: {ours} against {reference}, {typical} of {parsed.rounds}, {parsed.device}")
    for r in rows:
        times = "  ".join(f"{rival} {median:,.1f} us" for rival, median in r["us"].items())
        print(f"  {r['case']:32} {r['ratio']:8.4f}  {times}{'' if r['ok'] else '  NOT OK'}")
    print(f"  {json.dumps(summarize(rows))}")
    write(title, rows, parsed, reference, ours, **more)
    return 0 if rows and all(r["ok"] for r in rows) else 1


def write(title, rows, parsed, reference, ours, **more):
    """The file of rows, if one is asked for; also for a run that may be cut off, as its rows come."""
    if parsed.out and not parsed.check:
        document = {"title": title, "reference": reference, "ours": ours, **environment(parsed), **more, "summary": summarize(rows), "rows": rows}
        parsed.out.write_text(json.dumps(document, indent=1) + "\n")


def summarize(rows):
    if not rows:
        return {"cases": 0}
    worst = max(rows, key=lambda r: r["ratio"])
    return {
        "cases": len(rows),
        "wrong": sum(not r["ok"] for r in rows),
        "geomean_ratio": significant(math.exp(statistics.fmean(math.log(r["ratio"]) for r in rows))),
        "worst": worst["case"],
        "worst_ratio": worst["ratio"],
    }


def environment(parsed):
    device = torch.cuda.get_device_name() if parsed.device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "device": device,
        "machine": parsed.machine or f"{os.cpu_count()} CPU cores",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "framefuse": framefuse.__version__,
        "rounds": parsed.rounds,
    }


def same(a, b, tolerance=1e-5):
    """Whether two results agree: tensors closely, containers element by element."""
    if isinstance(a, torch.Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, tolerance, tolerance, equal_nan=True)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y, tolerance) for x, y in zip(a, b))
    return a == b
