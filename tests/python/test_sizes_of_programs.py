"""Programs as people write them, at sizes that change: inference and training, eager's values and gradients, few captures."""

import framefuse
import pytest
import torch
import torch.nn.functional as F
from torch import nn

SIZES = [(3, 5), (4, 7), (2, 9), (5, 3), (7, 8), (8, 2), (6, 11)]
ODD_SIZES = [*SIZES, (1, 6), (6, 1), (1, 1), (2, 5)]


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    framefuse.reset()


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.embedding, self.norm = nn.Linear(6, 6), nn.Embedding(11, 6), nn.LayerNorm(6)
        self.convolution, self.bag = nn.Conv2d(3, 4, 3, padding=1), nn.EmbeddingBag(11, 6)
        self.positions = nn.Parameter(torch.randn(16, 6))


def _values(*sizes):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(len(sizes)))


def _ids(*sizes):
    return torch.arange(torch.Size(sizes).numel()).reshape(sizes) % 11


def _images(b, t):
    return _values(b, 3, t + 2, 2 * t + 1)


def _causal(m, x):
    scores = m.linear(x) @ x.transpose(1, 2)
    mask = torch.tril(torch.ones(x.shape[1], x.shape[1])).bool()
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ x


def _masked_mean(m, x, lengths):
    mask = (torch.arange(x.shape[1])[None] < lengths[:, None]).unsqueeze(-1)
    return (m.linear(x) * mask).sum(1) / lengths[:, None]


PROGRAMS = {
    "positions": (lambda m, i: (m.embedding(i) + m.positions[: i.shape[1]]).relu(), lambda b, t: (_ids(b, t),)),
    "a causal mask": (_causal, lambda b, t: (_values(b, t, 6),)),
    "lengths": (_masked_mean, lambda b, t: (_values(b, t, 6), 1 + torch.arange(b) % t)),
    "a norm": (lambda m, x: m.norm(x) * x.shape[1], lambda b, t: (_values(b, t, 6),)),
    "images": (lambda m, x: m.convolution(x).relu().mean((2, 3)), lambda b, t: (_images(b, t),)),
    "adaptive pools": (lambda m, x: F.adaptive_avg_pool2d(m.convolution(x), (2, 2)), lambda b, t: (_images(b, t),)),
    "twice as large": (lambda m, x: F.interpolate(m.convolution(x), scale_factor=2.0, mode="bilinear"), lambda b, t: (_images(b, t),)),
    "einsum": (lambda m, a, b: torch.einsum("btd,bsd->bts", m.linear(a), b), lambda b, t: (_values(b, t, 6), _values(b, t + 2, 6))),
    "bags": (lambda m, i, offsets: m.bag(i, offsets) * 2, lambda b, t: (_ids(b * t), torch.arange(b) * t)),
    "features": (lambda m, d: m.embedding(d["ids"]) * d["x"], lambda b, t: ({"ids": _ids(b, t), "x": _values(b, t, 6)},)),
    "the last rows": (lambda m, x: m.linear(x)[:, -2:].sum(1), lambda b, t: (_values(b, t, 6),)),
}


def _captures(name, sizes, train):
    """How many captures the calls took; each gives what eager gives."""
    function, arguments = PROGRAMS[name]
    module = Layers()
    compiled = framefuse.compile(function)
    before = framefuse.statistics()
    for size in sizes:
        results = []
        for f in (function, compiled):
            module.zero_grad()
            with torch.set_grad_enabled(train):
                result = f(module, *arguments(*size))
            if train:
                result.sin().sum().backward()
            results.append((result.detach(), [p.grad.clone() for p in module.parameters() if p.grad is not None]))
        torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-4)
    now = framefuse.statistics()
    assert now["eager_fallbacks"] == before["eager_fallbacks"] and now["graph_breaks"] == before["graph_breaks"]
    return now["captures"] - before["captures"]


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_two_captures_serve_all(name, train):
    assert _captures(name, SIZES, train) <= 3


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_size_of_one_costs_one_capture_each(name, train):
    """The first size being one, the second one, and both."""
    assert _captures(name, ODD_SIZES, train) <= 6


@pytest.mark.parametrize("train", [False, True])
def test_the_last_batch(train):
    sizes = [(8, 5), (8, 5), (3, 5), (8, 5), (1, 5), (8, 5), (5, 5)]
    assert _captures("a norm", sizes, train) <= 3
