"""The FX module built from a recorded description computes what was recorded, whatever the values' containers and aliases."""

import operator

import framefuse
import pytest
import torch
from framefuse import _fx
from framefuse._backends import Backend


class Journal:
    """Records calls on plain tensors as a capture records them on fakes."""

    def __init__(self, **inputs):
        self.inputs = [(name, tensor, -1) for name, tensor in inputs.items()]
        self.nodes = []

    def add(self, op, target, args, kwargs, result):
        self.nodes.append((op, target, args, kwargs, result, 0, 0))

    def call(self, target, *args, **kwargs):
        result = target(*args, **kwargs)
        self.add("call_function", target, args, kwargs, result)
        return result

    def method(self, name, *args, **kwargs):
        result = getattr(args[0], name)(*args[1:], **kwargs)
        self.add("call_method", name, args, kwargs, result)
        return result

    def module(self, outputs):
        nothing_more = _fx.Recording(lambda fake: -1, lambda index: None, lambda value: None, lambda index: [], lambda number: None, 0)
        return _fx.build_graph_module(self.inputs, [], self.nodes, outputs, [], nothing_more)[0]

    def run(self, outputs, *tensors):
        return self.module(outputs)(*tensors)

    def compile(self, backend, keywords, outputs):
        return _fx.FxBackend(backend, keywords).compile(self.module(outputs), [tensor for _, tensor, _ in self.inputs], None)


@pytest.fixture
def x():
    return torch.arange(6.0).reshape(2, 3)


@pytest.mark.compiles_nothing("the FX graph is made by hand")
def test_functions_methods_and_keywords(x):
    j = Journal(**{"L['x']": x})
    total = j.method("sum", j.call(torch.add, x, x, alpha=3), dim=1)
    out = j.call(operator.mul, total, 2.0)
    y = torch.randn(2, 3)
    assert torch.equal(j.run([out, total], y)[0], (y + 3 * y).sum(1) * 2)
    module = j.module([out])
    assert [node.op for node in module.graph.nodes] == ["placeholder", "call_function", "call_method", "call_function", "output"]
    assert next(iter(module.graph.nodes)).name == "l_x_"


@pytest.mark.compiles_nothing("the FX graph is made by hand")
def test_results_in_sequences_become_getitems(x):
    j = Journal(x=x)
    first, second, third = j.call(torch.split, x, 1, 1)
    values, indices = j.call(torch.max, x, 1)
    stacked = j.call(torch.cat, [third, first])
    y = torch.randn(2, 3)
    got = j.run([stacked, values], y)
    assert torch.equal(got[0], torch.cat([y[:, 2:], y[:, :1]]))
    assert torch.equal(got[1], y.max(1).values)
    nodes = j.module([stacked]).graph.nodes
    assert sum(node.target is operator.getitem for node in nodes) == 2  # none for what is not used


@pytest.mark.compiles_nothing("the FX graph is made by hand")
def test_in_place_calls_keep_their_order(x):
    j = Journal(x=x.clone())
    value = j.inputs[0][1]
    before = j.call(torch.sum, value)
    j.method("add_", value, 1.0)
    after = j.call(torch.sum, value)
    y = torch.ones(2, 3)
    assert [t.item() for t in j.run([before, after], y)] == [6.0, 12.0]


@pytest.mark.compiles_nothing("the FX graph is made by hand")
def test_attributes_of_tensors_become_getattr(x):
    j = Journal(x=x)
    transposed = x.T
    j.add("get_attr", "T", (x, "T"), {}, transposed)
    out = j.call(operator.matmul, x, transposed)
    y = x + 1
    assert torch.equal(j.run([out], y)[0], y @ y.T)


@pytest.mark.compiles_nothing("the FX graph is made by hand")
def test_slices_and_tuples_as_arguments(x):
    j = Journal(x=x)
    out = j.call(operator.getitem, x, (slice(None), slice(0, 2)))
    assert torch.equal(j.run([out], x + 1)[0], x[:, :2] + 1)


@pytest.mark.compiles_nothing("the FX graph is made by hand")
def test_a_value_nobody_recorded_is_refused(x):
    j = Journal(x=x)
    j.add("call_function", torch.sin, (x + 1,), {}, torch.sin(x))
    with pytest.raises(_fx._Refused, match=r"shape \(2, 3\) was used that no recorded call returned"):
        j.run([], x)


@pytest.mark.compiles_nothing("the FX graph is made by hand")
def test_backend_gets_module_examples_and_keywords(x):
    seen = []

    def backend(gm, inputs, *, options):
        seen.append((gm, inputs, options))
        return gm.forward

    j = Journal(x=x)
    out = j.call(torch.sin, x)
    compiled = j.compile(Backend("mine", backend), {"options": {"a": 1}}, [out])
    assert torch.equal(compiled(x)[0], torch.sin(x))
    (gm, inputs, options) = seen[0]
    assert isinstance(gm, torch.fx.GraphModule) and options == {"a": 1}
    assert isinstance(inputs[0], torch._subclasses.FakeTensor) and inputs[0].shape == x.shape
    assert next(iter(gm.graph.nodes)).meta["example_value"] is inputs[0]


@pytest.mark.compiles_nothing("the FX graph is made by hand")
def test_backend_failures_are_named(x):
    def broken(gm, inputs):
        raise KeyError("no kernel")

    with pytest.raises(framefuse.BackendError, match="backend 'mine' raised KeyError") as raised:
        Journal(x=x).compile(Backend("mine", broken), {}, [x])
    assert isinstance(raised.value.__cause__, KeyError)
    assert raised.value.backend == "mine"
    with pytest.raises(framefuse.BackendError, match="returned NoneType, not a callable"):
        Journal(x=x).compile(Backend("mine", lambda gm, inputs: None), {}, [x])


@pytest.mark.compiles_nothing("the FX graph is made by hand")
@pytest.mark.parametrize("name", ["eager", "aot_eager"])
def test_backends_of_torchs_registry_take_the_module(x, name):
    from framefuse._backends import resolve_backend

    x = x.clone().requires_grad_()
    j = Journal(x=x)
    out = j.call(torch.sin, x)
    compiled = j.compile(resolve_backend(name), {}, [out])
    y = torch.ones(2, 3, requires_grad=True)
    result = compiled(y)[0]
    result.sum().backward()
    assert torch.allclose(result, torch.sin(y)) and torch.allclose(y.grad, torch.cos(y))


def test_arguments_are_kept_as_they_were_at_the_call():
    """A list that a call was given is written afterwards: DenseNet's features, which each layer appends to."""

    def grow(x):
        parts = [x]
        total = torch.cat(parts)
        parts.append(total + 1)
        first = torch.cat(parts)
        parts[0] = first.sum(0, keepdim=True).expand(2)
        options = {"dim": 0}
        last = torch.cat(parts, **options)
        options["dim"] = 1
        halves = list(torch.split(last, 2))
        halves.reverse()
        return torch.cat(halves)

    x = torch.randn(2)
    compiled = framefuse.compile(grow, backend=lambda gm, inputs: gm.forward, fullgraph=True)
    assert torch.equal(compiled(x), grow(x))


def test_tensors_made_of_numbers_keep_their_arguments(x):
    def f(x, scale):
        return x * torch.tensor([1.0, 2.0, scale]) + torch.as_tensor((3,), dtype=x.dtype)

    for backend in ("eager", "aot_eager"):
        compiled = framefuse.compile(f, backend=backend, fullgraph=True)
        for scale in (3.0, 4.0):
            torch.testing.assert_close(compiled(x, scale), f(x, scale))
