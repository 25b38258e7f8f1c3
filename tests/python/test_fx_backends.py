"""FX backends that fail: an error that names the backend, in the program's place for it, and no signal ends the process."""

import os
import pathlib
import subprocess
import sys
import traceback

import framefuse
import pytest
import torch
from fuzzed_backends import _WHEN_CALLED, _WHEN_COMPILING

_SEED = int(os.environ.get("FF_FUZZ_SEED", "0"))
_COUNT = int(os.environ.get("FF_FUZZ_BACKENDS", "400"))


def fuzz(seed, count):
    """In a process of its own, which a signal would end."""
    script = pathlib.Path(__file__).with_name("fuzzed_backends.py")
    run = subprocess.run([sys.executable, str(script), str(seed), str(count)], capture_output=True, text=True, timeout=3000)
    assert run.returncode == 0, (run.returncode, run.stderr[-3000:])
    return {line.rpartition(": ")[0] for line in run.stdout.splitlines()}


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_fuzzed_backends():
    tried = fuzz(_SEED, _COUNT)
    assert _COUNT < 400 or tried == {*_WHEN_COMPILING, *_WHEN_CALLED}


@pytest.mark.compiles_nothing("runs in a process of its own")
@pytest.mark.nightly
def test_many_fuzzed_backends():
    for seed in range(1, 11):
        fuzz(seed, 1000)


def failing_at(n):
    """A backend whose n-th compilation fails."""
    compilations = []

    def backend(gm, examples):
        compilations.append(gm)
        if len(compilations) == n:
            raise KeyError("no kernel")
        return gm.forward

    return backend


def test_an_error_at_a_break_leaves_the_blocks_of_the_program():
    left = []

    def f(t):
        try:
            with torch.no_grad():
                t = t + 1
                framefuse.graph_break()
                t = t * 2
        finally:
            left.append(torch.is_grad_enabled())
        return t

    compiled = framefuse.compile(f, backend=failing_at(2))
    with pytest.raises(framefuse.BackendError, match="backend 'backend' raised KeyError") as raised:
        compiled(torch.ones(2))
    assert isinstance(raised.value.__cause__, KeyError) and left == [True] and torch.is_grad_enabled()
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 4.0))


def test_every_call_says_that_the_backend_fails():
    def broken(gm, examples):
        raise KeyError("no kernel")

    compiled = framefuse.compile(lambda t: t + 1, backend=broken)
    for _ in range(6):
        with pytest.raises(framefuse.BackendError, match="'broken'"):
            compiled(torch.ones(2))


def test_an_interruption_is_no_error_of_the_backend():
    def interrupted(gm, examples):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        framefuse.compile(lambda t: t + 1, backend=interrupted)(torch.ones(2))
    with pytest.raises(KeyboardInterrupt):
        framefuse.compile(lambda t: t + 2, backend=lambda gm, examples: lambda *inputs: interrupted(gm, inputs))(torch.ones(2))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", lambda gm, examples: gm.forward])
def test_an_operators_own_error_comes_where_it_stands(backend):
    """The graph runs as a whole, but what it raises is caught as in Python."""
    handled = []

    def f(t, i):
        a = t * 2
        try:
            return a.index_select(0, i)
        except IndexError as error:
            handled.append(str(error))
            return a

    compiled = framefuse.compile(f, backend=backend)
    assert torch.equal(compiled(torch.arange(3.0), torch.tensor([1])), torch.tensor([2.0]))
    assert torch.equal(compiled(torch.arange(3.0), torch.tensor([7])), torch.arange(3.0) * 2)
    assert len(handled) == 1 and "index" in handled[0]


@pytest.mark.parametrize("write", ["data", "both", "gradient", "counted"])
def test_what_was_written_before_an_operators_error_is_written_once(write):
    def f(x, i):
        if write == "gradient":
            x.grad.mul_(3)
        if write != "counted":
            x.data.mul_(2)
        a = x.index_select(0, i)
        if write in ("both", "counted"):
            x.add_(1)
        return a * 2

    compiled = framefuse.compile(f, backend=lambda gm, examples: gm.forward)
    for i in (0, 7, 0, 7):
        x, y = torch.arange(3.0), torch.arange(3.0)
        x.grad, y.grad = torch.ones(3), torch.ones(3)
        try:
            wanted = f(y, torch.tensor([i]))
        except IndexError:
            with pytest.raises(IndexError):
                compiled(x, torch.tensor([i]))
        else:
            assert torch.equal(compiled(x, torch.tensor([i])), wanted)
        assert torch.equal(x, y) and torch.equal(x.grad, y.grad)


def _program_lines(error):
    """(function, line within it) of the traceback's frames that are in this file, without the test's own."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == __file__ and not f.name.startswith("test_")]
    return [(f.name, f.lineno) for f in frames]


def _picks(x, i):
    y = x.sin()
    return y.index_select(0, i)


def _writes_and_picks(x, i):
    x.add_(1)
    return _picks(x, i) * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager", lambda gm, examples: gm.forward])
def test_the_traceback_of_an_operators_error_after_a_write(backend):
    """Where the graph wrote before the error and where it would have written after it (AOTAutograd), once."""
    compiled = framefuse.compile(_writes_and_picks, backend=backend)
    compiled(torch.ones(3), torch.tensor([1]))
    x = torch.ones(3)
    with pytest.raises(IndexError) as ours:
        compiled(x, torch.tensor([7]))
    assert torch.equal(x, torch.full((3,), 2.0))
    with pytest.raises(IndexError) as eagers:
        _writes_and_picks(torch.ones(3), torch.tensor([7]))
    assert _program_lines(ours.value) == _program_lines(eagers.value)


def test_the_traceback_where_a_written_input_has_a_history():
    """With fullgraph the graph cannot end before the operator that raises, and nobody takes the history back."""
    compiled = framefuse.compile(_writes_and_picks, backend=lambda gm, examples: gm.forward, fullgraph=True)
    compiled(torch.ones(3, requires_grad=True) * 2, torch.tensor([1]))
    x = torch.ones(3, requires_grad=True) * 2
    with pytest.raises(IndexError) as ours:
        compiled(x, torch.tensor([7]))
    assert torch.equal(x, torch.full((3,), 3.0))
    with pytest.raises(IndexError) as eagers:
        _writes_and_picks(torch.ones(3), torch.tensor([7]))
    assert _program_lines(ours.value) == _program_lines(eagers.value)


def test_a_graph_ends_before_what_may_raise_after_a_write_of_an_input_with_a_history():
    graphs = []

    def backend(gm, examples):
        graphs.append(gm)
        return gm.forward

    compiled = framefuse.compile(_writes_and_picks, backend=backend)
    compiled(torch.ones(3, requires_grad=True) * 2, torch.tensor([1]))
    assert len(graphs) == 2


def test_nodes_have_the_programs_frames():
    traces = []

    def backend(gm, examples):
        traces.extend(node.meta.get("stack_trace") for node in gm.graph.nodes if node.op.startswith("call"))
        return gm.forward

    framefuse.compile(_writes_and_picks, backend=backend)(torch.ones(3), torch.tensor([1]))
    assert len(traces) == 4 and all("in _writes_and_picks" in trace for trace in traces)
    assert ["in _picks" in trace for trace in traces] == [False, True, True, False]


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_a_thread_that_compiled_has_ended():
    """On a CUDA build without a device torch keeps its guard in that thread, unless there is one already."""
    script = """
import threading
import framefuse, torch
compiled = framefuse.compile(lambda x: x * 2, backend=lambda gm, examples: gm.forward)
for _ in range(3):
    thread = threading.Thread(target=lambda: compiled(torch.ones(2, requires_grad=True) * 2))
    thread.start()
    thread.join()
    held = [torch.ones(n) for n in range(200)]
    framefuse.reset()
x = torch.ones(2, requires_grad=True)
(x * 3).sum().backward()
compiled(x).sum().backward()
assert x.grad.tolist() == [5, 5]
assert framefuse.statistics()["captures"] >= 4
"""
    # What is freed is filled.
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "MALLOC_PERTURB_": "165"}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, env=environment)
    assert run.returncode == 0, (run.returncode, run.stderr[-3000:])
