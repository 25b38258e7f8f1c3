"""Wrong arguments of compile() are answered at once, with the right choices; right ones give callables that look like the original."""

import inspect

import framefuse
import pytest
import torch


def add(x, y=2):
    """Adds."""
    return x + y


@pytest.mark.compiles_nothing("wrong arguments are refused before anything is compiled")
@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (dict(mode="fast"), ValueError, ["unknown mode 'fast'", "reduce-overhead", "max-autotune"]),
        (dict(mode="default", options={}), ValueError, ["mode or options, not both"]),
        (dict(options=["a"]), TypeError, ["options must be a dict", "list"]),
        (dict(options={"tile": 4}), ValueError, ["'fuse' takes no options", "tile"]),
        (dict(backend="fuze"), ValueError, ["unknown backend 'fuze'", "did you mean 'fuse'", "aten", "inductor"]),
        (dict(backend=3), TypeError, ["backend must be a name or a callable", "int"]),
        (dict(fullgraph="yes"), TypeError, ["fullgraph must be True or False", "'yes'"]),
        (dict(disable=None), TypeError, ["disable must be True or False"]),
        (dict(dynamic="auto"), TypeError, ["dynamic must be None, True or False"]),
        (dict(full_graph=True), TypeError, ["full_graph"]),
    ],
)
@pytest.mark.parametrize("as_decorator", [False, True])
def test_wrong_argument(arguments, error, words, as_decorator):
    with pytest.raises(error) as raised:
        framefuse.compile(None if as_decorator else add, **arguments)
    for word in words:
        assert word in str(raised.value)


@pytest.mark.compiles_nothing("wrong arguments are refused before anything is compiled")
@pytest.mark.parametrize("model", [3, "forward", [add]])
def test_not_callable(model):
    with pytest.raises(TypeError, match="function, a method or an nn.Module"):
        framefuse.compile(model)


@pytest.mark.compiles_nothing("wrong arguments are refused before anything is compiled")
def test_class_instead_of_instance():
    with pytest.raises(TypeError, match="not the class Linear"):
        framefuse.compile(torch.nn.Linear)


@pytest.mark.compiles_nothing("wrong arguments are refused before anything is compiled")
def test_positional_options_are_refused():
    with pytest.raises(TypeError):
        framefuse.compile(add, True)


@pytest.mark.compiles_nothing("about the object that compile returns, which is not called")
def test_disable_returns_the_model_itself():
    module = torch.nn.ReLU()
    assert framefuse.compile(add, disable=True) is add
    assert framefuse.compile(module, disable=True) is module


@pytest.mark.compiles_nothing("about the object that compile returns, which is not called")
@pytest.mark.parametrize("compile", [framefuse.compile, framefuse.compile(), framefuse.compile(backend="aten")])
def test_result_looks_like_the_function(compile):
    compiled = compile(add)
    assert compiled is not add
    assert compiled.__wrapped__ is add
    assert (compiled.__name__, compiled.__doc__, compiled.__module__) == ("add", "Adds.", __name__)
    assert compiled.__qualname__ == add.__qualname__
    assert inspect.signature(compiled) == inspect.signature(add)


@pytest.mark.compiles_nothing("about the object that compile returns, which is not called")
def test_compiling_twice_wraps_once():
    assert framefuse.compile(framefuse.compile(add), backend="aten").__wrapped__ is add


def test_method_decorated_in_a_class_binds():
    class Scaled:
        def __init__(self, factor):
            self.factor = factor

        @framefuse.compile(backend="aten")
        def scale(self, x):
            return x * self.factor

    assert torch.equal(Scaled(3).scale(torch.ones(2)), torch.full((2,), 3.0))
    assert torch.equal(Scaled.scale(Scaled(4), torch.ones(2)), torch.full((2,), 4.0))


def test_calls_give_what_the_function_gives():
    compiled = framefuse.compile(add)
    x = torch.arange(4.0)
    assert torch.equal(compiled(x), x + 2)
    assert torch.equal(compiled(x, y=x), x + x)
    assert torch.equal(framefuse.compile(lambda t: t * 2)(x), x * 2)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        compiled()


@pytest.mark.parametrize("mode", [None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_every_mode_computes(mode):
    assert torch.equal(framefuse.compile(add, mode=mode)(torch.ones(2)), torch.full((2,), 3.0))


@pytest.mark.compiles_nothing("about the object that compile returns, which is not called")
def test_a_mode_without_effect_is_told_once():
    from framefuse import _compile

    _compile._told.clear()
    with framefuse.capture_logs("bugs") as records:
        for _ in range(2):
            framefuse.compile(add, mode="max-autotune")
            framefuse.compile(add, mode="default")
    assert [text for _, text in records] == ["mode='max-autotune' has no effect yet: what is compiled runs as in the default mode"]
