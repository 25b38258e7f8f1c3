"""What a function returned, or was given, is written in place before the backward pass runs: eager has saved what it computed, and raises where
it has saved what is written."""

import re

import framefuse
import pytest
import torch


def copied_input(x, w):
    return (x.clone() * w).sum(), x.cos()


def copied_result(x, w):
    y = (x + 1).sin()
    return (y.clone() * w).sum(), y


def copied_state(x, w):
    x.lerp_(x.cos(), 0.1)
    return (x.clone() * w).sum(), x.sin()


def computed_of_state(x, w):
    x.mul_(0.5)
    return (x.abs().sqrt() * w).sum(), x.sin()


def written_result(x, w):
    state = torch.zeros_like(x)
    state.add_(x).mul_(2)
    return (state.abs().sqrt() * w).sum(), state


def saved_input(x, w):
    return (x * w).sum(), x.sin()


def saved_result(x, w):
    y = x.sin()
    return (y * w).sum(), y


def outcome(function, step):
    torch.manual_seed(0)
    x, w = torch.randn(3, 3), torch.randn(3, 3, requires_grad=True)
    loss, result = step(function)(x, w)
    x.add_(5)
    result.detach().mul_(7)
    try:
        loss.backward()
    except RuntimeError as error:
        return str(error).split(":")[0]
    return w.grad


CASES = [copied_input, copied_result, copied_state, computed_of_state, written_result, saved_input, saved_result]


@pytest.mark.parametrize("backend", ["fuse", "aten"])
@pytest.mark.parametrize("function", CASES)
def test_written_before_the_backward_pass(function, backend):
    expected = outcome(function, lambda f: f)
    got = outcome(function, lambda f: framefuse.compile(f, backend=backend, fullgraph=True))
    if isinstance(expected, str) or isinstance(got, str):
        assert got == expected
    else:
        torch.testing.assert_close(got, expected)


def two_steps(wrap):
    torch.manual_seed(0)
    w, x = torch.randn(4, requires_grad=True), torch.randn(4)
    weight = w.clone()
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(4))], differentiable=True)
    optimizer.param_groups[0]["params"] = [weight]
    step = wrap(optimizer.step)
    for _ in range(2):
        weight.grad = weight.detach() + w * x
        step()
    weight.sum().backward()
    return w.grad


def test_two_differentiable_steps():
    torch.testing.assert_close(two_steps(framefuse.compile), two_steps(lambda f: f))


def test_logits_that_are_returned_are_widened_again():
    """What the backward computes again is not saved beside them: in a language model that is its largest tensor."""

    def f(hidden, head, targets):
        logits = hidden @ head
        return logits, torch.nn.functional.cross_entropy(logits.float(), targets)

    hidden = torch.randn(64, 32, dtype=torch.bfloat16, requires_grad=True)
    head = torch.randn(32, 1000, dtype=torch.bfloat16, requires_grad=True)
    with framefuse.capture_logs("aot") as records:
        logits, loss = framefuse.compile(f, fullgraph=True)(hidden, head, torch.randint(1000, (64,)))
    loss.backward()
    (saved,) = (int(found[1]) for _, text in records if (found := re.search(r"saved for backward: \d+ values, (\d+) bytes", text)))
    assert saved < logits.nbytes
    assert hidden.grad is not None


@pytest.mark.parametrize("backend", ["fuse", "aten"])
def test_a_leaf_with_other_data_that_is_read_itself_and_through_a_view(backend):
    """Eager reads the new data and the old: a graph has one of them, and says so."""
    x, w = torch.ones(2, 2, requires_grad=True), torch.eye(2).requires_grad_()
    f = framefuse.compile(lambda x, w: torch.nn.functional.linear(x, w) + x * w, backend=backend)
    y = f(x, w)
    w.data = w.data.clone()
    (found,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    (wanted,) = torch.autograd.grad((torch.nn.functional.linear(x, w) + x * w).sum(), x)
    torch.testing.assert_close(found, wanted)
    w.data = w.data * 2
    with pytest.raises(RuntimeError, match="reads a tensor itself and a view of it"):
        torch.autograd.grad(y.sum(), x)
