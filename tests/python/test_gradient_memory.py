"""Leaves keep gradients of their own: what is added to one later is not added to another."""

import framefuse
import pytest
import torch

N = 4


def views(x, w):
    return x.view(-1) + w.view(-1)


def transposed(x, w):
    return x.t() + w.t()


def as_one_shape(x, w):
    return (x.view(2, 8) - w.view(2, 8)).view(N, N)


def one_sum(x, w):
    return x + w


def view_of_one(x, w):
    return x.view(-1) + w.flatten() + w.view(-1)


def scaled(x, w):
    return x.view(-1) * 2 + w.view(-1) * 1


FUNCTIONS = [views, transposed, as_one_shape, one_sum, view_of_one, scaled]


@pytest.mark.parametrize("backend", ["aten", "fuse"])
@pytest.mark.parametrize("through_views", [False, True])
@pytest.mark.parametrize("f", FUNCTIONS)
def test_what_is_added_to_one_gradient_is_not_added_to_another(f, through_views, backend):
    framefuse.reset()
    compiled = framefuse.compile(f, backend=backend, fullgraph=True)

    def run(f):
        leaves = [torch.full((N * N,) if through_views else (N, N), 1.0 + i).requires_grad_() for i in range(2)]
        x, w = (t.view(N, N) for t in leaves) if through_views else leaves
        for _ in range(2):
            f(x, w).sum().backward()
            (leaves[0] * 3).sum().backward()
        (leaves[1] * 5).sum().backward()
        return [t.grad.tolist() for t in leaves]

    assert run(compiled) == run(f)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_a_gradient_that_the_program_gives_stays_its_own(f):
    framefuse.reset()
    compiled = framefuse.compile(f, backend="aten", fullgraph=True)
    x, w = torch.ones(N, N).requires_grad_(), torch.ones(N, N).requires_grad_()
    out = compiled(x, w)
    given = torch.ones_like(out)
    out.backward(given)
    x.grad.add_(7)
    assert given.tolist() == torch.ones_like(out).tolist()
    x.grad.sub_(7)
    fresh = [torch.ones(N, N).requires_grad_() for _ in range(2)]
    expected = torch.autograd.grad(f(*fresh).sum(), fresh)
    assert [x.grad.tolist(), w.grad.tolist()] == [g.tolist() for g in expected]


def test_what_was_computed_from_a_leaf_is_not_computed_again_after_a_write_that_no_counter_shows():
    def gradients(compiler):
        w, v = torch.full((3,), 0.5, requires_grad=True), torch.ones(3, requires_grad=True)
        y = compiler(lambda x: torch.tanh(x * w * 2.0 * v) * v.view(3))(torch.tensor([0.5, -1.0, 2.0]))
        for leaf in (w, v):
            leaf.data.mul_(0.5)
        y.sum().backward()
        return w.grad, v.grad

    expected = gradients(lambda f: f)
    for backend in ("aten", "fuse"):
        for mine, theirs in zip(gradients(lambda f: framefuse.compile(f, backend=backend)), expected, strict=True):
            torch.testing.assert_close(mine, theirs)
