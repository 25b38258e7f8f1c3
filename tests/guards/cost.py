"""What a check costs: python tests/guards/cost.py (with FF_BUILD_DIR, as the tests).

Prints the best of many samples for a function with a tensor and a number, and for a synthetic tree of 430 modules with
364 parameters, guarded as a capture of its forward does: types, hooks, `training`, children and parameters of each module.
"""

import inspect
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


def main():
    random.seed(0)
    x = torch.zeros(10, 10)
    g = Guards(tiny, "x", "n")
    g.tensor(g.local(0), x).equals(g.local(1), 3)
    print(f"tensor and int: {g.build().nanoseconds(tiny, (x, 3), 50000, None):.0f} ns")
    print(f"the same and torch's state: {g.global_state().build().nanoseconds(tiny, (x, 3), 50000, None):.0f} ns")
    root = make_tree()
    g = Guards(forward, "self", "x")
    self = g.local(0)
    g.tensor(g.local(1), x)
    guard_module(g, self, root)
    g.resolve(*g.used())
    program = g.build()
    print(f"module tree, {program.guard_count()} guards over {len(g.sources)} sources:")
    for what, touched, count in (
        ("no dict of the process changed", None, 2000),
        ("some other dict changed", {}, 10000),
        ("the root's dict changed", root.__dict__, 10000),
    ):
        print(f"  {what}: {program.nanoseconds(forward, (root, x), count, touched) / 1000:.1f} us")


if __name__ == "__main__":
    main()
