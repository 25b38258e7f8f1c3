"""Blocks in which a graph break is an error (framefuse.error_on_graph_break and torch's), and torch's compile callbacks."""

import subprocess
import sys

import pytest
import torch
import torch._dynamo
from torch._dynamo import callback

import framefuse

X = torch.ones(3)
BOTH = [framefuse.error_on_graph_break, torch._dynamo.error_on_graph_break]


@pytest.fixture(autouse=True)
def fresh():
    framefuse.reset()  # a block is asked about when it is compiled, and these functions are compiled twice


def both(test):
    return pytest.mark.parametrize("error_on_graph_break", BOTH, ids=["framefuse", "torch"])(test)


def is_set():
    return framefuse._control._breaks_are_errors or torch._dynamo.utils._get_error_on_graph_break()


@both
def test_a_break_in_the_block_is_an_error(error_on_graph_break):
    def f(x, seen):
        with error_on_graph_break(True):
            y = x.sin()
            seen.append("before")
            framefuse.graph_break()  # here
        return y + 1

    seen = []
    with pytest.raises(framefuse.Unsupported, match=r"error_on_graph_break, but the graph breaks at .*test_breaks_as_errors.py:\d+ in f: .*# here"):
        framefuse.compile(f)(X, seen)
    assert seen == [] and not is_set()  # as with fullgraph=True: the frame did not run


@both
def test_breaks_elsewhere_are_breaks(error_on_graph_break):
    def f(x):
        framefuse.graph_break()
        with error_on_graph_break(True):
            y = x.sin()
            with error_on_graph_break(False):
                framefuse.graph_break()
            y = y * 2
        framefuse.graph_break()
        return y + 1

    before = framefuse.statistics()
    assert torch.equal(framefuse.compile(f)(X), X.sin() * 2 + 1) and not is_set()
    after = framefuse.statistics()
    assert after["graph_breaks"] - before["graph_breaks"] == 3 and after["graphs"] - before["graphs"] == 3


@both
def test_the_rest_of_a_block_after_a_break_is_in_the_block(error_on_graph_break):
    def f(x):
        with error_on_graph_break(True):
            with error_on_graph_break(False):
                framefuse.graph_break()
            y = x.sin()
            framefuse.graph_break()
        return y

    try:
        with pytest.raises(framefuse.Unsupported, match="error_on_graph_break"):
            framefuse.compile(f)(X)
        assert not is_set()
    finally:
        torch._dynamo.utils._set_error_on_graph_break(False)
        framefuse._control._breaks_are_errors = False


@both
def test_a_decorated_callee(error_on_graph_break):
    @error_on_graph_break(True)
    def inner(x):
        return x + 1 if x > 0 else x

    def f(x):
        framefuse.graph_break()
        return inner(x.sum())

    assert f(X) == 4
    with pytest.raises(framefuse.Unsupported, match="in inner"):
        framefuse.compile(f)(X)


@both
def test_a_block_around_the_call(error_on_graph_break):
    @framefuse.compile
    def f(x):
        framefuse.graph_break()
        return x + 1

    with error_on_graph_break(True), pytest.raises(framefuse.Unsupported, match="error_on_graph_break"):
        f(X)
    assert torch.equal(f(X), X + 1)
    with error_on_graph_break(True):
        assert torch.equal(f(X), X + 1)  # nothing is compiled


def test_fullgraph_comes_first():
    def f(x):
        with framefuse.error_on_graph_break(False):
            framefuse.graph_break()
        return x + 1

    with pytest.raises(framefuse.Unsupported, match="fullgraph=True, but"):
        framefuse.compile(f, fullgraph=True)(X)


@pytest.mark.compiles_nothing("about an argument")
def test_only_bools_are_taken():
    with pytest.raises(TypeError, match="error must be True or False, not 1"):
        framefuse.error_on_graph_break(1)


@pytest.fixture
def heard():
    calls = []
    callback.on_compile_start(lambda args: calls.append(("start", args.callback_trigger, args.compile_id)))
    callback.on_compile_end(lambda args: calls.append(("end", args.callback_trigger, args.compile_id)))
    yield calls
    callback.callback_handler.clear()


def test_callbacks_hear_of_each_compilation(heard):
    @framefuse.compile
    def f(x):
        y = x.sin()
        framefuse.graph_break()
        return y + 1

    f(X)
    f(X)
    assert [what for what, _, _ in heard] == ["start", "end"] * 2
    assert {trigger for _, trigger, _ in heard} == {callback.CallbackTrigger.DYNAMO}
    ids = [id for _, _, id in heard]
    assert ids[0] == ids[1] != ids[2] == ids[3] and ids[0].endswith("/0")
    f(torch.ones(4))
    assert len(heard) == 8 and heard[-1][2].endswith("/1")


def test_callbacks_hear_of_a_compilation_that_fails(heard):
    def f(x):
        framefuse.graph_break()
        return x + 1

    with pytest.raises(framefuse.Unsupported, match="fullgraph"):
        framefuse.compile(f, fullgraph=True)(X)
    assert [what for what, _, _ in heard] == ["start", "end"]


def test_callbacks_run_outside_of_the_capture():
    def looks(args):
        seen.append(framefuse.is_compiling())
        torch.ones(2).sum().item()  # no break, and no frame of ours

    seen = []
    before = framefuse.statistics()
    callback.on_compile_start(looks)
    try:
        assert torch.equal(framefuse.compile(lambda x: x + 1)(X), X + 1)
    finally:
        callback.callback_handler.clear()
    after = framefuse.statistics()
    assert seen == [False] and after["graph_breaks"] == before["graph_breaks"] and after["captures"] - before["captures"] == 1


def test_what_a_callback_raises_is_raised():
    def refuses(args):
        raise ValueError("not now")

    f = framefuse.compile(lambda x: x + 1)
    callback.on_compile_start(refuses)
    try:
        with pytest.raises(ValueError, match="not now"):
            f(X)
    finally:
        callback.callback_handler.clear()
    assert torch.equal(f(X), X + 1)


@pytest.mark.compiles_nothing("in this process")
def test_what_a_compilation_imports_hears_of_the_next_one():
    program = """
import torch, framefuse
@framefuse.compile
def f(x):
    import torch._dynamo
    return x + 1
print(f(torch.ones(2)).tolist(), f(torch.ones(3)).tolist())
"""
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True).stdout == "[2.0, 2.0] [2.0, 2.0, 2.0]\n"
