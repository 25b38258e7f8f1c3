"""Fused kernels on the CPU against Inductor's and eager: every kernel of kernel_cases.py, in fp32 and bf16, with tensors that fit the
L2 cache and tensors of 16 MB, on one thread and on two.

    python benchmarks/kernels.py [--check] [--out FILE] [--threads 1 2] [--dtypes f32 bf16] [--sizes 262144 16777216] [case …]

The reference is what Inductor made, called without Dynamo's guards; framefuse's calls are whole calls, guards included. A row is ok if
the results are as near to fp64 as eager's allow; `aten` names what did not run in generated kernels. `compile_ms_a_kernel`: processor time
for the machine code. One thread is measured by the processor's time, several by the fastest call on the wall clock. `copy` is a copy of as
many bytes as the case must read and write: no kernel of large tensors is much faster. Freed memory stays with the process, so that no
rival's time is that of the operating system handing out zeroed pages.
"""

import ctypes
import statistics
import sys
import time

import kernel_cases
import measure
import torch

import framefuse

COLUMNS = 1024
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of malloc.h


def processor_time(call):
    return measure.seconds_per_call(call, 0.005, time.thread_time)


# One thread: the processor's time, which other work on the machine does not add to. Several: the fastest call by the wall clock.
MEASURES = {False: (processor_time, statistics.median, "processor time, median"), True: (measure.fastest_call, min, "wall clock, fastest call")}


def options(parser):
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--dtypes", nargs="+", default=["f32", "bf16"])
    parser.add_argument("--sizes", type=int, nargs="+", default=[256 << 10, 16 << 20], help="bytes of one tensor")
    parser.add_argument("--peer", action="store_true", default=True)
    parser.add_argument("--no-peer", dest="peer", action="store_false", help="against eager only")
    parser.add_argument("--note", default="", help="kept in the file of rows")


def inductor(function, inputs):
    """Inductor's compiled graph, to be called with the graph's inputs alone; None where Dynamo reordered them."""
    from torch._inductor.compile_fx import compile_fx

    made = []

    def backend(graph, examples):
        made.append((compile_fx(graph, examples, config_patches={"cpp.threads": torch.get_num_threads()}), [id(t) for t in examples]))
        return made[-1][0]

    torch._dynamo.reset()
    whole = torch.compile(function, backend=backend, dynamic=False)
    whole(*inputs)
    order = {id(t): t for t in inputs}
    (compiled, ids), = made
    arguments = [order[i] for i in ids]
    return whole, lambda: compiled(*arguments)


def compiled_by_us(case):
    """(compiled function, results, groups as logged, milliseconds for each kernel's machine code)"""
    framefuse.reset()
    with framefuse.capture_logs("fusion", "perf") as records:
        compiled = framefuse.compile(case.function, backend="fuse")
        got = case.results(compiled)
    groups = [text for artifact, text in records if artifact == "fusion"]
    times = [float(text.split()[-2]) for artifact, text in records if artifact == "perf" and text.startswith("machine code")]
    return compiled, got, groups, times


def rows_of(case, name, parsed):
    ours, got, groups, times = compiled_by_us(case)
    why, error = case.check(got)
    source = torch.zeros(case.size // 2, dtype=torch.uint8)
    target = torch.empty_like(source)
    for threads in parsed.threads:
        torch.set_num_threads(threads)
        rivals = {"framefuse": lambda: ours(*case.inputs), "eager": lambda: case.function(*case.inputs), "copy": lambda: target.copy_(source)}
        if parsed.peer:  # what Inductor makes is for a number of threads
            whole, kernel = inductor(case.function, case.inputs)
            rivals |= {"inductor": kernel, "torch.compile": lambda: whole(*case.inputs)}
        for call in rivals.values():
            call(), call()
        timer, typical, measured = MEASURES[threads > 1]
        timed = {rival: lambda call=call: timer(call) for rival, call in rivals.items()}
        seconds = measure.interleaved(timed, parsed.rounds)
        yield measure.row(
            f"{name}, {threads} thread{'s' if threads > 1 else ''}", seconds, reference(parsed), "framefuse", not why, typical,
            measured=measured, why=why, error=measure.significant(error), groups=sum(not g.startswith("ATen: ") for g in groups), aten=[g[6:] for g in groups if g.startswith("ATen: ")],
            kernels_compiled=len(times), compile_ms_a_kernel=round(sum(times) / max(len(times), 1), 3),
        )


def keep_freed_memory():
    malloc = ctypes.CDLL(None)
    if not (malloc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1) and malloc.mallopt(M_MMAP_MAX, 0)):
        raise OSError("mallopt")


def reference(parsed):
    return "inductor" if parsed.peer else "eager"


def main():
    parsed = measure.arguments(__doc__, 15, options=options)
    keep_freed_memory()
    if parsed.check:
        parsed.peer, parsed.sizes, parsed.threads = False, parsed.sizes[:1], [1]
    rows = []
    for dtype in parsed.dtypes:
        for size in parsed.sizes:
            count = size // kernel_cases.DTYPES[dtype].itemsize
            for case in kernel_cases.cases(dtype, count // COLUMNS, COLUMNS, "cpu"):
                name = f"{case.name} {dtype} {size >> 10} KB"
                if parsed.cases and not any(part in name for part in parsed.cases):
                    continue
                with torch.no_grad():
                    for row in rows_of(case, name, parsed):
                        rows.append(row)
                        print(f"{row['case']:52} {row['ratio']:7.3f} {row['us']} {row['why']}", file=sys.stderr, flush=True)
                        measure.write("kernels", rows, parsed, reference(parsed), "framefuse", note=parsed.note)
    return measure.report("kernels", rows, parsed, reference(parsed), "framefuse", note=parsed.note)


if __name__ == "__main__":
    sys.exit(main())
