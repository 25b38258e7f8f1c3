"""Lists of numbers as indices: torch makes a tensor of them, on this device or that, and the graph has it as a constant."""

import pytest
import torch

import framefuse

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"))]


@pytest.mark.parametrize("device", DEVICES)
def test_reads_writes_and_values(device):
    def f(x, ids):
        y = x[[0, 2]] + x[:, [-1, 0]].sum()
        x[[1]] = 3.0
        return y * 2 if 7 in ids[:, [-1, 0]] else y, x[[[0, 1], [2, 0]]]

    compiled = framefuse.compile(f, fullgraph=True)
    for first in (7, 5, 7):
        ids = torch.tensor([[first, 2, 3]], device=device)
        x = torch.arange(12.0, device=device).reshape(3, 4)
        own = x.clone()
        expected, results = f(own, ids), compiled(x, ids)
        assert all(torch.equal(a, b) for a, b in zip(expected, results)) and torch.equal(own, x)
