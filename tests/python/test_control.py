"""disable, stance, cond and what is not built yet, seen from code that Python runs."""

import ast
import inspect
import math
import pathlib

import framefuse
import pytest
import torch


@pytest.mark.compiles_nothing("about what plain Python does")
def test_not_compiling_in_python():
    assert framefuse.is_compiling() is False
    assert framefuse.graph_break() is None


@pytest.mark.compiles_nothing("about what plain Python does")
def test_disable_forms():
    @framefuse.disable
    def double(x):
        """Doubles."""
        return x * 2

    @framefuse.disable(recursive=False)
    def triple(x):
        return x * 3

    assert double(2) == 4 and triple(2) == 6
    assert double.__name__ == "double" and double.__doc__ == "Doubles."
    with pytest.raises(TypeError, match=r"disable\(\) takes a function"):
        framefuse.disable(3)
    with pytest.raises(TypeError, match="recursive must be"):
        framefuse.disable(double, recursive=1)


@pytest.mark.compiles_nothing("about settings and names")
def test_stance_as_call_block_and_decorator():
    get = framefuse._C.get_stance
    framefuse.set_stance("force_eager")
    assert get().name == "force_eager"
    with framefuse.set_stance("fail_on_recompile"):
        assert get().name == "fail_on_recompile"
    assert get().name == "force_eager"
    framefuse.set_stance()
    assert get().name == "default"

    @framefuse.set_stance("eager_on_recompile")
    def inside():
        return get().name

    assert get().name == "default"
    assert inside() == "eager_on_recompile"
    assert get().name == "default"


@pytest.mark.compiles_nothing("about settings and names")
def test_unknown_stance():
    with pytest.raises(ValueError, match="unknown stance 'eager'; the stances are: default, force_eager"):
        framefuse.set_stance("eager")


@pytest.mark.compiles_nothing("about what plain Python does")
def test_cond():
    branches = (lambda x: x + 1, lambda x: x - 1)
    x = torch.zeros(2)
    assert torch.equal(framefuse.cond(torch.tensor(True), *branches, (x,)), x + 1)
    assert torch.equal(framefuse.cond(False, *branches, [x]), x - 1)
    with pytest.raises(TypeError, match="two callables"):
        framefuse.cond(True, 1, 2)


@pytest.mark.compiles_nothing("about settings and names")
def test_allow_in_graph_returns_its_argument():
    def f(x):
        return x

    assert framefuse.allow_in_graph(f) is f
    assert framefuse.allow_in_graph([f, math.lcm]) == [f, math.lcm]  # for the whole process: nothing else calls it
    with pytest.raises(TypeError, match=r"allow_in_graph\(\) takes a function"):
        framefuse.allow_in_graph(3)


@pytest.mark.compiles_nothing("about settings and names")
def test_statistics_count():
    assert {"captures", "graph_breaks", "recompiles", "hits", "live_fakes"} <= set(framefuse.statistics())


def public_functions():
    for name in framefuse.__all__:
        value = getattr(framefuse, name)
        members = vars(value).items() if inspect.isclass(value) else [(name, value)]
        yield from ((f"{name}: {member}", f) for member, f in members if inspect.isfunction(f) and not member.startswith("_"))


@pytest.mark.compiles_nothing("about settings and names")
def test_public_names_have_docstrings_and_types():
    for name in framefuse.__all__:
        assert getattr(framefuse, name).__doc__, name
    for name, function in public_functions():
        signature = inspect.signature(function)
        annotations = [p.annotation for p in signature.parameters.values() if p.name != "self"]
        assert inspect.Signature.empty not in [*annotations, signature.return_annotation], f"{name}{signature}"


@pytest.mark.compiles_nothing("about settings and names")
def test_the_stub_names_all_of_the_extension():
    stub = ast.parse(pathlib.Path(framefuse.__file__).with_name("_C.pyi").read_text())
    named = {node.name for node in stub.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert {name for name in dir(framefuse._C) if not name.startswith("__")} <= named
