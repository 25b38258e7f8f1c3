"""Idioms of notebooks: trainers with metrics, progress bars, configurations, layers by name, rearranged axes, batches, fallbacks."""

from __future__ import annotations

import collections
import dataclasses
import functools
import re
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from zoo.idioms import idiom


@dataclasses.dataclass
class Arguments:
    steps: int = 2
    rate: float = 0.05
    accumulate: int = 1
    log_every: int = 1
    clip: float | None = 1.0


class Trainer:
    """As libraries have them: callbacks, a state, metrics by name."""

    def __init__(self, model, arguments, callbacks=()):
        self.model, self.arguments, self.callbacks = model, arguments, list(callbacks)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.rate)
        self.state = {"step": 0, "history": []}

    def compute_loss(self, batch):
        return F.mse_loss(self.model(batch["inputs"]), batch["labels"])

    def step(self, batch):
        loss = self.compute_loss(batch) / self.arguments.accumulate
        loss.backward()
        if self.arguments.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.arguments.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.state["step"] += 1
        return loss.detach()

    def train(self, batches):
        metrics = collections.defaultdict(list)
        for batch in batches:
            metrics["loss"].append(self.step(batch))
            if self.state["step"] % self.arguments.log_every == 0:
                self.state["history"].append({"step": self.state["step"], "loss": metrics["loss"][-1]})
                for callback in self.callbacks:
                    callback(self.state)
        return {f"train_{name}": torch.stack(values).mean() for name, values in metrics.items()}


@idiom
def trained_by_a_trainer(self, x):
    seen = []
    model = nn.Linear(8, 8)
    with torch.no_grad():
        for p, q in zip(model.parameters(), self.layer.parameters(), strict=True):
            p.copy_(q)
    trainer = Trainer(model, Arguments(), [lambda state: seen.append(state["step"])])
    inputs = x.detach()
    with torch.enable_grad():
        metrics = trainer.train({"inputs": inputs * k, "labels": inputs} for k in (1.0, 0.5))
    return metrics, seen, trainer.state["history"], self.layer(x)


class Progress:
    """As tqdm: an iterator that counts, with text beside it."""

    def __init__(self, iterable, desc="", total=None):
        self.iterable, self.desc, self.n, self.postfix = iterable, desc, 0, {}
        self.total = len(iterable) if total is None else total
        self.started = time.monotonic()

    def __iter__(self):
        for item in self.iterable:
            yield item
            self.n += 1

    def __len__(self):
        return self.total

    def set_postfix(self, **values):
        self.postfix = {name: f"{value:.1f}" if isinstance(value, float) else str(value) for name, value in values.items()}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


@idiom
def under_a_progress_bar(self, x):
    with Progress(x.unbind(1), desc="rows") as bar:
        rows = []
        for row in bar:
            rows.append(self.layer(row).relu())
            bar.set_postfix(row=bar.n, width=row.shape[-1], share=bar.n / len(bar))
    return torch.stack(rows, 1), bar.n, bar.postfix


@dataclasses.dataclass(frozen=True)
class BlockConfig:
    width: int = 8
    heads: int = 2
    activation: str = "relu"
    dropout: float = 0.0
    extra: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.width % self.heads:
            raise ValueError(f"{self.width} is no multiple of {self.heads}")

    @property
    def head_width(self):
        return self.width // self.heads


@idiom
def configured_with_replace(self, x):
    base = BlockConfig()
    for config in (base, dataclasses.replace(base, heads=4, activation="gelu"), dataclasses.replace(base, extra={"scale": 0.5})):
        y = self.layer(x).unflatten(-1, (config.heads, config.head_width)).softmax(-1).flatten(2)
        x = x + getattr(F, config.activation)(y) * config.extra.get("scale", 1.0)
    return x, dataclasses.asdict(base)


@idiom
def layers_as_partials(self, x):
    normed = functools.partial(F.layer_norm, normalized_shape=(8,), eps=1e-6)
    leaky = functools.partial(F.leaky_relu, negative_slope=0.2)
    blocks = [functools.partial(F.linear, weight=m.weight, bias=m.bias) for m in (self.layer, self.other)]
    return functools.reduce(lambda value, step: step(value), [normed, blocks[0], leaky, blocks[1]], x)


def rearranged(x, pattern, **sizes):
    """A small einops: 'b n (h d) -> b h n d'."""
    left, right = (side.strip() for side in pattern.split("->"))

    def groups(side):
        return [(a or b).split() for a, b in re.findall(r"\(([^)]*)\)|(\S+)", side)]

    known, names = dict(sizes), []
    for group, size in zip(groups(left), x.shape, strict=True):
        rest = [name for name in group if name not in known]
        for name in group:
            if name in known and name not in rest:
                size //= known[name]
        if len(rest) > 1:
            raise ValueError(f"sizes of {rest} are not known")
        for name in rest:
            known[name] = size
        names += group
    x = x.reshape([known[name] for name in names])
    wanted = groups(right)
    x = x.permute([names.index(name) for group in wanted for name in group])
    shape = []
    for group in wanted:
        size = 1
        for name in group:
            size *= known[name]
        shape.append(size)
    return x.reshape(shape)


@idiom
def rearranged_by_patterns(self, x):
    query, key, value = (rearranged(f(x), "b n (h d) -> b h n d", h=2) for f in (self.layer, self.other, self.layer))
    mixed = F.scaled_dot_product_attention(query, key, value)
    return rearranged(mixed, "b h n d -> b n (h d)")


@idiom
def ordered_dict_of_modules(self, x):
    layers = nn.Sequential(
        collections.OrderedDict([("first", self.layer), ("act", nn.GELU()), ("second", self.other), ("drop", nn.Dropout(0.0))])
    )
    seen = collections.OrderedDict()
    for name, module in layers.named_children():
        x = module(x)
        seen[name] = x.mean()
    seen.move_to_end("first")
    return layers.second(x), seen, list(layers._modules)


class Rows(Dataset):
    def __init__(self, x):
        self.x = x

    def __len__(self):
        return self.x.size(0) * self.x.size(1)

    def __getitem__(self, index):
        row = self.x[index // self.x.size(1), index % self.x.size(1)]
        return {"row": row, "index": index}


@idiom
def batches_of_a_loader(self, x):
    total = 0.0
    for rows, halves in DataLoader(TensorDataset(x.detach(), x.detach() / 2), batch_size=2):
        total = total + (self.layer(rows) - self.other(halves)).pow(2).sum()
    return total


@idiom
def collated_rows(self, x):
    rows = Rows(x)
    batch = default_collate([rows[index] for index in range(0, len(rows), 2)])
    return self.layer(batch["row"]) * batch["index"][:, None]


@idiom
def augmented_where(self, x, share=0.3):
    keep = torch.rand(x.shape[:2], device=x.device) > share
    x = torch.where(keep[..., None], x, torch.zeros_like(x))
    flipped = torch.where(torch.rand(x.size(0), 1, 1) < 0.5, x.flip(-1), x)
    padding = torch.arange(x.size(1)) >= x.size(1) - 1
    scores = (flipped @ flipped.transpose(1, 2)).masked_fill(padding, float("-inf"))
    return self.layer(scores.softmax(-1) @ flipped).masked_fill(~keep[..., None], 0.0)


@idiom
def looked_up_by_a_config(self, x):
    config = {"stem": "linear", "blocks": ["linear", "other", "identity"], "head": {"name": "other", "act": "tanh"}}
    known = nn.ModuleDict({"linear": self.layer, "other": self.other, "identity": nn.Identity()})
    activations = nn.ModuleDict({"tanh": nn.Tanh(), "none": nn.Identity()})
    x = known[config["stem"]](x)
    for name in config["blocks"]:
        if name not in known:
            raise KeyError(f"no block {name}; there are {', '.join(known)}")
        x = x + known[name](x)
    head = config["head"]
    return activations[head.get("act", "none")](known[head["name"]](x)), sorted(known.keys())


@idiom
def cuda_if_it_works(self, x):
    try:
        torch.cuda.synchronize()
        device = torch.device("cuda", torch.cuda.current_device())
    except (RuntimeError, AssertionError):
        device = torch.device("cpu")
    x = x.to(device, non_blocking=True)
    if device.type == "cuda" and torch.cuda.is_bf16_supported():
        x = x.float()
    memory = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    return self.layer(x).relu(), str(x.device), memory
