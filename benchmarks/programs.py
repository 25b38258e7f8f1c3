"""Small typical programs of packages in steady state: eager, framefuse and torch.compile in one process and in turns.

Cases are those of program_cases.py whose package is installed. A row is ok if the results are eager's; it says what a call still does:
`regions` that were entered, `captures`, `breaks`, and `fallbacks`, the frames that ran as Python. The time is that of the fastest call.

    python benchmarks/programs.py [--no-peer] [--fx] [--out FILE] [case …]
"""

import sys
import time
import warnings

import measure
import program_cases
import torch

import framefuse

TOLERANCE = 1e-3
WARM_CALLS, WARM_SECONDS = 80, 5.0


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value.detach().clone()]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in tensors_of(v)] if isinstance(value, (list, tuple)) else []


def warm(rival, arguments):
    """What changes from call to call is found out, and limits are met."""
    end = time.perf_counter() + WARM_SECONDS
    for number in range(WARM_CALLS):
        rival(*arguments)
        if number > 4 and time.perf_counter() > end:
            return


def work_of(rival, arguments):
    """What one call of ours still does."""
    before = framefuse.statistics()
    rival(*arguments)
    after = framefuse.statistics()
    names = {"regions": "hits", "captures": "captures", "breaks": "graph_breaks", "fallbacks": "eager_fallbacks"}
    return {name: int(after[key] - before[key]) for name, key in names.items()}


def rivals_of(program, parsed):
    rivals = {"eager": program, "framefuse": framefuse.compile(program)}
    if parsed.fx:
        rivals["framefuse fx"] = framefuse.compile(program, backend=lambda gm, inputs: gm.forward)
    if not parsed.no_peer:
        rivals["torch.compile"] = torch.compile(program)
    return rivals


def result_of(rival, arguments):
    torch.manual_seed(1)
    return tensors_of(rival(*arguments))


def measure_case(name, made, parsed):
    program, arguments = made
    framefuse.reset()
    torch._dynamo.reset()
    program(*arguments)  # what packages cache
    rivals, expected, agrees, work = rivals_of(program, parsed), result_of(program, arguments), {}, {}
    for rival, call in rivals.items():
        first = result_of(call, arguments)
        warm(call, arguments)
        agrees[rival] = all(measure.same(got, expected, TOLERANCE) for got in (first, result_of(call, arguments)))
        if rival.startswith("framefuse"):
            work[rival] = work_of(call, arguments)
    times = measure.interleaved({r: lambda call=c: measure.fastest_call(lambda: call(*arguments), least=0.1) for r, c in rivals.items()}, parsed.rounds)
    ok = all(right for rival, right in agrees.items() if rival.startswith("framefuse"))
    return measure.row(name, times, "eager", "framefuse", ok, typical=min, agrees=agrees, work=work)


def main():
    def options(parser):
        parser.add_argument("--no-peer", action="store_true", help="without torch.compile")
        parser.add_argument("--fx", action="store_true", help="also by an FX backend that calls the graph")

    parsed = measure.arguments(__doc__.splitlines()[0], default_rounds=9, options=options)
    warnings.simplefilter("ignore")
    rows = []
    for name, make in measure.chosen(program_cases.CASES, parsed.cases).items():
        torch.manual_seed(0)
        try:
            made = make()
        except ImportError as missing:
            print(f"{name}: left out, {missing}", flush=True)
            continue
        rows.append(measure_case(name, made, parsed))
        print(name, {k: rows[-1][k] for k in ("ratio", "us", "work", "ok")}, flush=True)
        measure.write("Programs", rows, parsed, "eager", "framefuse")
    return measure.report("Programs", rows, parsed, "eager", "framefuse", typical="fastest")


if __name__ == "__main__":
    sys.exit(main())
