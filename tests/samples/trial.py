"""What is run: a trial is one sample in one form, which can be run eagerly, compiled, and in double precision.

Invariant: each run starts from copies of the same inputs and from the same random numbers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy
import torch

from samples.observation import Observation, backward, copied, differentiable, observed, tensors_of
from zoo import device

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]
Watch = Callable[[], contextlib.AbstractContextManager]


class Trial(Protocol):
    def run(self, compile: Compile, watch: Watch, wide: bool = False) -> Observation: ...


@dataclasses.dataclass
class Form:
    """A way of calling, with the trials of all samples."""

    name: str
    trials: Callable[[], Iterator[Trial]]


def seed() -> None:
    """Not torch.manual_seed: on a machine without an accelerator that keeps a traceback for it at each call."""
    torch.default_generator.manual_seed(1234)
    if device.name != "cpu":
        torch.cuda.manual_seed(1234)
    random.seed(1234)
    numpy.random.seed(1234)


def as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    """The identity compiler."""
    return function


@dataclasses.dataclass
class Call:
    """A function and its arguments; with `process`, that is a function on its result, a backward pass too."""

    function: Callable[..., Any]
    args: tuple
    kwargs: dict[str, Any]
    process: Callable[[Any], Any] | None = None

    def run(self, compile: Compile, watch: Watch, wide: bool = False) -> Observation:
        args, kwargs = copied((self.args, self.kwargs), wide)
        sources = tensors_of((args, kwargs))

        def work(observation: Observation) -> None:
            observation.phase = "forward"
            seed()
            function = compile(self.function)
            with torch.set_grad_enabled(self.process is not None), watch():
                result = function(*args, **kwargs)
                observation.add("output", result, sources)
                observation.add_names(result)
                observation.add("random", device.next_numbers())
                if self.process is not None:
                    observation.phase = "backward"
                    outputs = differentiable(self.process(result))
                    if outputs:
                        backward(outputs)
                    observation.add("gradient", [t.grad for t in sources if t.is_leaf], strides=False)
            observation.add("input after", sources)

        return observed(work)
