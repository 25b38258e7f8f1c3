"""Compiled functions are copied and pickled as functions are, compiled modules as modules; both work in spawned processes, and
with libraries that treat them as what they wrap."""

import copy
import functools
import io
import multiprocessing
import pickle
import warnings

import framefuse
import pytest
import torch
from torch import nn


def plain(x):
    return torch.sin(x) * 2


@framefuse.compile
def decorated(x):
    return torch.sin(x) * 2


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(4, width)

    def forward(self, x):
        return torch.relu(self.fc(x)) + 1

    @framefuse.compile
    def doubled(self, x):
        return self.fc(x) * 2

    def predict(self, x):
        return self(x)


class Holder:
    def __init__(self):
        self.loss = framefuse.compile(plain, backend="aten")
        self.net = framefuse.compile(Net(), backend="aten")
        self.call = framefuse.compile(self.net._orig_mod.predict, backend="aten")


@pytest.fixture
def x():
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def round_trip(object):
    return pickle.loads(pickle.dumps(object))


def is_compiled(object):
    return framefuse._C.is_compiled_function(object)


@pytest.mark.compiles_nothing("about the object that compile returns, which is not called")
def test_a_function_is_its_own_copy(x):
    compiled = framefuse.compile(plain)
    compiled.tag = 3
    assert copy.copy(compiled) is compiled
    assert copy.deepcopy(compiled) is compiled
    assert copy.deepcopy([compiled, compiled])[1] is compiled
    disabled = framefuse.disable(plain)
    assert copy.deepcopy(disabled) is disabled


def test_a_deep_copy_of_a_bound_method_is_of_another_object(x):
    net = Net()
    compiled = framefuse.compile(net.predict, backend="aten", fullgraph=True)
    compiled.tag = [3]
    copied = copy.deepcopy(compiled)
    assert is_compiled(copied)
    assert copied.__wrapped__.__self__ is not net
    assert copied.tag == [3] and copied.tag is not compiled.tag
    torch.testing.assert_close(copied(x), net(x))
    with pytest.raises(framefuse.Unsupported):  # the settings came along
        copy.deepcopy(framefuse.compile(Breaks().run, fullgraph=True))(x)


class Breaks:
    def run(self, x):
        framefuse.graph_break()
        return x + 1


def test_copies_inside_of_objects_keep_what_is_shared(x):
    holder = Holder()
    copied = copy.deepcopy(holder)
    assert copied.net.fc.weight is not holder.net.fc.weight
    assert copied.call.__wrapped__.__self__ is copied.net._orig_mod
    for of in (copied, round_trip(holder)):
        assert is_compiled(of.loss) and is_compiled(of.call)
        torch.testing.assert_close((of.loss(x), of.net(x), of.call(x)), (plain(x), holder.net(x), holder.net(x)))


def test_pickles(x):
    compiled = framefuse.compile(plain, backend="aten")
    compiled.tag = 3
    loaded = round_trip(compiled)
    assert is_compiled(loaded) and loaded.__wrapped__ is plain and loaded.tag == 3
    assert round_trip(decorated) is decorated
    assert round_trip(Net.doubled) is Net.doubled
    assert is_compiled(round_trip(functools.partial(compiled)).func)
    torch.testing.assert_close(round_trip(framefuse.disable(plain))(x), plain(x))
    net = Net()
    torch.testing.assert_close(round_trip(framefuse.compile(net.predict))(x), net(x))


@pytest.mark.compiles_nothing("about the object that compile returns, which is not called")
def test_what_cannot_be_pickled_says_what_it_is():
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda|local"):
        pickle.dumps(framefuse.compile(lambda x: x))


def test_torch_save(x):
    compiled = framefuse.compile(Net(), backend="aten")
    file = io.BytesIO()
    torch.save({"net": compiled, "loss": framefuse.compile(plain)}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert isinstance(loaded["net"], framefuse.CompiledModule) and is_compiled(loaded["loss"])
    torch.testing.assert_close(loaded["net"](x), compiled(x))


def work(queue, function, x):
    queue.put(function(x).tolist())


@pytest.mark.parametrize("of", ["function", "decorated", "method", "module"])
def test_spawned_process(x, of):
    net = Net()
    function = {
        "function": framefuse.compile(plain),
        "decorated": decorated,
        "method": framefuse.compile(net.predict),
        "module": framefuse.compile(net),
    }[of]
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue, function, x))
    process.start()
    torch.testing.assert_close(torch.tensor(queue.get(timeout=120)), function(x).detach())
    process.join()


# ---------------------------------------------------------------- libraries that take the module for the original


def test_another_module_of_its_class_is_one_of_the_originals(x):
    compiled = framefuse.compile(Net(width=2))
    another = type(compiled)(width=5)
    assert type(another) is Net and another.fc.out_features == 5
    bare = type(compiled).__new__(type(compiled))
    bare.__dict__.update(compiled.__dict__)
    torch.testing.assert_close(bare(x), compiled(x))
    with pytest.raises(TypeError, match="wide"):
        type(compiled)(wide=5)


def test_a_trainer_may_do_with_it_what_it_does_with_modules(x):
    compiled = framefuse.compile(Net())
    original = compiled._orig_mod
    compiled.trainer = "set on the twin"
    assert original.trainer == "set on the twin"
    compiled.to(torch.float64).train()
    assert original.fc.weight.dtype == torch.float64
    compiled.float().eval()
    assert not original.training
    forward = compiled.forward
    compiled.forward = lambda x: forward(x) * 0 + 5
    torch.testing.assert_close(compiled(x), torch.full((3, 4), 5.0))
    torch.testing.assert_close(original(x), torch.full((3, 4), 5.0))
    del compiled.forward
    torch.testing.assert_close(compiled(x), Net.forward(original, x))
    torch.testing.assert_close(type(compiled).forward(compiled, x), Net.forward(original, x))


class Trained(nn.Module):
    """As Lightning's modules: the trainer calls the step, and the step calls the module."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        with torch.no_grad():
            self.fc.weight.copy_(torch.arange(16.0).reshape(4, 4) / 16)
            self.fc.bias.zero_()

    def forward(self, x):
        return self.fc(x).relu()

    def training_step(self, batch, index):
        return ((self(batch) - index) ** 2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(module, batches):
    optimizer, losses = module.train().configure_optimizers(), []
    for index, batch in enumerate(batches):
        optimizer.zero_grad()
        loss = module.training_step(batch, index)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_trainer_that_calls_a_method_of_the_module(x):
    """What it fits is the compiled module, and not the one within."""
    batches = [x * (1 + i) for i in range(4)]
    before = framefuse.statistics()
    losses = fit(framefuse.compile(Trained(), fullgraph=True), batches)
    after = framefuse.statistics()
    assert losses == pytest.approx(fit(Trained(), batches))
    assert after["graphs"] - before["graphs"] == 1 and after["hits"] - before["hits"] == 3
    assert after["eager_fallbacks"] == before["eager_fallbacks"]


def test_copies_in_captured_code_are_compiled_once(x):
    linear = nn.Linear(4, 4)

    def step(x):
        net = copy.deepcopy(linear)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net(x).sum().backward()
        optimizer.step()
        return net(x)

    compiled = framefuse.compile(step, backend="aten")
    before = framefuse.statistics()
    for _ in range(40):
        torch.testing.assert_close(compiled(x), step(x))
    after = framefuse.statistics()
    assert after["captures"] - before["captures"] < 20


def test_what_expects_an_object_of_each_call_is_not_compiled_without_limit(x):
    @framefuse.disable
    def make():
        return nn.Parameter(torch.ones(4))

    def step(x):
        part = make()
        return x * part if part in {part} else x

    compiled = framefuse.compile(step, backend="aten")
    before = framefuse.statistics()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(40):
            torch.testing.assert_close(compiled(x), x)
    after = framefuse.statistics()
    assert after["captures"] - before["captures"] < 30
    assert "recompile_limit" in str(told[0].message)
