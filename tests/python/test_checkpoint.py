"""torch.utils.checkpoint in captured code: one graph by every backend, and the memory that it is there to save."""

import framefuse
import pytest
import torch
from torch import nn
from torch.profiler import profile
from torch.utils.checkpoint import checkpoint

_DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


class _Blocks(nn.Module):
    def __init__(self, size, count):
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.ModuleList(nn.Linear(size, 4 * size) for _ in range(count))
        self.down = nn.ModuleList(nn.Linear(4 * size, size) for _ in range(count))

    def block(self, x, i):
        return x + self.down[i](torch.tanh(self.up[i](x)))

    def forward(self, x, checkpoints):
        for i in range(len(self.up)):
            x = checkpoint(self.block, x, i, use_reentrant=False) if checkpoints else self.block(x, i)
        return x.sum()


def _gradients(model, f, x):
    model.zero_grad()
    loss = f(x, True)
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in model.parameters())]


@pytest.mark.parametrize("device", _DEVICES)
@pytest.mark.parametrize("backend", ["aten", "fuse", "eager", "aot_eager"])
def test_one_graph_with_the_gradients_of_eager(backend, device):
    model = _Blocks(8, 3).to(device)
    x = torch.linspace(-1, 1, 32, device=device).view(4, 8)
    expected = _gradients(model, model, x)
    compiled = framefuse.compile(model, backend=backend, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(_gradients(model, compiled, x), expected)


def _bytes_held(f, x, checkpoints):
    """What a forward pass allocates on the CPU and leaves allocated."""
    f(x, checkpoints).backward()
    with profile(profile_memory=True) as seen:
        loss = f(x, checkpoints)
    loss.backward()
    return sum(event.self_cpu_memory_usage for event in seen.key_averages())


@pytest.mark.parametrize("backend", ["aten", "fuse"])
def test_no_more_is_kept_for_the_backward_pass_than_in_eager(backend):
    model = _Blocks(16, 4)
    x = torch.ones(256, 16)
    compiled = framefuse.compile(model, backend=backend, fullgraph=True)
    slack = 4096  # the loss, and what a graph keeps of it
    checkpointed = _bytes_held(compiled, x, True)
    assert checkpointed <= _bytes_held(model, x, True) + slack
    assert checkpointed < _bytes_held(compiled, x, False) / 3
