"""torch.profiler sees regions and kernels by name, and nothing is made for it while it is off."""

import framefuse
import torch
from torch.profiler import profile, record_function


def names(events):
    return [event.name for event in sorted(events, key=lambda event: event.time_range.start)]


def inside(events, outer, inner):
    (around,) = [event.time_range for event in events if event.name == outer]
    return [e.name for e in events if e.name == inner and around.start <= e.time_range.start and e.time_range.end <= around.end]


def f(x):
    y = torch.nn.functional.gelu(x) * 2
    return torch.tanh(y @ y.t()).sum(1)


def test_a_region_and_its_kernels():
    compiled = framefuse.compile(f, backend="fuse")
    x = torch.randn(32, 32)
    compiled(x)
    with profile() as profiled:
        compiled(x)
    events = profiled.events()
    seen = [name for name in names(events) if name.startswith(("ff:", "aten::mm", "framefuse"))]
    assert seen[0].startswith("framefuse region [") and seen[1:] == ["ff: gelu, mul", "aten::mm", "ff: tanh, sum"]
    for name in seen[1:]:
        assert inside(events, seen[0], name)


def test_kernels_of_a_backward():
    compiled = framefuse.compile(lambda x: torch.nn.functional.gelu(x).sum(), backend="fuse")
    x = torch.randn(32, 32, requires_grad=True)
    compiled(x).backward()
    with profile() as profiled:
        compiled(x).backward()
    assert inside(profiled.events(), "CompiledFunctionBackward", "ff: gelu_backward")


def test_one_kernel_over_many_tensors():
    compiled = framefuse.compile(lambda *xs: [x.sin() * 2 for x in xs], backend="fuse")
    xs = [torch.randn(7 + n) for n in range(4)]
    compiled(*xs)
    with profile() as profiled:
        compiled(*xs)
    assert [name for name in names(profiled.events()) if name.startswith("ff:")] == ["ff: sin, mul"]


def test_a_long_name_is_cut():
    def long(x):
        for function in (torch.sin, torch.cos, torch.exp, torch.tanh, torch.sigmoid, torch.relu, torch.abs, torch.neg, torch.sqrt, torch.floor):
            x = function(x)
        return x

    compiled = framefuse.compile(long, backend="fuse")
    compiled(torch.ones(4))
    with profile() as profiled:
        compiled(torch.ones(4))
    assert "ff: sin, cos, exp, tanh, sigmoid, relu, abs, neg and 2 more" in names(profiled.events())


def test_ranges_of_the_program():
    @framefuse.disable
    def apart(x):
        with record_function("apart"):
            return x + 1

    def g(x):
        with record_function("within"):
            y = x.sin() + 1
        return apart(y) * 2

    compiled = framefuse.compile(g, backend="fuse")
    compiled(torch.ones(4))
    with profile() as profiled, record_function("around"):
        compiled(torch.ones(4))
    events = profiled.events()
    seen = [name for name in names(events) if name in ("around", "within", "apart") or name.startswith("ff:")]
    assert seen == ["around", "ff: sin, add", "apart", "ff: mul"]
    assert inside(events, "around", "apart")
