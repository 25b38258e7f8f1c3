"""Images whose channels lie side by side, losses of halves, casts to halves: as kernels compute them."""

import torch
import torch.nn.functional as functional

from conformance.program import Args, Case, program


def _images(batch, far=0.0):
    x = (torch.arange(batch * 4 * 5 * 3).reshape(batch, 4, 5, 3) * 0.37).sin() * 2
    x = x + far * torch.arange(batch).view(-1, 1, 1, 1)
    return x.contiguous(memory_format=torch.channels_last)


@program(graphs=1)
def batch_norm_of_channels_side_by_side():
    """Samples far from each other, then few, then one."""
    module = torch.nn.Sequential(torch.nn.BatchNorm2d(4), torch.nn.ReLU())
    return Case(module, _images(3, far=20), then=[lambda: Args(_images(3)), lambda: Args(_images(1))])


@program(graphs=1)
def batch_norm_of_an_infinite_corner():
    """The first element of a channel; the other channels are as ever."""
    module = torch.nn.BatchNorm2d(4, affine=False)

    def images():
        x = _images(2)
        x[0, 1, 0, 0] = torch.inf
        x[0, 2, 2, 1] = -torch.inf
        return x

    return Case(module, images(), then=[lambda: Args(_images(2))])


@program(graphs=1)
def batch_norm_between_transpositions_of_a_square():
    """The meta kernel promises strides like the input's. They are the norm's own, so what is transposed is not as it was."""
    norm = torch.nn.BatchNorm1d(4)

    def f(x):
        y = norm(x.transpose(1, 2)).transpose(1, 2)
        return y.contiguous().view(8, 4) + 1, norm.running_mean.clone()

    return Case(f, torch.arange(32.0).sin().view(2, 4, 4).requires_grad_())


@program(graphs=1)
def loss_of_half_logits():
    def f(x, w, target):
        logits = (x @ w).bfloat16()
        return logits, functional.cross_entropy(logits.float().view(-1, 7), target, ignore_index=-1)

    x, w = torch.linspace(-1, 1, 24).reshape(2, 3, 4), torch.linspace(-2, 2, 28).reshape(4, 7).sin()
    return Case(f, x, w.requires_grad_(), torch.tensor([1, 0, -1, 6, 3, 3]))


@program(graphs=1)
def casts_to_halves_that_are_read_at_once():
    def f(x):
        a, b = x.bfloat16(), x.half()
        return (a * a) % (a.abs() + 1), a.sum(), b.float() - x, torch.where(b > 0.1, b, a.half()), (a + a).float() - 2 * x

    return Case(f, torch.linspace(-3, 3, 37))


@program(graphs=1)
def convolutions_of_doubles_side_by_side():
    """Only some of torch's backends keep the layout."""
    plain, deep = torch.nn.Conv2d(4, 3, 2).double(), torch.nn.Conv3d(2, 3, 2).double()

    def f(x, y):
        a, b = plain(x), deep(y)
        return a, b, a.stride(), b.stride()

    volume = torch.arange(2 * 2 * 3 * 3 * 2, dtype=torch.double).sin().view(2, 2, 3, 3, 2).contiguous(memory_format=torch.channels_last_3d)
    return Case(f, _images(2).double(), volume)


@program(graphs=1)
def gradients_of_slices():
    """Parts that cover a tensor, with the whole read before, between or behind them; parts that meet, and parts with a gap."""

    def rotated(x):
        return torch.cat((-x[..., 2:], x[..., :2]), -1)

    def between(x):
        first = x[..., :1] * 2
        whole = x.sin()
        return first, whole, x[..., 1:] * 3

    def f(x, y, z):
        return rotated(x) * 3 + x.sin(), y.sin() + rotated(y) * 3, z[:, :2] * z[:, 1:3], z[0].mT @ z[1] + z[-1, 0, 1], between(x * y)

    x = torch.linspace(-1, 1, 24).reshape(2, 3, 4)
    return Case(f, x.requires_grad_(), (x.detach() * 2).requires_grad_(), (x.detach() - 0.3).requires_grad_())
