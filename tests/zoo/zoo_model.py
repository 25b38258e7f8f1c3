"""What a set offers: models that can be built tiny and called with inputs for any batch size."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

# Millions of parameters. A larger model is refused: it would only take time. Those of transformers are shrunk, the
# smallest variants of the others are what they are.
maximum = {"transformers": 5.0, "transformers5": 5.0, "timm": 100.0, "torchvision": 150.0}


class Skip(Exception):
    """A model that cannot be built or called here; the text says why."""


@dataclasses.dataclass
class Built:
    """A model and its inputs. `inputs(batch, training)` gives (args, kwargs), the same at each call."""

    model: torch.nn.Module
    inputs: Callable[[int, bool], tuple[tuple[Any, ...], dict[str, Any]]]
    note: str = ""


@dataclasses.dataclass
class ZooModel:
    """`build` imports, builds on the CPU and may raise Skip."""

    set_name: str
    name: str
    build: Callable[[], Built]


def count_parameters(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def check_size(set_name: str, count: int) -> None:
    if count > maximum[set_name] * 1e6:
        raise Skip(f"{count / 1e6:.1f} million parameters")
