"""framefuse-doctor --accuracy and --minify find what differs from eager, and write a program that shows it.

No test needs a bug of ours: one of torch's operators is replaced by another function, so that eager is what is wrong. The
doctor, the program and what the doctor writes all run in processes that begin with that (`sitecustomize`).
"""

import os
import pathlib
import subprocess
import sys

import framefuse
import pytest
import torch
from framefuse import _accuracy, _graph_text, _minify, _reproducer, _saved_tensors

PLANT = """
import torch

library = torch.library.Library("aten", "IMPL")
library.impl("gelu", lambda x, *, approximate="none": torch.sigmoid(1.702 * x) * x, "CPU")
"""
PROGRAM = """
import sys, torch, framefuse

@framefuse.compile
def step(x, y):
    z = torch.sin(x) * y
    z = torch.nn.functional.gelu(z) + 1
    return torch.softmax(z @ z.t(), 1), torch.nn.functional.dropout(z, 0.5)

torch.manual_seed(5)
x, y = torch.randn(32, 48, requires_grad=True), torch.randn(32, 48)
for _ in range(2):
    step(x, y)[0].sum().backward()
sys.exit(int(sys.argv[1]))
"""
CHAIN = """graph "chain" functional
input %0: f32[4, 6] argument
input %1: f32[6]{strides=[2]} argument
constant %2: f32[] = [0.5]
%3: f32[4, 6] = aten.mul.Tensor(%0, %1)  # model.py:1 in f: x * y
%4: f32[4, 6] = aten.erf(%3)  # model.py:2 in f: erf(z)
%5: f32[4, 6] = aten.add.Tensor(%4, %2, alpha=2)
%6: f32[4, 1] = aten.amax(%5, [1], True)
%7: f32[4, 6] = aten.sub.Tensor(%5, %6, alpha=1)
%8: f32[2, 6], %9: f32[2, 6] = aten.split_with_sizes(%7, [2, 2], 0)
%10: f16[4, 6] = aten._to_copy(%7, dtype=f16, layout=strided, device=cpu, non_blocking=False)
output %10 user
output %3 user
"""
CHAIN = CHAIN.replace("%8: f32[2, 6], %9: f32[2, 6] = aten.split_with_sizes", "[%8: f32[2, 6], %9: f32[2, 6]{offset=12}] = aten.split_with_sizes")


def run(command, tmp_path, plant=True):
    (tmp_path / "sitecustomize.py").write_text(PLANT)
    package = str(pathlib.Path(framefuse.__file__).parents[1])
    path = os.pathsep.join([*([str(tmp_path)] if plant else []), package])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore"}
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment)


@pytest.mark.compiles_nothing("runs in processes of their own")
@pytest.mark.parametrize("option, program", [("--accuracy", "framefuse_accuracy.py"), ("--minify", "framefuse_minified.py")])
def test_what_differs_is_found_and_shown(option, program, tmp_path):
    (tmp_path / "step.py").write_text(PROGRAM)
    done = run(["-m", "framefuse.doctor", option, "--write", "out", "step.py", "0"], tmp_path)
    assert done.returncode == 1, done.stderr
    assert "the first result that differs from eager" in done.stdout
    assert "first wrong" in done.stdout and "aten.gelu" in done.stdout and "step.py:7 in step: z = torch.nn.functional.gelu(z) + 1" in done.stdout
    assert "alone it does not fail" not in done.stdout
    text = (tmp_path / "out" / program).read_text()
    assert "torch.ops.aten.gelu.default" in text and "pickle" not in text and "torch.load" not in text
    if option == "--minify":
        assert text.count("torch.ops.") == 1
    shown = run([tmp_path / "out" / program], tmp_path)
    assert shown.returncode == 1 and "Mismatched elements" in shown.stderr
    right = run([tmp_path / "out" / program], tmp_path, plant=False)
    assert right.returncode == 0 and right.stdout == "framefuse and eager agree\n", right.stderr


@pytest.mark.compiles_nothing("runs in processes of their own")
def test_a_program_whose_kernels_are_right(tmp_path):
    (tmp_path / "step.py").write_text(PROGRAM)
    done = run(["-m", "framefuse.doctor", "--accuracy", "step.py", "3"], tmp_path, plant=False)
    assert done.returncode == 3 and "kernels and graphs compute what eager computes" in done.stdout, done.stderr
    assert "draws random numbers" in done.stdout  # it says what it left out
    (tmp_path / "step.py").write_text("import torch")
    done = run(["-m", "framefuse.doctor", "--accuracy", "step.py"], tmp_path, plant=False)
    assert done.returncode == 0 and "nothing was compared" in done.stdout


def chain():
    torch.manual_seed(0)
    return _graph_text.parse(CHAIN), [torch.randn(4, 6), torch.randn(12)[::2]]


def test_a_graph_as_python():
    graph, inputs = chain()
    names = {}
    exec("import torch\n" + graph.python("program"), names)
    for got, want in zip(names["program"](*inputs), _accuracy.evaluate(graph, inputs, "aten"), strict=True):
        assert torch.equal(got, want) and got.dtype == want.dtype
    assert _accuracy.difference(graph, inputs, _accuracy.evaluate(graph, inputs, "fuse")) == ""
    assert _accuracy.evaluate_in_f64(graph, inputs)[0][0].dtype == torch.float64


@pytest.mark.parametrize("operator", ["aten.mul", "aten.erf", "aten.amax", "aten.sub", "aten._to_copy"])
def test_a_graph_is_made_small(operator):
    graph, inputs = chain()
    want = dict(zip(("10", "3"), _accuracy.evaluate(graph, inputs, "aten"), strict=True))

    def fails(candidate, given):
        _accuracy.evaluate(candidate, given, "aten")  # it is a graph, and these are its inputs
        return any(operator in node.text for node in candidate.nodes)

    small, given = _minify.minify(graph, inputs, fails)
    assert len(small.nodes) == 1 and operator in small.nodes[0].text
    if small.outputs[0] in want:
        assert torch.equal(_accuracy.evaluate(small, given, "aten")[0], want[small.outputs[0]])


def test_a_graph_that_raises(monkeypatch, tmp_path):
    graph, inputs = chain()
    compile_graph_text = _accuracy._C.compile_graph_text

    def broken(text, backend, **options):
        if backend == "fuse" and "aten.erf" in text:
            raise RuntimeError("no kernel for erf")
        return compile_graph_text(text, backend, **options)

    monkeypatch.setattr(_accuracy._C, "compile_graph_text", broken)
    fails = _minify.raises("no kernel for erf")
    small, given = _minify.minify(graph, inputs, fails)
    assert [node.place for node in small.nodes] == ["model.py:2 in f: erf(z)"]
    assert not _minify.raises("another error")(graph, inputs)
    finding = _accuracy.Finding("error", "erf", True, "no kernel for erf", small, given)
    assert not _reproducer.write(finding, tmp_path / "program.py")  # the process that runs it has no such error
    assert (tmp_path / "program.bin").exists()


def test_an_error_of_a_graph_is_a_finding(tmp_path):
    probe = _accuracy._Probe(tmp_path)
    graph, inputs = chain()
    probe.begin(CHAIN, "chain", True, inputs, [])("it failed", [])
    probe.begin(CHAIN.replace('"chain"', '"other"'), "not compiled", True, [], [])("it failed, too", [])
    one, other = _accuracy.findings(tmp_path)
    assert (one.kind, one.detail, str(one.graph)) == ("error", "it failed", str(graph))
    assert all(torch.equal(a, b) and a.stride() == b.stride() for a, b in zip(one.inputs, inputs, strict=True))
    assert other.detail == "it failed, too" and [t.shape for t in other.inputs] == [t.shape for t in inputs]


@pytest.mark.compiles_nothing("about text")
def test_symbols_get_the_numbers_of_the_call():
    text = 'graph "g" functional\nsymbol s0 = 3 min=2\nsymbol s1: float = 0.5\ninput %0: f32[s0] argument\n%1: f32[s0] = aten.mul.Scalar(%0, s1)\noutput %1 user\n'
    given = _graph_text.with_numbers(text, [5, 0x4000000000000000])
    assert "f32[5]" in given and "aten.mul.Scalar(%0, 2.0)" in given and "symbol" not in given


def test_a_difference_of_equal_numbers_may_be_anything_of_rounding():
    text = 'graph "g" functional\ninput %0: f32[64] argument\ninput %1: f32[64] argument\n%2: f32[64] = aten.sub.Tensor(%0, %1)\noutput %2 user\n'
    graph = _graph_text.parse(text.replace("(%0, %1)", "(%0, %1, alpha=1)"))
    torch.manual_seed(0)
    x = torch.rand(64) + 1
    assert _accuracy.difference(graph, [x, x], [torch.full((64,), 1e-7)]) == ""
    assert _accuracy.difference(graph, [x, x], [torch.full((64,), 1e-4)])


def test_what_adds_up_to_nothing_is_rounding_wherever_it_was_rounded():
    # Eager's quotients are exact for many elements; of others' rounding no input tells.
    text = 'graph "g" functional\ninput %0: f32[64] argument\nconstant %1: f32[] = [3]\n%2: f32[64] = aten.mul.Tensor(%0, %1)\n'
    text += "%3: f32[64] = aten.div.Tensor(%2, %1)\n%4: f32[64] = aten.sub.Tensor(%3, %0, alpha=1)\noutput %4 user\n"
    graph, x = _graph_text.parse(text), torch.arange(64) / 64 + 1
    assert _accuracy.evaluate(graph, [x], "aten")[0].count_nonzero() < 32
    assert _accuracy.difference(graph, [x], [torch.full((64,), 1.2e-7)]) == ""
    assert _accuracy.difference(graph, [x], [torch.full((64,), 1e-5)])


def test_the_gradient_of_a_bias_that_is_normalised_away():
    # Each term is far from zero; what they add up to is rounding, in whatever order.
    text = 'graph "g" functional\ninput %0: f32[512, 4] argument\n%1: f32[1, 4] = aten.mean.dim(%0, [0], True)\n'
    text += "%2: f32[512, 4] = aten.sub.Tensor(%0, %1, alpha=1)\n%3: f32[4] = aten.sum.dim_IntList(%2, [0], False)\noutput %3 user\n"
    graph = _graph_text.parse(text)
    x = (torch.arange(2048) % 8).reshape(512, 4) * 0.25  # eager is exact
    assert not _accuracy.evaluate(graph, [x], "aten")[0].any()
    assert _accuracy.difference(graph, [x], [torch.full((4,), 3e-6)]) == ""
    assert _accuracy.difference(graph, [x], [torch.full((4,), 1e-2)])


FLOAT = torch.tensor([1.0, 1e-3])


@pytest.mark.compiles_nothing("about the comparison of two results")
@pytest.mark.parametrize(
    "got, eager, exact, far",
    [
        (FLOAT, FLOAT, None, False),
        (FLOAT * 1.01, FLOAT, None, True),
        (FLOAT * 1.01, FLOAT, FLOAT.double() * 1.01, False),  # eager is less exact
        (FLOAT * 1e-6 * 1.01, FLOAT * 1e-6, None, True),  # small ones count, too
        (torch.tensor([1.0, float("nan")]), torch.tensor([1.0, float("nan")]), None, False),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, float("nan")]), None, True),
        (torch.tensor([float("inf")]), torch.tensor([float("-inf")]), None, True),
        (torch.tensor([float("inf")], dtype=torch.half), torch.tensor([1.0], dtype=torch.half), torch.tensor([1e5]).double(), False),
        (torch.tensor([True, False]), torch.tensor([True, True]), torch.tensor([True, True]), True),
        (torch.tensor([True, False]), torch.tensor([True, True]), torch.tensor([True, False]), False),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), None, True),
        (torch.tensor([1j]), torch.tensor([2j]), None, True),
        (FLOAT, FLOAT.double(), None, True),
        (torch.empty(0), torch.empty(0), None, False),
    ],
)
def test_what_is_more_than_rounding(got, eager, exact, far):
    assert bool(_accuracy._far(got, eager, exact)) == far


@pytest.mark.compiles_nothing("about files")
def test_tensors_are_read_as_they_were_written(tmp_path):
    tensors = [
        torch.randn(3, 4).t(), torch.randn(3, 1).expand(3, 4), torch.randn(6)[1::2], torch.tensor(2.5), torch.empty(0, 3),
        torch.randn(5).bfloat16(), torch.arange(4), torch.tensor([True, False]), torch.randn(2, dtype=torch.complex64),
    ]  # fmt: skip
    layouts = _saved_tensors.write(tensors, tmp_path / "data.bin")
    for got, want in zip(_saved_tensors.read(layouts, tmp_path / "data.bin"), tensors, strict=True):
        assert got.dtype == want.dtype and got.stride() == want.stride() and torch.equal(got, want)
