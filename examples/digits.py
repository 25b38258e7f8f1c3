"""Trains two classifiers on scikit-learn's handwritten digits, in plain Python and compiled by framefuse, and compares.

The digits are real scans (1,797 of 8×8 pixels) that ship inside scikit-learn. Both runs start from one seed and see the same batches, the
last of them smaller; so their losses must agree, and the printed difference is rounding. Further runs, eager with weights moved by one
rounding, tell how far rounding alone can lead (a max-pool that picks another pixel). Exits with an error if they do not agree.

    python examples/digits.py [--device cuda] [--epochs 8] [--backend fuse]
"""

import argparse
import dataclasses
import statistics
import sys
import time

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

import framefuse

TOLERANCE = 1e-4
NUDGES = 5  # runs from other weights; near a tie of a max-pool about every second one takes the other way
WANTED_ACCURACY = 0.95


class FullyConnected(nn.Module):
    """Two hidden layers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, images):
        return self.layers(images.flatten(1))


class Convolutional(nn.Module):
    """Two convolutions with batch normalisation, then a linear layer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 16, 3, padding=1)
        self.first_norm = nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.second_norm = nn.BatchNorm2d(32)
        self.classify = nn.Linear(32 * 2 * 2, 10)

    def forward(self, images):
        x = nn.functional.max_pool2d(torch.relu(self.first_norm(self.first(images))), 2)
        x = nn.functional.max_pool2d(torch.relu(self.second_norm(self.second(x))), 2)
        return self.classify(x.flatten(1))


def digits(device):
    """Train and test sets of (images, labels), split by a fixed shuffle."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32, device=device).unsqueeze(1) / 16.0
    labels = torch.tensor(data.target, device=device)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0)).to(device)
    train, test = order[:1437], order[1437:]
    return (images[train], labels[train]), (images[test], labels[test])


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def nudged(model, seed):
    """The model with each weight moved by about one rounding."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + torch.finfo(parameter.dtype).eps / 2 * torch.randn_like(parameter))
    return model


def train(model_class, wrap, data, arguments, label):
    """Train one model; returns it with the loss of each step and the seconds each took, the first call's first."""
    torch.manual_seed(arguments.seed)
    model = wrap(model_class().to(arguments.device))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.lr)
    batches = DataLoader(
        TensorDataset(*data), batch_size=64, shuffle=True, generator=torch.Generator().manual_seed(arguments.seed)
    )
    losses, seconds = [], []
    progress = tqdm(total=arguments.epochs * len(batches), desc=label, unit="step", leave=False, disable=None)
    for _ in range(arguments.epochs):
        for images, labels in batches:
            start = time.perf_counter()
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            synchronize(arguments.device)
            seconds.append(time.perf_counter() - start)
            progress.update()
    progress.close()
    return model, losses, seconds


@torch.no_grad()
def accuracy(model, data):
    images, labels = data
    model.eval()
    return (model(images).argmax(1) == labels).float().mean().item()


def print_explanation(report):
    guards = sum(text.count("if not") for text in report.out_guards)
    print(f"  explain ({guards} guards, not shown):")
    shown = dataclasses.replace(report, out_guards=[])
    print("".join(f"    {line}\n" for line in str(shown).splitlines()), end="")


def compare(model_class, arguments):
    """Train eagerly and compiled, print both, and return what is wrong."""
    train_set, test_set = digits(arguments.device)
    name = model_class.__name__

    def compiled(model):
        return framefuse.compile(model, backend=arguments.backend)

    eager_model, eager_losses, eager_seconds = train(model_class, lambda m: m, train_set, arguments, f"{name} eager")
    model, losses, seconds = train(model_class, compiled, train_set, arguments, f"{name} compiled")
    nudged_losses = [
        train(model_class, lambda m, seed=seed: nudged(m, seed), train_set, arguments, f"{name} nudged")[1] for seed in range(NUDGES)
    ]
    steps = len(losses) // arguments.epochs
    print(f"\n{name}: {arguments.epochs} epochs of {steps} steps on {arguments.device}, backend {arguments.backend}")
    print("  epoch  eager loss  compiled loss  difference")
    for epoch in range(arguments.epochs):
        at = slice(epoch * steps, (epoch + 1) * steps)
        eager_loss, loss = statistics.fmean(eager_losses[at]), statistics.fmean(losses[at])
        print(f"  {epoch + 1:5}  {eager_loss:10.6f}  {loss:13.6f}  {abs(loss - eager_loss):10.1e}")
    difference = max(abs(a - b) for a, b in zip(eager_losses, losses))
    eager_accuracy, compiled_accuracy = accuracy(eager_model, test_set), accuracy(model, test_set)
    by_rounding = max(abs(a - b) for others in nudged_losses for a, b in zip(eager_losses, others))
    allowed = max(TOLERANCE, 2 * by_rounding)
    print(f"  largest difference of a step's loss: {difference:.1e} (eager from weights one rounding off: {by_rounding:.1e})")
    print(f"  accuracy on the test set: eager {eager_accuracy:.1%}, compiled {compiled_accuracy:.1%}")
    print(f"  first call: eager {eager_seconds[0] * 1e3:.2f} ms, compiled {seconds[0] * 1e3:.2f} ms")
    print(
        f"  median step after it: eager {statistics.median(eager_seconds[steps:]) * 1e3:.3f} ms, "
        f"compiled {statistics.median(seconds[steps:]) * 1e3:.3f} ms"
    )
    print_explanation(framefuse.explain(eager_model.train(), backend=arguments.backend)(train_set[0][:64]))
    wrong = []
    if not difference <= allowed:
        wrong.append(f"{name}: losses differ by {difference:.1e}, more than {allowed:.1e}")
    if not compiled_accuracy > WANTED_ACCURACY:
        wrong.append(f"{name}: accuracy {compiled_accuracy:.1%}, not above {WANTED_ACCURACY:.0%}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--backend", default="fuse")
    arguments = parser.parse_args()
    wrong = [message for model_class in (FullyConnected, Convolutional) for message in compare(model_class, arguments)]
    print(f"\ncaptures and their kin: {framefuse.statistics()}")
    for message in wrong:
        print(f"WRONG: {message}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
