"""Whole models, forward and backward: values, gradients and buffers are eager's; the metadata oracle holds."""
import gc

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from harness import check, native


@pytest.fixture(autouse=True)
def no_fake_survives():
    yield
    gc.collect()
    assert native.live_fakes() == 0


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        y = self.norm2(self.conv2(y))
        y += self.skip(x)
        return F.relu(y, inplace=True)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
                                  nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(Block(8, 8, 1), Block(8, 16, 2), Block(16, 32, 2))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class GPT(nn.Module):
    def __init__(self, layers=2, width=32, heads=4, vocabulary=50, length=16):
        super().__init__()
        self.heads = heads
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.layers = nn.ModuleList(
            nn.ModuleDict({"n1": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width), "o": nn.Linear(width, width),
                           "n2": nn.LayerNorm(width), "up": nn.Linear(width, 4 * width),
                           "down": nn.Linear(4 * width, width)}) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        b, t = ids.shape
        x = self.tokens(ids) + self.positions(torch.arange(t))
        for layer in self.layers:
            q, k, v = layer["qkv"](layer["n1"](x)).split(x.size(-1), dim=-1)
            q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + layer["o"](y.transpose(1, 2).reshape(b, t, -1))
            x = x + layer["down"](F.gelu(layer["up"](layer["n2"](x)), approximate="tanh"))
        return self.norm(x) @ self.tokens.weight.t()


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        h = x.float()
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class Llama(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = RMSNorm(width), RMSNorm(width)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 64, bias=False), nn.Linear(width, 64, bias=False)
        self.down = nn.Linear(64, width, bias=False)
        self.register_buffer("frequencies", 1.0 / 10000 ** (torch.arange(0, 8, 2).float() / 8))

    def rotate(self, x):
        angles = torch.outer(torch.arange(x.size(2)).float(), self.frequencies)
        cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def forward(self, x):
        b, t, w = x.shape
        h = self.n1(x)
        q = self.rotate(self.q(h).view(b, t, self.heads, -1).transpose(1, 2))
        k, v = self.kv(h).view(b, t, 2, self.heads // 2, -1).unbind(2)
        k = self.rotate(k.transpose(1, 2)).repeat_interleave(2, 1)
        v = v.transpose(1, 2).repeat_interleave(2, 1)
        mask = torch.full((t, t), float("-inf")).triu(1)
        scores = q @ k.transpose(-1, -2) / 8 ** 0.5 + mask
        y = (scores.softmax(-1) @ v).transpose(1, 2).contiguous().view(b, t, w)
        x = x + self.o(y)
        return x + self.down(F.silu(self.gate(self.n2(x))) * self.up(self.n2(x)))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_resnet(training, memory_format):
    model = ResNet().train(training).to(memory_format=memory_format)
    check(lambda x, y: F.cross_entropy(model(x), y), torch.randn(4, 3, 32, 32).to(memory_format=memory_format),
          torch.randint(0, 10, (4,)), module=model)


@pytest.mark.parametrize("training", [True, False])
def test_transformer_encoder(training):
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True), 2).train(training)
    check(model, torch.randn(2, 7, 32), module=model)


def test_gpt():
    model = GPT()
    ids = torch.randint(0, 50, (2, 16))
    check(lambda ids: F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten()), ids, module=model)


def test_gpt_inference():
    model = GPT().eval()

    def f(ids):
        with torch.no_grad():
            return model(ids)

    assert not check(f, torch.randint(0, 50, (2, 16)), module=model).has_backward


def test_gpt_autocast():
    model = GPT()

    def f(ids):
        with torch.autocast("cpu", torch.bfloat16):
            return F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())

    check(f, torch.randint(0, 50, (2, 16)), module=model, exact=False)


def test_llama():
    model = Llama()
    check(model, torch.randn(2, 6, 32), module=model)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent(kind):
    model = kind(8, 12, num_layers=2, batch_first=True, bidirectional=True)
    check(lambda x: model(x)[0].sum(1), torch.randn(3, 5, 8), module=model, exact=False)


def test_group_norm_and_upsampling():
    model = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU(), nn.Upsample(scale_factor=2),
                          nn.ConvTranspose2d(8, 4, 2, stride=2), nn.AvgPool2d(2), nn.Conv2d(4, 4, 3, groups=4))
    check(model, torch.randn(2, 4, 8, 8), module=model)


def test_adam_step_inside():
    model = nn.Linear(4, 3)
    x = torch.randn(5, 4)
    m = [torch.zeros_like(p) for p in model.parameters()]
    v = [torch.zeros_like(p) for p in model.parameters()]

    def f(x, m, v):
        grads = torch.autograd.grad(model(x).pow(2).sum(), list(model.parameters()))
        with torch.no_grad():
            for p, g, a, b in zip(model.parameters(), grads, m, v):
                a.mul_(0.9).add_(g, alpha=0.1)
                b.mul_(0.999).addcmul_(g, g, value=0.001)
                p.addcdiv_(a, b.sqrt().add_(1e-8), value=-0.01)
        return []

    check(f, x, m, v, module=model)
