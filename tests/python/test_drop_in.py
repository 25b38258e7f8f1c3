"""as_torch_compile: code that calls torch.compile runs through framefuse's capture, and torch's knobs are honoured or named."""

import pathlib
import warnings

import framefuse
import pytest
import torch
from framefuse import _drop_in, _torch_knobs
from torch import nn

THEIRS = torch.compile


@pytest.fixture
def ours():
    framefuse.reset()
    _torch_knobs._told.clear()
    with framefuse.as_torch_compile():
        yield
    assert torch.compile is THEIRS


def counted(call):
    """(graphs that were captured in the call, graph breaks, what it returned)."""
    before = framefuse.statistics()
    result = call()
    after = framefuse.statistics()
    return after["graphs"] - before["graphs"], after["graph_breaks"] - before["graph_breaks"], result


def f(x):
    return torch.sin(x) + torch.cos(x)


X = torch.arange(6.0)


@pytest.mark.parametrize(
    "compiled",
    [
        lambda: torch.compile(f),
        lambda: torch.compile(fullgraph=True)(f),
        lambda: torch.compiler.compile(f),
        lambda: torch.compile(f, backend="inductor", mode="max-autotune"),
        lambda: torch.compile(f, options={"triton.cudagraphs": True}),
        lambda: torch.compile(f, backend="framefuse", options={"backend": "aten"}),
        lambda: torch._dynamo.optimize("inductor", nopython=True)(f),
        lambda: THEIRS(f),  # imported by name before
        lambda: THEIRS(f, mode="reduce-overhead", fullgraph=True),
        lambda: THEIRS(f, backend="eager"),
    ],
)
def test_every_door_leads_to_framefuse(ours, compiled):
    call = compiled()
    assert framefuse._C.is_compiled_function(call)
    graphs, breaks, result = counted(lambda: call(X))
    assert (graphs, breaks) == (1, 0)
    torch.testing.assert_close(result, f(X))


def test_modules(ours):
    model = nn.Sequential(nn.Linear(6, 3), nn.ReLU())
    compiled = torch.compile(model)
    assert isinstance(compiled, framefuse.CompiledModule)
    graphs, _, result = counted(lambda: compiled(X))
    assert graphs == 1 and torch.equal(result, model(X))
    framefuse.reset()
    expected = model(X)
    model.compile(fullgraph=True)
    graphs, _, result = counted(lambda: model(X))
    assert graphs == 1 and torch.equal(result, expected)


def test_classes_and_what_torch_compiled_before():
    theirs, their_module = torch.compile(f), torch.compile(nn.Linear(6, 3))
    with framefuse.as_torch_compile():

        @torch.compile
        class Doubles(nn.Module):
            def forward(self, x):
                return x * 2

        @torch.compile(fullgraph=True)
        class Calls:
            def __call__(self, x):
                return x * 3

        ours, our_module = torch.compile(theirs), torch.compile(their_module)
    framefuse.reset()
    for call, expected in ((Doubles(), X * 2), (Calls(), X * 3), (ours, f(X)), (our_module, their_module._orig_mod(X))):
        graphs, breaks, result = counted(lambda call=call: call(X))
        assert (graphs, breaks) == (1, 0)
        torch.testing.assert_close(result, expected)
    assert type(our_module).__mro__[2] is nn.Linear


def test_backends_get_the_graphs_of_framefuses_capture(ours):
    seen = []

    def record(gm, inputs, **settings):
        seen.append(([n.target for n in gm.graph.nodes if n.op == "call_function"], settings))
        return gm.forward

    torch.compile(f, backend=record, options={"a": 1})(X)
    assert len(seen) == 1 and len(seen[0][0]) == 3 and seen[0][1] == {"options": {"a": 1}}
    graphs, _, result = counted(lambda: torch.compile(f, backend="aot_eager")(X))
    assert graphs == 1 and torch.equal(result, f(X))


@pytest.mark.compiles_nothing("wrong arguments are refused before anything is compiled")
def test_wrong_arguments(ours):
    with pytest.raises(RuntimeError, match="Either mode or options"):
        torch.compile(f, mode="default", options={"max_autotune": True})
    with pytest.raises(RuntimeError, match="Unexpected optimization option speed"):
        torch.compile(f, options={"speed": 1})
    with pytest.raises(ValueError, match="unknown mode 'fast'"):
        torch.compile(f, mode="fast")
    with pytest.raises(ValueError, match="unknown backend 'inductr'"):
        torch.compile(f, backend="inductr")
    assert torch.compile(f, disable=True) is f


def test_what_means_nothing_is_told_once_by_name(ours):
    with pytest.warns(UserWarning, match=r"options=\{'max_autotune': …\}\) has no effect"):
        torch.compile(f, options={"max_autotune": True})(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.compile(f, options={"max_autotune": True})
    with pytest.warns(UserWarning, match=r"torch.compile\(isolate_recompiles=…\) has no effect"):
        torch.compile(f, isolate_recompiles=True)


def test_in_captured_code_it_is_what_it_is_given(ours):
    def outer(x):
        return torch.compile(f)(x) * 2

    graphs, breaks, result = counted(lambda: torch.compile(outer)(X))
    assert (graphs, breaks) == (1, 0)
    torch.testing.assert_close(result, outer(X))


def test_blocks_nest_and_end():
    framefuse.reset()  # other tests compile f, too
    with framefuse.as_torch_compile():
        with framefuse.as_torch_compile():
            assert torch.compile is not THEIRS
        assert torch.compile is not THEIRS
        compiled = torch.compile(f)
    assert torch.compile is THEIRS
    assert counted(lambda: compiled(X))[0] == 1  # what was compiled stays so


# ---------------------------------------------------------------- knobs


@pytest.mark.parametrize("name", ["recompile_limit", "cache_size_limit"])
def test_recompile_limit(ours, name):
    compiled = torch.compile(lambda x, n: x * n, dynamic=False)
    with torch._dynamo.config.patch({name: 2}):
        assert framefuse.config.recompile_limit == 2
        with pytest.warns(RuntimeWarning, match="config.recompile_limit is 2"):
            for n in range(2, 6):
                compiled(X, n)
    assert framefuse.config.recompile_limit == 8


@pytest.mark.parametrize("name", ["accumulated_recompile_limit", "accumulated_cache_size_limit"])
def test_accumulated_recompile_limit(ours, name):
    def scaled(x, n):
        return x * n

    compiled = [torch.compile(scaled, dynamic=False) for _ in range(3)]
    with torch._dynamo.config.patch({name: 2}), pytest.warns(RuntimeWarning, match="accumulated_recompile_limit, which counts for all compiled objects, is 2"):
        for n, one in enumerate(compiled, 2):
            assert torch.equal(one(X, n), X * n)
    assert framefuse.config.accumulated_recompile_limit == 256


@pytest.mark.parametrize("name", ["fail_on_recompile_limit_hit", "fail_on_cache_limit_hit"])
def test_fail_on_recompile_limit_hit(ours, name):
    compiled = torch.compile(lambda x, n: x * n, dynamic=False)
    with torch._dynamo.config.patch({name: True, "recompile_limit": 1}):
        compiled(X, 2)
        with pytest.raises(framefuse.Unsupported, match="config.recompile_limit is 1"):
            compiled(X, 3)
        assert torch.equal(compiled(X, 2), X * 2)


def test_settings_of_torch_made_before_are_taken_over_and_ours_come_back():
    import torch._dynamo

    with torch._dynamo.config.patch(recompile_limit=3), framefuse.as_torch_compile():
        assert framefuse.config.recompile_limit == 3
        torch.compile(f)(X)
    assert framefuse.config.recompile_limit == 8
    torch._dynamo.config.recompile_limit = 8


def test_error_on_recompile(ours):
    compiled = torch.compile(lambda x, kind: x + len(kind))
    compiled(X, "a")
    with torch._dynamo.config.patch(error_on_recompile=True), pytest.raises(RuntimeError, match="recompilation of .*lambda"):
        compiled(X, "bc")
    assert torch.equal(compiled(X, "bc"), X + 2)


def test_suppress_errors(ours):
    def fails(gm, inputs):
        raise KeyError("no such kernel")

    compiled = torch.compile(f, backend=fails)
    with pytest.raises(framefuse.BackendError, match="no such kernel"):
        compiled(X)
    with torch._dynamo.config.patch(suppress_errors=True), framefuse.capture_logs("fallbacks") as records:
        torch.testing.assert_close(compiled(X), f(X))
    assert any("no such kernel" in text for _, text in records)


@pytest.mark.parametrize(("specialize", "captures"), [(False, 2), (True, 4)])
def test_specialize_int(ours, specialize, captures):
    compiled = torch.compile(lambda x, n: x * n)
    before = framefuse.statistics()["captures"]
    with torch._dynamo.config.patch(specialize_int=specialize):
        for n in (3, 4, 5, 6):
            compiled(X, n)
    assert framefuse.statistics()["captures"] - before == captures


@pytest.mark.parametrize(
    ("settings", "captures"),
    [({}, 2), ({"automatic_dynamic_shapes": False}, 4), ({"assume_static_by_default": False}, 1)],
)
def test_sizes(ours, settings, captures):
    import torch._dynamo

    with torch._dynamo.config.patch(settings):
        compiled = torch.compile(f)
    before = framefuse.statistics()["captures"]
    for n in (3, 4, 5, 6):
        compiled(torch.ones(n))
    assert framefuse.statistics()["captures"] - before == captures


@pytest.mark.compiles_nothing("it is switched off")
def test_disable(ours):
    compiled = torch.compile(f)
    with torch._dynamo.config.patch(disable=True):
        assert counted(lambda: compiled(X))[0] == 0


@pytest.mark.compiles_nothing("about warnings")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("capture_scalar_outputs", True),
        ("capture_dynamic_output_shape_ops", True),
        ("force_parameter_static_shapes", False),
        ("capture_sparse_compute", False),
        ("optimize_ddp", False),
        ("ignore_logging_functions", {print}),
    ],
)
def test_knobs_without_effect_are_named_once(ours, name, value):
    import torch._dynamo

    with pytest.warns(UserWarning, match=f"torch._dynamo.config.{name}.* has no effect in framefuse"):
        patch = torch._dynamo.config.patch({name: value})
        patch.__enter__()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        patch.__exit__(None, None, None)
        with torch._dynamo.config.patch({name: value}):
            pass


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_knobs_that_torch_export_turns_and_puts_back_are_not_named(fresh_python):
    program = """
import warnings, framefuse, torch
torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),), strict=True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    framefuse.compile(torch.sin)
    with framefuse.as_torch_compile():
        torch.compile(torch.cos)
print([str(w.message) for w in caught])
"""
    assert fresh_python(program).strip() == "[]"


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_without_the_drop_in_knobs_that_were_turned_are_named_once(fresh_python):
    program = """
import warnings, framefuse, torch, torch._dynamo
torch._dynamo.config.cache_size_limit = 64
torch._dynamo.config.automatic_dynamic_shapes = False
torch._dynamo.config.verbose = True
torch._dynamo.config.capture_sparse_compute = False
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    framefuse.compile(torch.sin)
    framefuse.compile(torch.cos)
print(*sorted(str(w.message).split(" has no effect")[0] for w in caught), sep=", ")
print(framefuse.config.recompile_limit, caught[0].filename)
"""
    knobs = ["TORCH_COMPILE_DISABLE=1", "torch._dynamo.config.automatic_dynamic_shapes = False"]
    knobs += ["torch._dynamo.config.cache_size_limit = 64", "torch._dynamo.config.disable = True"]
    knobs += ["torch._dynamo.config.recompile_limit = 64", "torch._dynamo.config.verbose = True"]
    knobs.insert(3, "torch._dynamo.config.capture_sparse_compute")
    assert fresh_python(program, TORCH_COMPILE_DISABLE="1") == ", ".join(knobs) + "\n8 <string>\n"


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_programs_that_know_nothing_of_framefuse(fresh_python):
    program = """
import sys, torch
found = "framefuse" in sys.modules
@torch.compile
def f(x):
    return x + 1
f(torch.ones(2))
print(found, sys.modules["framefuse"].statistics()["graphs"] if found else "")
"""
    assert fresh_python(program, FRAMEFUSE_AS_TORCH_COMPILE="1").split() == ["True", "1"]
    assert fresh_python(program, FRAMEFUSE_AS_TORCH_COMPILE="0", TORCH_COMPILE_DISABLE="1").split() == ["False"]


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_torch_logs(fresh_python):
    program = """
import sys, torch, framefuse
sys.stderr = sys.stdout
@torch.compile
def f(x):
    framefuse.graph_break()
    return x + 1
f(torch.ones(2))
"""
    output = fresh_python(program, FRAMEFUSE_AS_TORCH_COMPILE="1", TORCH_LOGS="graph_breaks,+aot,distributed")
    assert "[framefuse graph_breaks] [0/0] graph break at <string>:" in output and "[framefuse aot] " in output


@pytest.mark.compiles_nothing("about tables")
def test_the_tables_are_torchs_settings_and_stand_in_the_page():
    import torch._dynamo

    defaults = {name: row[0] for name, row in {**_torch_knobs._HONOURED, **_torch_knobs._WITHOUT_EFFECT}.items()} | _torch_knobs._OF_SIZES
    for name, default in defaults.items():
        assert torch._dynamo.config._config[name].default == default or name.replace("cache_size", "recompile") in defaults, name
    page = (pathlib.Path(__file__).parents[2] / "docs" / "migration.md").read_text()
    missing = [name for name in (*defaults, *_torch_knobs._ENVIRONMENT, "TORCHDYNAMO_DISABLE") if name not in page]
    assert missing == []


@pytest.mark.compiles_nothing("runs in a process of its own")
@pytest.mark.parametrize(
    ("environment", "graphs"),
    [({}, 1), ({"TORCH_COMPILE_DISABLE": "1"}, 0), ({"TORCHDYNAMO_DISABLE": "1"}, 0)],
)
def test_environment(fresh_python, environment, graphs):
    program = """
import framefuse, sys, torch
@torch.compile
def f(x):
    return x + 1
f(torch.ones(2))
print(framefuse.statistics()["graphs"], "torch._dynamo" in sys.modules)
"""
    assert fresh_python(program, FRAMEFUSE_AS_TORCH_COMPILE="1", **environment) == f"{graphs} False\n"


# ---------------------------------------------------------------- functions of torch.compiler


def test_functions_of_torch_compiler_reach_captured_code(ours):
    @torch.compiler.disable(reason="it talks to a database")
    def apart(x):
        return x * 2

    def body(x):
        torch.compiler.cudagraph_mark_step_begin()
        if torch.compiler.is_compiling():
            x = x + 1
        return apart(x) + 1

    with framefuse.capture_logs("graph_breaks") as records:
        graphs, breaks, result = counted(lambda: torch.compile(body)(X))
    assert (graphs, breaks) == (2, 1) and torch.equal(result, (X + 1) * 2 + 1)
    assert "apart (it talks to a database)" in records[0][1]
    with torch.compiler.set_stance("force_eager"):
        assert counted(lambda: torch.compile(f)(X))[0] == 0
    torch.compiler.reset()


def test_regions_and_settings_for_a_block_are_captured_as_any_code(ours):
    import torch._dynamo

    @torch.compiler.nested_compile_region
    def region(x):
        return x.sin() + 1

    @torch._dynamo.dont_skip_tracing
    def traced(x):
        return x * 2

    for function in (lambda x: region(x) * 2, lambda x: traced(x) + 1):
        graphs, breaks, result = counted(lambda function=function: torch.compile(function, fullgraph=True)(X))
        assert (graphs, breaks) == (1, 0) and torch.equal(result, function(X))


def test_substitute_in_graph(ours):
    import operator

    @torch.compiler.substitute_in_graph(operator.indexOf)
    def index_of(a, b, /):
        for i, item in enumerate(a):
            if item is b or item == b:
                return i
        raise ValueError("sequence.index(x): x not in sequence")

    compiled = torch.compile(lambda x, items: x * operator.indexOf(items, 3), fullgraph=True)
    assert torch.equal(compiled(X, [1, 2, 3]), X * 2)


@pytest.mark.compiles_nothing("about warnings")
def test_settings_of_stances_that_we_have_not_are_named(ours):
    with pytest.warns(UserWarning, match="force_backend.*has no effect"), torch.compiler.set_stance("default", force_backend="eager"):
        pass


def test_reason_of_disable():
    apart = framefuse.disable(lambda x: x * 2, reason="slow to compile")
    report = framefuse.explain(lambda x: apart(x + 1))(X)
    assert "(slow to compile)" in report.break_reasons[0].reason
    with pytest.raises(TypeError, match="reason must be None or a str"):
        framefuse.disable(f, reason=3)


# ---------------------------------------------------------------- other modules of settings, callbacks


def warned(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(w.message).split(" has no effect in framefuse")[0] for w in caught if "has no effect in framefuse" in str(w.message)]


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_settings_of_others_are_named_once(fresh_python):
    program = """
import warnings, torch, framefuse
import torch._inductor.config as inductor, torch._functorch.config as functorch, torch.compiler.config as compiler
framefuse.as_torch_compile()
def compiled():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.compile(torch.sin)
    return sorted(str(w.message).split(" has no effect in framefuse")[0] for w in caught)
print(compiled())
inductor.fallback_random = True
inductor.triton.cudagraphs = True
functorch.activation_memory_budget = 0.5
compiler.job_id = "mine"
print(compiled())
print(compiled())
"""
    names = ["torch._functorch.config.activation_memory_budget", "torch._inductor.config.fallback_random", "torch.compiler.config.job_id"]
    assert fresh_python(program) == f"[]\n{names}\n[]\n"


@pytest.mark.compiles_nothing("about a setting")
def test_cuda_graphs_of_inductors_settings(ours):
    import torch._inductor.config

    with torch._inductor.config.patch({"triton.cudagraphs": True}):
        assert _drop_in._backend(None, None, None) == ("fuse", "reduce-overhead", None)
        assert _drop_in._backend(None, "default", None) == ("fuse", "default", None)
    assert _drop_in._backend(None, None, None) == ("fuse", None, None)


def test_explain_is_framefuses(ours):
    import torch._dynamo

    report = torch._dynamo.explain(f)(X)
    assert isinstance(report, framefuse.ExplainOutput) and report.graph_count == 1
