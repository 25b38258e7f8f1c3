"""Padded images whose channels lie side by side: the results lie so, too, and what follows goes by their places."""

import torch
from torch.nn import functional as F

from conformance.program import Args, Case, program
from conformance.sample import matrix


def image(*sizes):
    return torch.sin(torch.arange(float(torch.Size(sizes).numel()))).view(sizes)


def padded(mode, rank):
    def f(x):
        y = F.pad(x.flatten(-2).movedim(-1, 1), (1,) * (2 * rank), mode=mode)
        return y, y.stride(), y.movedim(1, -1).flatten(0, 1) * 2

    return Case(f, image(2, *(3,) * rank, 2, 3).requires_grad_(), then=[lambda: None])


@program
def reflected_planes():
    return padded("reflect", 2)


@program
def reflected_volumes():
    return padded("reflect", 3)


@program
def repeated_planes():
    return padded("replicate", 2)


@program
def repeated_volumes():
    return padded("replicate", 3)


@program
def a_gradient_that_is_asked_for():
    def f(x):
        y = F.pad(x, (1, 1, 1, 1), mode="reflect")
        (gradient,) = torch.autograd.grad((y * y).sum(), x)
        return gradient, gradient.stride(), gradient.permute(0, 2, 3, 1).reshape(2, 9, -1)

    x = image(2, 4, 3, 3).contiguous(memory_format=torch.channels_last).requires_grad_()
    return Case(f, x, then=[lambda: None])


@program
def one_image():
    def f(x):
        y = F.pad(x, (1, 1, 1, 1), mode="replicate")
        return y, y.stride()

    return Case(f, image(3, 3, 4).permute(2, 0, 1).requires_grad_(), then=[lambda: None])


def stacked(x, weight, bias):
    return torch.einsum("...ij,...j->...i", weight, x) + bias


@program
def activations_between_stacked_products():
    """The gradient of the first product lies otherwise than the activation's input."""

    def f(x, first, bias, second, last):
        return stacked(F.elu(stacked(x, first, bias)), second, last)

    shapes = (4, 3, 5), (3, 6, 5), (3, 6), (3, 1, 6), (3, 1)
    return Case(f, *[image(*s).requires_grad_() for s in shapes], then=[lambda: None])


@program
def other_activations_between_stacked_products():
    def f(x, first, bias, second, last):
        y = stacked(F.celu(stacked(x, first, bias)), second, last)
        return y + stacked(F.selu(stacked(x, first, bias)), second, last), F.hardswish(matrix())

    shapes = (4, 3, 5), (3, 6, 5), (3, 6), (3, 1, 6), (3, 1)
    return Case(f, *[image(*s).requires_grad_() for s in shapes], then=[lambda: None])


@program
def sizes_of_padded_images():
    def f(x):
        y = F.pad(x, (1, 1, 1, 1), mode="reflect")
        z = F.pad(x, (2, 1, 0, 1), mode="replicate")
        return y.movedim(1, -1).flatten(-2) * 2, y.stride(), z.movedim(1, -1).flatten(-2) * 2, z.stride()

    def of(side):
        return image(2, 4, side, side).contiguous(memory_format=torch.channels_last).requires_grad_()

    return Case(f, of(4), then=[lambda: Args(of(5)), lambda: Args(of(7)), lambda: Args(of(3))])
