"""The samples of torch's modules: each ModuleInput, in evaluation and in training, forward and backward.

Invariant: each run builds its module again, from the same random numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

from samples.observation import Observation, backward, copied, differentiable, observed, tensors_of
from samples.trial import Compile, Form, Watch, seed
from zoo import device

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.complex64)


def entries() -> list[Any]:
    from torch.testing._internal.common_modules import module_db

    return list(module_db)


def name_of(info: Any) -> str:
    return info.name


def has(info: Any, dtype: torch.dtype) -> bool:
    return dtype in info.dtypes


def forms(info: Any, dtype: torch.dtype) -> Iterator[Form]:
    for training in (False, True):
        yield Form("training" if training else "evaluation", lambda training=training: _trials(info, dtype, training))


def _trials(info: Any, dtype: torch.dtype, training: bool) -> Iterator[ModuleCall]:
    seed()
    for sample in info.module_inputs_func(info, device.name, dtype, True, training):
        if sample.forward_input is not None:
            yield ModuleCall(info.module_cls, sample.constructor_input, sample.forward_input, dtype, training)


@dataclasses.dataclass
class ModuleCall:
    kind: type
    constructor: Any
    forward: Any
    dtype: torch.dtype
    training: bool

    def run(self, compile: Compile, watch: Watch, wide: bool = False) -> Observation:
        seed()
        args, kwargs = copied((self.constructor.args, self.constructor.kwargs), wide)
        module = self.kind(*args, **kwargs).to(device.name, self.dtype).train(self.training)
        if wide:
            module = module.to(torch.complex128 if self.dtype.is_complex else torch.float64)
        args, kwargs = copied((self.forward.args, self.forward.kwargs), wide)
        sources = tensors_of((args, kwargs))

        def work(observation: Observation) -> None:
            observation.phase = "forward"
            seed()
            function = compile(module)
            with watch():
                result = function(*args, **kwargs)
                observation.add("output", result, sources)
                observation.add_names(result)
                observation.phase = "backward"
                outputs = differentiable(result)
                if outputs:
                    backward(outputs)
            observation.add("input gradient", [t.grad for t in sources if t.is_leaf], strides=False)
            observation.add("parameter gradient", {n: p.grad for n, p in module.named_parameters()}, strides=False)
            observation.add("buffer", dict(module.named_buffers()))
            observation.add("random", device.next_numbers())

        return observed(work)
