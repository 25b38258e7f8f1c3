"""config.background: a graph runs as operators while its kernels are compiled behind the program."""

import copy
import os
import subprocess
import sys
import textwrap

import framefuse
import pytest
import torch
from framefuse import _C
from torch import nn


@pytest.fixture(autouse=True)
def in_background():
    with framefuse.config.patch(background=True):
        yield
    _C.wait_for_background()


def counted():
    said = framefuse.statistics()
    return {name: said[f"background.{name}"] for name in ("begun", "done", "failed")}


def trained(call, model, steps=6):
    torch.manual_seed(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for number in range(steps):
        optimizer.zero_grad()
        loss = call(torch.randn(8, 6)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if number == steps // 2:
            _C.wait_for_background()
    return losses, [b.clone() for b in model.buffers()]


@pytest.mark.parametrize("backend", ["fuse", "aten"])
def test_a_training_run_switches_in_its_midst(backend):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.GELU(), nn.Linear(6, 2))
    other = copy.deepcopy(model)
    before = counted()
    losses, buffers = trained(framefuse.compile(model, fullgraph=True, backend=backend), model)
    after = counted()
    expected, their_buffers = trained(other, other)
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected))
    for mine, theirs in zip(buffers, their_buffers):
        torch.testing.assert_close(mine, theirs)
    assert after["begun"] >= before["begun"] + 2  # forward and backward
    assert after["done"] - before["done"] == after["begun"] - before["begun"]
    assert after["failed"] == before["failed"]


def test_an_explanation_waits_for_its_kernels():
    before = counted()
    said = framefuse.explain(lambda x: x.sin() * x.cos())(torch.randn(64))
    assert counted() == before
    assert framefuse.config.background
    assert said.graph_count == 1


@pytest.mark.compiles_nothing("in a process of its own")
def test_a_process_ends_while_kernels_are_compiled():
    program = """
        import torch, framefuse
        framefuse.config.background = True
        calls = [framefuse.compile(lambda x, n=n: (x.sin() * n).exp().sum(0) + x.cos()) for n in range(40)]
        for call in calls:
            call(torch.ones(4, 4))
        print("ended")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout.split()) == (0, ["ended"]), done.stderr


@pytest.mark.compiles_nothing("in a process of its own")
def test_the_log_says_when_kernels_take_over():
    program = """
        import torch, framefuse
        framefuse.config.background = True
        call = framefuse.compile(lambda x: x.sin() + 1)
        call(torch.randn(5))
        framefuse._C.wait_for_background()
    """
    environment = {**os.environ, "FRAMEFUSE_LOGS": "fusion"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=100, env=environment
    )
    assert done.returncode == 0 and "made in the background" in done.stderr, done.stderr


@pytest.mark.compiles_nothing("in processes of its own")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_of_fork_compiles_for_itself():
    program = """
        import os, torch, framefuse
        from framefuse import _C
        framefuse.config.background = True
        first = framefuse.compile(lambda x: x.sin().exp() * 2)
        first(torch.ones(4))
        child = os.fork()
        second = framefuse.compile(lambda x: x.cos().exp() * 3)
        assert torch.allclose(second(torch.ones(4)), torch.ones(4).cos().exp() * 3)
        _C.wait_for_background()
        assert torch.allclose(first(torch.ones(4)), torch.ones(4).sin().exp() * 2)
        assert framefuse.statistics()["background.done"] >= 1
        if child == 0:
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout.split()) == (0, ["0"]), done.stderr
