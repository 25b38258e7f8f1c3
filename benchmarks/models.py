"""Models to measure on, written out here because no model library is installed everywhere; shapes are the well-known ones, sizes kept
small where only the number of operations matters. `CASES` maps a name to a function: device → (callable, inputs)."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def two_lines(x, y):
    a = torch.sin(x)
    return a + torch.cos(y)


class ConvNet(nn.Module):
    """A small image classifier."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        )  # fmt: skip
        self.classify = nn.Linear(32, 10)

    def forward(self, x):
        return self.classify(self.features(x).flatten(1))


class GPTBlock(nn.Module):
    """Causal self-attention and a two-layer perceptron, normalised before."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    """A decoder with learned positions and a tied head."""

    def __init__(self, layers=12, width=64, heads=4, vocabulary=256, longest=64):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(GPTBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.T


class BasicBlock(nn.Module):
    """ResNet's two-convolution block."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return F.relu(out)


class ResNet18(nn.Module):
    def __init__(self, classes=1000, width=64):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        stages, inputs = [], width
        for outputs, stride in ((width, 1), (2 * width, 2), (4 * width, 2), (8 * width, 2)):
            stages.append(nn.Sequential(BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs, 1)))
            inputs = outputs
        self.stages = nn.Sequential(*stages)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(self.stages(x), 1), 1))


class DenseLayer(nn.Module):
    """Bottleneck and convolution over the concatenation of all earlier features."""

    def __init__(self, inputs, growth):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(inputs), nn.Conv2d(inputs, 4 * growth, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(4 * growth), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, features):
        x = self.conv1(F.relu(self.norm1(torch.cat(features, 1))))
        return self.conv2(F.relu(self.norm2(x)))


class DenseBlock(nn.ModuleDict):
    def __init__(self, layers, inputs, growth):
        super().__init__({f"denselayer{i + 1}": DenseLayer(inputs + i * growth, growth) for i in range(layers)})

    def forward(self, x):
        features = [x]
        for layer in self.values():
            features.append(layer(features))
        return torch.cat(features, 1)


class DenseNet121(nn.Module):
    def __init__(self, growth=32, layers=(6, 12, 24, 16), classes=1000):
        super().__init__()
        width = 64
        stem = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        self.features = nn.Sequential(*stem)
        for number, count in enumerate(layers):
            self.features.append(DenseBlock(count, width, growth))
            width += count * growth
            if number + 1 < len(layers):
                transition = [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
                self.features.append(nn.Sequential(*transition))
                width //= 2
        self.features.append(nn.BatchNorm2d(width))
        self.classify = nn.Linear(width, classes)

    def forward(self, x):
        x = F.relu(self.features(x))
        return self.classify(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class LlamaBlock(nn.Module):
    """Rotary attention with grouped keys, and a gated perceptron."""

    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)

    def rotate(self, x, cos, sin):
        left, right = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-right, left), dim=-1) * sin

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        y = self.norm1(x)
        q = self.rotate(self.q(y).view(batch, length, self.heads, self.size).transpose(1, 2), cos, sin)
        k = self.rotate(self.k(y).view(batch, length, self.groups, self.size).transpose(1, 2), cos, sin)
        v = self.v(y).view(batch, length, self.groups, self.size).transpose(1, 2)
        k, v = (t.repeat_interleave(self.heads // self.groups, dim=1) for t in (k, v))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, -1)
        x = x + self.o(attended)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, layers=8, width=64, heads=4, groups=2, vocabulary=256):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, groups) for _ in range(layers))
        self.norm, self.head = RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        frequencies = 1.0 / 10000 ** (torch.arange(0, width // heads, 2).float() / (width // heads))
        self.register_buffer("frequencies", frequencies)

    def forward(self, tokens):
        angles = torch.outer(torch.arange(tokens.shape[1], device=tokens.device), self.frequencies)
        angles = torch.cat((angles, angles), dim=-1)
        x, cos, sin = self.tokens(tokens), angles.cos(), angles.sin()
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


class RelativeBias(nn.Module):
    """A learned number for each head and bucket of distances: one bucket a distance when near, wider ones further off."""

    def __init__(self, heads, buckets=32, furthest=128, causal=False):
        super().__init__()
        self.buckets, self.furthest, self.causal = buckets, furthest, causal
        self.table = nn.Embedding(buckets, heads)

    def forward(self, length, device):
        positions = torch.arange(length, device=device)
        distance = positions[None, :] - positions[:, None]
        buckets, first = self.buckets, 0
        if self.causal:
            distance = -torch.min(distance, torch.zeros_like(distance))
        else:
            buckets //= 2
            first = (distance > 0).long() * buckets
            distance = distance.abs()
        near = buckets // 2
        wide = near + (torch.log(distance.float() / near) / math.log(self.furthest / near) * (buckets - near)).long()
        wide = torch.min(wide, torch.full_like(wide, buckets - 1))
        bias = self.table(first + torch.where(distance < near, distance, wide)).permute(2, 0, 1)[None]
        if self.causal:
            hidden = torch.ones(length, length, dtype=torch.bool, device=device).triu(1)
            bias = bias.masked_fill(hidden, float("-inf"))
        return bias


class T5Attention(nn.Module):
    """Normalised before, without a scale; keys and values come from `memory`, if there is one."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = RMSNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, memory=None, bias=None):
        y = self.norm(x)
        source = y if memory is None else memory
        scores = self.split(self.q(y)) @ self.split(self.k(source)).transpose(2, 3)
        if bias is not None:
            scores = scores + bias
        attended = F.softmax(scores.float(), dim=-1).type_as(scores) @ self.split(self.v(source))
        return x + self.o(attended.transpose(1, 2).reshape(x.shape))


class T5Block(nn.Module):
    def __init__(self, width, heads, decoder):
        super().__init__()
        self.own = T5Attention(width, heads)
        self.cross = T5Attention(width, heads) if decoder else None
        self.norm = RMSNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x, bias, memory=None):
        x = self.own(x, bias=bias)
        if self.cross is not None:
            x = self.cross(x, memory)
        return x + self.down(F.relu(self.up(self.norm(x))))


class T5(nn.Module):
    """Encoder and decoder with one embedding; every block of a stack adds the same relative bias."""

    def __init__(self, layers=6, width=64, heads=4, vocabulary=256):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.bias, self.causal_bias = RelativeBias(heads), RelativeBias(heads, causal=True)
        self.encoder = nn.ModuleList(T5Block(width, heads, decoder=False) for _ in range(layers))
        self.decoder = nn.ModuleList(T5Block(width, heads, decoder=True) for _ in range(layers))
        self.norm, self.last_norm = RMSNorm(width), RMSNorm(width)

    def forward(self, tokens, targets):
        memory, bias = self.tokens(tokens), self.bias(tokens.shape[1], tokens.device)
        for block in self.encoder:
            memory = block(memory, bias)
        memory = self.norm(memory)
        x, bias = self.tokens(targets), self.causal_bias(targets.shape[1], targets.device)
        for block in self.decoder:
            x = block(x, bias, memory)
        return self.last_norm(x) * x.shape[-1] ** -0.5 @ self.tokens.weight.T


class Encoder(nn.Module):
    """torch's own transformer encoder."""

    def __init__(self, layers=6, width=64, heads=4):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, x):
        return self.encoder(x)


def _vector_pair(device):
    return torch.randn(10, 10, device=device), torch.randn(10, 10, device=device)


def _module(make, inputs):
    def case(device):
        torch.manual_seed(0)
        return make().to(device), tuple(t.to(device) for t in inputs())

    return case


def _images(size):
    return lambda: (torch.randn(2, 3, size, size),)


def _tokens():
    return (torch.randint(0, 256, (2, 32)),)


CASES = {
    "two lines": lambda device: (two_lines, _vector_pair(device)),
    "small convnet": _module(ConvNet, _images(16)),
    "GPT, 12 blocks": _module(GPT, _tokens),
    "Llama, 8 blocks": _module(Llama, _tokens),
    "T5, 6 and 6 blocks": _module(T5, lambda: (*_tokens(), *_tokens())),
    "transformer encoder, 6 layers": _module(Encoder, lambda: (torch.randn(2, 16, 64),)),
    "ResNet18": _module(ResNet18, _images(32)),
    "DenseNet121": _module(DenseNet121, _images(64)),
}
