"""How long capturing takes: framefuse and torch.compile's Dynamo in one process, from a warm interpreter with no compiled code.

Each rival's caches are dropped before each of its captures; its time is the first call's less a later call's, so that the work of the
operations themselves does not count; in CPU time of the calling thread, in which all rivals capture, so that other processes do not count
either. A model's operations can take longer than its capture and vary by more: of both calls the fastest of all rounds counts, and
framefuse's calls, which are short, are made several times a round. The operations run on that thread alone: one that waits for others'
threads spins. Rivals: framefuse into the `aten` plan,
framefuse with an FX backend, and torch.compile with backend "eager" (Dynamo alone). With --train, loss and gradients are compared as
well, and the peer is "aot_eager", which captures backward too.

    python benchmarks/capture.py [--train] [--out FILE] [--check] [case …]
"""

import copy
import sys
import time

import measure
import models
import torch

import framefuse


def run_eagerly(gm, inputs):
    return gm.forward


def rivals_for(training):
    return {
        "framefuse": (framefuse.reset, lambda f: framefuse.compile(f, backend="aten")),
        "framefuse fx": (framefuse.reset, lambda f: framefuse.compile(f, backend=run_eagerly)),
        "dynamo": (torch._dynamo.reset, lambda f: torch.compile(f, backend="aot_eager" if training else "eager")),
    }


# Measurements of a rival in one round.
REPEATS = {"framefuse": 5, "framefuse fx": 3, "dynamo": 1}


def first_and_later_seconds(reset, compile, function, call, repeats):
    """Seconds of first calls of a freshly compiled function, and as many of later calls, of which there are two after each."""
    first, later = [], []
    for _ in range(repeats):
        reset()
        compiled = compile(function)
        first.append(measure.seconds_of(lambda: call(compiled), time.thread_time))
        call(compiled)
        later += [measure.seconds_of(lambda: call(compiled), time.thread_time) for _ in range(2)]
    return first, later


def capture_seconds(rounds):
    """The fastest first call less the fastest later call."""
    firsts, laters = zip(*rounds)
    return min(t for times in firsts for t in times) - min(t for times in laters for t in times)


def inference(function, inputs):
    with torch.no_grad():
        return function(*inputs)


def training_step(function, inputs):
    """Runs forward and backward; returns the loss and the gradients of the module's parameters, or of a function's inputs."""
    parameters = list(getattr(function, "parameters", lambda: inputs)())
    for parameter in parameters:
        parameter.grad = None
    loss = function(*inputs).float().square().mean()
    loss.backward()
    return [loss.detach(), *(parameter.grad for parameter in parameters if parameter.grad is not None)]


def result_is_right(reset, compile, function, inputs, run):
    """Whether the compiled function gives eager's answer; both start from equal state."""
    state = copy.deepcopy(function.state_dict()) if isinstance(function, torch.nn.Module) else None

    def once(f):
        if state is not None:
            function.load_state_dict(state)
        torch.manual_seed(0)
        return copy.deepcopy(run(f, inputs))

    expected = once(function)
    reset()
    return measure.same(once(compile(function)), expected, 1e-4)


def measure_case(name, function, inputs, parsed):
    rivals = rivals_for(parsed.train)
    run = training_step if parsed.train else inference
    ok = all(result_is_right(reset, compile, function, inputs, run) for reset, compile in rivals.values())
    before = framefuse.statistics()
    framefuse.reset()
    run(framefuse.compile(function, backend="aten"), inputs)
    after = framefuse.statistics()
    timed = {
        rival: lambda rival=rival, reset=reset, compile=compile: first_and_later_seconds(
            reset, compile, function, lambda f: run(f, inputs), REPEATS[rival] if parsed.rounds > 1 else 1
        )
        for rival, (reset, compile) in rivals.items()
    }
    rounds = measure.interleaved(timed, parsed.rounds)
    seconds = {rival: [capture_seconds(results)] for rival, results in rounds.items()}
    change = {name: after[name] - before[name] for name in after}
    ok = ok and change["graphs"] > 0 and not change["eager_fallbacks"] and all(times[0] > 0 for times in seconds.values())
    row = measure.row(name, seconds, "dynamo", "framefuse", ok)
    del row["spread"]
    row["later_call_us"] = {rival: measure.significant(min(sum((r[1] for r in results), [])) * 1e6) for rival, results in rounds.items()}
    row["fx_ratio"] = measure.significant(row["us"]["framefuse fx"] / row["us"]["dynamo"])
    row.update(graphs=change["graphs"], graph_breaks=change["graph_breaks"], capture_ms=round(change["capture_seconds"] * 1e3, 3))
    row.update(instructions=change["instructions"], operators=change["operators"])
    row["ns_per_instruction"] = round(change["evaluation_seconds"] * 1e9 / max(change["instructions"], 1), 1)  # operators included
    return row


def main():
    parsed = measure.arguments(__doc__.splitlines()[0], default_rounds=7, training=True)
    torch._dynamo.config.recompile_limit = 64
    torch.set_num_threads(1)
    rows = []
    for name, make in measure.chosen(models.CASES, parsed.cases).items():
        function, inputs = make(parsed.device)
        if isinstance(function, torch.nn.Module):
            function.train(parsed.train)
        elif parsed.train:
            inputs = tuple(t.requires_grad_() for t in inputs)
        rows.append(measure_case(name, function, inputs, parsed))
    return measure.report("Time to capture", rows, parsed, "dynamo", "framefuse", "fastest", clock="CPU time of the calling thread")


if __name__ == "__main__":
    import torch._dynamo

    sys.exit(main())
