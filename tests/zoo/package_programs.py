"""What a program over public packages is, and the registry of all of them.

Invariant: making one downloads nothing; the same name gives the same parameters and inputs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from zoo.zoo_model import Built, Skip

Inputs = Callable[[int], tuple[Any, ...]]

_programs: dict[str, tuple[tuple[str, ...], Callable[[], tuple[nn.Module, Inputs]]]] = {}


def program(*needed: str) -> Callable[[Any], Any]:
    """Registers what makes a program; its name is the first package's and the function's."""

    def register(make: Callable[[], tuple[nn.Module, Inputs]]) -> Callable[[], tuple[nn.Module, Inputs]]:
        _programs[f"{needed[0]}: {make.__name__.replace('_', ' ')}"] = (needed, make)
        return make

    return register


class Program(nn.Module):
    """A function of its modules and its inputs."""

    def __init__(self, run: Callable[..., Any], **modules: nn.Module):
        super().__init__()
        self.run = run
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, *inputs: Any) -> Any:
        return self.run(self, *inputs)


def random(*sizes: int) -> Inputs:
    return lambda batch: (torch.randn(batch, *sizes, generator=torch.Generator().manual_seed(17)),)


def images(channels: int = 3, side: int = 16) -> Inputs:
    return lambda batch: (torch.rand(batch, channels, side, side, generator=torch.Generator().manual_seed(17)),)


def tokens(length: int = 10, count: int = 50) -> Inputs:
    return lambda batch: (torch.randint(count, (batch, length), generator=torch.Generator().manual_seed(17)),)


def names() -> list[str]:
    return list(_programs)


def build(name: str) -> Built:
    needed, make = _programs[name]
    for package in needed:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise Skip(f"{package} is not installed: {error}") from error
    torch.manual_seed(0)
    model, inputs = make()
    return Built(model.eval(), lambda batch, training: (inputs(batch), {}))
