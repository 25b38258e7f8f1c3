"""The device that models and samples run on: the CPU, or a GPU by `--device cuda`.

Invariant: a process whose children use a GPU never begins to use it, for a forked child could not use it then. So it sees
none; `show` comes in the child before its first tensor.
"""

from __future__ import annotations

import os
from typing import Any

import torch

NAMES = ("cpu", "cuda")
name = "cpu"
_hidden, _visible = False, None


def choose(chosen: str, forks: bool = True) -> None:
    global name
    name = chosen
    if chosen != "cpu" and forks:
        _hide()


def _hide() -> None:
    global _hidden, _visible
    _hidden, _visible = True, os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # else torch counts devices by starting the driver


def show() -> None:
    """Raises where there is no such device: samples that cannot be made would only be skipped."""
    if name == "cpu":
        return
    if _hidden:
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        if _visible is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = _visible
    torch.ones(1, device=name)
    torch._C._set_cudnn_allow_tf32(False)  # its roundings would hide others; torch's own tests forbid the public way


def next_numbers() -> list[float]:
    """One random number of each generator that a sample may draw from."""
    return [torch.rand(1, device=place).item() for place in dict.fromkeys(("cpu", name))]


def moved(tree: Any) -> Any:
    """The tree with its tensors on the device."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.to(name), tree)
