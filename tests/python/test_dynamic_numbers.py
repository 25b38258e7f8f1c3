"""Symbolic integers that are no sizes: arguments, attributes, closures, globals, sizes behind a graph break."""

import math
import typing

import framefuse
import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    framefuse.reset()


def _outcome(function, arguments):
    try:
        result = function(*arguments)
    except Exception as error:
        return [type(error), str(error)]
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _assert_same(expected, actual):
    assert len(expected) == len(actual)
    for e, a in zip(expected, actual):
        assert type(e) is type(a)
        if isinstance(e, torch.Tensor):
            assert (e.dtype, e.shape, e.stride()) == (a.dtype, a.shape, a.stride())
            torch.testing.assert_close(a, e, equal_nan=True)
        else:
            assert e == a


def _captures(function, calls, dynamic=None):
    """How many captures the calls took; each gives what eager gives."""
    compiled = framefuse.compile(function, dynamic=dynamic)
    before = framefuse.statistics()["captures"]
    for arguments in calls:
        _assert_same(_outcome(function, arguments), _outcome(compiled, arguments))
    return framefuse.statistics()["captures"] - before


def _scaled(x, n):
    return x * n + n, n * 2 - 1


def _indexed(x, n):
    return x[:n], x.narrow(0, n, 2), n // 3, n % 3


def _branched(x, n):
    return (x + n if n > 4 else x - n), max(n, 3)


def _repeated(x, n):
    return x.repeat(n, 1), torch.arange(n), x.new_zeros(n + 1)


def _products(x, n):
    return x + 1, n * n * n, n * n - n


def _lines(x, n):
    lines = x.reshape(1, 1, -1)
    return torch.nn.functional.interpolate(lines, size=n), torch.nn.functional.interpolate(lines, size=n, mode="linear")


def _listed(x, n):
    sizes = [n] * 2 + [1]
    return x.new_zeros(sizes), sizes


def _too_large(x, n):
    return x + 1, torch.zeros(n, n, n).sum()


def _divided(x, n):
    return x.sin(), 7 // n


def _held(x, n):
    return x.cos(), [n, (n, -n)], {"n": n}


def _looped(x, n):
    for _ in range(n):
        x = x + 1
    return x, f"{n}"


def _in_containers(x, n):
    held = [n, x] and (n,) and {"n": n} and x.shape and not [n][1:]
    return x * (2 if held else 3) if (n, n) else x


class _Pair(typing.NamedTuple):
    first: int
    second: int


def _unpacked(x, n):
    pair = _Pair(n, x.shape[0])
    first, second = pair
    last, *_ = pair[::-1]
    total = 0
    for each in _Pair(first, second):
        total = total + each
    return x * first + second + total, last, pair


X = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("function", "values", "captures"),
    [
        (_scaled, [2, 3, 5, 0, -7, 1, 2**20, 2], 2),
        (_indexed, [2, 3, 4, 8, 5], 2),
        (_branched, [2, 3, 7, 1, 9, 4, 5], 3),
        (_repeated, [2, 3, 4, 7], 2),
        (_products, [2, 3, -5, 2**20, 2**30, 10], 3),  # the cube of 2**30 does not fit
        (_products, [2, 3, 2**40, 2**70], 4),
        (_lines, [4, 5, 6, 9, 12, 7], 2),
        (_listed, [4, 5, 6, 9, 12, 7], 2),
        (_too_large, [2, 3, 4, 2**30, 2**31 - 1, 6, 5], None),  # torch raises where the product does not fit
        (_divided, [2, 3, 5, 0, -2], None),
        (_held, [2, 3, 500, 2**30, -1], 2),
        (_in_containers, [2, 3, 0, -1, 7], 2),
        (_unpacked, [2, 3, 500, 2**30, -1], 2),
        (_looped, [2, 3, 2, 4], None),
        (_scaled, [2, True, 3, 4, False], None),
        (_scaled, [2, 2.0, 3.5, 4], None),
    ],
)
def test_an_argument_that_changes(function, values, captures):
    made = _captures(function, [(X, n) for n in values])
    assert captures is None or made == captures


def test_a_named_tuple_that_is_an_argument():
    def of_pair(x, pair):
        first, second = pair
        return x * first + second, pair.first

    assert _captures(of_pair, [(X, _Pair(n, n * 2)) for n in (2, 3, 5, 300, -7)]) == 2


@pytest.mark.parametrize("function", [_scaled, _indexed, _branched, _repeated, _products, _divided, _held, _looped])
def test_integers_symbolic_from_the_first_capture(function):
    large = [] if function in (_repeated, _looped) else [2**33]
    _captures(function, [(X, n) for n in (3, 4, 1, 0, -1, 2, 8, *large)], dynamic=True)


class _Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        self.step += 1
        return x * self.scale / (1 - 0.9**2) + self.step


def test_a_counter_of_a_module():
    module, other = _Counting(), _Counting()
    compiled = framefuse.compile(other)
    before = framefuse.statistics()["captures"]
    for _ in range(9):
        torch.testing.assert_close(compiled(X), module(X))
        assert other.step == module.step and type(other.step) is int
    assert framefuse.statistics()["captures"] - before == 1


def test_a_global_and_a_variable_of_a_closure():
    global _offset
    number = 3

    def f(x):
        return x * number + _offset

    compiled = framefuse.compile(f)
    before = framefuse.statistics()["captures"]
    for number, _offset in [(3, 5), (4, 6), (7, 6), (8, 1), (-2, 0)]:
        torch.testing.assert_close(compiled(X), f(X))
    assert framefuse.statistics()["captures"] - before == 2


_offset = 0


def test_a_size_behind_a_graph_break():
    def f(x):
        n = x.shape[0]
        y = x.sin()
        framefuse.graph_break()
        return y.view(n * 2, -1) + n

    compiled = framefuse.compile(f)
    lengths = (5, 6, 7, 8, 9, 11)
    for n in lengths[:2]:
        torch.testing.assert_close(compiled(X[:n].clone()), f(X[:n].clone()))
    before = framefuse.statistics()["captures"]
    for n in lengths[2:]:
        torch.testing.assert_close(compiled(X[:n].clone()), f(X[:n].clone()))
    assert framefuse.statistics()["captures"] == before


def test_the_object_itself_comes_back():
    compiled = framefuse.compile(lambda x, n: (x + 1, n, [n], n is big))
    for big in (1000, 2000, 3000, 4000):
        _, one, (two,), same = compiled(X, big)
        assert one is big and two is big and same is True
    assert compiled(X, int("4000"))[3] is False


def test_an_index_that_changes_with_gradients():
    def f(x, n):
        return (x[:n] * n).sum()

    compiled = framefuse.compile(f)
    before = framefuse.statistics()["captures"]
    for n in (2, 3, 5, 7, 11):
        grads = []
        for g in (f, compiled):
            x = X.clone().requires_grad_()
            g(x, n).backward()
            grads.append(x.grad)
        torch.testing.assert_close(grads[1], grads[0])
    assert framefuse.statistics()["captures"] - before == 2


@pytest.mark.parametrize(
    "f",
    [
        lambda x, n: x.pow(n),
        lambda x, n: x**n,
        lambda x, n: torch.pow(n, x),
        lambda x, n: x / n + n / (x + 9),
        lambda x, n: torch.mul(x, n).add(x, alpha=n),
        lambda x, n: torch.addcmul(x, x, x, value=n),
        lambda x, n: torch.where(x > 0, x * x, n),
        lambda x, n: x.clamp(-n, n).masked_fill(x > 1, n),
    ],
)
def test_gradients_of_operands(f):
    compiled = framefuse.compile(f)
    for n in (2, 3, 0, 1, -1, 4):
        grads = []
        for g in (f, compiled):
            x = X.clone().requires_grad_()
            g(x, n).sum().backward()
            grads.append(x.grad)
        torch.testing.assert_close(grads[1], grads[0], equal_nan=True)


def test_never():
    assert _captures(_scaled, [(X, n) for n in (2, 3, 4)], dynamic=False) == 3


def test_what_looks_at_the_value_is_captured_for_it():
    def f(x, n):
        return x * math.gcd(n, 12)

    assert _captures(f, [(X, n) for n in (2, 3, 4, 3)]) == 3


_INTO_TENSORS = {
    "mul": lambda x, n: torch.mul(x, n),
    "mul, the number first": lambda x, n: torch.mul(n, x),
    "multiply, a method": lambda x, n: x.multiply(n),
    "mul of the class": lambda x, n: torch.Tensor.mul(x, n),
    "mul_": lambda x, n: x.clone().mul_(n),
    "add with alpha": lambda x, n: torch.add(x, n, alpha=2),
    "add with alpha, the number": lambda x, n: torch.add(x, x, alpha=n),
    "add by name": lambda x, n: torch.add(x, other=n),
    "sub of a number": lambda x, n: torch.sub(n, x),
    "div rounded": lambda x, n: x.div(n, rounding_mode="floor"),
    "true_divide": lambda x, n: torch.true_divide(x, n),
    "floor_divide": lambda x, n: torch.floor_divide(x, n),
    "integers": lambda x, n: torch.mul((x * 4).int(), n),
    "no dimensions": lambda x, n: torch.mul(x.sum().to(torch.float16), n),
    "no dimensions, integers": lambda x, n: x.sum().to(torch.int32).mul(n),
    "two numbers": lambda x, n: x + torch.mul(torch.tensor(n), n + 1),
    "out": lambda x, n: torch.mul(x, n, out=torch.empty_like(x)),
    "an operator of aten": lambda x, n: torch.ops.aten.mul.Tensor(x, n),
    "copy_": lambda x, n: torch.empty_like(x).copy_(n),
    "where": lambda x, n: torch.where(x > 0, x, n),
    "where, twice": lambda x, n: torch.where(x > 0, n, n + 1),
    "pow": lambda x, n: torch.pow(x.abs(), n),
    "pow of a number": lambda x, n: torch.pow(n, x),
    "operator **": lambda x, n: n**x,
    "operator ** of tensors": lambda x, n: (x**n, x.int() ** n),
    "operator ** of integers that raises": lambda x, n: x.int() ** (n - 6),
    "pow of integers that raises": lambda x, n: x.int().pow(n - 6),
    "shifts": lambda x, n: (x.int() << n, x.int() >> n),
    "bools": lambda x, n: ((x > 0) * n, (x > 0) + n),
    "small integers": lambda x, n: (x.to(torch.uint8) * n, x.to(torch.int8) // n, x.to(torch.int16) - n),
    "clamp": lambda x, n: x.clamp(max=n).clamp_min(-n),
    "masked_fill": lambda x, n: x.masked_fill(x > 0, n),
    "full": lambda x, n: torch.full((n,), n) + torch.full_like(x[0, :1], n),
    "tensor": lambda x, n: torch.tensor([n, n + 1]) + torch.tensor(n),
    "fill_": lambda x, n: x.clone().fill_(n),
    "written": lambda x, n: torch.zeros(4).index_fill_(0, torch.tensor([1]), n),
    "an item": lambda x, n: x.clone().index_put_((torch.tensor([1]),), torch.tensor(float(n))),
    "lerp": lambda x, n: x.lerp(x + 1, n),
    "compared": lambda x, n: torch.eq(x, n).float() + x.gt(n),
    "scatter": lambda x, n: torch.scatter(x, 0, torch.zeros(1, 4, dtype=torch.long), n),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
    "remainder": lambda x, n: torch.remainder(x, n) + torch.fmod(x, n) + torch.remainder(n, x.abs() + 1),
    "bits": lambda x, n: torch.bitwise_and(x.int(), n) | n,
    "linspace": lambda x, n: torch.linspace(0, n, 5) + torch.arange(0, 5 * n, n).float(),
    "roll": lambda x, n: x.roll(n, 0).unsqueeze(0).expand(n, -1, -1),
    "max of two": lambda x, n: torch.maximum(x, torch.tensor(n)),
    "scaled and summed": lambda x, n: (x * n).sum() / n,
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", _INTO_TENSORS)
def test_a_number_that_becomes_a_tensor(name, dynamic):
    f = _INTO_TENSORS[name]
    _captures(f, [(X, n) for n in (3, 5, 7, 9, 2, 0, 3, 5, 7)], dynamic)  # some come again
    _captures(lambda x: f(x, x.shape[0]), [(X[:n].clone(),) for n in (6, 7, 9, 11)], dynamic)
