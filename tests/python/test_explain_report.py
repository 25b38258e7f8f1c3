"""ExplainOutput: the printed report, its counts, and explain()'s arguments."""

import dataclasses
import operator
import re
import traceback
from xml.etree import ElementTree

import framefuse
import pytest
import torch


@pytest.fixture
def report():
    frame = traceback.FrameSummary("model.py", 3, "bar", lookup_line=False, line="if b.sum() < 0:")
    return framefuse.ExplainOutput(
        graph_count=2,
        graph_break_count=1,
        op_count=3,
        break_reasons=[framefuse.BreakReason("branch on a tensor's value", "use torch.where", [frame])],
        ops_per_graph=[[torch.abs, operator.add], [operator.mul]],
        out_guards=["def guards(L):\n    if not (type(L['a']) is torch.Tensor): return False\n    return True\n", ""],
        compile_times={"capture": 0.0005, "backend": 0.002},
        graphs=["", ""],
        fallbacks=[],
    )


@pytest.mark.compiles_nothing("about a report made by hand")
def test_printed_report(report):
    assert str(report) == (
        "Graph Count: 2\n"
        "Graph Break Count: 1\n"
        "Op Count: 3\n"
        "Break Reasons:\n"
        "  Break Reason 1: model.py:3 in bar: if b.sum() < 0:\n"
        "    Reason: branch on a tensor's value\n"
        "    Hint: use torch.where\n"
        "Compile Times:\n"
        "  capture       0.50 ms\n"
        "  backend       2.00 ms\n"
    )


@pytest.mark.compiles_nothing("about a report made by hand")
def test_details_of_the_report(report):
    text = report.details()
    assert text.startswith(str(report).rstrip())
    for part in (
        "Stack of Break Reason 1, outermost first:\n  model.py:3 in bar: if b.sum() < 0:",
        "Ops of Graph 1:\n  torch.abs\n  operator.add",
        "Guards of Graph 1:\n  argument a:\n    type(L['a']) is torch.Tensor",
    ):
        assert part in text


@pytest.mark.compiles_nothing("about a report made by hand")
def test_what_runs_as_python_for_the_same_reason_is_told_once(report):
    function = traceback.FrameSummary("model.py", 1, "f", lookup_line=False)
    report.fallbacks = [framefuse.EagerFallback("waiting", "no tensor work", "later", function)] * 3
    assert str(report).count("Function ") == 1
    assert "  Function 1: f (model.py:1), 3 times\n    Reason: no tensor work\n    Hint: later\n" in str(report)


def test_attributes_are_those_of_torchs_report():
    import torch._dynamo
    from torch._dynamo.backends.debugging import ExplainOutput

    def f(x):
        y = x.sin()
        print("between")
        return y.cos() + 1

    ours = framefuse.explain(f)(torch.ones(2))
    names = [field.name for field in dataclasses.fields(ExplainOutput)]
    assert {"graphs", "graph_count", "graph_break_count", "break_reasons", "op_count", "ops_per_graph", "out_guards", "compile_times"} <= set(names)
    assert all(hasattr(ours, name) for name in names)
    theirs = torch._dynamo.explain(f)(torch.ones(2))
    assert (ours.graph_count, ours.graph_break_count) == (theirs.graph_count, theirs.graph_break_count) == (2, 1)
    assert len(ours.graphs) == len(ours.ops_per_graph) == len(ours.out_guards) == 2
    reason = ours.break_reasons[0]
    assert reason.graph_break and reason.user_stack[-1].lineno == theirs.break_reasons[0].user_stack[-1].lineno


def test_methods_are_counted():
    report = framefuse.explain(lambda x: x.sin().cos())(torch.ones(2))
    assert (report.graph_count, report.op_count) == (1, 2)
    assert report.ops_per_graph == [[torch.Tensor.sin, torch.Tensor.cos]]
    assert f"Ops of Graph 1 [{report.compile_ids[0]}]:\n  Tensor.sin\n  Tensor.cos\n" in report.details()
    nothing = framefuse.explain(lambda x: x)(torch.ones(2))
    assert (nothing.graph_count, nothing.op_count, nothing.graphs) == (0, 0, [])


SCALE = 2


def test_guards_are_grouped_and_have_no_addresses():
    def inner(x):
        return x + 1

    def f(x, function, n):
        return function(x) * SCALE * len(n)

    report = framefuse.explain(f)(torch.ones(2), inner, [1])
    (groups,) = report.grouped_guards()
    assert {"argument x", "argument function", "argument n", "globals", "torch's state"} <= set(groups)
    assert any("is_tensor(L['x']" in condition for condition in groups["argument x"])
    assert any("SCALE" in condition for condition in groups["globals"])
    assert "others" not in groups
    assert not re.search("0x[0-9a-f]{6}", report.details() + report.out_guards[0])


def test_a_break_below_the_function_has_the_whole_stack():
    def inner(x):
        framefuse.graph_break()
        return x + 1

    def outer(x):
        return inner(x * 2) * 3

    report = framefuse.explain(outer)(torch.ones(2))
    stack = report.break_reasons[0].user_stack
    assert [(frame.name, frame.line) for frame in stack] == [("outer", "return inner(x * 2) * 3"), ("inner", "framefuse.graph_break()")]
    assert f"called from {__file__}" in str(report)


def test_html():
    def f(x):
        framefuse.graph_break()
        return x < 1

    html = framefuse.explain(f)(torch.ones(2))._repr_html_()
    root = ElementTree.fromstring(html)
    assert root.find("b").text == "1 graphs, 1 graph breaks, 1 operations"
    cells = [cell.text for cell in root.iter("td")]
    assert "graph_break() was called" in cells and any("in f: framefuse.graph_break()" in cell for cell in cells)
    assert "aten.lt" in root.find("details/pre").text and "<function" not in html


@pytest.mark.compiles_nothing("wrong arguments are refused before anything is compiled")
@pytest.mark.parametrize("f", [3, torch.nn.Linear])
def test_takes_callables(f):
    with pytest.raises(TypeError, match=r"explain\(\) takes a function"):
        framefuse.explain(f)


@pytest.mark.compiles_nothing("wrong arguments are refused before anything is compiled")
def test_checks_settings_as_compile_does():
    with pytest.raises(ValueError, match="unknown mode"):
        framefuse.explain(torch.sin, mode="x")
    with pytest.raises(TypeError, match="speed"):
        framefuse.explain(torch.sin, speed=1)


def test_a_module_is_reported_as_a_function_that_calls_it():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    whole = framefuse.explain(model)(torch.ones(2, 3))
    assert (whole.graph_count, whole.graph_break_count) == (1, 0)
    assert whole.op_count == framefuse.explain(lambda x: model(x))(torch.ones(2, 3)).op_count == 2


def test_compile_times_by_phase():
    x = torch.randn(8, requires_grad=True)
    times = framefuse.explain(lambda x: torch.sin(x).exp() * 2, backend="fuse")(x).compile_times
    phases = [name for name in times if name.startswith("backend: ")]
    assert {"backend: functionalize", "backend: pass fold_constants", "backend: partition"} <= set(phases)
    assert {"backend: compile forward", "backend: compile backward"} <= set(phases)
    assert 0 < sum(times[name] for name in phases) <= times["backend"]


@pytest.mark.compiles_nothing("about a report made by hand")
def test_short_phases_are_one_row(report):
    report.compile_times.update({"backend: verify": 1e-6, "backend: fuse": 0.0019, "backend: fold": 2e-5, "backend: sink": 3e-5})
    rows = str(report).partition("Compile Times:\n")[2]
    assert re.sub(" +", " ", rows) == " capture 0.50 ms\n backend 2.00 ms\n backend: fuse 1.90 ms\n backend: 3 short phases 0.05 ms\n"
    assert "3 short phases" in report._repr_html_() and "backend: fold" in report.compile_times


def test_breaks_of_the_short_text_have_their_compilation():
    def f(x):
        y = x.sin()
        framefuse.graph_break()
        return y.cos()

    report = framefuse.explain(f)(torch.ones(2))
    assert f"  Break Reason 1 [{report.break_reasons[0].compile_id}]: " in str(report) and report.break_reasons[0].compile_id
