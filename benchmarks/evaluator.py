"""What the evaluator costs an instruction, and recording an operator: framefuse and torch.compile's Dynamo on one program each, in one process.

The programs are long so that nothing else counts: loops of plain Python around one tensor operation (`ns_per_instruction`: framefuse's
time between the first and the last instruction of the attempt, journals on, by the instructions in it, that of a calibration with a
hundredth of the loop taken off), and chains of tensor operations (`us_per_operator`, likewise: instructions, shape and node of each).
`us` are whole first calls, guards and the plan included, in CPU time of the calling thread; Dynamo's is its capture with backend "eager".

    python benchmarks/evaluator.py [--out FILE] [--check] [case …]
"""

import sys
import time

import measure
import torch

import framefuse

STEPS = 2000


class Counter:
    def __init__(self):
        self.n = 0

    def add(self, k):
        self.n += k
        return self.n


def arithmetic(x, steps):
    a = b = 1
    for i in range(steps):
        a = (a * 3 + i) % 1013
        b ^= a if a > b else i
    return x * b


def containers(x, steps):
    items, table = [], {}
    for i in range(steps):
        items.append(i)
        table[i % 7] = items[-1]
    return x * len(items) + table[3]


def calls_and_attributes(x, steps):
    counter = Counter()
    for i in range(steps):
        counter.add(i)
    return x * (counter.n % 5)


def texts(x, steps):
    size = 0
    for i in range(steps):
        size += len(f"{i}:{i % 3}".upper())
    return x * size


def unary_chain(x, steps):
    for _ in range(steps):
        x = x.sin()
    return x


def binary_chain(x, steps):
    y = x
    for _ in range(steps):
        y = y + x
    return y


def views_and_products(x, steps):
    x = x.reshape(2, 2)
    for _ in range(steps // 2):
        x = torch.mm(x.t(), x) * 0.5
    return x


# name: program, steps, whether it is about operators
CASES = {
    "arithmetic": (arithmetic, STEPS, False),
    "containers": (containers, STEPS, False),
    "calls and attributes": (calls_and_attributes, STEPS, False),
    "texts": (texts, STEPS, False),
    "unary chain": (unary_chain, 200, True),
    "binary chain": (binary_chain, 200, True),
    "views and products": (views_and_products, 200, True),
}


def framefuse_capture(function, x, steps):
    """Seconds of a first call, and what the statistics say of its attempt."""
    framefuse.reset()
    compiled = framefuse.compile(function, backend="aten")
    before = framefuse.statistics()
    seconds = measure.seconds_of(lambda: compiled(x, steps), time.thread_time)
    after = framefuse.statistics()
    return seconds, {name: after[name] - before[name] for name in after}


def dynamo_capture(function, x, steps):
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="eager")
    return measure.seconds_of(lambda: compiled(x, steps), time.thread_time), None


def marginal(long, short, what, scale):
    """What one more costs: of the fastest long and the fastest short attempt."""
    fastest = [min(changes, key=lambda change: change["evaluation_seconds"]) for changes in (long, short)]
    more = fastest[0][what] - fastest[1][what]
    return measure.significant((fastest[0]["evaluation_seconds"] - fastest[1]["evaluation_seconds"]) * scale / more)


def measure_case(name, case, parsed):
    function, steps, operators = case
    x = torch.linspace(0.1, 0.4, 4)
    expected = function(x, steps)
    framefuse.reset()
    compiled = framefuse.compile(function, backend="aten", fullgraph=True)
    ok = measure.same(compiled(x, steps), expected, 1e-5)
    rivals = {
        "framefuse": lambda: framefuse_capture(function, x, steps),
        "framefuse, short": lambda: framefuse_capture(function, x, steps // 100),
        "dynamo": lambda: dynamo_capture(function, x, steps),
    }
    rounds = measure.interleaved(rivals, parsed.rounds)
    seconds = {rival: [result[0] for result in rounds[rival]] for rival in ("framefuse", "dynamo")}
    row = measure.row(name, seconds, "dynamo", "framefuse", ok, typical=min)
    long, short = ([change for _, change in rounds[rival]] for rival in ("framefuse", "framefuse, short"))
    row.update(instructions=long[0]["instructions"], operators=long[0]["operators"])
    if operators:
        row["us_per_operator"] = marginal(long, short, "operators", 1e6)
    else:
        row["ns_per_instruction"] = marginal(long, short, "instructions", 1e9)
    row["ok"] = ok and all(change["graphs"] == 1 and not change["eager_fallbacks"] for change in long)
    return row


def main():
    parsed = measure.arguments(__doc__.splitlines()[0], default_rounds=7)
    torch._dynamo.config.recompile_limit = 64
    torch.set_num_threads(1)
    rows = [measure_case(name, case, parsed) for name, case in measure.chosen(CASES, parsed.cases).items()]
    for row in rows:
        print({name: row[name] for name in ("case", "ns_per_instruction", "us_per_operator") if name in row})
    return measure.report("Evaluator", rows, parsed, "dynamo", "framefuse", "fastest", clock="CPU time of the calling thread")


if __name__ == "__main__":
    sys.exit(main())
