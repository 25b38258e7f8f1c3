"""How many captures programs take whose numbers change by call: in subscripts, sequences, attributes, and of numpy's types."""

import types

import framefuse
import numpy as np
import pytest
import torch
from torch import nn

X = torch.arange(40, dtype=torch.float32).reshape(8, 5)


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    framefuse.reset()


def _captures(function, calls, dynamic=None):
    """How many captures the calls took; each gives what eager gives, of the same types."""
    compiled = framefuse.compile(function, dynamic=dynamic)
    before = framefuse.statistics()["captures"]
    for arguments in calls:
        expected, actual = function(*arguments), compiled(*arguments)
        torch.testing.assert_close(actual, expected)
        for a, b in zip(*[r if isinstance(r, tuple) else (r,) for r in (expected, actual)]):
            assert type(a) is type(b)
    return framefuse.statistics()["captures"] - before


@pytest.mark.parametrize(
    "f",
    [
        lambda x, n: x[n] * 2,
        lambda x, n: x[n, 1] + x[:, n % 5].sum(),
        lambda x, n: x[..., n % 5] * x[n, None, :1],
        lambda x, n: x[n, torch.tensor([0, 2])],
        lambda x, n: x[torch.tensor([0, 2]), n % 5],
        lambda x, n: x.clone().index_put_((torch.tensor(0),), x[n]),
    ],
)
def test_subscripts(f):
    calls = [(X, n) for n in (2, 3, 4, 7, 6)]
    assert _captures(f, calls) == 2
    assert _captures(f, calls, dynamic=True) == 1


def test_written_subscripts():
    def f(x, n):
        y = x.clone()
        y[n, 1:] = 0.0
        y[:, n % 5] += 1
        return y

    assert _captures(f, [(X, n) for n in (2, 3, 4, 7, 6)]) == 2


def test_a_schedule_of_a_tensor_by_step():
    kept = torch.linspace(0.9, 0.1, 30).cumprod(0)

    def noised(x, t):
        return x * kept[t].sqrt() + x.sin() * (1 - kept[t]).sqrt()

    assert _captures(noised, [(X, t) for t in (3, 7, 11, 0, 29)]) <= 3


@pytest.mark.parametrize("make", [tuple, list, torch.Size])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, s: torch.zeros(s),
        lambda x, s: torch.zeros(*s),
        lambda x, s: x.new_ones(list(s)).sum(),
        lambda x, s: torch.ones([n + 1 for n in s]),
        lambda x, s: torch.zeros((*s, 2)),
        lambda x, s: x[:1, :1].expand(s) * s[0],
    ],
)
def test_sequences_of_sizes(make, f):
    assert _captures(f, [(X, make((n, n + 1))) for n in range(3, 9)]) == 2


def test_a_shape_from_outside_is_read_in_each_call():
    compiled = framefuse.compile(lambda x, s: torch.zeros(*s) + x.sum())
    for n in (2, 3, 4):
        assert compiled(X, torch.Size((n, 2))).shape == (n, 2)


def test_a_shape_across_a_graph_break():
    def f(x):
        shape = x.shape
        framefuse.graph_break()
        return (x * 2).reshape(-1).view(shape)

    compiled = framefuse.compile(f)
    for n in (3, 4):
        compiled(X[:n].clone())
    before = framefuse.statistics()["captures"]
    for n in (5, 6, 7, 2):
        torch.testing.assert_close(compiled(X[:n].clone()), f(X[:n].clone()))
    assert framefuse.statistics()["captures"] - before <= 1


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, n: x * n + n,
        lambda x, n: x[:n] * 2,
        lambda x, n: x[n] - n,
        lambda x, n: (n * x, torch.zeros(n)),
        lambda x, n: (x + 1, int(n) * 2, float(n) / 3),
    ],
)
def test_integers_of_numpy(kind, f):
    assert _captures(f, [(X, kind(n)) for n in (2, 3, 4, 7, 6)]) == 2


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
def test_floats_of_numpy(kind):
    def f(x, n):
        return x * n - n, (x / n).softmax(-1), float(n) * 2

    assert _captures(f, [(X, kind(n)) for n in (0.3, 1.5, -2.5, 3.25, 6)]) == 2


def test_arithmetic_of_numpy():
    def f(x, n, rate):
        return x * (n + 1), n * 2 - 1, n // 3, n % 3, -n, n / 2, n * 0.5, rate * n, 1.0 - rate, x.add(x, alpha=-rate)

    assert _captures(f, [(X, np.int64(n), np.float64(n) / 7) for n in (2, 3, 4, 7, 6)]) == 2


def test_overflow_and_division_of_numpy_are_left_to_numpy():
    def f(x, n, rate):
        with np.errstate(all="ignore"):
            return x + 1, rate * rate, 12 // n if n else n

    for n, rate in ((2, 0.5), (3, 1.5), (0, 1e200), (5, float("inf")), (4, 2.5)):
        _captures(f, [(X, np.int64(n), np.float64(rate))])


def test_an_attribute_counts_with_all_sizes_symbolic():
    state = types.SimpleNamespace(step=0, seen=[])

    def f(x):
        state.step += 1
        state.seen.append(state.step)
        return x * state.step + len(state.seen)

    compiled = framefuse.compile(f, dynamic=True)
    before = framefuse.statistics()["captures"]
    for n in range(1, 12):
        torch.testing.assert_close(compiled(X), X * n + n)
    assert framefuse.statistics()["captures"] - before <= 3


def test_a_growing_buffer_with_all_sizes_symbolic():
    class Rotary(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("angles", torch.zeros(0))

        def forward(self, x):
            if x.shape[0] > self.angles.shape[0]:
                self.angles = torch.arange(x.shape[0], dtype=torch.float32).cos()
            return x * self.angles[: x.shape[0], None]

    eager, compiled = Rotary(), framefuse.compile(Rotary(), dynamic=True)
    before = framefuse.statistics()["captures"]
    for n in (3, 4, 5, 2, 6, 7, 8, 3, 1):
        torch.testing.assert_close(compiled(X[:n].clone()), eager(X[:n].clone()))
    assert framefuse.statistics()["captures"] - before <= 5


def test_padded_sequences_of_a_list_from_outside():
    def f(items):
        return nn.utils.rnn.pad_sequence(items, batch_first=True)

    assert _captures(f, [([X[:n, 0].clone(), X[: n + 1, 0].clone()],) for n in (3, 4, 5, 6, 7)]) == 2


def test_an_integer_of_the_graph_as_a_float():
    module = nn.BatchNorm1d(5, momentum=None)
    eager = nn.BatchNorm1d(5, momentum=None)
    compiled = framefuse.compile(module)
    before = framefuse.statistics()["captures"]
    for n in (3, 4, 5, 6, 7, 8, 4):
        torch.testing.assert_close(compiled(X[:n].clone()), eager(X[:n].clone()))
        torch.testing.assert_close(module.running_mean, eager.running_mean)
    assert framefuse.statistics()["captures"] - before <= 4
