"""framefuse-graph runs text graphs both ways, says what differs, and survives what it cannot read."""

import subprocess
import sys

import pytest
import torch

from framefuse import graph

SOFTMAX = """graph "scaled softmax" functional
symbol s0 = 33
input %x: f32[8, s0] argument
input %b: f32[8, s0]{strides=[0, 1]} argument
input %n: i64[8, s0] argument
%y: f32[8, s0] = aten.add.Tensor(%x, %b)
%z: f32[8, s0] = aten.mul.Tensor(%y, %n)
%r: f32[8, s0] = aten._softmax(%z, 1, False)
output %r user
"""
IN_PLACE = """graph "in place"
input %x: f32[100] argument mutated
%y: f32[100] = aten.add_.Scalar(%x, 2)
"""


def test_report_of_a_graph():
    result = graph.run(SOFTMAX, rounds=2)
    assert result.ok and result.difference < 1
    assert len(result.groups) == 1 and "_softmax" not in result.groups[0]  # it was decomposed
    assert "loop" in result.code[0] and "reduce_sum" in result.code[0]
    assert set(result.microseconds) == {"aten", "fuse"} and all(us > 0 for us in result.microseconds.values())
    text = str(result)
    assert result.groups[0] in text and "a call: aten" in text


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_command(tmp_path):
    file = tmp_path / "graph.txt"
    file.write_text(SOFTMAX)
    command = [sys.executable, "-m", "framefuse.graph", "--size", "s0=1000", "--rounds", "1", "--quiet", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "of what is allowed" in done.stdout and "loop" not in done.stdout


def test_written_inputs_are_compared(monkeypatch):
    assert graph.run(IN_PLACE, rounds=1).ok
    compile_graph_text = graph._C.compile_graph_text

    def wrong(text, backend):
        plan = compile_graph_text(text, backend)

        def call(inputs):
            results = plan(inputs)
            if backend == "fuse":
                inputs[0][50] += 0.01
            return results

        return call

    monkeypatch.setattr(graph._C, "compile_graph_text", wrong)
    assert not graph.run(IN_PLACE, rounds=1).ok


@pytest.mark.compiles_nothing("about the comparison of two results")
@pytest.mark.parametrize(
    "got, want, ok",
    [
        (torch.tensor([1.0, float("nan")]), torch.tensor([1.0, float("nan")]), True),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, float("nan")]), False),
        (torch.tensor([float("inf")]), torch.tensor([float("-inf")]), False),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), False),
        (torch.tensor([1.0]), torch.tensor([1.0 + 1e-6]), True),
        (torch.tensor([1.0]), torch.tensor([1.001]), False),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64), False),
    ],
)
def test_differences(got, want, ok):
    assert (graph._difference(got, want) <= 1) == ok


def test_what_cannot_be_read(tmp_path, capsys):
    file = tmp_path / "graph.txt"
    file.write_text(SOFTMAX.replace("aten.add.Tensor", "aten.no_such_operator"))
    assert graph.main([str(file)]) == 2 and "no_such_operator" in capsys.readouterr().err
    file.write_text(SOFTMAX)
    assert graph.main(["--size", "s9=1", str(file)]) == 2 and "s9" in capsys.readouterr().err
