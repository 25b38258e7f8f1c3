"""Idioms: experiments beside a training loop: clustering, adaptation inside, attacks, codebooks, tables of numpy."""

from __future__ import annotations

import collections
import copy

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from zoo.idioms import idiom


@idiom
def clusters_by_their_means(self, x, count=3, rounds=4):
    points = x.detach().flatten(0, 1)
    centres = points[:count].clone()
    for _ in range(rounds):
        nearest = torch.cdist(points, centres).argmin(1)
        members = F.one_hot(nearest, count).to(points.dtype)
        centres = (members.T @ points) / members.sum(0).clamp_min(1)[:, None]
    return centres


@idiom
def adapted_to_a_task(self, x, rate=0.1, steps=2):
    fast = dict(self.layer.named_parameters())
    for _ in range(steps):
        loss = torch.func.functional_call(self.layer, fast, (x,)).square().mean()
        gradients = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
        fast = {k: v - rate * g for (k, v), g in zip(fast.items(), gradients)}
    return torch.func.functional_call(self.layer, fast, (x,)).mean()


@idiom
def temperature_of_a_classifier(self, x, steps=3):
    logits = self.layer(x).detach().flatten(0, 1)
    labels = torch.arange(len(logits)) % logits.size(-1)
    temperature = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([temperature], lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(logits / temperature, labels).backward()
        optimizer.step()
    return temperature.detach()


@idiom
def attack_in_steps(self, x, reach=0.05, steps=3):
    change = torch.zeros_like(x, requires_grad=True)
    for _ in range(steps):
        (gradient,) = torch.autograd.grad(self.layer(x.detach() + change).square().mean(), change)
        with torch.no_grad():
            change = (change + 0.01 * gradient.sign()).clamp(-reach, reach)
        change.requires_grad_(True)
    return (x + change).detach()


@idiom
def codebook_with_a_straight_gradient(self, x):
    encoded, codes = self.layer(x), self.other.weight
    chosen = codes[(encoded.unsqueeze(-2) - codes).square().sum(-1).argmin(-1)]
    loss = F.mse_loss(chosen, encoded.detach()) + 0.25 * F.mse_loss(encoded, chosen.detach())
    return encoded + (chosen - encoded).detach(), loss


@idiom
def teacher_that_follows(self, x, decay=0.9, steps=2):
    student, teacher = copy.deepcopy(self.layer), copy.deepcopy(self.layer)
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        F.mse_loss(student(x.detach()), self.other(x).detach()).backward()
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(teacher.parameters(), student.parameters(), strict=True):
                old.lerp_(new, 1 - decay)
    return teacher.weight.detach()


@idiom
def memory_of_transitions(self, x):
    memory = collections.deque(maxlen=3)
    for step, (state, following) in enumerate(zip(x[:-1], x[1:])):
        memory.append((state, step % 2, float(step), following))
    states, actions, rewards, followings = zip(*memory, strict=True)
    target = torch.tensor(rewards)[:, None] + 0.9 * self.other(torch.stack(followings)).amax(-1)
    return self.layer(torch.stack(states))[..., 0] - target, torch.tensor(actions)


@idiom
def table_of_positions_by_numpy(self, x):
    length, width = x.shape[1], x.shape[2]
    table = np.zeros((length, width), np.float32)
    places, rates = np.arange(length)[:, None], np.exp(np.arange(0, width, 2) * -(np.log(10000.0) / width))
    table[:, 0::2] = np.sin(places * rates)
    table[:, 1::2] = np.cos(places * rates)
    return self.layer(x + torch.from_numpy(table))


@idiom
def mask_drawn_by_numpy_tables(self, x):
    keep = np.ones((x.shape[1], x.shape[1]), bool)
    keep[np.triu_indices(x.shape[1], 1)] = False
    keep[:, 0] = True
    scores = self.layer(x) @ x.transpose(1, 2)
    return scores.masked_fill(torch.tensor(~keep), -1e9).softmax(-1) @ x


@idiom
def weights_made_by_a_seed(self, x):
    generator = torch.Generator().manual_seed(1)
    weight = nn.init.kaiming_uniform_(torch.empty(8, 8), a=5**0.5, generator=generator)
    noise = torch.empty(x.shape[1:]).normal_(generator=generator)
    return F.linear(x + noise, weight)


@idiom
def steps_of_a_sampler_without_noise(self, x, count=10, stride=3):
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, count), 0)
    z = x.detach()
    with torch.no_grad():
        for t in reversed(range(0, count, stride)):
            noise, now = self.layer(z), kept[t]
            before = kept[t - stride] if t >= stride else torch.tensor(1.0)
            clean = (z - (1 - now).sqrt() * noise) / now.sqrt()
            z = before.sqrt() * clean + (1 - before).sqrt() * noise
    return z


@idiom
def where_a_layer_looks(self, x):
    seen = []
    handle = self.layer.register_forward_hook(lambda module, args, result: seen.append(result))
    try:
        score = self.other(self.layer(x.detach().requires_grad_(True)).relu()).mean()
    finally:
        handle.remove()
    (gradient,) = torch.autograd.grad(score, seen[0])
    return (gradient * seen[0]).sum(-1).detach()
