"""Trains a small GPT on real English text, character by character, in plain Python and compiled; then writes text with it.

The text is Python's own help on its language (`pydoc_data.topics`, some 400,000 characters), which every Python has. A
training step is one compiled function: forward, loss, backward and optimizer in one graph. In generation the text grows by
a character a call; framefuse captures it for one length, then once for all lengths. Exits with an error if the losses or
the two texts differ by more than rounding.

    python examples/text.py [--device cuda] [--steps 200] [--characters 200] [--plot losses.png]
"""

import argparse
import pydoc_data.topics
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

import framefuse

WIDTH, HEADS, LAYERS, LENGTH, BATCH = 64, 4, 2, 64, 16
TOLERANCE = 1e-3


class Block(nn.Module):
    """Causal attention, then a perceptron, each on a normed input and added to it."""

    def __init__(self):
        super().__init__()
        self.attention_norm, self.perceptron_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.to_qkv, self.from_heads = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.perceptron = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (
            part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.to_qkv(self.attention_norm(x)).split(WIDTH, dim=2)
        )
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.from_heads(heads.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.perceptron(self.perceptron_norm(x))


class GPT(nn.Module):
    """Tokens of shape (batch, length), int64 -> logits of shape (batch, length, number of characters), float32."""

    def __init__(self, characters):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(characters, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def training_text(device):
    """The text as numbers of shape (characters,), int64, and the alphabet."""
    text = " ".join(" ".join(pydoc_data.topics.topics.values()).split())
    alphabet = sorted(set(text))
    numbers = {character: number for number, character in enumerate(alphabet)}
    return torch.tensor([numbers[character] for character in text], device=device), alphabet


def train(compile_it, text, alphabet, arguments):
    """Returns the model, the loss of each step, and the seconds of each step, the first one's first."""
    torch.manual_seed(0)
    model = GPT(len(alphabet)).to(arguments.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    draws = torch.Generator().manual_seed(0)

    def step(tokens, targets):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = framefuse.compile(step) if compile_it else step
    losses, seconds = [], []
    for _ in range(arguments.steps):
        begins = torch.randint(len(text) - LENGTH - 1, (BATCH,), generator=draws)
        windows = torch.stack([text[begin : begin + LENGTH + 1] for begin in begins.tolist()])
        start = time.perf_counter()
        losses.append(step(windows[:, :-1], windows[:, 1:]).item())
        seconds.append(time.perf_counter() - start)
    return model, losses, seconds


@torch.no_grad()
def write(model, alphabet, arguments):
    """Draws the next character, again and again; the last LENGTH of them are read each time."""
    draws = torch.Generator(arguments.device).manual_seed(0)
    tokens = torch.zeros(1, 1, dtype=torch.int64, device=arguments.device)
    for _ in range(arguments.characters):
        likely = (model(tokens[:, -LENGTH:])[:, -1] / 0.7).softmax(-1)
        tokens = torch.cat([tokens, torch.multinomial(likely, 1, generator=draws)], dim=1)
    return "".join(alphabet[number] for number in tokens[0, 1:].tolist())


def plot(losses, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    for label, values in losses.items():
        pyplot.plot(values, label=label, linewidth=1)
    pyplot.xlabel("step")
    pyplot.ylabel("loss")
    pyplot.legend()
    pyplot.savefig(path, dpi=120)
    print(f"the losses are drawn in {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--characters", type=int, default=200)
    parser.add_argument("--plot", help="a PNG file for the losses (needs matplotlib)")
    arguments = parser.parse_args()
    text, alphabet = training_text(arguments.device)
    _, eager_losses, eager_seconds = train(False, text, alphabet, arguments)
    model, losses, seconds = train(True, text, alphabet, arguments)
    print(f"{len(text):,} characters of text, an alphabet of {len(alphabet)}, {arguments.steps} steps")
    print(f"  loss: first {losses[0]:.4f}, last {losses[-1]:.4f}; eager's last {eager_losses[-1]:.4f}")
    print(f"  first step: eager {eager_seconds[0]:.3f} s, compiled {seconds[0]:.3f} s")
    print(f"  median step: eager {statistics.median(eager_seconds) * 1e3:.2f} ms, compiled {statistics.median(seconds[1:]) * 1e3:.2f} ms")

    before = framefuse.statistics()["captures"]
    start = time.perf_counter()
    written = write(framefuse.compile(model.eval()), alphabet, arguments)
    compiled_seconds, captures = time.perf_counter() - start, framefuse.statistics()["captures"] - before
    start = time.perf_counter()
    eager_written = write(model, alphabet, arguments)
    eager_generation = time.perf_counter() - start
    print(f"  {arguments.characters} characters: eager {eager_generation:.2f} s, compiled {compiled_seconds:.2f} s with {captures} captures")
    print(f"\n{written}\n")
    if arguments.plot:
        plot({"eager": eager_losses, "compiled": losses}, arguments.plot)
    far = max(abs(a - b) for a, b in zip(eager_losses[:20], losses[:20]))
    wrong = ([f"losses differ by {far:.1e}"] if far > TOLERANCE else []) + (["the texts differ"] if written != eager_written else [])
    for message in wrong:
        print(f"WRONG: {message}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
