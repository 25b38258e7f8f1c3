"""Outputs of one graph are differentiated one after another: each pass uses up what it read, and no more."""

import itertools

import framefuse
import pytest
import torch


def sum_and_square(r, x):
    return r * x.sum(), (x * x).sum()


def three_that_share(r, x):
    x = x * 2
    return r * x.sum(), (x * x)[:2], x.max()


def mean_read_by_a_node(r, x):
    x = x / 4
    return r * x.mean(), x * x * r


@pytest.mark.parametrize("backend", ["aten", "fuse"])
@pytest.mark.parametrize("f", [sum_and_square, three_that_share, mean_read_by_a_node])
def test_each_order_of_passes_gives_what_eager_gives(f, backend):
    framefuse.reset()
    compiled = framefuse.compile(f, backend=backend, fullgraph=True)

    def run(f, order):
        x = torch.arange(1.0, 4.0).requires_grad_()
        outputs, seen = f(torch.full((3,), 2.0), x), []
        for i in order:
            try:
                gradient = torch.autograd.grad(outputs[i].sum(), x)[0]
                seen.append((gradient.tolist(), gradient.stride()))
            except RuntimeError as error:
                seen.append(str(error)[:40])
        return seen

    for order in itertools.permutations(range(len(f(torch.ones(3), torch.ones(3))))):
        assert run(compiled, order) == run(f, order)


def test_a_pass_in_the_frame_leaves_the_other_output_its_history():
    @framefuse.compile
    def f(r, x):
        y = r * x.sum()
        return y, torch.autograd.grad((x * x).sum(), x)[0]

    leaf = torch.arange(1.0, 4.0).requires_grad_()
    y, gradient = f(torch.ones(3), leaf * 2)
    y.sum().backward()
    assert gradient.tolist() == [4.0, 8.0, 12.0] and leaf.grad.tolist() == [6.0, 6.0, 6.0]
