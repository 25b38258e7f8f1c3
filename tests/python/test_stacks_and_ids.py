"""Breaks, recompilations and errors name the place: the whole stack, the module, the expression, the compilation."""

import functools
import re
import subprocess
import sys

import framefuse
import pytest
import torch


class Attention(torch.nn.Module):
    def forward(self, x):
        return helper(x.sin())


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()

    def forward(self, x):
        return self.attention(x) + 1


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer(), Layer()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x * 2


def helper(x):
    y = x + breaks(x).cos()
    return y * 2


def breaks(x):
    framefuse.graph_break()
    return x * 3


def names(stack):
    return [frame.name for frame in stack if frame.filename == __file__]


def test_a_break_in_a_module_has_its_path_and_the_whole_stack():
    report = framefuse.explain(Model())(torch.ones(2))
    assert "\n    Module: layers.1.attention (Attention)\n" in str(report)
    first, second = (reason for reason in report.break_reasons if "graph_break()" in reason.reason)
    assert first.module == "layers.0.attention (Attention)"
    assert second.module == "layers.1.attention (Attention)"
    for reason in (first, second):
        # The second break is found after the first, in a frame that goes on in pieces.
        assert names(reason.user_stack) == ["forward", "forward", "forward", "helper", "breaks"]
        assert reason.user_stack[-1].line == "framefuse.graph_break()"
        assert not any("_call_impl" in frame.name for frame in reason.user_stack)


def test_a_module_below_a_function_and_a_decorator():
    def decorated(forward):
        @functools.wraps(forward)
        def wrapper(self, *args):
            return forward(self, *args)

        return wrapper

    class Wrapped(torch.nn.Module):
        @decorated
        def forward(self, x):
            return (lambda y: breaks(y) if self is not None else y)(x)

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.ReLU(), Wrapped())

        def forward(self, x):
            return self.inner(x)

    model = Outer()

    def step(x):
        return model(x).sum()

    reason = framefuse.explain(step)(torch.ones(2)).break_reasons[0]
    assert reason.module == f"inner.1 ({Wrapped.__qualname__})"
    assert names(reason.user_stack) == ["step", "forward", "wrapper", "forward", "<lambda>", "breaks"]


def test_a_break_in_a_rebuilt_frame_has_the_frames_around_it():
    def inner(x):
        framefuse.graph_break()
        x = x + 1
        framefuse.graph_break()
        return x * 2

    def outer(x):
        return inner(x.sin()).cos()

    report = framefuse.explain(outer)(torch.ones(2))
    assert [names(reason.user_stack) for reason in report.break_reasons] == [["outer", "inner"]] * 2


def test_the_expression_at_fault():
    def f(x):
        return x.sin() + torch.sort(input=x).values.numpy().sum() * torch.tensor(2)

    reason = framefuse.explain(f)(torch.ones(2)).break_reasons[0]
    assert reason.expression == "torch.sort(input=x).values.numpy().sum()"
    with framefuse.capture_logs("graph_breaks") as records:
        framefuse.compile(f, backend="aten")(torch.ones(2))
    assert "\n  at: torch.sort(input=x).values.numpy().sum()\n" in records[0][1]


def test_an_expression_of_several_lines_and_letters():
    def f(x):
        return "ä", len(str(
            print(x,
                  end="")
        ))  # fmt: skip

    reason = framefuse.explain(f)(torch.ones(2).sin()).break_reasons[0]
    assert reason.expression == 'print(x, end="")'


def test_the_log_names_module_and_callers():
    framefuse.reset()
    model = framefuse.compile(Model(), backend="aten")
    with framefuse.capture_logs("+graph_breaks") as records:
        model(torch.ones(2))
    text = records[0][1]
    assert "_call_impl" not in text
    assert "\n  module: layers.0.attention (Attention)\n" in text
    called_from = re.findall(r"called from .* in (\w+): ", text)
    own = [name for name in called_from if name in ("helper", "forward", "test_the_log_names_module_and_callers")]
    assert own == ["helper", "forward", "forward", "forward", "test_the_log_names_module_and_callers"]


def test_a_break_of_a_modules_call_itself_names_its_forward():
    framefuse.reset()
    model = framefuse.compile(Attention(), backend="aten")
    with framefuse.capture_logs("graph_breaks") as records:
        torch.jit.trace(model, torch.ones(2), check_trace=False)
    assert records[0][1].startswith(f"graph break at {__file__}:{Attention.forward.__code__.co_firstlineno} in forward: def forward(self, x):\n")


def test_the_caller_of_a_recompilation():
    compiled = framefuse.compile(lambda x, n: x * n, backend="aten", dynamic=False)
    compiled(torch.ones(2), 1)
    with framefuse.capture_logs("recompiles") as records:
        compiled(torch.ones(2), 2)  # this line
    assert re.search(rf"called from {re.escape(__file__)}:\d+ in test_the_caller_of_a_recompilation: .*# this line", records[0][1])


def test_compile_ids_count_frames_and_their_compilations():
    def f(x, n):
        x = x + n
        framefuse.graph_break()
        return x * n

    report = framefuse.explain(f)(torch.ones(2), 2)
    first, second = (tuple(map(int, id.split("/"))) for id in report.compile_ids)
    assert first[1] == second[1] == 0 and second[0] == first[0] + 1
    assert report.break_reasons[0].compile_id == report.compile_ids[0]
    assert f"Ops of Graph 2 [{report.compile_ids[1]}]:\n" in report.details()


def test_logs_carry_the_id(caplog):
    def f(x, n):
        return x * n

    compiled = framefuse.compile(f, backend="aten", dynamic=False)
    framefuse.set_logs(recompiles=True, guards=True)
    with caplog.at_level("INFO", logger="framefuse"):
        compiled(torch.ones(2), 1)
        compiled(torch.ones(2), 2)
    guards = [record.compile_id for record in caplog.records if record.name == "framefuse.guards"]
    (recompile,) = (record.compile_id for record in caplog.records if record.name == "framefuse.recompiles")
    frame = guards[0].partition("/")[0]
    assert guards == [f"{frame}/0", f"{frame}/1"] and recompile == f"{frame}/1"


def test_the_id_is_in_what_is_written(capfd):
    framefuse.set_logs(guards=True)
    framefuse.compile(lambda x: x + 1, backend="aten")(torch.ones(2))
    assert re.match(r"\[framefuse guards\] \[\d+/0\] def ", capfd.readouterr().err)


def test_errors_carry_the_id():
    def f(x):
        framefuse.graph_break()
        return x

    with pytest.raises(framefuse.Unsupported) as raised:
        framefuse.compile(f, fullgraph=True)(torch.ones(2))
    assert re.fullmatch(r"\d+/0", raised.value.compile_id)


def test_errors_of_a_backend_carry_the_id():
    def backend(module, inputs):
        raise ValueError("no")

    with pytest.raises(framefuse.BackendError) as raised:
        framefuse.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
    assert re.fullmatch(r"\d+/0", raised.value.compile_id)


def test_the_profiler_shows_the_region():
    def f(x):
        return x.sin() + 1

    compiled = framefuse.compile(f, backend="aten")
    framefuse.set_logs(guards=True)
    x = torch.ones(2)
    compiled(x)
    id = framefuse.explain(f)(x).compile_ids[0]
    assert re.fullmatch(r"\d+/0", id)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        compiled(x)
    regions = [event.key for event in profile.key_averages() if event.key.startswith("framefuse region")]
    assert len(regions) == 1 and re.fullmatch(r"framefuse region \[\d+/0\]", regions[0])


@pytest.mark.parametrize("artifact", ["guards", "graph", "perf", "effects", "bytecode", "graph_code", "fallbacks", "graph_breaks", "recompiles"])
def test_no_log_names_torchs_call_of_a_module(artifact):
    framefuse.reset()
    model = framefuse.compile(Model(), backend="aten", dynamic=False)
    with framefuse.capture_logs(artifact) as records:
        for size in (2, 3, 4):
            model(torch.ones(size))
    assert records or artifact == "fallbacks"
    for _, text in records:
        title = text.partition("\n")[0]
        assert "_call_impl" not in title, title


def guard_lines(artifact):
    framefuse.reset()
    model = framefuse.compile(lambda model, x: apply(model, x), backend="aten")
    with framefuse.capture_logs(artifact) as records:
        model(torch.nn.Linear(2, 2), torch.ones(1, 2))
    return [line for line in records[0][1].splitlines() if "# linear.py" in line]


def apply(model, x):
    return model(x)  # the user's call


def test_a_guard_that_a_library_needs_names_the_users_line():
    lines = guard_lines("guards")
    call = apply.__code__.co_firstlineno + 1
    assert lines and all(re.search(rf"# linear.py:\d+, called from {re.escape(__file__.rpartition('/')[2])}:{call}$", line) for line in lines)


def test_with_plus_a_guard_has_all_callers():
    own = re.escape(__file__.rpartition("/")[2])
    lines = guard_lines("+guards")
    assert lines and all(re.search(rf"# linear.py:\d+, called from (module.py:\d+, )*{own}:\d+, {own}:\d+$", line) for line in lines), lines


@pytest.mark.compiles_nothing("another process does")
def test_a_programs_exception_outlives_the_first_look_at_a_stack():
    """In a process of its own: what is looked up once is looked up while the exception is on its way."""
    code = """
import torch, framefuse
@framefuse.compile(fullgraph=True)
def f(x):
    y = x * 2
    x.add_(1)
    return y
try:
    f(torch.zeros(3, requires_grad=True))
except RuntimeError as error:
    print("raised:", error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "raised: a leaf Variable that requires grad" in done.stdout
