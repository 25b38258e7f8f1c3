"""How many pointwise and reduction nodes of real models' graphs, forward and backward, land in generated kernels.

Counted are the nodes of the graphs as captured. A node is left out of a kernel if an operator of its name still runs as ATen after
fusion; the log `fusion` lists those. Data movement, matrix products, convolutions, attention and random numbers are not counted.
"""

import collections
import pathlib
import re
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import framefuse

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))
import models  # noqa: E402

# Not tagged by torch: what reduces along rows or channels, and what copies or casts element by element.
REDUCTIONS = re.compile(
    r"_(log_)?softmax(_backward_data)?|(_?native|cudnn)_(batch|layer|group)_norm\w*|_batch_norm_\w+|nll_loss\w*|mse_loss\w*"
    r"|_to_copy|copy|logsumexp|cumsum"
)


class T5Attention(nn.Module):
    """Attention with a relative position bias and no scaling, spelt out."""

    def __init__(self, width, heads, buckets=32):
        super().__init__()
        self.heads, self.buckets = heads, buckets
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.bias = nn.Embedding(buckets, heads)

    def bucket(self, length):
        distance = (torch.arange(length)[:, None] - torch.arange(length)[None, :]).abs()
        exact = self.buckets // 2
        large = exact + (torch.log(distance.float().clamp(min=1) / exact) / 2.0 * exact).long()
        return torch.where(distance < exact, distance, torch.minimum(large.clamp(min=0), torch.full_like(large, self.buckets - 1)))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (f(x).view(batch, length, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) + self.bias(self.bucket(length)).permute(2, 0, 1)[None]
        weights = F.dropout(F.softmax(scores.float(), dim=-1).type_as(scores), 0.1, self.training)
        return self.o((weights @ v).transpose(1, 2).reshape(batch, length, width))


class T5Block(nn.Module):
    def __init__(self, width=64, heads=4):
        super().__init__()
        self.attention, self.norm1, self.norm2 = T5Attention(width, heads), models.RMSNorm(width), models.RMSNorm(width)
        self.gate, self.up, self.down = nn.Linear(width, 128, bias=False), nn.Linear(width, 128, bias=False), nn.Linear(128, width, bias=False)

    def forward(self, x):
        x = x + F.dropout(self.attention(self.norm1(x)), 0.1, self.training)
        y = self.norm2(x)
        return x + F.dropout(self.down(F.gelu(self.gate(y), approximate="tanh") * self.up(y)), 0.1, self.training)


class BertLayer(nn.Module):
    """Post-norm encoder layer with padding, attention spelt out."""

    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        batch, length, width = x.shape
        mask = torch.ones(batch, 1, 1, length)
        q, k, v = (f(x).view(batch, length, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5 + (1.0 - mask) * torch.finfo(x.dtype).min
        weights = F.dropout(F.softmax(scores, dim=-1), 0.1, self.training)
        x = self.norm1(x + F.dropout(self.o((weights @ v).transpose(1, 2).reshape(batch, length, width)), 0.1, self.training))
        return self.norm2(x + F.dropout(self.down(F.gelu(self.up(x))), 0.1, self.training))


def images():
    return torch.randn(2, 3, 64, 64)


MODELS = {
    "ResNet18": (models.ResNet18, images),
    "DenseNet121": (models.DenseNet121, images),
    "bert": (lambda: nn.Sequential(BertLayer(), BertLayer()), lambda: torch.randn(2, 16, 64)),
    "gpt2": (lambda: models.GPT(layers=2), lambda: torch.randint(0, 256, (2, 32))),
    "llama": (lambda: models.Llama(layers=2), lambda: torch.randint(0, 256, (2, 32))),
    "t5": (lambda: nn.Sequential(T5Block(), T5Block()), lambda: torch.randn(2, 16, 64)),
}


def is_counted(name):
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
    tags = operator.tags
    return torch.Tag.pointwise in tags or torch.Tag.reduction in tags or bool(REDUCTIONS.fullmatch(packet))


def nodes_of(records):
    """(operators of the graphs, operators that still run as ATen), counted ones only."""
    graphs = [text for artifact, text in records if artifact == "aot"]
    training = [text[text.index("forward graph") :] for text in graphs if "forward graph" in text]
    graphs = training or graphs[-1:]  # the joint graph is shown after each pass
    captured = re.findall(r"= aten\.([\w.]+)\(", "".join(graphs))
    left = [name for artifact, text in records if artifact == "fusion" and text.startswith("ATen: ") for name in text[6:].split(", ")]
    return [collections.Counter(filter(is_counted, names)) for names in (captured, left)]


@pytest.mark.parametrize("mode", ["forward", "training"])
@pytest.mark.parametrize("name", MODELS)
def test_coverage(name, mode, record_property):
    torch.manual_seed(0)
    make, inputs = MODELS[name]
    model = make().train(mode == "training")
    with framefuse.capture_logs("aot", "fusion") as records, torch.set_grad_enabled(mode == "training"):
        result = framefuse.compile(model, fullgraph=True)(inputs())
        if mode == "training":
            result.square().mean().backward()
    captured, left = nodes_of(records)
    total, missing = captured.total(), left.total()
    share = 1 - missing / total
    print(f"{name} {mode}: {total - missing} of {total} nodes in kernels, {share:.1%}; as ATen: {dict(left.most_common())}")
    assert total > 10 and share >= 0.9, dict(left.most_common())
