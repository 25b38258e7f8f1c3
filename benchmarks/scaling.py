"""What a job of many ranks pays at its start, simulated: when has the last rank all of its kernels?

    python benchmarks/scaling.py [--costs FILE] [--out FILE] [--ranks 8 64 1024] [--check]
    python benchmarks/scaling.py --measure --device cuda --out FILE     # the costs of a model, by one, two and four processes at once

A rank captures, and then needs each kernel's machine code. `alone`: it compiles all, on its share of the node's processors. `first job`: all look
into one empty folder of the disk cache at once. `later job`: the folder has all. `one file`: a process had written `save_cache`'s file; each
node fetches it once, by its hash, and its ranks read it from the node's memory. Times are seconds. `estimated` is the formula of `docs/scaling.md`,
`simulated` the run of processes on shared processors, file servers and links (SimPy). `--measure` lets processes start at the same
moment, each of which does that for real, and compares with what is simulated from one process alone; it needs no SimPy until then.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

WAYS = ("alone", "first job", "later job", "one file")


class Costs(NamedTuple):
    """Of one model on one rank, in seconds and bytes. `load` is not measured by itself: what `--measure` calls `capture` has it, too."""

    capture: float  # capture, passes and plans, and the first step: one processor
    kernels: int
    compile: float  # of one kernel: one processor
    load: float  # the check of an entry that was found: taken to be 10 us
    bytes: float  # of one kernel's entry


class Cluster(NamedTuple):
    ranks_a_node: int = 8
    processors: int = 128  # of a node
    servers: int = 16  # file servers, that answer in turn
    answer: float = 0.0005  # seconds until one has found a small file
    server_bytes: float = 1e9  # a second, of one server
    node_bytes: float = 3e9  # a second, into a node's memory


def threads_of(costs, cluster):
    """Kernels that a rank compiles at a time: no more than there are, on its share of the processors."""
    return max(1, min(costs.kernels, cluster.processors // cluster.ranks_a_node))


def reading(costs, cluster):
    return cluster.answer + costs.bytes / cluster.server_bytes


def estimated(way, costs, cluster, ranks):
    compiling = math.ceil(costs.kernels / threads_of(costs, cluster)) * costs.compile
    nodes = math.ceil(ranks / cluster.ranks_a_node)
    if way == "alone":
        return costs.capture + compiling
    if way == "first job":  # who looks finds nothing, since all look at once
        by_servers = ranks * costs.kernels / cluster.servers * cluster.answer + costs.compile
        return costs.capture + max(by_servers, compiling + math.ceil(costs.kernels / threads_of(costs, cluster)) * cluster.answer)
    if way == "later job":
        by_servers = ranks * costs.kernels / cluster.servers * reading(costs, cluster)
        by_rank = costs.kernels / threads_of(costs, cluster) * (reading(costs, cluster) + costs.load)
        return costs.capture + max(by_servers, by_rank)
    file = costs.kernels * costs.bytes
    by_servers = math.ceil(nodes / cluster.servers) * (cluster.answer + file / cluster.server_bytes)
    return costs.capture + by_servers + file / cluster.node_bytes + costs.kernels * costs.load / threads_of(costs, cluster)


class Job:
    """One start, as processes of a simulation. A processor and a file server serve one at a time."""

    def __init__(self, way, costs, cluster, ranks):
        import simpy

        self.env, self.way, self.costs, self.cluster = simpy.Environment(), way, costs, cluster
        self._new = lambda places: simpy.Resource(self.env, capacity=places)
        self.servers = self._new(cluster.servers)
        self.ended = 0.0
        self.events = [self.node(min(cluster.ranks_a_node, ranks - first)) for first in range(0, ranks, cluster.ranks_a_node)]

    def run(self):
        self.env.run()
        return self.ended

    def node(self, ranks):
        processors, fetched = self._new(self.cluster.processors), self.env.event()
        if self.way == "one file":
            self.env.process(self.fetch(fetched))
        return [self.env.process(self.rank(processors, fetched)) for _ in range(ranks)]

    def used(self, resource, seconds):
        with resource.request() as turn:
            yield turn
            yield self.env.timeout(seconds)

    def fetch(self, fetched):
        yield from self.used(self.servers, self.cluster.answer + self.costs.kernels * self.costs.bytes / self.cluster.server_bytes)
        yield self.env.timeout(self.costs.kernels * self.costs.bytes / self.cluster.node_bytes)
        fetched.succeed()

    def rank(self, processors, fetched):
        if self.way == "one file":
            yield fetched
        yield from self.used(processors, self.costs.capture)
        left = list(range(self.costs.kernels))
        yield self.env.all_of([self.env.process(self.thread(processors, left)) for _ in range(threads_of(self.costs, self.cluster))])
        self.ended = max(self.ended, self.env.now)

    def thread(self, processors, left):
        while left:
            left.pop()
            if self.way == "first job":
                yield from self.used(self.servers, self.cluster.answer)
            if self.way == "later job":
                yield from self.used(self.servers, reading(self.costs, self.cluster))
            yield from self.used(processors, self.costs.compile if self.way in ("alone", "first job") else self.costs.load)


def rows_of(costs, cluster, ranks):
    for n in ranks:
        for way in WAYS:
            guess, run = estimated(way, costs, cluster, n), Job(way, costs, cluster, n).run()
            yield {"ranks": n, "way": way, "estimated": round(guess, 4), "simulated": round(run, 4), "ok": abs(guess - run) <= 0.15 * run + 0.01}


# ---------------------------------------------------------------- measured


def child(arguments):
    """Waits for the moment, then starts a model as a rank does."""
    import device_models
    import torch

    device = f"cuda:{arguments.place % torch.cuda.device_count()}" if arguments.device == "cuda" else "cpu"
    if arguments.device == "cuda":
        torch.cuda.set_device(device)
    model, inputs = device_models.Models(arguments.device, arguments.small, True).gpt2()
    device_models.passes(model, model, inputs, True)
    import framefuse

    print("ready", flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    if arguments.child == "one file":
        framefuse.load_cache(arguments.file)
    compiled = framefuse.compile(model)
    device_models.passes(model, compiled, inputs, True)
    device_models.synchronize(arguments.device)
    seconds = time.perf_counter() - start
    counts = framefuse.statistics()
    entries = framefuse.save_cache(arguments.file).entries if arguments.child == "alone" else 0
    print(json.dumps({"seconds": seconds, "capture": counts["capture_seconds"], "entries": entries}))


def started(way, processes, device, small, folder, shared):
    """Starts of so many processes at once; seconds of each."""
    children = []
    for i in range(processes):
        cache = folder / (shared if way.endswith("job") else f"own-{time.time_ns()}")
        command = [sys.executable, __file__, "--child", way, "--place", str(i), "--device", device]
        command += ["--file", str(folder / "kernels.ffcache"), *(["--small"] if small else [])]
        environment = {**os.environ, "FRAMEFUSE_CACHE_DIR": str(cache)}
        pipe = subprocess.PIPE
        children.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment))
    for child in children:
        while child.stdout.readline() not in ("ready\n", ""):
            pass
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    return [json.loads(child.communicate()[0].splitlines()[-1]) for child in children]


def measured(device, small, counts):
    """Costs from one process alone, and the starts of several beside what is simulated from them."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        found = {(n, way): started(way, n, device, small, folder, f"shared-{n}") for n in counts for way in WAYS}
        size = (folder / "kernels.ffcache").stat().st_size
    one = {way: found[counts[0], way][0] for way in WAYS}
    kernels = max(one["alone"]["entries"], 1)
    processors = os.cpu_count() or 1
    threads = min(kernels, processors)
    warm = min(one["later job"]["seconds"], one["one file"]["seconds"])
    compiling = max(one["alone"]["seconds"] - warm, 0)
    entries = one["alone"]["entries"]
    costs = Costs(warm, entries, compiling * threads / kernels if entries else 0.0, 1e-5, size / kernels)
    machine = Cluster(ranks_a_node=max(counts), processors=processors, servers=processors, answer=2e-5)
    rows = []
    for (n, way), starts in found.items():
        cluster = machine._replace(ranks_a_node=n)
        last = max(start["seconds"] for start in starts)
        rows.append({"ranks": n, "way": way, "measured": round(last, 3), "simulated": round(Job(way, costs, cluster, n).run(), 3)})
    return costs, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--costs", type=pathlib.Path, help="a file of --measure")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 64, 256, 1024])
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4], help="at once; the first number is 1")
    parser.add_argument("--check", action="store_true", help="few ranks")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--small", action="store_true")
    for hidden in ("--child", "--file"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--place", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return child(arguments)
    result = {"title": "The start of a job"}
    if arguments.measure:
        costs, result["measured"] = measured(arguments.device, arguments.small, arguments.processes)
    elif arguments.costs:
        costs = Costs(**json.loads(arguments.costs.read_text())["costs"])
    else:
        costs = Costs(0.5, 120, 0.05, 2e-5, 2e4)
    result["costs"], result["cluster"] = costs._asdict(), Cluster()._asdict()
    result["rows"] = list(rows_of(costs, Cluster(), [8, 24] if arguments.check else arguments.ranks))
    print(json.dumps(result, indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    return None if all(row["ok"] for row in result["rows"]) else sys.exit("a formula and its simulation differ by more than 15 %")


if __name__ == "__main__":
    main()
