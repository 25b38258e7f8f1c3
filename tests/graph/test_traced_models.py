"""Models as the tracer records them, through the plans of this folder: outputs, buffers, gradients as eager's."""

import copy
import pathlib
import sys

import pytest
import torch
from graph_module import native
from torch import nn

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(root / "tests" / "tracing"))

from harness import Recording, tensors_of  # noqa: E402
from test_models import GPT, Llama, ResNet  # noqa: E402


def compile_and_compare(model, args, save_all, backend="aten", steps=2, rtol=1e-5, atol=1e-5):
    recording = Recording(model, args, module=model)
    text = recording.closed.text()
    positions = [row["index"] for row in recording.closed.inputs() if row["tangent_of"] < 0]
    recording.drop()
    plan = native.Plan(text, backend, save_all)
    mine, eager = copy.deepcopy(model), copy.deepcopy(model)
    for step in range(steps):  # the second call sees the buffers that the first wrote
        reals = []
        for t in [*mine.parameters(), *mine.buffers(), *tensors_of(args)]:
            if not any(t is r for r in reals):
                reals.append(t)
        torch.manual_seed(step)
        got = plan.run([reals[i] for i in positions])
        torch.manual_seed(step)
        expected = tensors_of(eager(*args))
        assert len(got) == len(expected)
        for a, b in zip(got, expected):
            torch.testing.assert_close(a, b, rtol=rtol, atol=atol)
            assert a.stride() == b.stride() and a.requires_grad == b.requires_grad
        for a, b in zip(mine.buffers(), eager.buffers()):
            torch.testing.assert_close(a, b)
        tangents = [torch.randn_like(b) for b in expected if b.requires_grad]
        torch.autograd.backward([a for a in got if a.requires_grad], tangents)
        torch.autograd.backward([b for b in expected if b.requires_grad], tangents)
        for (name, a), b in zip(mine.named_parameters(), eager.parameters()):
            assert (a.grad is None) == (b.grad is None), name
            if b.grad is not None:
                # A gradient's elements are sums that cancel: exact to roundings of the largest one.
                largest = max(1.0, b.grad.abs().max().item())
                torch.testing.assert_close(a.grad, b.grad, rtol=rtol, atol=atol * largest, msg=lambda m: f"{name}: {m}")
    return plan


MODELS = {
    "resnet": lambda: (ResNet(), [torch.randn(2, 3, 32, 32)]),
    "resnet_eval": lambda: (ResNet().eval(), [torch.randn(2, 3, 32, 32)]),
    "channels_last": lambda: (ResNet(), [torch.randn(2, 3, 32, 32).to(memory_format=torch.channels_last)]),
    "encoder": lambda: (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True), 2),
        [torch.randn(2, 7, 32)],
    ),
    "gpt": lambda: (GPT(), [torch.randint(0, 50, (2, 16))]),
    "llama": lambda: (Llama(), [torch.randn(2, 6, 32)]),
    "lstm": lambda: (nn.LSTM(5, 6, 2, batch_first=True), [torch.randn(3, 4, 5)]),
    "group_norm": lambda: (
        nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU(), nn.Upsample(scale_factor=2)),
        [torch.randn(2, 4, 6, 6)],
    ),
}


@pytest.mark.parametrize("backend", ["aten", "fuse"])
@pytest.mark.parametrize("name", MODELS)
def test_model(name, backend):
    torch.manual_seed(0)
    model, args = MODELS[name]()
    compile_and_compare(model, args, save_all=True, backend=backend)
