"""Code written for torch.compile: its functions of torch._dynamo and torch.compiler reach framefuse, without an early import."""

import framefuse
import pytest
import torch


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_importing_framefuse_leaves_dynamo_alone(fresh_python):
    program = "import sys, framefuse; print('torch._dynamo' in sys.modules)"
    assert fresh_python(program) == "False\n"


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_dynamo_imported_later_is_followed(fresh_python):
    program = """
import framefuse, torch
with torch.compiler.set_stance("force_eager"):
    print(framefuse._C.get_stance().name)
print(framefuse._C.get_stance().name)
torch.compiler.set_stance("fail_on_recompile")
print(framefuse._C.get_stance().name)
"""
    assert fresh_python(program).split() == ["force_eager", "default", "fail_on_recompile"]


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_dynamo_imported_before_is_followed(fresh_python):
    program = """
import torch._dynamo, framefuse
torch.compiler.set_stance("force_eager")
print(framefuse._C.get_stance().name)
"""
    assert fresh_python(program) == "force_eager\n"


@pytest.mark.compiles_nothing("reset is replaced")
def test_reset_reaches_us(monkeypatch):
    import torch._dynamo

    calls = []
    monkeypatch.setattr(framefuse._C, "reset", lambda: calls.append("reset"))
    torch._dynamo.reset()
    torch.compiler.reset()
    assert calls == ["reset", "reset"]


@pytest.mark.compiles_nothing("torch compiles, not framefuse")
def test_dynamos_own_explain_still_works():
    import torch._dynamo

    def double(x):
        return x * 2

    assert torch._dynamo.explain(double)(torch.ones(2)).graph_count == 1


def test_explain_of_our_functions_is_ours():
    import torch._dynamo

    compiled = framefuse.compile(lambda x: x * 2)
    assert isinstance(torch._dynamo.explain(compiled)(torch.ones(2)), framefuse.ExplainOutput)


@pytest.mark.compiles_nothing("torch compiles, not framefuse")
def test_allow_in_graph_returns_the_function():
    def f(x):
        return x

    assert torch.compiler.allow_in_graph(f) is f


@pytest.mark.parametrize("disable", [torch.compiler.disable, framefuse.disable])
@pytest.mark.parametrize("recursive", [True, False])
def test_disable_leaves_what_it_calls_to_be_compiled_only_if_asked(disable, recursive):
    graphs = []

    def record(graph, example):
        graphs.append([n.name for n in graph.graph.nodes if n.op == "call_function"])
        return graph.forward

    def innermost(x):
        return torch.tan(x)

    @disable(recursive=recursive)
    def middle(x):
        return innermost(torch.sin(x))

    def outermost(x):
        return torch.cos(middle(x * 2))

    compiled = framefuse.compile(outermost, backend=record)
    assert torch.equal(compiled(torch.ones(2)), outermost(torch.ones(2)))
    assert graphs == ([["mul"], ["cos"]] if recursive else [["mul"], ["tan"], ["cos"]])
    assert torch.equal(compiled(torch.ones(2)), outermost(torch.ones(2)))
