"""State and data that change from call to call: how many captures they take, with eager's results and gradients."""

import collections

import framefuse
import pytest
import torch
import torch.nn.functional as F
from torch import nn


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    framefuse.reset()


def _outcome(function, arguments):
    torch.manual_seed(0)
    result = function(*arguments)
    tensors = [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
    leaves = [t for t in arguments if isinstance(t, torch.Tensor) and t.requires_grad]
    learns = [t for t in tensors if t.requires_grad]
    gradients = torch.autograd.grad([t.abs().sum() for t in learns], leaves, allow_unused=True) if leaves and learns else []
    return torch.utils._pytree.tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, result), list(gradients)


def _captures(make, arguments, dynamic=None, fullgraph=True):
    """How many captures the calls took; each gives what eager gives, and none runs as Python."""
    expected_function, function = make(), make()
    compiled = framefuse.compile(function, dynamic=dynamic, fullgraph=fullgraph)
    before = framefuse.statistics()
    for given in arguments:
        copies = [t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t for t in given]
        torch.testing.assert_close(_outcome(compiled, given), _outcome(expected_function, copies))
    after = framefuse.statistics()
    assert after["eager_fallbacks"] == before["eager_fallbacks"]
    return after["captures"] - before["captures"]


def _random(*sizes, seed=0):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def _learning(*sizes, seed=0):
    return _random(*sizes, seed=seed).requires_grad_()


def _milestones():
    milestones = collections.Counter([4, 6, 9, 12])

    def f(x, step):
        if step in milestones:
            return x * 0.5 ** milestones[step]
        return x + step

    return f


def test_milestones():
    assert _captures(_milestones, [(_random(3), n) for n in range(2, 16)]) == 3


def _rates():
    def f(x, step):
        return x * {0: 1.0, 3: 0.5, 5: 0.5, 8: 0.5}.get(step, 0.25)

    return f


def test_values_of_keys():
    assert _captures(_rates, [(_random(3), n) for n in (2, 4, 3, 5, 8, 6, 9)]) == 3


def _last():
    seen = []

    def f(x):
        seen.append(x * 2)
        return seen[-1] + x

    return f


def test_the_last_of_a_growing_list():
    assert _captures(_last, [(_random(3, seed=i),) for i in range(12)]) == 1


def _asked_for_none():
    def scaled(x, by=None, offset=None):
        if by is not None and offset is None:
            return x * by
        return x

    return lambda x, n: scaled(x, n) + scaled(x, x.shape[0] * 2) + (0 if n is x or n is True else n)


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_number_is_not_none(dynamic):
    assert _captures(_asked_for_none, [(_random(n + 2), n) for n in range(2, 9)], dynamic) == (1 if dynamic else 2)


def _named(x, name, mode="sum"):
    if name == "first" or "second" != name != "third":
        x = x + 1
    return x * 2 if name in ("a", "b") else x.sum() if mode == "sum" else x


def test_other_strings():
    calls = [(_random(3), name) for name in ("first", "a", "x", "y", "z", "second", "w", "b", "third")]
    # The first, both of the pair, the second, the third, and one for all others.
    assert _captures(lambda: _named, calls) == 6


def test_a_string_that_becomes_something_else():
    class Text(str):
        def __eq__(self, other):
            return True

        __hash__ = str.__hash__

    calls = [(_random(3), name) for name in ("x", Text("y"), None, 3, "z", "first")]
    _captures(lambda: _named, calls, fullgraph=False)


def _masked_write():
    def f(x):
        y = x * 1
        mask = y < 0
        y[mask] = y[mask] * 0.1
        return y.sin()

    return f


def _two_of_a_mask():
    def f(x):
        keep = x[:, 0] > 0
        return x[keep] * x[keep].sum(1, keepdim=True), F.cross_entropy(x[keep], x[keep].detach().argmax(1))

    return f


def _experts():
    torch.manual_seed(0)
    experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def f(x):
        which = x.argmax(-1) % 3
        result = torch.zeros_like(x)
        for i, expert in enumerate(experts):
            rows = (which == i).nonzero().squeeze(-1)
            result = result.index_add(0, rows, expert(x[rows]))
        return result

    return f


def _selected():
    return lambda x: torch.masked_select(x, x[:1] > 0).exp().sum()


def _products():
    return lambda x: (torch.cumprod(x, 0), torch.cumprod(x.round(), 1).sin())


def _spectra():
    window = torch.hann_window(16)

    def f(x):
        sound = x.flatten()
        spectrum = torch.stft(sound, 16, 4, window=window, return_complex=True)
        return torch.istft(spectrum, 16, 4, window=window, length=sound.shape[0]), torch.istft(spectrum * 2, 16, window=window)

    return f


SIZED = {
    "masked write": (_masked_write, lambda n: (6 + n, 4)),
    "two of a mask": (_two_of_a_mask, lambda n: (12 + n, 4)),
    "experts": (_experts, lambda n: (12 + n, 4)),
    "selected": (_selected, lambda n: (6 + n, 5)),
    "products": (_products, lambda n: (3 + n, 4 + n)),
    "spectra": (_spectra, lambda n: (5, 8 + 4 * n)),
}


@pytest.mark.parametrize("name", SIZED)
@pytest.mark.parametrize("dynamic", [None, True])
def test_sizes(name, dynamic):
    make, sizes = SIZED[name]
    assert _captures(make, [(_learning(*sizes(n), seed=n),) for n in range(6)], dynamic) == (1 if dynamic else 2)


def test_sizes_that_torch_is_to_know_nothing_about():
    from torch._dynamo.decorators import mark_unbacked

    def given(n):
        x = _random(n, 3)
        mark_unbacked(x, 0)
        return (x,)

    assert _captures(lambda: lambda x: x.sin().sum(0) * x.shape[0], [given(n) for n in (4, 7, 5)]) == 1
