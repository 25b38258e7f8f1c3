"""Random conditionals, some inside others, against Python's own choice: values, strides and gradients (FF_NIGHTLY=1: many more)."""

import os
import random

import framefuse
import pytest
import torch

_UNARY = [
    torch.sin, torch.tanh, torch.relu, lambda t: t * 2, lambda t: t - t.mean(), lambda t: t.softmax(-1), lambda t: t.cumsum(0),
    lambda t: t.detach() * t, lambda t: t.clone().mul_(1.5), lambda t: t.flip(0) + t,
]  # fmt: skip
_BINARY = [torch.add, torch.mul, torch.sub, torch.maximum, lambda a, b: torch.where(a > b, a, b * 2), lambda a, b: (a @ b.t() @ a).tanh()]


def _branch(rng, operands, results):
    """A function of so many tensors that computes a few others and returns some of them."""
    steps = []
    for made in range(rng.randint(1, 6)):
        f = rng.choice(_UNARY if rng.random() < 0.5 else _BINARY)
        steps.append((f, [rng.randrange(operands + made) for _ in range(2 if f in _BINARY else 1)]))
    returned = [rng.randrange(operands + len(steps)) for _ in range(results)]

    def run(*tensors):
        values = list(tensors)
        for f, arguments in steps:
            values.append(f(*[values[i] for i in arguments]))
        return tuple(values[i] + 0.5 * n for n, i in enumerate(returned, 1))

    return run


def _program(seed):
    rng = random.Random(seed)
    inputs, results, nested = rng.randint(1, 3), rng.randint(1, 3), rng.random() < 0.4
    before = _branch(rng, inputs, 1)
    yes, no = _branch(rng, inputs + 1, results), _branch(rng, inputs + 1, results)
    then_yes, then_no = _branch(rng, inputs + results, 1), _branch(rng, inputs + results, 1)
    limit = rng.choice([-0.5, 0.0, 0.5, 3.0])

    def f(*xs):
        (p,) = before(*xs)

        def inner(*xs):
            return framefuse.cond(xs[0].sum() > limit, lambda *xs: yes(*xs, p), lambda *xs: no(*xs, p), xs)

        ys = framefuse.cond(xs[0].sum() + p.mean() > limit, inner if nested else lambda *xs: yes(*xs, p), lambda *xs: no(*xs, p), xs)
        (z,) = framefuse.cond(ys[0].mean() > 0, then_yes, then_no, (*xs, *ys))
        return (*ys, z, p * z)

    torch.manual_seed(seed)
    return f, [torch.randn(4, 4) * 0.5 for _ in range(inputs)], [rng.random() < 0.7 for _ in range(inputs)]


def _run(f, tensors, differentiable):
    xs = [t.clone().requires_grad_(r) for t, r in zip(tensors, differentiable)]
    results = f(*xs)
    loss = sum((i + 1) * t.sum() for i, t in enumerate(results))
    wanted = [x for x in xs if x.requires_grad]
    # Where nothing that was run has a gradient Python's results have none, those of a graph zeros.
    gradients = torch.autograd.grad(loss, wanted, allow_unused=True) if wanted and loss.requires_grad else [None] * len(wanted)
    return [r.detach() for r in results], [torch.zeros(4, 4) if g is None else g for g in gradients]


@pytest.mark.parametrize("backend", ["aten", "fuse"])
def test_as_python_chooses(backend):
    refused = 0
    count = 400 if os.environ.get("FF_NIGHTLY") else 40
    for seed in range(count):
        framefuse.reset()  # the same code for every program: it would reach the recompile limit
        f, tensors, differentiable = _program(seed)
        compiled = framefuse.compile(f, backend=backend, fullgraph=True)
        for sign in (1.0, -1.0):
            moved = [t * sign + (sign < 0) for t in tensors]
            try:
                ours = _run(compiled, moved, differentiable)
            except framefuse.Unsupported as error:
                assert "different strides" in str(error), seed
                refused += 1
                break
            eager = _run(f, moved, differentiable)
            assert [t.stride() for t in ours[0]] == [t.stride() for t in eager[0]], seed
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4, msg=lambda text, seed=seed: f"seed {seed}: {text}")
    assert refused <= count // 10
