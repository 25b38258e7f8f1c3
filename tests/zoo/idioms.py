"""What an idiom is, and the registry of all of them: a few lines as users write them, of no package but torch and numpy.

Invariant: the same name gives the same parameters and inputs; an idiom leaves global state as it found it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from zoo.package_programs import Program, random
from zoo.zoo_model import Built

_idioms: dict[str, Callable[..., Any]] = {}


def idiom(run: Callable[..., Any]) -> Callable[..., Any]:
    """Registers a function of the modules below and of x, which has the sizes (batch, 4, 8)."""
    _idioms[f"{run.__module__.rsplit('_', 1)[-1]}: {run.__name__.replace('_', ' ')}"] = run
    return run


def names() -> list[str]:
    return list(_idioms)


def build(name: str) -> Built:
    torch.manual_seed(0)
    inputs = random(4, 8)
    layer = nn.Linear(8, 8)
    modules = {"layer": layer, "other": nn.Linear(8, 8), "recurrent": nn.LSTM(8, 8, batch_first=True)}
    modules |= {"weight_normed": weight_norm(nn.Linear(8, 8)), "spectral": spectral_norm(nn.Linear(8, 8))}
    modules |= {"scripted": torch.jit.script(nn.Linear(8, 8))}
    model = Program(_idioms[name], **modules)
    return Built(model.eval(), lambda batch, training: (inputs(batch), {}))
