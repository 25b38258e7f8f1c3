"""What a backend lays out anew, pads, or writes where it belongs: convolutions, windows, products, concatenations.

A backend may do so on some devices only. tests/mutations runs these programs with `rewrite_always`, too.
"""

import torch
import torch.nn.functional as functional

from conformance.program import Args, Case, program
from conformance.sample import matrix


def _images(batch, channels, side, far=0.0):
    x = (torch.arange(float(batch * channels * side * side)).reshape(batch, channels, side, side) * 0.37).sin()
    return x + far * torch.arange(float(batch)).view(-1, 1, 1, 1)


def _layer(layer):
    """With weights that do not depend on torch's generator."""
    with torch.no_grad():
        for n, p in enumerate(layer.parameters()):
            p.copy_((torch.arange(float(p.numel())).reshape(p.shape) * 0.23 + n).sin() / 3)
    return layer


def _leave_numbers_in_free_memory():
    """What is freed is what the next call gets: whoever does not fill all of it computes with these."""
    blocks = [torch.full((n,), torch.nan) for n in range(8, 136, 4) for _ in range(8)]
    del blocks


@program(graphs=1)
def result_that_a_convolution_reads_on():
    first, second = _layer(torch.nn.Conv2d(4, 8, 3, padding=1)), _layer(torch.nn.Conv2d(8, 4, 1))

    def f(x):
        y = first(x).relu()
        return y, second(y), y.stride()

    return Case(f, _images(2, 4, 6), then=[lambda: Args(_images(3, 4, 6))])


@program(graphs=1)
def views_between_convolutions():
    first, second = _layer(torch.nn.Conv2d(3, 8, 3)), _layer(torch.nn.Conv2d(4, 4, 3))

    def f(x):
        y = first(x)
        batch, channels, height, width = y.shape
        z = y.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(batch, channels, height, width)
        left, right = z.chunk(2, 1)
        flat = second(left * right.sum(0, keepdim=True)).flatten(1)
        return flat, flat @ flat.t(), left.stride()

    return Case(f, _images(2, 3, 9), then=[lambda: Args(_images(3, 3, 9))])


@program(graphs=1)
def windows_that_leave_their_image():
    """At the sides only: behind the end of a row comes the next one, whose numbers are greater, and the last row is not read."""
    stem = _layer(torch.nn.Conv2d(3, 32, 3, padding=1))

    @torch.no_grad()  # else the places of the largest are wanted, too
    def f(x):
        y = stem(x) + torch.arange(10.0)[:, None] * 5
        return functional.max_pool2d(y, (1, 3), (2, 1), (0, 1)) + 1

    return Case(f, _images(2, 3, 10), then=[lambda: Args(_images(3, 3, 10))])


@program(graphs=1)
def windows_of_several_kinds():
    stem = _layer(torch.nn.Conv2d(3, 32, 3, padding=1))

    @torch.no_grad()
    def f(x):
        y = stem(x)
        near, beyond = functional.max_pool2d(y, 3, 2, 1), functional.max_pool2d(y, 2, 3, 0, ceil_mode=True)
        return near + 1, beyond * 2, functional.max_pool2d(y.relu(), (3, 2), (2, 1), 1)

    return Case(f, _images(2, 3, 9, far=3), then=[lambda: Args(_images(3, 3, 9, far=3))])


@program(graphs=1)
def products_of_odd_sizes():
    up, down = _layer(torch.nn.Linear(11, 15)), _layer(torch.nn.Linear(15, 7, bias=False))

    def f(x):
        y = down(functional.gelu(up(x)))
        scores = y.tanh() @ x[:7, :7].sin()
        return scores, functional.log_softmax(scores, -1), (y.t() @ x).t()

    def with_numbers_behind(rows):
        _leave_numbers_in_free_memory()
        return Args(matrix(rows, 11) / 40)

    return Case(f, matrix(9, 11) / 40, then=[lambda n=n: with_numbers_behind(n) for n in (9, 7, 9)])


@program(graphs=1)
def biases_behind_views():
    """As many columns as rows and channels: a bias along a wrong dimension has the right size."""
    up, wide, deep = _layer(torch.nn.Linear(5, 6)), _layer(torch.nn.Conv2d(6, 6, 3, padding=1)), _layer(torch.nn.Conv1d(6, 6, 1))

    @torch.no_grad()
    def f(x):
        y = up(x)
        turned = y.permute(0, 3, 1, 2) * 2 + 1
        images = wide(turned)
        rows = deep(images[:, :, 0])
        return y.transpose(1, 3).tanh(), images.permute(0, 2, 3, 1).softmax(-1), rows.unsqueeze(1).exp(), up(x[0]).transpose(0, 1) - 1

    return Case(f, matrix(36, 10).reshape(2, 6, 6, 5), then=[lambda: Args(matrix(36, 10).reshape(2, 6, 6, 5) + 1)])


@program(graphs=1)
def beginning_of_a_growing_concatenation_that_is_returned():
    weights = [(torch.arange(64.0 * (k + 1)).reshape(8 * (k + 1), 8) * 0.31 + k).sin() / 4 for k in range(9)]

    def f(x):
        features, seen = [x], None
        for k, w in enumerate(weights):
            c = torch.cat(features, -1)
            if k == 6:
                seen = c
            features.append((c * 2 + 1) @ w)
        return torch.cat(features, -1), seen, seen.stride()

    return Case(f, matrix(5, 8), then=[lambda: Args(matrix(5, 8))])


@program(graphs=1)
def layers_of_several_widths():
    """A layer of another width is another program: its graph may be made for its own sizes."""

    def f(layer, x):
        return torch.relu(layer(x))

    widths = [(8, 4), (6, 4), (5, 3), (7, 2)]
    calls = [lambda i=i, o=o: Args(_layer(torch.nn.Linear(i, o)), matrix(3, i)) for i, o in widths]
    first = calls[0]()
    return Case(f, *first.args, then=calls[1:])


@program(graphs=1)
def state_that_is_written_between_the_passes():
    """Eager has saved what it computed of the state, not the state."""
    w = torch.linspace(-1, 1, 6, requires_grad=True)
    kept = {}

    def f(state, x):
        state.mul_(0.5).add_(x)
        kept["loss"] = (state.abs().sqrt() * w).sum()
        mine = torch.zeros_like(x)
        mine.add_(x).mul_(2)
        kept["mine"], kept["other"] = mine, (mine.abs().sqrt() * w).sum()
        return state.sin()

    state, x = torch.linspace(1, 2, 6), torch.linspace(0.5, 3, 6)

    def look():
        state.add_(5)
        kept["mine"].mul_(7)
        w.grad = None
        (kept["loss"] + kept["other"]).backward()
        return w.grad.clone()

    return Case(f, state, x, look=look, then=[lambda: None], forward_only=True)


@program(graphs=1)
def inputs_written_with_and_without_a_history():
    """A device copies all of one type at once, but for those that get a history."""
    w = torch.linspace(-1, 1, 6, requires_grad=True)

    def f(a, b, c, d, x):
        a.mul_(x).add_(1)
        b.mul_(w)
        c.sub_(x)
        d.add_(w * w)
        return a + c

    given = [torch.linspace(n, n + 1.0, 6) for n in range(4)]

    def look():
        w.grad = None
        (given[1] * given[1] + given[3]).sum().backward()
        facts = [t.grad_fn is None for t in given], [t._version for t in given]
        for t in given:
            t.detach_()
        return w.grad.clone(), facts

    return Case(f, *given, torch.linspace(0.5, 3, 6), look=look, forward_only=True)
