"""A package's graph as an fx.GraphModule, and torch.export's program of it: eager's values, at other sizes too."""

import io

import exported_models
import framefuse
import pytest
import torch
from exported_models import saved
from torch import nn
from torch.utils import _pytree

MODELS = exported_models.models()


def flat(value):
    return [leaf for leaf in _pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def check(module, f, *arguments):
    with torch.no_grad():
        got, want = module(*flat(arguments)), flat(f(*arguments))
    assert isinstance(got, tuple)
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5, equal_nan=True)


@pytest.mark.parametrize("name", MODELS)
def test_models(name, tmp_path):
    model, dynamic, example, calls = MODELS[name]
    exported = framefuse.export(model, dynamic=dynamic)(*example)
    for package in (exported, saved(exported, tmp_path)):
        module = package.graph_module()
        program = package.exported_program(*example).module()
        for arguments in calls:
            check(module, model, *arguments)
            if all(t.shape[0] > 1 for t in arguments):  # torch.export's symbolic sizes begin at 2
                check(program, model, *arguments)


def several_results(x):
    values, places = x.sort(dim=-1)
    parts = x.split(2, dim=-1)
    return values, places, parts[0] + parts[1][:, :2], x.max(0).values


def numbers(x, n):
    return x * 2.5 + n * 2, n * 0.5, x.clamp(max=float("inf")), x + torch.tensor([1.0, float("nan"), -float("inf"), 4.0, 0.0])


def named_ways(x):
    divided = torch.div(x, 0.3, rounding_mode="floor")
    return divided.to(torch.float64), torch.zeros(x.shape[0], dtype=torch.int32, device=x.device), torch.nn.functional.gelu(x, approximate="tanh")


def written(x):
    y = x * 2
    y[:, 1].add_(1)
    y.t()[0].mul_(3)
    return y, y[0]


def by_values(x):
    chosen = x[x > 0]
    return chosen * 2, torch.arange(chosen.shape[0])


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"one": nn.Linear(5, 5), "two": nn.BatchNorm1d(5)})
        self.register_buffer("steps", torch.arange(5))

    def forward(self, batch, *rest):
        return {"sum": self.layers["two"](self.layers["one"](batch["x"])) + self.steps + sum(rest), "seen": (batch["x"],)}


def test_what_nodes_take_and_give():
    x, n = torch.randn(3, 5), torch.arange(5)
    for f, arguments in ((several_results, (x,)), (numbers, (x, n)), (named_ways, (x,)), (written, (x,)), (Nested().eval(), ({"x": x}, x + 1, x + 2))):
        exported = framefuse.export(f)(*arguments)
        check(exported.graph_module(), f, *arguments)
        check(exported.exported_program(*arguments).module(), f, *arguments)


def test_sizes_that_follow_from_values():
    exported = framefuse.export(by_values, dynamic=True)(torch.randn(7))
    for n in (2, 5, 9):
        check(exported.graph_module(), by_values, torch.randn(n))
    check(exported.exported_program(torch.randn(7)).module(), by_values, torch.randn(11))


def test_arguments_have_their_names():
    exported = framefuse.export(Nested().eval(), dynamic={"batch['x']": 0})({"x": torch.randn(3, 5)}, torch.ones(5))
    module = exported.graph_module()
    placeholders = [node.target for node in module.graph.nodes if node.op == "placeholder"]
    assert placeholders == ["batch_x", "rest_0"]
    assert "layers.one.weight" in dict(module.named_parameters()) and "steps" in dict(module.named_buffers())
    assert any("Nested" in node.meta.get("stack_trace", "") or "forward" in node.meta.get("stack_trace", "") for node in module.graph.nodes)


def test_weights_are_the_models_own():
    model = nn.Linear(3, 2)
    module = framefuse.export(model)(torch.ones(1, 3)).graph_module()
    with torch.no_grad():
        model.weight.zero_()
        assert torch.equal(module(torch.ones(1, 3))[0], model.bias[None])
    assert not any(parameter.requires_grad for parameter in module.parameters())


def test_torch_saves_the_program():
    model, dynamic, example, calls = MODELS["symbolic batch"]
    file = io.BytesIO()
    torch.export.save(framefuse.export(model, dynamic=dynamic)(*example).exported_program(*example), file)
    file.seek(0)
    check(torch.export.load(file).module(), model, *calls[1])


def test_a_program_takes_what_the_package_takes():
    exported = framefuse.export(nn.Linear(3, 2))(torch.ones(1, 3))
    with pytest.raises(TypeError, match="input"):
        exported.exported_program([torch.ones(1, 3)])
    with pytest.raises(TypeError):
        exported.exported_program()


def test_text_of_a_file_does_not_run():
    exported = framefuse.export(torch.relu)(torch.ones(2))
    texts = dict(exported._package.texts)
    from framefuse import _graph_module

    for text in ("%0, __import__('os')", "%0, torch.hub", "%0, (lambda: 1)()", "%0, [x for x in [1]]"):
        bad = {**texts, "graph": texts["graph"].replace("aten.relu(%0)", f"aten.relu({text})")}
        assert bad != texts
        with pytest.raises(ValueError, match="has no form in torch.fx"):
            _graph_module.graph_module(bad, {})
