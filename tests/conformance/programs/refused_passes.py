"""Backward passes that torch refuses, for what was written or used up since the graph ran, and what they leave behind.

A graph that saves other values than eager must refuse what eager refuses, and bring what eager brings before.
"""

import torch

from conformance.program import Case, program
from conformance.sample import leaf, vector


def _passed(result, *leaves):
    """How a pass of a result ends, and what leaves got of it."""
    try:
        result.sum().backward()
        ended = "well"
    except RuntimeError as error:
        ended = str(error)[:60]
    return ended, [None if t.grad is None else t.grad.tolist() for t in leaves]


def _written_after(f, write):
    """Runs f on an inner tensor, which it writes; then writes that again, and differentiates."""
    seen = []

    def run(x):
        w = leaf()
        inner = w * 2
        result = f(x, inner)
        print("the graph ends here")
        write(inner)
        seen.append(_passed(result, w))
        return x

    return Case(run, vector(), observe=seen, forward_only=True, then=[lambda: None])


def _adds(x, s):
    s += 1
    return x + (s * s).sum()


@program(whole=False)
def written_input_is_written_again():
    return _written_after(_adds, lambda s: s.add_(5))


@program(whole=False)
def written_input_is_transposed_in_place():
    return _written_after(_adds, lambda s: s.unsqueeze_(0).t_())


@program(whole=False)
def written_input_is_left_alone():
    return _written_after(_adds, lambda s: s.cos())


@program(whole=False)
def input_written_twice_is_written_again():
    def f(x, s):
        s.mul_(2)
        s.add_(x)
        return s.abs().max()

    return _written_after(f, lambda s: s.squeeze_())


@program(whole=False)
def input_written_twice_is_left_alone():
    def f(x, s):
        s.mul_(2)
        s.add_(x)
        return s.abs().max()

    return _written_after(f, lambda s: s.cos())


@program(whole=False)
def input_written_with_a_copy_is_written_again():
    # What was copied into it is saved, not the copy.
    def f(x, s):
        t = x + s
        s.copy_(t)
        return (t * t).sum()

    return _written_after(f, lambda s: s.add_(5))


@program(whole=False)
def input_whose_result_is_saved_is_written_again():
    def f(x, s):
        s.add_(1)
        return s.exp().sum()

    return _written_after(f, lambda s: s.add_(5))


@program(whole=False)
def written_input_is_no_longer_read():
    def f(x, s):
        s.add_(1)
        return s.sum() * 2

    return _written_after(f, lambda s: s.add_(5))


@program(whole=False)
def written_state_is_written_again_between():
    # The state's value is saved for the weight's gradient.
    state, w, seen = torch.zeros(3), leaf(), []

    def run(x):
        state.add_(1)
        result = (w * state).sum() + x.sum()
        print("the graph ends here")
        if len(seen) == 1:
            state.zero_()
        seen.append(_passed(result, w))
        return x

    return Case(run, vector(), observe=[seen, state], forward_only=True, then=[lambda: None, lambda: None])


@program(whole=False)
def a_view_of_a_written_input_is_written_again():
    seen = []

    def run(x):
        w = leaf(4)
        inner = w * 2
        part = inner[1:]
        part.mul_(x)
        result = (part * part).sum()
        print("the graph ends here")
        inner.add_(1)
        seen.append(_passed(result, w))
        return x

    return Case(run, vector(), observe=seen, forward_only=True, then=[lambda: None])


@program(whole=False)
def history_that_is_used_up_in_part():
    w, other, seen = leaf(), leaf(3, 2.0), []

    def run(x):
        y = torch.tanh(x * w)
        y.sum().backward()
        return y + other.double().sum().float()

    def keep(x):
        seen.append(_passed(run(x), w, other))
        return x

    return Case(keep, vector(), observe=[seen, w, other], forward_only=True, then=[lambda: None])


@program(whole=False)
def history_that_is_used_up_whole():
    w, seen = leaf(), []

    def run(x):
        y = torch.tanh(x * w)
        y.sum().backward()
        return y * 2

    def keep(x):
        seen.append(_passed(run(x), w))
        return x

    return Case(keep, vector(), observe=[seen, w], forward_only=True, then=[lambda: None])
