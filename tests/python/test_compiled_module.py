"""A compiled nn.Module is an nn.Module that shares the original's state, and differs from it only in how calls run."""

import copy
import gc
import inspect
import pickle
import weakref

import framefuse
import pytest
import torch
from torch import nn


class Net(nn.Module):
    registry = []

    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(3, width)
        self.norm = nn.BatchNorm1d(width)
        self.scale = 2.0

    def __init_subclass__(cls, **kwargs):
        Net.registry.append(cls)

    def forward(self, x, *, shift=0.0):
        return self.norm(self.fc(x)) * self.scale + shift

    def half(self, x):
        return self(x) / 2


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


@pytest.fixture
def x():
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(1))


@pytest.mark.compiles_nothing("about the object that compile returns, which is not called")
def test_is_a_module_of_the_same_class(net):
    compiled = framefuse.compile(net)
    assert isinstance(compiled, nn.Module)
    assert isinstance(compiled, Net)
    assert isinstance(compiled, framefuse.CompiledModule)
    assert not isinstance(net, framefuse.CompiledModule)
    assert repr(compiled) == repr(net)
    assert compiled._orig_mod is net
    assert Net.registry == []  # no __init_subclass__ of the user's was told of it


def test_computes_what_the_original_does(net, x):
    expected = copy.deepcopy(net)(x, shift=1.0)
    torch.testing.assert_close(framefuse.compile(net)(x, shift=1.0), expected)


def test_methods_and_forward(net, x):
    net.eval()
    compiled = framefuse.compile(net)
    assert torch.equal(compiled.half(x), net(x) / 2)
    assert torch.equal(compiled.forward(x), net(x))
    assert type(compiled).forward is Net.forward


@pytest.mark.compiles_nothing("about the object that compile returns, which is not called")
def test_signature_is_the_original_s(net):
    class Own(Net):
        __signature__ = inspect.Signature([inspect.Parameter("of_it", inspect.Parameter.POSITIONAL_ONLY)])

        def __call__(self, x):
            return super().__call__(x)

    class Called(Net):
        def __call__(self, x, *, shift=1.0):
            return super().__call__(x, shift=shift)

    for module in (net, nn.Sequential(net), Called(), Own()):
        for twin in (framefuse.compile(module), framefuse.disable(module)):
            assert inspect.signature(twin) == inspect.signature(module)
            assert inspect.signature(type(twin)) == inspect.signature(type(module))
    assert list(inspect.signature(framefuse.compile(Called())).parameters) == ["x", "shift"]


@pytest.mark.compiles_nothing("about the object that compile returns, which is not called")
def test_state_is_shared_both_ways(net):
    compiled = framefuse.compile(net)
    assert list(compiled.state_dict()) == list(net.state_dict())
    assert [name for name, _ in compiled.named_parameters()] == [name for name, _ in net.named_parameters()]
    compiled.eval()
    assert not net.training and not net.norm.training
    net.train()
    assert compiled.training
    compiled.scale = 5.0
    assert net.scale == 5.0
    net.extra = nn.Linear(1, 1)
    assert compiled.extra is net.extra
    compiled.load_state_dict({name: torch.zeros_like(t) for name, t in net.state_dict().items()})
    assert not net.fc.weight.any()


@pytest.mark.compiles_nothing("about the object that compile returns, which is not called")
def test_nothing_of_ours_in_the_shared_dict(net):
    before = set(vars(net))
    compiled = framefuse.compile(net)
    assert set(vars(net)) == before
    assert vars(compiled) is vars(net)


def test_assigned_forward_is_used_by_both(net, x):
    compiled = framefuse.compile(net)
    compiled.forward = lambda x: x + 1
    assert torch.equal(compiled(x), x + 1)
    assert torch.equal(net(x), x + 1)


def test_hooks_run(net, x):
    calls = []
    compiled = framefuse.compile(net)
    compiled.register_forward_pre_hook(lambda module, args: calls.append("before"))
    net.register_forward_hook(lambda module, args, result: calls.append("after"))
    compiled(x)
    assert calls == ["before", "after"]


@pytest.mark.compiles_nothing("about the object that compile returns, which is not called")
def test_deepcopy_is_compiled_and_independent(net, x):
    compiled = framefuse.compile(net, backend="aten")
    twin = copy.deepcopy(compiled)
    assert isinstance(twin, framefuse.CompiledModule)
    assert twin.fc.weight is not net.fc.weight
    with torch.no_grad():
        twin.fc.weight.zero_()
    assert net.fc.weight.any()
    assert twin._orig_mod is not net


@pytest.mark.compiles_nothing("about the object that compile returns, which is not called")
def test_deepcopy_inside_a_model_keeps_shared_parts_shared(net):
    model = nn.ModuleDict({"original": net, "compiled": framefuse.compile(net)})
    copied = copy.deepcopy(model)
    assert copied["compiled"]._orig_mod is copied["original"]
    assert copied["compiled"].fc is copied["original"].fc


@pytest.mark.compiles_nothing("about the object that compile returns, which is not called")
def test_shallow_copy_shares_parameters(net):
    shallow = copy.copy(framefuse.compile(net))
    assert isinstance(shallow, framefuse.CompiledModule)
    assert shallow.fc is net.fc
    shallow.scale = 7.0
    assert net.scale == 2.0


def test_pickle_round_trip(net, x):
    net.eval()
    loaded = pickle.loads(pickle.dumps(framefuse.compile(net, backend="aten", fullgraph=True)))
    assert isinstance(loaded, framefuse.CompiledModule)
    assert torch.equal(loaded(x), net(x))


def test_as_a_submodule(net, x):
    model = nn.Sequential(framefuse.compile(net), nn.ReLU())
    assert list(model.state_dict())[0] == "0.fc.weight"
    assert len(list(model.parameters())) == 4
    model.eval()
    assert not net.training
    assert torch.equal(model(x), torch.relu(net(x)))


@pytest.mark.compiles_nothing("about the object that compile returns, which is not called")
def test_compiling_a_compiled_module_starts_from_the_original(net):
    assert framefuse.compile(framefuse.compile(net), backend="aten")._orig_mod is net


@pytest.mark.compiles_nothing("about the object that compile returns, which is not called")
def test_containers_keep_their_protocols():
    layers = framefuse.compile(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    assert len(layers) == 2
    assert isinstance(layers[0], nn.Linear)
    assert [type(layer) for layer in layers] == [nn.Linear, nn.ReLU]


def test_training_moves_the_original(net, x):
    compiled = framefuse.compile(net)
    optimizer = torch.optim.SGD(compiled.parameters(), lr=0.1)
    before = net.fc.weight.detach().clone()
    compiled(x).square().sum().backward()
    optimizer.step()
    assert not torch.equal(net.fc.weight, before)


@pytest.mark.compiles_nothing("about the object that compile returns, which is not called")
def test_dies_with_its_last_reference():
    net = Net()
    dead, dead_twin = weakref.ref(net), weakref.ref(framefuse.compile(net))
    gc.collect()
    assert dead_twin() is None
    del net
    gc.collect()
    assert dead() is None


@pytest.mark.compiles_nothing("about the object that compile returns, which is not called")
def test_made_by_compile_only():
    with pytest.raises(TypeError, match="use framefuse.compile"):
        framefuse.CompiledModule()


@pytest.mark.compiles_nothing("about the object that compile returns, which is not called")
def test_disabled_module(net, x):
    net.eval()
    disabled = framefuse.disable(net)
    assert isinstance(disabled, Net)
    assert torch.equal(disabled(x), net(x))
    assert framefuse.compile(disabled) is disabled
    assert list(disabled.state_dict()) == list(net.state_dict())
    assert copy.deepcopy(disabled)._orig_mod is not net


def test_members_of_modules_are_guarded_where_they_were_looked_for():
    """nn.Module.__getattr__ looks in _parameters, _buffers and _modules, behind the instance's own attributes."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.tensor(2.0))

        def forward(self, x):
            try:
                return x * self.scale, x + getattr(self, "extra", 1)
            except AttributeError as error:
                return x, str(error)

    model, x = Model(), torch.ones(2)
    compiled = framefuse.compile(model.forward, backend="aten")

    def check():
        got, expected = compiled(x), model.forward(x)
        assert type(got[1]) is type(expected[1]) and torch.equal(got[0], expected[0])
        assert got[1] == expected[1] if isinstance(got[1], str) else torch.equal(got[1], expected[1])

    check()
    model._parameters["scale"] = torch.nn.Parameter(torch.tensor(3.0))
    check()
    model.__dict__["scale"] = torch.tensor(4.0)
    check()
    model._buffers["extra"] = torch.tensor(5.0)
    check()
    del model.__dict__["scale"], model._parameters["scale"]
    check()
    del model._buffers["scale"]
    check()
    model._modules["scale"] = torch.tensor(6.0)
    check()
    parameters = model.__dict__.pop("_parameters")
    check()
    model.__dict__["_parameters"] = {"scale": torch.tensor(7.0), **parameters}
    check()
