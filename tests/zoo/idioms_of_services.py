"""Idioms: averaged and pruned weights, ensembles, servers, augmentation, meters, registries, checkpoints, signals."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.utils import parametrize, prune
from torch.optim import swa_utils
from torch.utils.checkpoint import checkpoint

from zoo.idioms import idiom


@idiom
def averaged_by_swa(self, x):
    averaged = swa_utils.AveragedModel(self.layer, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    averaged.update_parameters(self.layer)
    averaged.update_parameters(self.other)
    return averaged(x.detach()).detach()


@idiom
def averaged_by_hand(self, x):
    shadow = copy.deepcopy(self.layer)
    with torch.no_grad():
        for kept, new in zip(shadow.parameters(), self.other.parameters(), strict=True):
            kept.lerp_(new, 0.1)
    return shadow(x)


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).transpose(-1, -2)


@idiom
def parametrized_here(self, x):
    layer = copy.deepcopy(self.layer)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    with parametrize.cached():
        return layer(x) + layer(2 * x)


@idiom
def pruned_here(self, x):
    layer = copy.deepcopy(self.layer)
    prune.l1_unstructured(layer, "weight", 0.5)
    return layer(x)


@idiom
def ensemble_over_a_skeleton(self, x):
    skeleton = copy.deepcopy(self.layer).to("meta")
    parameters, buffers = stack_module_state([self.layer, self.other])
    return vmap(lambda p, b: functional_call(skeleton, (p, b), (x,)))(parameters, buffers)


@idiom
def checkpointed_blocks(self, x):
    for block in (self.layer, self.other):
        x = x + checkpoint(block, x, use_reentrant=False)
    return x


@idiom
def answered_by_a_server(self, x):
    request = {"id": "17", "threshold": 0.1}
    with torch.inference_mode():
        scores, labels = self.layer(x.detach()).softmax(-1).max(-1)
    return {"id": request["id"], "labels": labels.tolist(), "over": (scores > request["threshold"]).sum().item()}


@idiom
def seen_by_hooks(self, x):
    seen = {}
    handles = [
        module.register_forward_hook(lambda module, args, output, name=name: seen.__setitem__(name, output.mean()))
        for name, module in (("layer", self.layer), ("other", self.other))
    ]
    try:
        return self.other(self.layer(x).relu()), seen
    finally:
        for handle in handles:
            handle.remove()


@dataclasses.dataclass
class Meter:
    total: float = 0.0
    count: int = 0

    def update(self, value, count=1):
        self.total += value * count
        self.count += count

    @property
    def mean(self):
        return self.total / max(self.count, 1)


@idiom
def meters(self, x):
    meter = Meter()
    for part in self.layer(x.detach()).unbind(1):
        meter.update(part.mean().item(), part.size(0))
    return math.isfinite(meter.mean), meter.count


@idiom
def chosen_from_a_registry(self, x, names=("relu", "square")):
    registry = {}

    def register(function):
        registry[function.__name__] = function
        return function

    @register
    def relu(x):
        return x.relu()

    @register
    def square(x):
        return x * x

    for name in names:
        x = registry[name](self.layer(x))
    return x


@contextlib.contextmanager
def evaluated(module):
    training = module.training
    module.eval()
    try:
        yield module
    finally:
        module.train(training)


@idiom
def evaluated_for_a_while(self, x):
    with evaluated(self.layer) as layer, torch.no_grad():
        return F.dropout(layer(x), 0.5, layer.training)


@idiom
def batches_of_a_generator(self, x, size=3):
    def batches(rows):
        for start in range(0, len(rows), size):
            yield rows[start : start + size]

    return torch.cat([self.layer(batch) for batch in batches(x.flatten(0, 1))])


@idiom
def accumulated_in_mixed_precision(self, x):
    layer = copy.deepcopy(self.layer)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    with torch.enable_grad():
        for step in range(2):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = layer(x.detach() * (step + 1)).float().pow(2).mean() / 2
            loss.backward()
    optimizer.step()
    return layer.weight.detach()


@idiom
def spectrogram_and_back(self, x):
    signal = x.detach().flatten(1)
    window = torch.hann_window(16)
    spectrum = torch.stft(signal, 16, 4, window=window, return_complex=True)
    return (spectrum.abs() ** 2 + 1e-6).log(), torch.istft(spectrum, 16, 4, window=window)


@idiom
def returns_of_an_episode(self, x, gamma=0.99):
    rewards, returns, last = [1.0, 0.0, 2.0, 0.5], [], 0.0
    for reward in reversed(rewards):
        last = reward + gamma * last
        returns.insert(0, last)
    target = torch.tensor(returns)
    return self.layer(x) * ((target - target.mean()) / (target.std() + 1e-8))[:, None]


@idiom
def overlaps_of_boxes(self, x):
    boxes = self.layer(x.detach())[0, :, :4].sigmoid()
    low, high = boxes[:, :2], boxes[:, :2] + boxes[:, 2:]
    sides = (torch.minimum(high[:, None], high) - torch.maximum(low[:, None], low)).clamp(min=0)
    shared, area = sides.prod(-1), (high - low).prod(-1)
    return shared / (area[:, None] + area - shared)


@idiom
def augmented_by_numpy(self, x):
    image = np.linspace(0.0, 255.0, 4 * 8 * 3, dtype=np.float32).reshape(4, 8, 3)
    image = (image / 255.0 - np.array([0.4, 0.5, 0.6], dtype=np.float32)) / 0.2
    return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))).mean(0) + x


@idiom
def heads_by_einsum(self, x):
    query, key, value = (f(x).unflatten(-1, (2, 4)).transpose(1, 2) for f in (self.layer, self.other, self.layer))
    weights = torch.einsum("bhid,bhjd->bhij", query, key).softmax(-1)
    return torch.einsum("bhij,bhjd->bhid", weights, value).transpose(1, 2).flatten(2)


@idiom
def midpoint_steps(self, x, steps=3):
    for _ in range(steps):
        half = x + self.layer(x).tanh() / (2 * steps)
        x = x + self.layer(half).tanh() / steps
    return x
