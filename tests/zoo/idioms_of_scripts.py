"""Idioms: what stands in scripts that train models and run them, a page each in the original."""

from __future__ import annotations

import collections
import copy
import math
import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from zoo.idioms import idiom


@idiom
def mixed_pairs(self, x):
    share = torch.distributions.Beta(torch.tensor(0.4), torch.tensor(0.4)).sample()
    other = x[torch.randperm(x.size(0))]
    labels = torch.arange(x.size(0)) % 4
    logits = self.layer(share * x + (1 - share) * other).mean(1)
    return F.cross_entropy(logits, labels, label_smoothing=0.1)


@idiom
def student_and_teacher(self, x, temperature=2.0):
    with torch.no_grad():
        soft = F.softmax(self.other(x) / temperature, dim=-1)
    hard = F.log_softmax(self.layer(x) / temperature, dim=-1)
    return F.kl_div(hard, soft, reduction="batchmean") * temperature**2


@idiom
def accumulated_micro_batches(self, x):
    layer = copy.deepcopy(self.layer)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-2)
    losses = []
    for step, part in enumerate(x.detach().chunk(2)):
        loss = layer(part).pow(2).mean() / 2
        loss.backward()
        losses.append(loss.detach())
        if (step + 1) % 2 == 0:
            torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    return torch.stack(losses), layer.weight.detach()


@idiom
def warm_up_and_cosine(self, x, steps=8, warm=3):
    layer = copy.deepcopy(self.layer)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    rates = []
    for step in range(steps):
        rate = (step + 1) / warm if step < warm else 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm)))
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * rate
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.zero_grad()
        layer(x.detach()).square().mean().backward()
        optimizer.step()
    return layer.weight.detach(), rates


@idiom
def step_of_a_beam_search(self, x, beams=2):
    scores = F.log_softmax(self.layer(x)[:, :beams], dim=-1)
    total = scores + torch.arange(beams, dtype=x.dtype)[None, :, None] * -0.1
    best, flat = total.flatten(1).topk(beams, dim=1)
    beam, token = flat // scores.size(-1), flat % scores.size(-1)
    chosen = torch.gather(x[:, :beams], 1, beam[..., None].expand(-1, -1, x.size(-1)))
    return best, token, chosen


@idiom
def sampled_from_the_nucleus(self, x, p=0.8):
    logits = self.layer(x)[:, -1]
    ordered, indices = logits.sort(descending=True)
    far = ordered.softmax(-1).cumsum(-1) > p
    far[..., 1:] = far[..., :-1].clone()
    far[..., 0] = False
    logits = logits.masked_fill(far.scatter(1, indices, far), -float("inf"))
    return torch.multinomial(logits.softmax(-1), 1, generator=torch.Generator().manual_seed(0))


@idiom
def windows_that_overlap(self, x, size=4, stride=2):
    sums, counts = torch.zeros_like(x), torch.zeros_like(x)
    for start in range(0, x.size(-1) - size + 1, stride):
        window = x[..., start : start + size]
        sums[..., start : start + size] += window.tanh() * torch.hann_window(size)
        counts[..., start : start + size] += torch.hann_window(size)
    return sums / counts.clamp_min(1e-6)


class _Rotary:
    def __init__(self):
        self.kept = {}

    def __call__(self, x):
        key = x.shape[1], x.dtype, x.device
        if key not in self.kept:
            rates = 1.0 / 10000 ** (torch.arange(0, x.shape[-1], 2).float() / x.shape[-1])
            angles = torch.outer(torch.arange(x.shape[1]).float(), rates)
            self.kept[key] = torch.cat([angles, angles], -1)
        first, second = x.chunk(2, dim=-1)
        return x * self.kept[key].cos() + torch.cat([-second, first], -1) * self.kept[key].sin()


_rotary = _Rotary()


@idiom
def rotated_positions(self, x):
    return _rotary(self.layer(x))


class _Meter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.sum = self.count = 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    @property
    def average(self):
        return self.sum / max(self.count, 1)

    def __str__(self):
        return f"{self.average:.4f}"


@idiom
def meters(self, x):
    meters = collections.defaultdict(_Meter)
    for part in x.detach().split(1):
        meters["loss"].update(self.layer(part).pow(2).mean(), part.size(0))
        meters["size"].update(float(part.numel()))
    return {name: meter.average for name, meter in meters.items()}


class _Patience:
    def __init__(self, patience):
        self.patience, self.best, self.bad, self.state = patience, math.inf, 0, None

    def __call__(self, loss, module):
        if loss < self.best - 1e-4:
            self.best, self.bad = loss, 0
            self.state = {k: v.detach().clone() for k, v in module.state_dict().items()}
        else:
            self.bad += 1
        return self.bad >= self.patience


@idiom
def stops_early(self, x):
    stopper = _Patience(2)
    for loss in (3.0, 2.0, 2.5, 2.6, 1.0):
        if stopper(loss, self.layer):
            break
    return stopper.state["weight"] + x.mean(), stopper.best


@idiom
def contrasted_with_a_queue(self, x):
    if not hasattr(self, "queue"):
        self.register_buffer("queue", F.normalize(torch.ones(6, 8), dim=1))
        self.at = 0
    keys = F.normalize(self.other(x).mean(1), dim=-1)
    queries = F.normalize(self.layer(x).mean(1), dim=-1)
    positive = (queries * keys).sum(-1, keepdim=True)
    logits = torch.cat([positive, queries @ self.queue.clone().detach().t()], 1) / 0.07
    loss = F.cross_entropy(logits, torch.zeros(len(x), dtype=torch.long))
    with torch.no_grad():
        self.queue[self.at : self.at + 1] = keys[:1].detach()
    self.at = (self.at + 1) % 6
    return loss


@idiom
def clipped_policy(self, x, gamma=0.99, lam=0.95):
    values, rewards = self.layer(x).mean(-1), x.detach().mean(-1).tanh()
    advantages, last = [], torch.zeros(x.size(0))
    for t in reversed(range(x.size(1))):
        following = values[:, t + 1].detach() if t + 1 < x.size(1) else torch.zeros(x.size(0))
        delta = rewards[:, t] + gamma * following - values[:, t].detach()
        last = delta + gamma * lam * last
        advantages.insert(0, last)
    advantages = torch.stack(advantages, 1)
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    policy = torch.distributions.Normal(self.other(x).mean(-1), 0.5)
    old = policy.log_prob(rewards).detach() - 0.1
    ratio = (policy.log_prob(rewards) - old).exp()
    loss = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
    return loss + 0.5 * F.mse_loss(values, advantages + values.detach()) - 0.01 * policy.entropy().mean()


@idiom
def flipped_at_random(self, x):
    chance = random.Random(3)
    if chance.random() < 0.9:
        x = x.flip(-1)
    left = chance.randint(0, 2)
    return F.pad(x[..., left : left + 6], (1, 1), mode="replicate")


@idiom
def boxes_that_do_not_overlap(self, x):
    corners = x.detach()[0, :, :2].abs()
    boxes = torch.cat([corners, corners + 1], -1)
    scores, keep = x.detach()[0, :, 4], []
    order = scores.argsort(descending=True)
    while order.numel() > 0:
        first = order[0]
        keep.append(first)
        if order.numel() == 1:
            break
        rest = order[1:]
        low, high = torch.max(boxes[first, :2], boxes[rest, :2]), torch.min(boxes[first, 2:], boxes[rest, 2:])
        shared = (high - low).clamp(min=0).prod(1)
        order = rest[shared / (2 - shared) <= 0.3]
    return torch.stack(keep)


@idiom
def collated(self, x):
    rows = [row[: 2 + i % 3].detach() for i, row in enumerate(x)]
    lengths = torch.tensor([len(r) for r in rows])
    padded = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1.0)
    mask = torch.arange(padded.size(1))[None] < lengths[:, None]
    return padded, mask, (padded * mask[..., None]).sum((1, 2)) / lengths


@idiom
def penalty_of_a_gradient(self, x):
    real, fake = x.detach(), x.detach().flip(0)
    share = torch.rand(x.size(0), 1, 1)
    mixed = (share * real + (1 - share) * fake).requires_grad_()
    (gradient,) = torch.autograd.grad(self.layer(mixed).sum(), mixed, create_graph=True)
    return ((gradient.flatten(1).norm(2, dim=1) - 1) ** 2).mean()


@idiom
def step_of_k_means(self, x, k=3):
    points = x.detach().reshape(-1, 8)
    centres = points[:k].clone()
    for _ in range(2):
        nearest = torch.cdist(points, centres).argmin(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, points)
        counts = torch.bincount(nearest, minlength=k).clamp(min=1)
        centres = sums / counts[:, None]
    return centres, nearest


@idiom
def decayed_in_groups(self, x):
    layer = copy.deepcopy(self.layer)
    decayed = [p for n, p in layer.named_parameters() if p.ndim > 1 and not n.endswith("bias")]
    others = [p for p in layer.parameters() if all(p is not q for q in decayed)]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95))
    for p in others:
        p.requires_grad_(False)
    layer(x.detach()).sum().backward()
    optimizer.step()
    return layer.weight.detach(), layer.bias.detach()


@idiom
def images_for_numpy(self, x):
    image = self.layer(x.detach())[0].sigmoid()
    array = (image.mul(255).clamp(0, 255).byte()).cpu().numpy()
    return np.ascontiguousarray(array.transpose(1, 0)), np.concatenate([array, array], axis=1)
