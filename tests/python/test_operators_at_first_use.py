"""Operators that are called for the first time in captured code: what torch makes and looks up for them then is no part of the
program, so that they are in the graph from the first call on."""

import itertools

import framefuse
import pytest
import torch

numbers = itertools.count()


@pytest.fixture
def name():
    return f"first_use_{next(numbers)}"


@pytest.fixture
def x():
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def whole(function, *args):
    """What the function gives, compiled as one graph at its first call; called once more."""
    compiled = framefuse.compile(function, backend="aten", fullgraph=True)
    before = framefuse.statistics()
    first = compiled(*args)
    torch.testing.assert_close(compiled(*args), first)
    after = framefuse.statistics()
    assert after["graphs"] > before["graphs"] and after["hits"] > before["hits"]
    assert after["graph_breaks"] == before["graph_breaks"]
    return first


def custom(name, function):
    operator = torch.library.custom_op(f"misc::{name}", function, mutates_args=())
    operator.register_fake(lambda x: torch.empty_like(x))
    return operator


def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_custom_op(name, x):
    operator = custom(name, twice)
    torch.testing.assert_close(whole(lambda x: operator(x) + 1, x), x * 2 + 1)


def test_custom_op_through_torch_ops(name, x):
    custom(name, twice)
    namespace = {}
    exec(f"import torch\ndef f(x):\n    return torch.ops.misc.{name}(x) + torch.ops.misc.{name}.default(x)", namespace)
    torch.testing.assert_close(whole(namespace["f"], x), x * 4)


def test_custom_op_with_a_gradient(name, x):
    operator = custom(name, twice)
    operator.register_autograd(lambda ctx, g: g * 3, setup_context=lambda ctx, inputs, output: None)
    x.requires_grad_()
    whole(lambda x: operator(x).sum(), x).backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 3.0))


def test_custom_op_that_writes(name, x):
    def add_one(x: torch.Tensor) -> None:
        x.add_(1)

    operator = torch.library.custom_op(f"misc::{name}", add_one, mutates_args=("x",))

    def f(x):
        y = x * 1
        operator(y)
        return y + 1

    compiled = framefuse.compile(f, backend="aten")
    torch.testing.assert_close(compiled(x), x + 2)
    torch.testing.assert_close(compiled(x), x + 2)


def test_triton_op(name, x):
    @torch.library.triton_op(f"misc::{name}", mutates_args=())
    def operator(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2

    torch.testing.assert_close(framefuse.compile(lambda x: operator(x) + 1)(x), x.sin() * 2 + 1)


@pytest.mark.parametrize("kind", ["CPU", "CompositeImplicitAutograd"])
def test_operator_of_a_library(name, x, kind):
    library = torch.library.Library(name, "FRAGMENT")
    library.define("work(Tensor x) -> Tensor")
    library.impl("work", lambda x: x.sin() + 1, kind)
    if kind == "CPU":
        torch.library.register_fake(f"{name}::work", lambda x: torch.empty_like(x), lib=library)
    namespace = {}
    exec(f"import torch\ndef f(x):\n    return torch.ops.{name}.work(x) * 2", namespace)
    torch.testing.assert_close(whole(namespace["f"], x), (x.sin() + 1) * 2)


def test_an_operator_that_is_not_there(name, x):
    namespace = {}
    exec(f"import torch\ndef f(x):\n    return x + hasattr(torch.ops.{name}, 'missing')", namespace)
    torch.testing.assert_close(framefuse.compile(namespace["f"])(x), x)
