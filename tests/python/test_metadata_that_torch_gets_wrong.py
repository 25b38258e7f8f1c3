"""Operators for which torch's meta kernels promise other sizes or strides than the CPU's kernels give."""

import pytest
import torch

import framefuse


@pytest.mark.parametrize("backend", ["aten", "fuse", lambda graph, inputs: graph.forward])
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3), (2, 2, 3, 3), (1, 2, 3, 3)])
def test_backward_of_a_complex_factorisation(shape, backend):
    """It solves with a conjugate, and folds the batch's dimensions by the strides of what comes out."""

    def f(x):
        return torch.linalg.lu_factor(x)[0]

    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.complex64)
    gradients = []
    for function in (f, framefuse.compile(f, backend=backend)):
        leaf = x.clone().requires_grad_()
        result = function(leaf)
        result.backward(torch.complex(*torch.linspace(-1, 1, 2 * x.numel()).view(2, *shape)))
        gradients.append(leaf.grad)
    torch.testing.assert_close(gradients[1], gradients[0])


@pytest.mark.parametrize("backend", ["aten", "fuse", lambda graph, inputs: graph.forward])
def test_places_of_a_maximum_with_channels_side_by_side(backend):
    def f(x, places):
        y = torch.nn.functional.max_unpool2d(x, places, 2)
        return y * 2, y.stride(), y.transpose(1, 2).stride()

    x = torch.rand(2, 3, 3, 3).contiguous(memory_format=torch.channels_last)
    places = torch.arange(9).view(1, 1, 3, 3).expand(2, 3, 3, 3).contiguous() * 4
    found, expected = framefuse.compile(f, backend=backend)(x, places), f(x, places)
    assert torch.equal(found[0], expected[0]) and found[0].stride() == expected[0].stride() and found[1:] == expected[1:]


@pytest.mark.parametrize("backend", ["aten", "fuse"])
def test_gradient_in_another_format(backend):
    def f(x, scale):
        y = torch.nn.functional.hardswish(x)
        (gradient,) = torch.autograd.grad(y, x, scale)
        return gradient * 2, gradient.stride()

    x = torch.linspace(-4, 4, 72).view(2, 4, 3, 3).requires_grad_()
    scale = torch.linspace(0, 1, 72).view(2, 4, 3, 3).contiguous(memory_format=torch.channels_last)
    found, expected = framefuse.compile(f, backend=backend)(x, scale), f(x, scale)
    assert torch.equal(found[0], expected[0]) and found[1] == expected[1]


@pytest.mark.parametrize("backend", ["aten", "fuse", lambda graph, inputs: graph.forward])
def test_loss_of_one_sample(backend):
    def f(x, target):
        loss = torch.nn.functional.multilabel_margin_loss(x, target, reduction="none")
        return loss * 2, tuple(loss.shape)

    target = torch.tensor([0, 2, -1, -1, -1, -1])
    for sizes in ((6,), (2, 6)):
        x = torch.linspace(-1, 1, 6).expand(sizes).clone().requires_grad_()
        loss, shape = framefuse.compile(f, backend=backend)(x, target.expand(sizes))
        expected, expected_shape = f(x, target.expand(sizes))
        assert shape == expected_shape and torch.equal(loss, expected)
        loss.sum().backward()


@pytest.mark.parametrize("backend", ["aten", "fuse"])
def test_part_of_a_large_storage_that_is_written_keeps_its_strides(backend):
    """The formula of this gradient writes into a quarter of a matrix that it made."""

    def f(x):
        return torch.linalg.matrix_exp(x)

    torch.manual_seed(0)
    x = torch.randn(5, 5, 5)
    gradients = []
    for function in (f, framefuse.compile(f, backend=backend)):
        leaf = x.clone().requires_grad_()
        function(leaf).sin().sum().backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(gradients[1], gradients[0])
    assert gradients[1].stride() == gradients[0].stride()
