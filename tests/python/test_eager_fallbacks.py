"""What runs as Python inside a compiled call says so: in statistics(), in explain, in the log, and as an error under fullgraph.

One small program for each way to get there. Each is right as well: the results are eager's.
"""

import builtins
import contextlib
import cProfile
import inspect
import signal
import sys
import traceback
import types

import framefuse
import pytest
import torch
from framefuse import _cuda_graphs, _fx
from torch.utils._python_dispatch import TorchDispatchMode


def counts():
    return {name: count for name, count in framefuse.statistics().items() if name.startswith("eager_fallbacks.")}


@contextlib.contextmanager
def fallbacks():
    """The kinds that were counted in the block, and the log's texts."""
    framefuse.reset()
    before = counts()
    kinds, texts = {}, []
    with framefuse.capture_logs("fallbacks") as records:
        yield kinds, texts
    for name, count in counts().items():
        if count != before[name]:
            kinds[name.removeprefix("eager_fallbacks.")] = count - before[name]
    texts += [text for artifact, text in records if artifact == "fallbacks"]


def raises_in_capture(x):
    if torch.compiler.is_compiling():
        raise ValueError("not while compiling")
    return x + 1


async def generates(x):
    yield x + 1


def plain(x):
    return x.sin() + 1


@contextlib.contextmanager
def traced():
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        yield
    finally:
        sys.settrace(before)


@contextlib.contextmanager
def profiled_in_python():
    sys.setprofile(lambda *_: None)
    try:
        yield
    finally:
        sys.setprofile(None)


def finished(result):
    """What it is, or the first value of an async generator."""
    if hasattr(result, "asend"):
        try:
            return [result.asend(None).send(None)]
        except StopIteration as stop:
            return stop.value
    return result


def with_odd_builtins():
    names = {"__builtins__": {**vars(builtins), 3: 4}, "__name__": __name__}
    exec(compile("\n" * 9 + "def odd(x):\n    return x + 1", __file__, "exec"), names)
    return names["odd"]


class Passing(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


@contextlib.contextmanager
def without_further_compilations():
    with framefuse.config.patch(recompile_limit=0):
        yield


@contextlib.contextmanager
def recorded():
    framefuse._C.set_recording_probe(lambda: True)
    try:
        yield
    finally:
        framefuse._C.set_recording_probe(_cuda_graphs.is_recorded)


@contextlib.contextmanager
def with_a_bug():
    """No graph for a Python backend can be built."""
    build = _fx.build_graph_module
    _fx.build_graph_module = lambda *_: 1 / 0
    try:
        with framefuse.config.patch(raise_on_bug=False):
            yield
    finally:
        _fx.build_graph_module = build


@contextlib.contextmanager
def suppressing_errors():
    with framefuse.config.patch(suppress_errors=True):
        yield


def fails(module, inputs):
    raise KeyError("no such kernel")


@contextlib.contextmanager
def with_a_failing_kernel():
    """An operator whose kernel fails below a graph and nowhere else."""
    library = torch.library.Library("framefuse_ways", "FRAGMENT")
    library.define("odd(Tensor x) -> Tensor")
    library.impl("odd", fails_in_graphs, "CPU")
    library.impl("odd", torch.empty_like, "Meta")
    try:
        yield
    finally:
        library._destroy()


@framefuse.disable
def fails_in_graphs(x):
    if not any(frame.name == "calls_an_operator" for frame in traceback.extract_stack()):
        raise RuntimeError("failing kernel")
    return x.clone()


def calls_an_operator(x):
    return torch.ops.framefuse_ways.odd.default(x) + 1


# Its variables are names in its module's dictionary.
in_a_namespace = types.FunctionType(plain.__code__.replace(co_flags=plain.__code__.co_flags & ~inspect.CO_OPTIMIZED), globals())
# kind → (function, what is on around its calls, options): kinds that fullgraph refuses at each call. All kinds: test_kinds_of_fallbacks.py
WAYS = {
    "raised_in_capture": (raises_in_capture, contextlib.nullcontext, {}),
    "nothing_captured": (plain, Passing, {}),
    "async_generator": (generates, contextlib.nullcontext, {}),
    "traced": (plain, traced, {}),
    "recompile_limit": (plain, without_further_compilations, {}),
    "recorded_stream": (plain, recorded, {}),
    "bug": (plain, with_a_bug, {"backend": lambda module, _: module.forward}),
    "backend_failed": (plain, suppressing_errors, {"backend": fails}),
    "builtins": (with_odd_builtins(), contextlib.nullcontext, {}),
    "namespace": (in_a_namespace, contextlib.nullcontext, {}),
    "plan_failed": (calls_an_operator, with_a_failing_kernel, {"backend": "aten"}),
}


@pytest.mark.filterwarnings("ignore:framefuse. :RuntimeWarning")
@pytest.mark.parametrize("kind", WAYS)
def test_each_way_says_so(kind):
    f, around, options = WAYS[kind]
    x = torch.ones(3)
    compiled = framefuse.compile(f, **options)
    with fallbacks() as (kinds, texts):
        for _ in range(5):
            with around():
                result, expected = finished(compiled(x)), finished(f(x))
            assert torch.equal(torch.stack(list(result)), torch.stack(list(expected)))
    assert set(kinds) <= {kind, "waiting"} and sum(kinds.values()) == 5
    assert sum(f"{f.__qualname__} ({__file__}:{f.__code__.co_firstlineno}) runs as Python" in text for text in texts) >= 1
    framefuse.reset()
    with around():
        report = framefuse.explain(f, **options)(x)
    assert [fallback.kind for fallback in report.fallbacks] == [kind]
    assert report.fallbacks[0].function.name == f.__qualname__
    assert f"Ran as Python:\n  Function 1: {f.__qualname__}" in str(report)


@pytest.mark.filterwarnings("ignore:framefuse. :RuntimeWarning")
@pytest.mark.parametrize("kind", WAYS)
def test_each_way_is_an_error_under_fullgraph(kind):
    f, around, options = WAYS[kind]
    framefuse.reset()
    whole = framefuse.compile(f, fullgraph=True, **options)
    for _ in range(5):
        with pytest.raises(framefuse.Unsupported) as error, around():
            whole(torch.ones(3))
        assert f.__qualname__ in str(error.value) and "hint: " in str(error.value)
    if kind == "raised_in_capture":
        assert "ValueError: not while compiling" in str(error.value)


def test_what_raises_in_capture_is_tried_again():
    """Not given up for good: what failed may have been one call's arguments."""
    allowed = []

    def f(x):
        if not allowed and torch.compiler.is_compiling():
            raise ValueError("not yet")
        return x + 1

    compiled = framefuse.compile(f)
    for _ in range(8):
        compiled(torch.ones(3))
    allowed.append(True)
    before = framefuse.statistics()
    for _ in range(40):
        assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 2.0))
    after = framefuse.statistics()
    assert after["captures"] == before["captures"] + 1 and after["hits"] - before["hits"] >= 8


def test_the_programs_own_exception_is_no_complaint():
    def f(x):
        if x.shape[0] == 3:
            raise KeyError("three")
        return x + 1

    compiled = framefuse.compile(f)
    with fallbacks() as (kinds, texts):
        for _ in range(2):
            with pytest.raises(KeyError, match="three"):
                compiled(torch.ones(3))
    assert kinds == {"raises": 2} and texts == []
    with pytest.raises(KeyError):
        framefuse.compile(f, fullgraph=True)(torch.ones(3))


def test_another_exception_than_the_captures():
    def f(x):
        if torch.compiler.is_compiling():
            raise ValueError("captured")
        raise KeyError("python")

    with fallbacks() as (kinds, texts), pytest.raises(KeyError, match="python"):
        framefuse.compile(f)(torch.ones(3))
    assert kinds == {"raised_in_capture": 1} and "ValueError: captured" in texts[0]
    with pytest.raises(KeyError, match="python"):
        framefuse.compile(f, fullgraph=True)(torch.ones(3))


def test_a_generator_that_python_consumes_between_graphs(capsys):
    def pieces(x):
        for i in range(2):
            yield x + i

    def f(x):
        y = x * 2
        print(*pieces(y))
        return y + 1

    with fallbacks() as (kinds, texts):
        framefuse.compile(f)(torch.ones(3))
    assert kinds["generator"] == 1 and "pieces" in texts[0]
    assert capsys.readouterr().out == "tensor([2., 2., 2.]) tensor([3., 3., 3.])\n"


def test_below_a_dispatch_mode():
    with fallbacks() as (kinds, texts), Passing():
        framefuse.compile(plain)(torch.ones(3))
    assert kinds == {"nothing_captured": 1} and "a torch dispatch mode" in texts[0]


def test_builtins_with_keys_that_are_no_names():
    names = {"__builtins__": {**vars(builtins), 3: 4}}
    exec("def f(x):\n    return x + 1", names)
    with fallbacks() as (kinds, texts):
        assert torch.equal(framefuse.compile(names["f"])(torch.ones(2)), torch.full((2,), 2.0))
    assert kinds == {"builtins": 1} and "f (<string>:1)" in texts[0]
    with pytest.raises(framefuse.Unsupported, match="builtins"):
        framefuse.compile(names["f"], fullgraph=True)(torch.ones(2))


def test_many_pieces_without_tensor_work():
    def f(x):
        for _ in range(5100):
            framefuse.graph_break()
        return x + 1

    with fallbacks() as (kinds, texts):
        assert torch.equal(framefuse.compile(f)(torch.ones(2)), torch.full((2,), 2.0))
    assert kinds == {"idle": 1} and "5000 pieces" in texts[0]


@pytest.fixture
def failing_operator():
    """An operator whose kernel fails once for each item of the list."""
    failures = []

    def run(x):
        if failures:
            failures.pop()
            raise RuntimeError("failing kernel")
        return x.clone()

    library = torch.library.Library("framefuse_tests", "FRAGMENT")
    library.define("failing(Tensor x) -> Tensor")
    library.impl("failing", run, "CPU")
    library.impl("failing", torch.empty_like, "Meta")
    yield failures
    library._destroy()


def test_a_graph_that_fails_where_python_does_not(failing_operator):
    def f(x):
        return operator(x) + 1

    operator = torch.ops.framefuse_tests.failing.default
    expected = torch.full((2,), 2.0)
    compiled = framefuse.compile(f, backend="aten")
    with fallbacks() as (kinds, texts):
        assert torch.equal(compiled(torch.ones(2)), expected)
        failing_operator.append(1)
        assert torch.equal(compiled(torch.ones(2)), expected)
    assert kinds == {"plan_failed": 1, "raises": 1}  # the graph, and the kernel's own frame
    assert "RuntimeError: failing kernel" in texts[0]


def test_the_stance_is_counted_and_logged():
    compiled = framefuse.compile(plain)
    compiled(torch.ones(3))
    with fallbacks() as (kinds, texts):
        compiled(torch.ones(3))
        with framefuse.set_stance("eager_on_recompile"):
            compiled(torch.ones(4))
    assert kinds == {"stance": 1} and "the stance says so" in texts[0]
    whole = framefuse.compile(plain, fullgraph=True)
    whole(torch.ones(3))
    with framefuse.set_stance("eager_on_recompile"):
        whole(torch.ones(4))  # asked for


@pytest.mark.compiles_nothing("compiling is switched off")
def test_what_the_user_switches_off_by_name_is_no_fallback():
    with fallbacks() as (kinds, texts):
        with framefuse.config.patch(capture_on=False):
            framefuse.compile(plain)(torch.ones(3))
        with framefuse.set_stance("force_eager"):
            framefuse.compile(plain)(torch.ones(3))
        framefuse.disable(plain)(torch.ones(3))
    assert kinds == {} and texts == []


def test_profilers_in_c_see_compiled_code():
    """Soundness rule 17 said that the Python frame runs: whoever profiled a program saw another one than ran."""
    compiled = framefuse.compile(plain, fullgraph=True)
    x = torch.ones(3)
    before = framefuse.statistics()["hits"]
    profiler = cProfile.Profile()
    profiler.enable()
    first, second = compiled(x), compiled(x)
    profiler.disable()
    assert framefuse.statistics()["hits"] == before + 1
    assert torch.equal(first, plain(x)) and torch.equal(second, plain(x))
    with torch.profiler.profile(with_stack=True) as profile:
        compiled(x)
    assert framefuse.statistics()["hits"] == before + 2
    assert not any("plain" in event.name for event in profile.events())


def test_profile_functions_in_python_see_frames():
    seen = []

    def profile(frame, event, _):
        if event == "call":
            seen.append(frame.f_code.co_name)

    compiled = framefuse.compile(plain)
    sys.setprofile(profile)
    try:
        compiled(torch.ones(3))
    finally:
        sys.setprofile(None)
    assert "plain" in seen


def test_compiled_under_a_trace_function_where_asked_for():
    lines = []

    def trace(frame, *_):
        lines.append(frame.f_code.co_name)
        return trace

    compiled = framefuse.compile(plain, fullgraph=True)
    with framefuse.config.patch(compile_under_trace=True):
        sys.settrace(trace)
        try:
            results = [compiled(torch.ones(3)) for _ in range(3)]
        finally:
            sys.settrace(None)
    assert all(torch.equal(result, plain(torch.ones(3))) for result in results)
    assert "plain" not in lines


def test_a_watchers_own_frames_are_not_captured():
    def f(x):
        y = x + 1
        framefuse.graph_break()
        return str(y.shape) + str(helper(y))

    def helper(y):
        return float(y.sum())

    def trace(frame, *_):
        torch.zeros(2) + 1  # noqa: B018  a tensor operation: a graph, if this were captured
        return None

    compiled = framefuse.compile(f)
    with framefuse.config.patch(compile_under_trace=True):
        before = framefuse.statistics()["captures"]
        framefuse.reset()
        expected = f(torch.ones(3))
        sys.settrace(trace)
        try:
            assert compiled(torch.ones(3)) == expected
        finally:
            sys.settrace(None)
        traced_captures = framefuse.statistics()["captures"] - before
        framefuse.reset()
        before = framefuse.statistics()["captures"]
        assert compiled(torch.ones(3)) == expected
    assert traced_captures == framefuse.statistics()["captures"] - before


def test_a_waiting_signal_is_counted():
    handled = []
    before = signal.signal(signal.SIGUSR1, lambda *_: handled.append(True))
    try:
        compiled = framefuse.compile(plain)
        signal.raise_signal(signal.SIGUSR1)
        assert torch.equal(compiled(torch.ones(3)), plain(torch.ones(3)))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert handled == [True]


@pytest.mark.compiles_nothing("about settings and names")
def test_every_kind_has_a_name_and_a_count():
    assert len(counts()) >= 15
    assert framefuse.statistics()["eager_fallbacks"] == sum(counts().values())


@pytest.mark.filterwarnings("ignore:framefuse. :RuntimeWarning")
@pytest.mark.parametrize("backend", ["aten", lambda gm, examples: gm.forward])
def test_an_error_that_the_program_handles(backend):
    def f(x, i):
        x.add_(1)
        try:
            return x[i]
        except IndexError:
            return x * 2

    compiled = framefuse.compile(f, backend=backend)
    compiled(torch.ones(2), torch.tensor([0]))
    with fallbacks() as (kinds, _):
        assert torch.equal(compiled(torch.ones(2), torch.tensor([5])), torch.full((2,), 4.0))
    assert kinds == {"plan_failed": 1}

    whole = framefuse.compile(f, backend=backend, fullgraph=True)
    x = torch.ones(2)
    with pytest.raises(framefuse.Unsupported, match="IndexError"):
        whole(x, torch.tensor([5]))
    assert torch.equal(x, torch.full((2,), 2.0))  # Python ran the function, once


@pytest.mark.parametrize("backend", ["aten", lambda gm, examples: gm.forward])
def test_an_error_that_the_program_does_not_handle(backend):
    whole = framefuse.compile(lambda x, i: x[i] + 1, backend=backend, fullgraph=True)
    assert torch.equal(whole(torch.ones(2), torch.tensor([0])), torch.tensor([2.0]))
    with fallbacks() as (kinds, _), pytest.raises(IndexError):
        whole(torch.ones(2), torch.tensor([5]))
    assert kinds == {"raises": 1}
