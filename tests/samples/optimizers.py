"""The samples of torch's optimizers: three compiled training steps of a tiny model under each OptimizerInput.

Invariant: each run builds its model and its optimizer again, from the same random numbers.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

from samples.observation import Observation, observed
from samples.trial import Compile, Form, Watch, seed
from zoo import device

DTYPES = (torch.float32, torch.float64)
_STEPS = 3


def entries() -> list[Any]:
    from torch.testing._internal.common_optimizers import optim_db

    return list(optim_db)


def name_of(info: Any) -> str:
    return info.name


def has(info: Any, dtype: torch.dtype) -> bool:
    return dtype in DTYPES


def forms(info: Any, dtype: torch.dtype) -> Iterator[Form]:
    # An optimizer that calls back runs many iterations in a step: in so many a rounding grows beyond all measure.
    few = {"max_iter": 2} if info.step_requires_closure else {}
    yield Form("as it chooses", lambda: _trials(info, dtype, few))
    if "foreach" in info.supported_impls:
        yield Form("one by one", lambda: _trials(info, dtype, {"foreach": False}))
        yield Form("foreach", lambda: _trials(info, dtype, {"foreach": True}))
    if "fused" in info.supported_impls and device.name in info.supports_fused_on:
        yield Form("fused", lambda: _trials(info, dtype, {"fused": True}))


def _trials(info: Any, dtype: torch.dtype, settings: dict[str, Any]) -> Iterator[Steps]:
    seed()
    for sample in info.optim_inputs_func(device.name):
        yield Steps(info, {**sample.kwargs, **settings}, dtype)


class _Matrices(torch.nn.Module):
    """A model without biases: some optimizers take matrices only."""

    def __init__(self, sparse: bool):
        super().__init__()
        self.table = torch.nn.Embedding(5, 4, sparse=True) if sparse else None
        self.first, self.last = (torch.nn.Linear(4, 4, bias=False) for _ in range(2))

    def forward(self, x):
        if self.table is not None:
            return self.table(x.argsort(-1)).mean(1)
        return self.last(torch.tanh(self.first(x)))


@dataclasses.dataclass
class Steps:
    info: Any
    settings: dict[str, Any]
    dtype: torch.dtype

    def run(self, compile: Compile, watch: Watch, wide: bool = False) -> Observation:
        dtype = torch.float64 if wide else self.dtype
        seed()
        model = _Matrices(self.info.only_supports_sparse_grads).to(device.name, self.dtype).to(dtype)
        inputs = [torch.randn(16, 4, dtype=self.dtype).to(device.name, dtype) for _ in range(_STEPS)]

        def work(observation: Observation) -> None:
            observation.phase = "construction"
            used = list(model.table.parameters()) if model.table is not None else list(model.parameters())
            optimizer = self.info.optim_cls(used, **copy.deepcopy(self.settings))
            step = compile(_step(model, optimizer, self.info.step_requires_closure))
            with watch():
                for number, x in enumerate(inputs):
                    observation.phase = f"step {number + 1}"
                    observation.add(f"loss {number + 1}", step(x))
                    observation.add(f"parameters {number + 1}", used)
            observation.add("state", optimizer.state_dict()["state"])
            observation.add("random", device.next_numbers())

        return observed(work)


def _step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, with_closure: bool):
    def step(x):
        optimizer.zero_grad()
        loss = (model(x) - 0.5).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    def step_with_closure(x):
        def closure():
            optimizer.zero_grad()
            loss = (model(x) - 0.5).square().mean()
            loss.backward()
            return loss

        return optimizer.step(closure)

    return step_with_closure if with_closure else step
