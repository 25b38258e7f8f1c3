"""compile() of what has no code in Python, and of what wraps code of torch's or of the standard library: it is captured, and says so where not."""

import copy
import functools
import operator
import pathlib
import pickle
import subprocess
import sys

import framefuse
import pytest
import torch
from torch.nn import functional


class CallsC:
    __call__ = staticmethod(torch.sin)


@torch.jit.script
def scripted(x):
    return x * 2


CALLABLES = {
    "function": torch.sin,
    "softmax": functools.partial(torch.softmax, dim=-1),
    "method": torch.Tensor.exp,
    "packet": torch.ops.aten.sin,
    "overload": torch.ops.aten.sin.default,
    "partial of C code": functools.partial(torch.add, torch.ones(3)),
    "partial of torch's code": functools.partial(functional.relu, inplace=False),
    "partial of a partial": functools.partial(functools.partial(functional.gelu), approximate="tanh"),
    "object of torch's": torch.distributions.transforms.ExpTransform(),
    "scripted": scripted,
    "traced": torch.jit.trace(lambda x: x * 2, torch.ones(3)),
    "getter": operator.attrgetter("mT"),
}


SCRIPTED = ("scripted", "traced")


@pytest.mark.compiles_nothing("a process of its own does: torch.testing puts a method of its own on scripted functions")
@pytest.mark.parametrize("name", SCRIPTED)
def test_scripted_functions_are_captured_whole(name):
    program = f"import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r}); import test_c_callables as t; t.captured_whole({name!r})"
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in CALLABLES if name not in SCRIPTED])
def test_it_is_captured_whole(name):
    captured_whole(name)


def captured_whole(name):
    function, x = CALLABLES[name], torch.randn(2, 3)
    framefuse.reset()
    before = framefuse.statistics()
    compiled = framefuse.compile(function, fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), function(x))
    after = framefuse.statistics()
    assert after["captures"] - before["captures"] == 1 and after["hits"] - before["hits"] == 2
    assert framefuse.explain(function)(x).graph_count == 1


def test_a_call_that_is_no_function_of_python_is_an_error_under_fullgraph():
    framefuse.reset()
    assert torch.equal(framefuse.compile(CallsC())(torch.ones(3)), torch.ones(3).sin())
    with pytest.raises(framefuse.Unsupported):
        framefuse.compile(CallsC(), fullgraph=True)(torch.ones(3))


def test_copies_and_pickles():
    compiled = framefuse.compile(torch.sin)
    x = torch.ones(3)
    for made in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled)), framefuse.compile(compiled)):
        assert torch.equal(made(x), x.sin())
    assert compiled.__name__ == "sin"


@pytest.mark.compiles_nothing("it is disabled")
def test_what_is_disabled_stays_so():
    disabled = framefuse.disable(lambda x: x * 2)
    before = framefuse.statistics()["attempts"]
    assert torch.equal(framefuse.compile(disabled, fullgraph=True)(torch.ones(3)), torch.full((3,), 2.0))
    assert framefuse.statistics()["attempts"] == before


@pytest.mark.compiles_nothing("compiles in a process of its own, for which a function is allowed for good")
def test_what_a_function_of_c_raises_without_arguments_is_eagers():
    """As torch.cuda.is_current_stream_capturing() does where torch is built for a device that is not there."""
    program = """
import _asyncio, framefuse, torch
framefuse.allow_in_graph(_asyncio.get_running_loop)

def f(x):
    try:
        _asyncio.get_running_loop()
    except RuntimeError:
        return x * 3
    return x * 2

print(framefuse.compile(f, fullgraph=True)(torch.ones(2)).tolist())
"""
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=600)
    assert ended.stdout.strip() == "[3.0, 3.0]", ended.stderr
