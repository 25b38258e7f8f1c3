"""Small programs in the style of tutorials: meters, registries, callbacks, dispatch, delegation."""

import collections
import dataclasses
import enum
import functools

import torch
from torch import nn
from torch.nn import functional

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


class AverageMeter:
    def __init__(self, name, fmt=":f"):
        self.name, self.fmt = name, fmt
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        return ("{name} {val" + self.fmt + "} ({avg" + self.fmt + "})").format(**self.__dict__)


class ProgressMeter:
    def __init__(self, batches, meters, prefix=""):
        digits = len(str(batches))
        self.fmt = "[{:" + str(digits) + "d}/" + str(batches) + "]"
        self.meters, self.prefix, self.lines = meters, prefix, []

    def display(self, batch):
        self.lines.append("\t".join([self.prefix + self.fmt.format(batch), *map(str, self.meters)]))


@program(break_step=5)
def training_loop_with_meters():
    torch.manual_seed(0)
    net = nn.Linear(3, 2).double()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    losses, sizes = AverageMeter("Loss"), AverageMeter("Size", ":6.2f")
    progress = ProgressMeter(10, [sizes], "Epoch ")

    def f(x, batch):
        optimizer.zero_grad()
        loss = net(x.double()).square().mean()
        loss.backward()
        optimizer.step()
        losses.update(loss.detach(), x.size(0))
        sizes.update(x.size(0))
        progress.display(batch)
        return losses.avg, progress.lines[-1]

    return Case(
        f, matrix(), 1, observe=progress.lines, then=[lambda: Args(matrix(), 2), lambda: sizes.reset() or Args(matrix(4), 3)]
    )


@dataclasses.dataclass(frozen=True)
class Config:
    width: int = 4
    activation: str = "relu"
    layers: tuple = (2, 3)

    def __post_init__(self):
        if self.width < 0:
            raise ValueError("width")

    @property
    def hidden(self):
        return self.width * 2


@program
def settings_in_a_frozen_dataclass():
    def f(x, config):
        wide = dataclasses.replace(config, width=config.width + 1)
        try:
            dataclasses.replace(config, width=-1)
        except ValueError as error:
            why = str(error)
        act = {"relu": torch.relu, "tanh": torch.tanh}[config.activation]
        names = [field.name for field in dataclasses.fields(config)]
        return act(x * wide.hidden), dataclasses.asdict(wide), wide == config, repr(wide), names, why

    return Case(f, vector(), Config(), then=[lambda: Args(vector(), Config(activation="tanh"))])


@program
def registry_of_decorated_parts():
    registry = {}

    def register(part=None, *, name=None):
        if part is None:
            return functools.partial(register, name=name)
        registry[name or part.__name__] = part
        return part

    @register
    def shift(x):
        return x + 1

    @register(name="scale")
    class Scale:
        def __init__(self, by=3):
            self.by = by

        def __call__(self, x):
            return x * self.by

    def f(x, names):
        for name in names:
            part = registry[name]
            x = part()(x) if isinstance(part, type) else part(x)
        return x, sorted(registry)

    def replace():
        register(lambda x: x - 1, name="shift")

    return Case(f, vector(), ["shift", "scale"], then=[lambda: Args(vector(), ["scale", "scale"]), replace])


class Callback:
    def on_start(self, trainer):
        pass

    def on_end(self, trainer):
        pass


class History(Callback):
    def __init__(self):
        self.of = collections.defaultdict(list)

    def on_end(self, trainer):
        self.of["loss"].append(trainer.loss)


class EarlyStop(Callback):
    def __init__(self, patience):
        self.patience, self.calls = patience, 0

    def on_end(self, trainer):
        self.calls += 1
        if self.calls >= self.patience:
            trainer.stop = True


class Trainer:
    def __init__(self, callbacks):
        self.callbacks, self.stop, self.loss = callbacks, False, None
        self.weight = vector().requires_grad_()

    def fire(self, event):
        for callback in self.callbacks:
            getattr(callback, f"on_{event}")(self)

    def step(self, x):
        self.fire("start")
        loss = (self.weight * x).sum()
        self.loss = loss.detach()
        self.fire("end")
        return loss


@program
def trainer_with_callbacks():
    history = History()
    trainer = Trainer([history, EarlyStop(2)])

    def f(x):
        return trainer.step(x), trainer.stop, len(history.of["loss"])

    return Case(f, vector(), observe=history.of, then=[lambda: None, lambda: trainer.callbacks.pop() and None])


class Activation(enum.Enum):
    RELU = "relu"
    GELU = "gelu"
    NONE = "none"

    @property
    def smooth(self):
        return self is Activation.GELU

    @classmethod
    def parse(cls, text):
        try:
            return cls(text)
        except ValueError:
            return cls.NONE


@program
def dispatch_by_enumeration():
    table = {Activation.RELU: torch.relu, Activation.GELU: functional.gelu}
    in_place = {Activation.RELU}
    bounded = frozenset([Activation.NONE])

    def f(x, text):
        kind = Activation.parse(text)
        if kind in bounded:
            return x, kind.name, kind.smooth
        y = table[kind](x.clone() if kind in in_place else x)
        for other, function in table.items():
            if other is not kind:
                y = y + function(x)
        return y, kind.name, kind.smooth, [k.value for k in Activation]

    return Case(f, vector(), "relu", then=[lambda: Args(vector(), "gelu"), lambda: Args(vector(), "?"), in_place.clear])


@functools.singledispatch
def encode(value):
    return type(value).__name__


@encode.register
def _(value: int):
    return value + 1


@encode.register(list)
def _(value):
    return [encode(item) for item in value]


@encode.register
def _(value: torch.Tensor):
    return value * 2


class Encoder(nn.Module):
    @functools.singledispatchmethod
    def encode(self, value):
        raise NotImplementedError(type(value).__name__)

    @encode.register
    def _(self, value: torch.Tensor):
        return value + 1

    @encode.register
    def _(self, value: tuple):
        return sum(self.encode(item) for item in value)

    def forward(self, x):
        try:
            self.encode("text")
        except NotImplementedError as error:
            return self.encode((x, (x, x))), str(error)


@program
def dispatch_by_class():
    encoder = Encoder()

    def f(x, given):
        return encode(x), encode([1, x, "a", [given]]), encoder(x)

    return Case(f, vector(), 2, then=[lambda: Args(vector(), "text"), lambda: Args(vector(), 2.5)])


class Wrapper:
    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def __call__(self, *args, **kwargs):
        return self._inner(*args, **kwargs)


class Parallel(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)

    def forward(self, *args):
        return self.module(*args)


@program
def delegation_to_what_is_wrapped():
    torch.manual_seed(0)
    wrapper, parallel = Wrapper(nn.Linear(3, 2)), Parallel(nn.Linear(3, 2))

    def f(x):
        y = wrapper(x) * wrapper.in_features + parallel(x) * parallel.out_features
        return y, hasattr(wrapper, "nothing"), hasattr(parallel, "nothing"), parallel.weight.shape, wrapper.training

    return Case(f, matrix(), then=[lambda: wrapper.eval() and None, lambda: setattr(wrapper, "in_features", 7)])
