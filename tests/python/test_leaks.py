"""1,000 calls of compiled code leave nothing behind: no Python object, no memory of C++, no fake tensor."""

import ctypes
import gc
import sys

import pytest
import torch

import framefuse

CALLS = 1000
WARM_UP = 100
_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()


class _Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


def bytes_in_use():
    """Bytes that malloc has handed out, of all arenas and of mapped blocks; 0 where this C library cannot tell."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return 0
    ask.restype = _Mallinfo2
    info = ask()
    return info.uordblks + info.hblkhd


def left_behind(call):
    """Growth over 1,000 calls: Python's memory blocks, bytes of malloc. The least of three rounds: what leaks, leaks in each."""
    for _ in range(WARM_UP):
        call()
    grown = []
    for _ in range(3):
        gc.collect()
        blocks, size = sys.getallocatedblocks(), bytes_in_use()
        for _ in range(CALLS):
            call()
        gc.collect()
        grown.append((sys.getallocatedblocks() - blocks, bytes_in_use() - size))
    return min(b for b, _ in grown), min(s for _, s in grown)


def whole_graph(backend):
    f = framefuse.compile(lambda x, y: torch.sin(x) + torch.cos(y), backend=backend)
    x, y = torch.randn(10, 10), torch.randn(10, 10)
    return lambda: f(x, y)


def training_step(backend):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.GELU(), torch.nn.Linear(8, 3))
    compiled = framefuse.compile(model, backend=backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, target = torch.randn(4, 8), torch.tensor([0, 1, 2, 0])

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(compiled(x), target).backward()
        optimizer.step()

    return step


def forward_without_backward(backend):
    """The autograd node dies with its saved tensors."""
    f = framefuse.compile(lambda x: (x.exp() * x).sum(), backend=backend)
    x = torch.randn(64, requires_grad=True)
    return lambda: f(x)


def breaks_in_a_loop(backend):
    def f(x):
        log = []
        for i in range(3):
            x = x * 2
            log.append(i)
            framefuse.graph_break()
        return x, log

    compiled = framefuse.compile(f, backend=backend)
    x = torch.randn(4)
    return lambda: compiled(x)


def break_in_an_inlined_frame(backend):
    def inner(x, box):
        y = x + 1
        framefuse.graph_break()
        box["last"] = y
        return y

    def f(x):
        box = {}
        return inner(x * 2, box) + box["last"]

    compiled = framefuse.compile(f, backend=backend)
    x = torch.randn(4, requires_grad=True)
    return lambda: compiled(x).sum().backward()


def exceptions(backend):
    def f(x, flag):
        y = x * 2
        if flag:
            raise ValueError([y])
        return y

    compiled = framefuse.compile(f, backend=backend)
    x = torch.randn(4)

    def call():
        compiled(x, False)
        try:
            compiled(x, True)
        except ValueError:
            pass

    return call


def objects_and_closures(backend):
    class Point:
        def __init__(self, a, b):
            self.a, self.b = a, b

    def f(x):
        points = [Point(x, i) for i in range(3)]
        scale = lambda p: p.a * p.b  # noqa: E731
        return {p.b: scale(p) for p in points}, points

    compiled = framefuse.compile(f, backend=backend)
    x = torch.randn(4)
    return lambda: compiled(x)


def state_of_a_module(backend):
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(4))
            self.last = None

        def forward(self, x):
            self.total = self.total * 0.5 + x
            self.last = x * 2
            return self.total + self.last

    compiled = framefuse.compile(Counter(), backend=backend)
    x = torch.randn(4)
    return lambda: compiled(x)


PROGRAMS = [
    whole_graph,
    training_step,
    forward_without_backward,
    breaks_in_a_loop,
    break_in_an_inlined_frame,
    exceptions,
    objects_and_closures,
    state_of_a_module,
]


@pytest.mark.parametrize("backend", ["aten", "fuse"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_calls_leave_nothing_behind(program, backend):
    fakes = framefuse.statistics()['live_fakes']
    call = program(backend)
    blocks, size = left_behind(call)
    # Free lists and caches move by a few blocks; one object a call would be a thousand.
    assert blocks < CALLS // 10, f"{blocks} blocks of Python's after {CALLS} calls"
    assert size < CALLS * 16, f"{size} bytes after {CALLS} calls"
    assert framefuse.statistics()['live_fakes'] == fakes


def test_compiling_again_leaves_nothing_behind():
    """Functions that are compiled, called and dropped take their entries, graphs and kernels with them."""

    def compile_and_call():
        def f(x):
            return (x * 2).relu() + 1

        framefuse.compile(f, backend="aten")(torch.ones(3, requires_grad=True)).sum().backward()

    for _ in range(20):
        compile_and_call()
    gc.collect()
    blocks, size = sys.getallocatedblocks(), bytes_in_use()
    for _ in range(200):
        compile_and_call()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 200
    assert bytes_in_use() - size < 200 * 256


@pytest.mark.filterwarnings("always")
@pytest.mark.filterwarnings("ignore:framefuse. :RuntimeWarning")
def test_a_warning_leaves_no_fake_behind():
    """Torch loses what a property gives where the property's warning becomes an error."""
    framefuse.reset()
    with pytest.warns(UserWarning, match="mT"):
        framefuse.compile(lambda x: (x + 1).mT * 2, backend="aten")(torch.tensor(2.0))
    gc.collect()
    assert framefuse.statistics()["live_fakes"] == 0
