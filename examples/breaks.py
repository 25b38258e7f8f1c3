"""A small program with usual mistakes: what framefuse says of each, a report as one page, and the program without them.

`step` has four places that end a graph or have it captured again: a print, a branch on a tensor's value, a list that grows,
and a file that is written. `mended` does the same work in one graph. Both are checked against plain Python.

    python examples/breaks.py [--report breaks.html]
"""

import argparse
import pathlib
import sys
import tempfile

import torch

import framefuse

LOG = pathlib.Path(tempfile.gettempdir()) / "framefuse_example.log"


def step(x, weight, history):
    y = x @ weight
    print("mean", y.mean())  # text of a value: the graph has to run first
    if y.sum() > 0:  # the values decide which code is next
        y = y * 2
    else:
        y = y - 1
    history.append(y.mean())  # a list that grows: each length is another program, until lengths are symbolic
    with open(LOG, "a") as file:  # code in C that framefuse does not know
        file.write("a step\n")
    return torch.relu(y) / len(history)


def mended(x, weight, total, count):
    """The values stay in the graph; what is printed and written is done by the caller, behind the call."""
    y = x @ weight
    y = torch.where(y.sum() > 0, y * 2, y - 1)
    total = total + y.mean()
    return torch.relu(y) / count, total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", help="an HTML file for the report")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    x, weight = torch.randn(8, 16), torch.randn(16, 16)

    report = framefuse.explain(step)(x, weight, [])
    print(report)
    if arguments.report:
        report.html(arguments.report)
        print(f"the report is in {arguments.report}")

    better = framefuse.explain(mended)(x, weight, torch.zeros(()), torch.ones(()))
    print(f"mended: {better.graph_count} graph, {better.graph_break_count} breaks")

    compiled_step, compiled_mended = framefuse.compile(step), framefuse.compile(mended, fullgraph=True)
    history, eager_history = [], []
    total = torch.zeros(())
    wrong = []
    for n in range(1, 6):
        eager = step(x * n, weight, eager_history)
        result, total = compiled_mended(x * n, weight, total, torch.tensor(float(n)))
        if not torch.allclose(compiled_step(x * n, weight, history), eager) or not torch.allclose(result, eager):
            wrong.append(f"call {n} differs from plain Python")
    LOG.unlink()
    if better.graph_break_count or better.graph_count != 1:
        wrong.append("the mended program is not one graph")
    for message in wrong:
        print(f"WRONG: {message}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
