"""Programs whose sizes and numbers follow from values: eager, framefuse and torch.compile (its defaults), call by call in one process.

Each case is a list of calls with other data, so that masks select another number of rows in each. Rows are those of changing.py.

    python benchmarks/from_values.py [--out FILE] [--check] [--train] [--device cuda] [case …]
"""

import sys

import changing
import measure
import torch
import torch.nn.functional as F
from torch import nn


class Experts(nn.Module):
    """Each row goes through the two experts that its gate likes best."""

    def __init__(self, width=128, experts=8):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.up, self.down = nn.Parameter(torch.randn(experts, width, 4 * width) * 0.05), nn.Parameter(torch.randn(experts, 4 * width, width) * 0.05)

    def forward(self, x):
        shares, chosen = self.gate(x).softmax(-1).topk(2, -1)
        out = torch.zeros_like(x)
        for e in range(len(self.up)):
            row, place = torch.where(chosen == e)
            out = out.index_add(0, row, (F.silu(x[row] @ self.up[e]) @ self.down[e]) * shares[row, place, None])
        return out


class MaskedLoss(nn.Module):
    """Of a masked language model: only what was masked is predicted."""

    def __init__(self, width=128, words=1000):
        super().__init__()
        self.words, self.norm, self.head = nn.Embedding(words, width), nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, tokens, labels):
        states = self.norm(F.gelu(self.words(tokens)))
        picked = labels >= 0
        return F.cross_entropy(self.head(states[picked]), labels[picked])


class LoggedLoss(nn.Module):
    """A loss whose value is kept as a number, as training scripts do."""

    def __init__(self, width=64):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 10))

    def forward(self, x, labels):
        loss = F.cross_entropy(self.layers(x), labels)
        number = loss.item()
        return loss * (1.0 + 0.01 * torch.tanh(loss.detach() - number))


def overlaps(boxes, scores):
    """Boxes above a score, and how much each two of them overlap."""
    kept = boxes[scores > 0.5]
    corner, other = kept[:, :2], kept[:, :2] + kept[:, 2:]
    sides = (torch.minimum(other[:, None], other) - torch.maximum(corner[:, None], corner)).clamp(min=0)
    both, area = sides.prod(-1), kept[:, 2] * kept[:, 3]
    return (both / (area[:, None] + area - both)).amax(1) * kept.mean(1)


def of_each_word(words, table):
    different, places = torch.unique(words, return_inverse=True)
    return torch.tanh(table[different] @ table.T[:, :64])[places]


def cases(device, few):
    torch.manual_seed(0)
    count = 4 if few else 40
    experts, masked, logged = Experts().to(device), MaskedLoss().to(device), LoggedLoss().to(device)
    table = torch.randn(1000, 64, device=device)

    def labels():
        found = torch.randint(1000, (16, 64), device=device)
        return found.masked_fill(torch.rand(16, 64, device=device) > 0.15, -1)

    def batch():
        return torch.randn(128, 64, device=device), torch.randint(10, (128,), device=device)

    return {
        "experts": changing.Case(experts, [(torch.randn(512, 128, device=device),) for _ in range(count)], list(experts.parameters())),
        "masked loss": changing.Case(masked, [(torch.randint(1000, (16, 64), device=device), labels()) for _ in range(count)], list(masked.parameters())),
        "logged loss": changing.Case(logged, [batch() for _ in range(count)], list(logged.parameters())),
        "overlaps of boxes": changing.Case(overlaps, [(torch.rand(400, 4, device=device), torch.rand(400, device=device)) for _ in range(count)]),
        "different words": changing.Case(of_each_word, [(torch.randint(1000, (2000,), device=device).float().sin().mul(500).long().abs(), table) for _ in range(count)]),
    }


TITLE = "Sizes and numbers that follow from values"


def main():
    parsed = measure.arguments(__doc__.splitlines()[0], default_rounds=1, training=True)
    rows = []
    for name, case in measure.chosen(cases(parsed.device, parsed.check), parsed.cases).items():
        rows += changing.measure_case(name, case, parsed.train)
        measure.write(TITLE, rows, parsed, "torch.compile", "framefuse")
    return measure.report(TITLE, rows, parsed, "torch.compile", "framefuse", typical="total")


if __name__ == "__main__":
    sys.exit(main())
