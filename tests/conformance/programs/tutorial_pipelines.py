"""Small programs in the style of tutorials: generators as pipelines, recipes of itertools, match statements, contexts."""

import argparse
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

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


class Mode(enum.Enum):
    FLAT = 1


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
        case Mode.FLAT:
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

    steps = [["add", 2.0], Step(3, None), "no", Mode.FLAT, [4, 5, 6], None, 1.5]
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
