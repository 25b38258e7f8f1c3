"""Small programs in the style of tutorials: meters, registries, callbacks, dispatch, delegation, pipelines of generators."""

import argparse
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import logging
import operator
import typing

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


def in_batches(data, n):
    batch = []
    for item in data:
        batch.append(item)
        if len(batch) == n:
            yield batch
            batch = []
    if batch:
        yield batch


def stacked(batches):
    for batch in batches:
        yield torch.stack([item * 2 for item in batch])


def leaves(tree):
    if isinstance(tree, (list, tuple)):
        for branch in tree:
            yield from leaves(branch)
    elif isinstance(tree, dict):
        for key in sorted(tree):
            yield from leaves(tree[key])
    else:
        yield tree


def running_total():
    total = 0
    while True:
        value = yield total
        if value is None:
            return total
        total = total + value


@program
def generators_as_pipelines():
    def f(x, n):
        total = 0
        for i, batch in enumerate(stacked(in_batches(x.unbind(), n))):
            total = total + batch.sum() * i
        totals = running_total()
        next(totals)
        for part in x.split(2):
            seen = totals.send(part.sum())
        try:
            totals.send(None)
        except StopIteration as stop:
            last = stop.value
        return total, seen, last, sum(leaves([x, {"b": (x * 2,), "a": x}]))

    return Case(f, vector(5), 2, then=[lambda: Args(vector(5), 3), lambda: Args(vector(6), 2)])


def pairs_of(values):
    first, second = itertools.tee(values)
    next(second, None)
    return zip(first, second)


def chunks(values, n):
    values = iter(values)
    while chunk := tuple(itertools.islice(values, n)):
        yield chunk


@program
def recipes_of_itertools():
    def f(x):
        rows = x.unbind()
        differences = [b - a for a, b in pairs_of(rows)]
        groups = {key: list(group) for key, group in itertools.groupby([1, 1, 2, 1], key=lambda n: n % 2)}
        totals = list(itertools.accumulate(rows, operator.add))
        turns = itertools.cycle([x, x * 2])
        folded = functools.reduce(torch.maximum, rows)
        filled = list(itertools.zip_longest(*[iter(range(5))] * 2, fillvalue=-1))
        flat = list(itertools.chain.from_iterable([[1], [2, 3]]))
        return differences, groups, totals, sum(next(turns) for _ in range(3)), folded, filled, flat, list(chunks("abcde", 2))

    return Case(f, vector(4), then=[lambda: Args(vector(3))])


@dataclasses.dataclass
class Step:
    by: int
    what: typing.Any


def apply(step, x):
    match step:
        case {"type": "scale", "by": by, **rest}:
            return x * by, rest
        case ["add", int(by) | float(by)]:
            return x + by
        case Step(by=1, what=other):
            return other * x
        case Step() as other:
            return x * other.by
        case str() if step.startswith("n"):
            return -x
        case Activation.RELU:
            return torch.relu(x)
        case [first, *others]:
            return x * first, others
        case None | False:
            return x
        case _:
            raise ValueError(f"unknown step: {step!r}")


@program
def steps_by_match():
    def f(x, step):
        try:
            return apply(step, x), apply(Step(1, x), x)
        except ValueError as error:
            return x, str(error)

    steps = [["add", 2.0], Step(3, None), "no", Activation.RELU, [4, 5, 6], None, 1.5]
    return Case(f, vector(), {"type": "scale", "by": 2, "z": 1}, then=[lambda s=s: Args(vector(), s) for s in steps])


class Output(typing.NamedTuple):
    logits: torch.Tensor
    loss: torch.Tensor | None = None

    def scaled(self, by):
        return self._replace(logits=self.logits * by)


@program
def outputs_and_shapes_as_texts():
    def f(x):
        logits, loss = Output(x * 2, x.sum()).scaled(2)
        text = f"{tuple(x.shape)} {x.dtype} {x.device!s:>6} {x.ndim:03d} {x.numel():,}"
        return logits + loss, text, "x".join(map(str, x.shape)), "%s/%d" % (list(x.size()), x.dim()), Output(x)._fields

    return Case(f, matrix(), then=[lambda: Args(matrix(4, 3)), lambda: Args(vector())])


@program
def contexts_on_a_stack():
    log = []

    @contextlib.contextmanager
    def noted(name):
        log.append("+" + name)
        try:
            yield name
        finally:
            log.append("-" + name)

    def f(x, fails):
        with contextlib.suppress(KeyError), contextlib.ExitStack() as stack:
            names = [stack.enter_context(noted(name)) for name in "ab"]
            stack.enter_context(torch.no_grad())
            stack.callback(log.append, "called back")
            x = x * 2
            if fails:
                {}["missing"]
            x = x + len(names)
        return x, x.requires_grad

    return Case(f, vector().requires_grad_(), False, observe=log, then=[lambda: Args(vector().requires_grad_(), True)])


class Tables:
    def __init__(self, n):
        self.n = n

    @functools.cached_property
    def steps(self):
        return torch.arange(self.n).float()

    @property
    def double(self):
        if not hasattr(self, "_double"):
            self._double = self.n * 2
        return self._double


@program
def properties_kept_after_the_first_read():
    tables = Tables(3)

    def f(x):
        return x * tables.steps + tables.double, "steps" in vars(tables)

    def forget():
        del tables.steps

    return Case(f, vector(), observe=tables, then=[lambda: None, forget, lambda: setattr(tables, "_double", 1)])


_LOGGER = logging.getLogger("conformance.tutorial_styles")
_LOGGER.setLevel(logging.WARNING)


class Logged(nn.Module):
    def forward(self, x):
        _LOGGER.debug("shape %s", x.shape)
        _LOGGER.info("in %s", tuple(x.shape))
        if _LOGGER.isEnabledFor(logging.INFO):
            x = x + 1
        return x * 2


@program
def options_and_logs_in_the_forward():
    options = argparse.Namespace(rate=0.5, layers=[1, 2], name="run")
    logged = Logged()

    def f(x):
        options.seen = getattr(options, "seen", 0) + 1
        kept = copy.copy(options)
        kept.rate = 1
        return logged(x) * options.rate * len(options.layers), "rate" in options, sorted(vars(kept)), kept == options

    return Case(f, vector(), observe=options, then=[lambda: None, lambda: delattr(options, "seen")])
