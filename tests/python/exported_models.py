"""Models that the tests of export package, each with arguments of its export and of calls: (model, dynamic, arguments)."""

import framefuse
import torch
from torch import nn


class Block(nn.Module):
    """A GPT block: attention that looks back, and a feed-forward part."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.attend(self.first(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(nn.functional.gelu(self.widen(self.second(x))))


class Gpt(nn.Module):
    def __init__(self, words=50, width=32):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(16, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.last(x))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(6, 12, num_layers=2, batch_first=True), nn.Linear(12, 3)

    def forward(self, x):
        states, (h, c) = self.lstm(x)
        return self.head(states), h, c


class Mixed(nn.Module):
    """Two inputs of one symbolic batch, a softmax, a sum."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(8, 16), nn.Linear(4, 16)

    def forward(self, x, y):
        scores = (self.left(x) * self.right(y)).softmax(-1)
        return {"scores": scores, "sums": [scores.sum(0), x.mean() / x.shape[0]]}


def mlp():
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4))


def convnet():
    layers = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip
    with torch.no_grad():
        for _ in range(3):
            layers(torch.randn(4, 3, 12, 12))
    return layers


def models():
    """name → (model in eval mode, dynamic, arguments of the export, arguments of calls)."""
    torch.manual_seed(0)
    made = {
        "mlp": (mlp(), None, (torch.randn(5, 8),), [(torch.randn(5, 8),)]),
        "convnet": (convnet(), None, (torch.randn(2, 3, 12, 12),), [(torch.randn(2, 3, 12, 12),)]),
        "gpt": (Gpt(), None, (torch.randint(0, 50, (2, 9)),), [(torch.randint(0, 50, (2, 9)),)]),
        "lstm": (Lstm(), None, (torch.randn(2, 7, 6),), [(torch.randn(2, 7, 6),)]),
        "symbolic batch": (
            Mixed(),
            {"x": 0, "y": [0]},
            (torch.randn(5, 8), torch.randn(5, 4)),
            [(torch.randn(n, 8), torch.randn(n, 4)) for n in (5, 2, 9, 9, 9, 9, 1)],
        ),
    }
    for model, *_ in made.values():
        model.eval()
    return made


def saved(exported, tmp_path):
    path = tmp_path / "model.ffpkg"
    exported.package(path)
    return framefuse.load(path)
