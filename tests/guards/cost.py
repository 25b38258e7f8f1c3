"""What a check costs: python tests/guards/cost.py [--out FILE] (with FF_BUILD_DIR, as the tests).

Prints the best of many samples for a function with a tensor and a number, and for a synthetic tree of 430 modules with
364 parameters, guarded as a capture of its forward does: types, hooks, `training`, children and parameters of each module.
"""

import argparse
import inspect
import json
import pathlib
import platform
import random

import conftest  # noqa: F401  (finds the module)
import torch
from description import Guards

HOOKS = ["_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks"]


def make_tree(modules=430, parameters=364):
    class Block(torch.nn.Module):
        def forward(self, x):
            return x

    classes = [type(f"Block{i}", (Block,), {}) for i in range(8)]
    tree = [torch.nn.Module()]
    while len(tree) <= modules:
        child = random.choice(classes)()
        tree[(len(tree) - 1) // 6].add_module(f"m{len(tree)}", child)
        tree.append(child)
    for i in range(parameters):
        shape = (16, 8, 3, 3) if i % 2 else (16,)
        tree[1 + i * 7 % modules].register_parameter(f"p{i}", torch.nn.Parameter(torch.zeros(shape)))
    return tree[0]


def guard_module(g, source, module):
    g.type_is(source, type(module)).lacks_attr(source, "forward")
    kind = g.type(source)
    for name in ("__getattr__", "forward", "__call__"):
        found = inspect.getattr_static(type(module), name, None)
        g.type_lookup(kind, name, *([] if found is None else [found]))
    for name in HOOKS:
        hooks = g.attr(source, name)
        g.type_is(hooks, type(module.__dict__[name])).length(hooks, 0)
    g.identity(g.attr(source, "training"), True)
    parameters = g.attr(source, "_parameters")
    g.type_is(parameters, dict)
    for name, value in module._parameters.items():
        g.tensor(g.item(parameters, name), value)
    modules = g.attr(source, "_modules")
    g.type_is(modules, dict).keys(modules, module._modules)
    for name, child in module._modules.items():
        guard_module(g, g.item(modules, name), child)


def tiny(x, n):
    pass


def forward(self, x):
    pass


def measure():
    """Rows of {what, guards, us}: the best of many samples of one program each."""
    random.seed(0)
    x = torch.zeros(10, 10)
    g = Guards(tiny, "x", "n")
    g.tensor(g.local(0), x).equals(g.local(1), 3)
    yield "tensor and int", g.build(), tiny, (x, 3), 50000, None
    yield "the same and torch's state", g.global_state().build(), tiny, (x, 3), 50000, None
    root = make_tree()
    g = Guards(forward, "self", "x")
    self = g.local(0)
    g.tensor(g.local(1), x)
    guard_module(g, self, root)
    g.resolve(*g.used())
    program = g.build()
    for what, touched, count in (
        ("430 modules, no dict of the process changed", None, 2000),
        ("430 modules, some other dict changed", {}, 10000),
        ("430 modules, the root's dict changed", root.__dict__, 10000),
    ):
        yield what, program, forward, (root, x), count, touched


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, help="write the rows to this JSON file")
    parser.add_argument("--machine", help="what to call this machine in that file, and what else ran on it")
    parsed = parser.parse_args()
    rows = []
    for what, program, function, arguments, count, touched in measure():
        microseconds = program.nanoseconds(function, arguments, count, touched) / 1000
        rows.append({"case": what, "guards": program.guard_count(), "us": round(microseconds, 3)})
        print(f"{what}, {program.guard_count()} guards: {microseconds:.2f} us")
    if parsed.out:
        versions = {"python": platform.python_version(), "torch": torch.__version__, "machine": parsed.machine}
        parsed.out.write_text(json.dumps({"title": "Cost of a guard check", **versions, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
