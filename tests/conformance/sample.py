"""Small tensors for the programs, the same ones each time, and an object whose end can be heard."""

import torch


def vector(length: int = 3, start: float = 1.0) -> torch.Tensor:
    """start, start + 0.5, …"""
    return torch.arange(length, dtype=torch.float32) * 0.5 + start


def leaf(length: int = 3, start: float = 1.0) -> torch.Tensor:
    """A vector that requires a gradient."""
    return vector(length, start).requires_grad_()


def matrix(rows: int = 2, columns: int = 3) -> torch.Tensor:
    """Rows of 0, 0.25, 0.5, …"""
    return torch.arange(rows * columns, dtype=torch.float32).reshape(rows, columns) * 0.25


class Loud:
    """Says in a list when it ends."""

    def __init__(self, log: list) -> None:
        self._log = log

    def __del__(self) -> None:
        self._log.append("gone")
