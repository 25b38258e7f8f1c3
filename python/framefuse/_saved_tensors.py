"""Tensors as bytes beside their layouts, so that a program reads them back without pickle."""

import ctypes
import pathlib
from typing import Any

import torch

Layout = dict[str, Any]  # dtype, sizes, strides, elements, device
_MOST_HOLES = 4


def copy(t: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides, also where elements share memory."""
    if t is None or t.layout != torch.strided or t.numel() == 0:
        return t if t is None else t.detach().clone()
    elements = _span(t)
    if elements > _MOST_HOLES * t.numel():
        return t.detach().clone()
    return t.detach().as_strided((elements,), (1,)).clone().as_strided(t.shape, t.stride())


def write(tensors: "list[torch.Tensor]", file: pathlib.Path) -> "list[Layout]":
    """Write the elements; returns what `read` needs besides."""
    layouts: "list[Layout]" = []
    with open(file, "wb") as out:
        for t in map(copy, tensors):
            flat = t.as_strided((_span(t),), (1,), t.storage_offset()).cpu().contiguous()
            out.write(ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size()))
            layouts.append(
                {
                    "dtype": str(t.dtype).removeprefix("torch."),
                    "sizes": list(t.shape),
                    "strides": list(t.stride()),
                    "elements": flat.numel(),
                    "device": str(t.device),
                }
            )
    return layouts


def read(layouts: "list[Layout]", file: pathlib.Path) -> "list[torch.Tensor]":
    """The tensors that `write` wrote."""
    data, at, tensors = bytearray(file.read_bytes()), 0, []
    for layout in layouts:
        dtype = getattr(torch, layout["dtype"])
        flat = torch.empty(0, dtype=dtype)
        if layout["elements"]:
            flat = torch.frombuffer(data, dtype=dtype, count=layout["elements"], offset=at).clone()
        at += flat.numel() * flat.element_size()
        tensors.append(flat.to(layout["device"]).as_strided(layout["sizes"], layout["strides"]))
    return tensors


def _span(t: torch.Tensor) -> int:
    return 0 if t.numel() == 0 else 1 + sum((size - 1) * stride for size, stride in zip(t.shape, t.stride(), strict=True))
