"""How long capturing takes: framefuse and torch.compile's Dynamo in one process, from a warm interpreter with no compiled code.

Each rival's caches are dropped before each of its captures; its time is the first call's less a later call's, so that the work of the
operations themselves does not count; in CPU time of the calling thread, in which all rivals capture, so that other processes do not count
either. The operations run on that thread alone: one that waits for others' threads spins. Rivals: framefuse into the `aten` plan,
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


def first_call_seconds(reset, compile, function, call):
    """Seconds that the first call of a freshly compiled function takes longer than its third."""
    reset()
    compiled = compile(function)
    first = measure.seconds_of(lambda: call(compiled), time.thread_time)
    call(compiled)
    return max(first - measure.seconds_of(lambda: call(compiled), time.thread_time), 1e-7)


def inference(function, inputs):
    with torch.no_grad():
        return function(*inputs)


def training_step(function, inputs):
    """Runs forward and backward; returns the loss and the gradients of the module's parameters."""
    parameters = list(getattr(function, "parameters", list)())
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
        rival: lambda reset=reset, compile=compile: first_call_seconds(reset, compile, function, lambda f: run(f, inputs))
        for rival, (reset, compile) in rivals.items()
    }
    seconds = measure.interleaved(timed, parsed.rounds)
    change = {name: after[name] - before[name] for name in after}
    row = measure.row(name, seconds, "dynamo", "framefuse", ok and change["graphs"] > 0 and not change["eager_fallbacks"])
    row["fx_ratio"] = measure.significant(row["us"]["framefuse fx"] / row["us"]["dynamo"])
    row.update(graphs=change["graphs"], graph_breaks=change["graph_breaks"], capture_ms=round(change["capture_seconds"] * 1e3, 3))
    row.update(instructions=change["instructions"], operators=change["operators"])
    row["ns_per_instruction"] = round(change["evaluation_seconds"] * 1e9 / max(change["instructions"], 1), 1)  # operators included
    return row


def main():
    parsed = measure.arguments(__doc__.splitlines()[0], default_rounds=5, training=True)
    torch._dynamo.config.recompile_limit = 64
    torch.set_num_threads(1)
    rows = []
    for name, make in measure.chosen(models.CASES, parsed.cases).items():
        function, inputs = make(parsed.device)
        if isinstance(function, torch.nn.Module):
            function.train(parsed.train)
        elif parsed.train:
            continue
        rows.append(measure_case(name, function, inputs, parsed))
    return measure.report("Time to capture", rows, parsed, "dynamo", "framefuse", clock="CPU time of the calling thread")


if __name__ == "__main__":
    import torch._dynamo

    sys.exit(main())
