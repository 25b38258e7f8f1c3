"""torch.utils.checkpoint: what a checkpoint computes again in a backward pass, and what it does twice."""

import functools

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


class Block(nn.Module):
    def __init__(self, size, norm=None):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(size, 2 * size), nn.Linear(2 * size, size), norm or nn.LayerNorm(size)
        self.unused = nn.Parameter(torch.ones(size))

    def forward(self, x, scale=1.0):
        return x + self.down(torch.tanh(self.up(self.norm(x)))) * scale


def blocks(count, size=4, norm=lambda: None):
    torch.manual_seed(0)
    return nn.ModuleList(Block(size, norm()) for _ in range(count))


@program
def of_blocks():
    layers = blocks(3)

    def f(x):
        for layer in layers:
            x = checkpoint(layer, x, use_reentrant=False, scale=2.0)
        return x.sin()

    def frozen():
        layers[1].requires_grad_(False)

    return Case(f, matrix(3, 4), then=[lambda: None, frozen, lambda: Args(matrix(3, 4).requires_grad_())])


@program
def by_a_partial_without_gradients_and_with():
    layers = blocks(2)
    again = functools.partial(checkpoint, use_reentrant=False, determinism_check="none")

    def f(x, mask):
        with torch.no_grad():
            y = again(layers[0].__call__, x)
        z = again(lambda a, m: torch.where(m, layers[1](a), a), y + x, mask)
        return y, z, again(torch.sin, x)

    return Case(f, matrix(3, 4), matrix(3, 4) > 0)


@program
def that_returns_structures():
    scale = torch.tensor(2.0, requires_grad=True)

    def f(x, w):
        made = [x * 3]

        def part(parts, *, k):
            a, b = parts["a"], parts["b"]
            h = (a * w).exp_() + made[0]
            h += k
            return {"h": h, "pair": (b.cos() * scale, [a.detach() + 1]), "n": 3, "none": None, "k": k}

        out = checkpoint(part, {"a": x.sin(), "b": x}, k=2, use_reentrant=False)
        return out, out["h"].requires_grad, out["pair"][1][0].requires_grad, out["h"].grad_fn is None

    return Case(f, vector(), vector().requires_grad_(), observe=[scale])


@program
def inside_of_another():
    layers = blocks(2)

    def inner(x):
        return checkpoint(layers[0], x, use_reentrant=False).sigmoid()

    def f(x, y):
        return checkpoint(lambda a: layers[1](inner(a)) * 2, x, use_reentrant=False), inner(y)

    return Case(f, matrix(2, 4).requires_grad_(), matrix(2, 4).requires_grad_())


@program
def of_a_sequence():
    torch.manual_seed(0)
    layers = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.GELU()) for _ in range(4)))

    def f(x):
        return checkpoint_sequential(layers, 2, x, use_reentrant=False)

    return Case(f, matrix(2, 4).requires_grad_())


@program
def backward_inside_and_second_derivatives():
    w = torch.tensor([0.5, -1.0, 2.0], requires_grad=True)

    def f(x):
        y = checkpoint(lambda a: (a * w).tanh(), x, use_reentrant=False)
        y.sum().backward()
        return y.detach()

    def look():
        grad, w.grad = w.grad, None
        return grad

    return Case(f, torch.tensor([1.0, 2.0, 3.0]), look=look, then=[lambda: None], forward_only=True)


@program(whole=False)
def whose_effects_come_twice():
    layer = blocks(1)[0]
    log, counter = [], {"n": 0}

    def part(x):
        log.append(x.shape[0])
        counter["n"] += 1
        return layer(x)

    def f(x):
        made = []

        def inner(a):
            made.append(1)
            return a.cos()

        y = checkpoint(part, x, use_reentrant=False)
        return checkpoint(inner, y, use_reentrant=False), made, len(log)

    return Case(f, matrix(2, 4), observe=[log, counter], then=[lambda: None])


@program(whole=False)
def of_batch_norm():
    layers = blocks(1, norm=lambda: nn.BatchNorm1d(4))

    def f(x):
        return checkpoint(layers[0], x, use_reentrant=False)

    return Case(f, matrix(3, 4), then=[lambda: layers.eval() and None, lambda: layers.train() and None])


@program(whole=False)
def of_random_numbers():
    layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))

    def f(x):
        y = checkpoint(layer, x, use_reentrant=False)
        return y, checkpoint(layer, y, use_reentrant=False, preserve_rng_state=False).sum(), torch.rand(2)

    return Case(f, matrix(3, 4), then=[lambda: layer.eval() and None], forward_only=True)


@program(whole=False)
def in_the_other_form():
    layers = blocks(2)

    def f(x):
        y = checkpoint(layers[0], x, use_reentrant=True)
        return checkpoint(layers[1], y * 2, use_reentrant=True), y.requires_grad

    return Case(f, matrix(2, 4).requires_grad_(), then=[lambda: Args(matrix(2, 4))])


@program(whole=False)
def that_writes_or_returns_what_it_was_given():
    def write(a):
        a.mul_(2)
        return a.sin()

    def f(x, y):
        z = x * 1
        a = checkpoint(write, z, use_reentrant=False)
        b = checkpoint(lambda t: (t, t[1:]), y, use_reentrant=False)
        return a, z, b, b[0] is y

    return Case(f, vector(), vector(), versions=True)


@program(whole=False)
def that_raises():
    def part(a, n):
        if n > 1:
            raise ValueError(f"no {n}")
        return a.sin()

    def f(x, n):
        y = x + 1
        try:
            y = checkpoint(part, y, n, use_reentrant=False)
        except ValueError as e:
            return y, str(e)
        return y, checkpoint(part, y, n * 2, use_reentrant=False, context_fn=None)

    return Case(f, vector(), 1, then=[lambda: Args(vector(), 2)])


@program(whole=False)
def with_a_break_in_the_middle():
    def part(a):
        b = a.sin()
        print("inside", b.requires_grad)
        return b * 2

    def f(x):
        return checkpoint(part, x + 1, use_reentrant=False) + 1

    return Case(f, vector().requires_grad_())


@program
def of_which_one_result_has_a_gradient():
    s = torch.tensor(2.0, requires_grad=True)

    def f(x, w):
        a, b = checkpoint(lambda x: ((x * w).exp(), w.detach().sin() * s), x, use_reentrant=False)
        return a

    return Case(f, vector(), vector().requires_grad_(), observe=s)


def _leaves_in_order(part):
    """Who is told in which order of a pass through a checkpoint."""

    def f(x, w, b):
        return checkpoint(part, x, w, b, use_reentrant=False)

    def run(x, w, b):
        seen = []
        result = f(x, w, b)
        torch._dynamo.graph_break()
        for name, t in (("x", x), ("w", w), ("b", b)):
            t.register_hook(lambda g, name=name: seen.append((name, g.tolist())))
        result.sum().backward()
        return seen

    return Case(run, *(vector().requires_grad_() for _ in range(3)), forward_only=True)


@program(whole=False)
def leaves_behind_a_checkpoint_in_order():
    return _leaves_in_order(lambda x, w, b: (x.sin() * w).tanh() + b)


@program(whole=False)
def leaves_that_a_checkpoint_needs_twice_in_order():
    return _leaves_in_order(lambda x, w, b: (w * b).exp() * x.sin() + w.cos())
