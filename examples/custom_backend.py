"""A backend of one's own in Python: it gets each captured graph as an `fx.GraphModule` and returns what runs it.

`timed` runs a graph node by node and adds up the time of each operator, a small profiler. `without_dropout` changes the
graph before it runs: dropout layers are left out. A backend may do what it likes; framefuse checks that the module which it
is given computes what the program does, and an exception of a backend names it.

    python examples/custom_backend.py
"""

import collections
import sys
import time

import torch
from torch import fx, nn

import framefuse

seconds = collections.Counter()


class Timed(fx.Interpreter):
    """Runs the graph in Python, and notes the seconds of each operator in `seconds`."""

    def run_node(self, n):
        start = time.perf_counter()
        result = super().run_node(n)
        seconds[str(n.target)] += time.perf_counter() - start
        return result


def timed(module: fx.GraphModule, example_inputs):
    return Timed(module).run


def without_dropout(module: fx.GraphModule, example_inputs):
    for node in list(module.graph.nodes):
        if node.op == "call_function" and "dropout" in str(node.target):
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
    module.recompile()
    return module.forward


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.5), nn.Linear(256, 10))
    x = torch.randn(32, 64)

    framefuse.register_backend(timed, name="timed")  # a name is optional: compile(backend=timed) does as well
    compiled = framefuse.compile(model.eval(), backend="timed")
    for _ in range(10):
        result = compiled(x)
    print("seconds of 10 calls, by operator:")
    for name, value in seconds.most_common():
        print(f"  {value:.5f}  {name}")
    wrong = [] if torch.allclose(result, model(x)) else ["the timed model's result differs"]

    with torch.no_grad():
        dropped = framefuse.compile(model.train(), backend=without_dropout)(x)
        if not torch.allclose(dropped, model.eval()(x)):
            wrong.append("the model in training mode without its dropout is not the model in evaluation mode")
    for message in wrong:
        print(f"WRONG: {message}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
