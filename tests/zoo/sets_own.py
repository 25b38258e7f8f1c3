"""Small models in the style of public ones, written here: what runs where no package is installed, and in the tests."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from zoo.zoo_model import Built, ZooModel

_WIDTH, _TOKENS = 16, 10


@dataclasses.dataclass
class Output:
    """A result as public models give it: a dataclass, some of whose fields are None."""

    logits: torch.Tensor
    states: tuple[torch.Tensor, ...] | None = None
    loss: torch.Tensor | None = None


class Attention(nn.Module):
    def __init__(self, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(_WIDTH, 3 * _WIDTH), nn.Linear(_WIDTH, _WIDTH)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None, causal: bool = False) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        result = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.out(result.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, causal: bool):
        super().__init__()
        self.causal = causal
        self.norms = nn.ModuleList(nn.LayerNorm(_WIDTH) for _ in range(2))
        self.attention = Attention()
        self.mlp = nn.Sequential(nn.Linear(_WIDTH, 4 * _WIDTH), nn.GELU(), nn.Linear(4 * _WIDTH, _WIDTH), nn.Dropout(0.1))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        x = x + self.attention(self.norms[0](x), mask, self.causal and mask is None)
        return x + self.mlp(self.norms[1](x))


class Decoder(nn.Module):
    """A language model: tokens in, logits and each layer's states out, a loss if there are labels."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(50, _WIDTH), nn.Embedding(32, _WIDTH)
        self.layers = nn.ModuleList(Block(causal=True) for _ in range(2))
        self.head = nn.Linear(_WIDTH, 50, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None) -> Output:
        x = self.tokens(input_ids) + self.positions(torch.arange(input_ids.shape[1]))
        states: tuple[torch.Tensor, ...] = ()
        for layer in self.layers:
            states += (x,)
            x = layer(x)
        logits = self.head(x)
        loss = None if labels is None else F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return Output(logits, states=states, loss=loss)


class ImageEncoder(nn.Module):
    """Patches, a token in front of them, positions, blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, _WIDTH, 4, 4)
        self.token = nn.Parameter(torch.zeros(1, 1, _WIDTH))
        self.positions = nn.Parameter(torch.randn(1, 17, _WIDTH) * 0.02)
        self.blocks = nn.Sequential(*(Block(causal=False) for _ in range(2)))
        self.head = nn.Linear(_WIDTH, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.positions
        return self.head(self.blocks(x)[:, 0])


class Residual(nn.Module):
    def __init__(self, width: int, stride: int):
        super().__init__()
        out = width * stride
        self.convolutions = nn.Sequential(
            nn.Conv2d(width, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True),
            nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        self.shortcut = None if stride == 1 else nn.Conv2d(width, out, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.convolutions(x)
        y += x if self.shortcut is None else self.shortcut(x)
        return F.relu(y, inplace=True)


class ResidualNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.stages = nn.Sequential(Residual(8, 1), Residual(8, 2), Residual(16, 2))
        self.head = nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        features = self.stages(self.stem(x))
        return {"logits": self.head(features.mean((2, 3))), "features": features}


class Experts(nn.Module):
    """Each token goes to its two best experts; which tokens an expert gets depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.gate = nn.Embedding(50, _WIDTH), nn.Linear(_WIDTH, 3)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(_WIDTH, 32), nn.SiLU(), nn.Linear(32, _WIDTH)) for _ in range(3))

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(input_ids).flatten(0, 1)
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, places = torch.where(chosen == number)
            if rows.numel():
                result.index_add_(0, rows, expert(x[rows]) * weights[rows, places, None])
        return result.view(*input_ids.shape, -1)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell = nn.Embedding(50, _WIDTH), nn.LSTMCell(_WIDTH, _WIDTH)
        self.head = nn.Linear(_WIDTH, 5)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        state = None
        for step in self.embed(input_ids).unbind(1):
            state = self.cell(step, state)
        return self.head(state[0])


def _tokens(batch: int, training: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (torch.randint(50, (batch, _TOKENS), generator=torch.Generator().manual_seed(17)),), {}


def _tokens_and_labels(batch: int, training: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    (tokens,), _ = _tokens(batch, training)
    return (tokens,), {"labels": tokens} if training else {}


def _images(batch: int, training: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (torch.rand(batch, 3, 16, 16, generator=torch.Generator().manual_seed(17)),), {}


_MODELS = {
    "decoder": (Decoder, _tokens_and_labels),
    "image encoder": (ImageEncoder, _images),
    "residual net": (ResidualNet, _images),
    "experts": (Experts, _tokens),
    "recurrent": (Recurrent, _tokens),
}


def all_models() -> list[ZooModel]:
    def build(name: str) -> Built:
        torch.manual_seed(0)
        model_class, inputs = _MODELS[name]
        return Built(model_class().eval(), inputs)

    return [ZooModel("own", name, lambda n=name: build(n)) for name in _MODELS]
