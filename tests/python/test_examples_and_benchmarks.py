"""The main job runs and agrees with eager; the benchmarks run, and their rows are ok."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from framefuse import _C

pytestmark = pytest.mark.compiles_nothing("runs in a process of its own")

ROOT = pathlib.Path(__file__).parents[2]


def run(*command):
    result = subprocess.run(
        [sys.executable, *map(str, command)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_digits():
    output = run(ROOT / "examples" / "digits.py")
    assert "FullyConnected" in output and "Convolutional" in output
    assert output.count("Graph Count: 1") == 2
    assert output.count("Graph Break Count: 0") == 2


def test_text():
    output = run(ROOT / "examples" / "text.py", "--steps", "20", "--characters", "80")
    captures = int(output.split("with ")[1].split(" captures")[0])
    assert captures <= 4


def test_breaks(tmp_path):
    output = run(ROOT / "examples" / "breaks.py", "--report", tmp_path / "breaks.html")
    assert "mended: 1 graph, 0 breaks" in output and "examples/breaks.py" in (tmp_path / "breaks.html").read_text()


def test_custom_backend():
    output = run(ROOT / "examples" / "custom_backend.py")
    assert "gelu" in output and "linear" in output


def test_cuda_graphs():
    """Without a GPU it only says so."""
    output = run(ROOT / "examples" / "cuda_graphs.py")
    assert ("reduce-overhead" if torch.cuda.is_available() else "no GPU here") in output


def test_call_cost_runs():
    assert '"wrong": 0' in run(ROOT / "benchmarks" / "call_cost.py", "--check", "sin", "Linear+ReLU module")


def test_exported_runs():
    if not (pathlib.Path(_C.__file__).parents[2] / "runner" / "libframefuse_run.so").exists():
        pytest.skip("framefuse is not imported from a build folder with the runner")
    (row,) = map(json.loads, run(ROOT / "benchmarks" / "exported.py", "--models", "mlp", "--rounds", "4", "--check").splitlines())
    assert row["ok"] and set(row["call_us"]) == {"eager", "compiled", "loaded", "runner"}


def test_evaluator_runs():
    assert '"wrong": 0' in run(ROOT / "benchmarks" / "evaluator.py", "--check", "arithmetic", "unary")


@pytest.mark.parametrize("options", [[], ["--train"]])
def test_capture_runs(options):
    assert '"wrong": 0' in run(ROOT / "benchmarks" / "capture.py", "--check", "convnet", *options)


@pytest.mark.parametrize("options", [[], ["--train"]])
def test_whole_models_run(options):
    assert '"wrong": 0' in run(ROOT / "benchmarks" / "whole_models.py", "--check", "--no-peer", "convnet", *options)


@pytest.mark.parametrize("options", [[], ["--fx"]])
def test_programs_run(options):
    assert '"wrong": 0' in run(ROOT / "benchmarks" / "programs.py", "--check", "--no-peer", "pyramid pooling", "mel", *options)


@pytest.mark.skipif(not torch.distributed.is_available() or not torch.distributed.is_gloo_available(), reason="needs gloo")
def test_distributed_runs():
    assert '"wrong": 0' in run(ROOT / "benchmarks" / "distributed.py", "--tiny", "--device", "cpu", "GPT-2, DDP: framefuse default, whole")


def test_starts_are_measured():
    output = run(ROOT / "benchmarks" / "start.py", "--models", "mlp", "--rivals", "framefuse", "--repeats", "1")
    assert '"ok": true' in output and '"framefuse-file"' in output


@pytest.mark.nightly
def test_every_capture_case():
    run(ROOT / "benchmarks" / "capture.py", "--check")


def committed_rows():
    """(file, row) of every results file: a document with rows, or a row a line."""
    for file in sorted((ROOT / "benchmarks" / "results").iterdir()):
        if file.suffix == ".jsonl":
            rows = [json.loads(line) for line in file.read_text().splitlines()]
        else:
            rows = json.loads(file.read_text())["rows"]
        assert rows, file
        for row in rows:
            yield file.name, row


def test_committed_rows_are_right_or_say_why():
    wrong = [(name, row) for name, row in committed_rows() if not row.get("ok", True) and not (row.get("why") or row.get("note"))]
    assert not wrong, wrong[:3]


def test_changing_sizes_and_numbers_run():
    assert '"wrong": 0' in run(ROOT / "benchmarks" / "changing.py", "--check", "rate", "counter", "list")


def test_sizes_that_follow_from_values_run():
    assert '"wrong": 0' in run(ROOT / "benchmarks" / "from_values.py", "--check", "logged", "words")


def test_text_generation_runs():
    assert '"wrong": 0' in run(ROOT / "benchmarks" / "generation.py", "--check", "growing text")


def test_kernels_run():
    assert '"wrong": 0' in run(ROOT / "benchmarks" / "kernels.py", "--check", "softmax", "adam")


def test_starts_of_many_ranks():
    """Formulas agree with the simulated starts."""
    pytest.importorskip("simpy")
    rows = json.loads(run(ROOT / "benchmarks" / "scaling.py", "--check"))["rows"]
    assert len(rows) == 8 and all(row["ok"] for row in rows)
