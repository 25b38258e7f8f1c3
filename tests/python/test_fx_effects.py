"""What of a frame's own doings an FX graph has, and what its entry does behind it: backward passes, sizes of inputs, warnings, checks."""

import operator

import framefuse
import pytest
import torch
from kept_graphs import graphs, no_graphs, run_graph, same, targets  # noqa: F401

both_backends = pytest.mark.parametrize("backend", [run_graph, "aot_eager"])


def vector():
    return torch.arange(4.0) + 1


def leaf():
    return vector().requires_grad_()


# ---------------------------------------------------------------- backward passes in the frame


def train(w, t):
    loss = (w * t).sin().sum()
    loss.backward()
    return loss.detach() + 1


def gradient(w, t):
    loss = (w * t).sin().sum()
    (g,) = torch.autograd.grad(loss, w)
    return g * 2


def step(w, t):
    optimizer = torch.optim.SGD([w], lr=0.1)
    optimizer.zero_grad()
    loss = (w * t).square().sum()
    loss.backward()
    optimizer.step()
    return loss.detach()


def accumulated(w, t):
    for factor in (1.0, 2.0):
        (w * t * factor).sin().sum().backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
    return w.grad + 1


@pytest.mark.parametrize("f", [train, gradient, step, accumulated])
@pytest.mark.parametrize("backend", [run_graph, "eager", "aot_eager"])
def test_a_backward_pass_is_in_the_graph(f, backend):
    compiled = framefuse.compile(f, backend=backend, fullgraph=f is not step)  # an optimizer is made in step
    w, v = leaf(), leaf()
    for _ in range(3):
        same(compiled(w, vector()), f(v, vector()))
        assert (w.grad is None) == (v.grad is None)
        if v.grad is not None:
            same(w.grad, v.grad)
        same(w, v)
    if backend is run_graph and f is not step:
        # The gradient that is there from the second call on is another graph.
        assert len(graphs) == (2 if f in (train, accumulated) else 1)
        assert all(isinstance(target, torch._ops.OpOverload) for target in targets() if target is not operator.getitem)


@both_backends
def test_a_loss_that_is_returned_is_used_up(backend):
    def f(w):
        loss = w.square().sum()
        loss.backward()
        return loss, loss.detach()

    w = leaf()
    loss, plain = framefuse.compile(f, backend=backend, fullgraph=True)(w)
    assert loss.requires_grad and not plain.requires_grad and loss.data_ptr() == plain.data_ptr()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    same(w.grad, 2 * w.detach())


@both_backends
def test_a_result_with_a_history_breaks_before_the_pass(backend):
    def f(w, t):
        y = w * t
        y.sum().backward(retain_graph=True)
        return y.sin()

    w, v = leaf(), leaf()
    got, wanted = framefuse.compile(f, backend=backend)(w, vector()), f(v, vector())
    got.sum().backward()
    wanted.sum().backward()
    same(got, wanted)
    same(w.grad, v.grad)
    with pytest.raises(framefuse.Unsupported, match="leaves a result with a history"):
        framefuse.compile(f, backend=backend, fullgraph=True)(leaf(), vector())


# ---------------------------------------------------------------- sizes of inputs, warnings and checks


@both_backends
def test_an_input_that_gets_other_sizes(backend):
    def f(x, y, out):
        x.t_()
        z = x @ y
        x.unsqueeze_(0)
        y.resize_(2, 2)
        torch.add(z, 1, out=out)
        return z, x * 2, y + 1

    def inputs():
        return torch.arange(6.0).view(2, 3), torch.arange(6.0).view(2, 3) + 1, torch.zeros(3, 3)

    compiled = framefuse.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        mine, others = inputs(), inputs()
        same(compiled(*mine), f(*others))
        same(mine, others)
        assert [t.stride() for t in mine] == [t.stride() for t in others]


@both_backends
def test_a_resized_result_warns_once(backend):
    def f(x, y):
        out = torch.zeros(9)
        torch.matmul(x, y, out=out)
        return out + 1

    x, y = torch.ones(2, 3), torch.ones(3, 2)
    compiled = framefuse.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        with pytest.warns(UserWarning, match="was resized") as heard:
            same(compiled(x, y), torch.full((2, 2), 4.0))
        assert len(heard) == 1


@both_backends
def test_deviations_of_too_few_numbers_warn_once(backend, capfd):
    """An operator that the graph calls by torch.ops would warn on stderr, past Python."""

    def f(x):
        return x.std(1) + torch.var_mean(x, 0, correction=4)[1]

    compiled = framefuse.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        with pytest.warns(UserWarning, match="degrees of freedom") as heard:
            assert compiled(torch.ones(2, 1)).isnan().all()
        assert [str(w.message).split("(")[0] for w in heard] == ["std", "var_mean"]
    assert "degrees of freedom" not in capfd.readouterr().err


@both_backends
def test_checks_are_looked_at_behind_the_graph(backend):
    def f(x, q):
        if (x < 0).any():
            raise ValueError("negative")
        return torch.quantile(x, q) + 1

    compiled = framefuse.compile(f, backend=backend, fullgraph=True)
    x, q = vector(), torch.tensor([0.25, 0.5])
    for _ in range(2):
        same(compiled(x, q), f(x, q))
    with pytest.raises(ValueError, match="negative"):
        compiled(-x, q)
    with pytest.raises(RuntimeError, match="in the range"):
        compiled(x, q + 1)
    same(framefuse.compile(f, backend=backend)(x, q), f(x, q))
