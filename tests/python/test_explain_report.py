"""ExplainOutput: the printed report, its counts, and explain()'s arguments."""

import operator
import traceback

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
        out_guards=["type(L['a']) is torch.Tensor"],
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
        "  Break Reason 1:\n"
        "    Reason: branch on a tensor's value\n"
        "    Hint: use torch.where\n"
        "    User Stack:\n"
        "      <FrameSummary file model.py, line 3 in bar>\n"
        "        if b.sum() < 0:\n"
        "Ops per Graph:\n"
        "  Ops 1:\n"
        f"    {torch.abs}\n"
        "    <built-in function add>\n"
        "  Ops 2:\n"
        "    <built-in function mul>\n"
        "Out Guards:\n"
        "  Guard 1:\n"
        "    type(L['a']) is torch.Tensor\n"
        "Compile Times: capture 0.50 ms, backend 2.00 ms\n"
    )


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
