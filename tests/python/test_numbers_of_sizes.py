"""What Python computes of sizes: what stays symbolic takes one capture, what does not is right for each size, and is said."""

import math

import framefuse
import pytest
import torch
import torch.nn.functional as F

_SIZES = [(5, 4), (4, 6), (33, 7), (8, 9), (12, 3)]


@pytest.fixture(autouse=True)
def fresh_state():
    framefuse.reset()
    yield
    framefuse.reset()


def _captures(function, calls, dynamic=True):
    """Of calls that are compared with eager."""
    compiled = framefuse.compile(function, dynamic=dynamic)
    before = framefuse.statistics()["captures"]
    for args in calls:
        expected, got = function(*args), compiled(*args)
        assert expected.dtype == got.dtype and expected.stride() == got.stride()
        torch.testing.assert_close(got, expected)
    return framefuse.statistics()["captures"] - before


def _volume(a, b):
    return a * b


def _both(n, rest):
    return n * 10 + rest


_SYMBOLIC = {
    "sizes as arguments": lambda x: x.reshape(_volume(*x.shape)),
    "a square": lambda x: x * x.shape[0] ** 2,
    "the power of a difference": lambda x: x * (x.shape[0] - 100) ** 3,
    "divmod": lambda x: x * _both(*divmod(x.shape[0], 3)),
    "the size of a difference": lambda x: x * abs(x.shape[0] - 100),
    "a pad": lambda x: F.pad(x, (1, 2)),
    "a pad of rows": lambda x: F.pad(x, (1, 0, 0, 3)),
    "a roll": lambda x: x.roll(1, 0) + x.roll(-2, -1),
    "sqrt": lambda x: x / math.sqrt(x.shape[-1]),
    "a whole root": lambda x: x * int(x.shape[0] ** 0.5) + math.isqrt(x.shape[1]),
    "a reciprocal root": lambda x: x * x.shape[-1] ** -0.5 + x.shape[0] ** -1,
    "log": lambda x: x * math.log(x.shape[0]) + math.log2(x.shape[1]) * math.log(x.shape[0], 10),
    "exp": lambda x: x * math.exp(-x.shape[0]),
    "ceil": lambda x: x[: math.ceil(x.shape[0] / 3)] * 1,
    "ceil of a quotient of two": lambda x: x.new_zeros(1 + math.ceil(x.shape[0] / x.shape[1])),
    "floor": lambda x: x * math.floor(x.shape[0] / 3),
    "int": lambda x: x * int(x.shape[0] / 3),
    "int of a part": lambda x: x[: int(x.shape[0] * 0.5)] + int(x.shape[1] * 0.3),
    "a part viewed": lambda x: x.new_zeros(2 * math.ceil(x.shape[0] / 2)).view(math.ceil(x.shape[0] / 2), 2),
    "round": lambda x: x * round(x.shape[0] / 3),
    "round to digits": lambda x: x * round(x.shape[0] / 3, 2),
    "shifts": lambda x: x.repeat(1 << 1, 1)[: x.shape[0] << 1] * (x.shape[1] >> 1) + (x.shape[0] & 3),
    "a floor quotient of floats": lambda x: x * (x.shape[0] // 2.5 + x.shape[0] % 2.5),
    "the size of a float": lambda x: x * abs(0.5 - x.shape[0]),
}


@pytest.mark.parametrize("name", _SYMBOLIC)
def test_one_capture(name):
    assert _captures(_SYMBOLIC[name], [(torch.randn(size),) for size in _SIZES]) == 1


def test_the_largest_size_is_a_fact():
    calls = [(torch.randn(size),) for size in [(5, 4), (9, 6), (4, 6), (3, 20)]]
    assert _captures(lambda x: x * max(x.shape) - min(x.shape), calls) == 2


_OF_ONE_SIZE = {
    "gcd": lambda x: x * math.gcd(x.shape[0], 6),
    "text": lambda x: x * len(str(x.shape[0])),
    "rows": lambda x: sum((row for row in x), torch.zeros(x.shape[1])),
}


@pytest.mark.parametrize("name", _OF_ONE_SIZE)
def test_a_capture_for_each_size_and_a_line_that_says_so(name):
    with framefuse.capture_logs("dynamic") as records:
        assert _captures(_OF_ONE_SIZE[name], [(torch.randn(size),) for size in _SIZES]) == len(_SIZES)
    texts = [text for artifact, text in records if artifact == "dynamic"]
    assert any(text.startswith("s0") and " == " in text and "test_numbers_of_sizes.py:" in text for text in texts), texts


@pytest.mark.parametrize("name", ["max", "min", "abs", "sum", "prod"])
def test_torchs_functions_of_these_names_take_no_sizes(name):
    compiled = framefuse.compile(lambda x: getattr(torch, name)(x.shape[0] if name == "abs" else x.shape), dynamic=True)
    with pytest.raises(TypeError):
        compiled(torch.randn(5, 4))


@pytest.mark.parametrize("dynamic", [None, True])
def test_lists_of_another_length_are_other_captures(dynamic):
    def total(tensors):
        result = 0
        for t in tensors:
            result = result + t * len(tensors)
        return result

    calls = [([torch.randn(size) for _ in range(count)],) for count in (2, 3, 4, 5, 3, 2) for size in (3, 4, 5)]
    # Of the first length one for the sizes at hand, and one for all; a longer list is as the shorter ones were.
    assert _captures(total, calls, dynamic) == (5 if dynamic is None else 4)


def test_a_length_as_a_number_is_symbolic():
    def scaled(x, tensors):
        return x * len(tensors) if tensors else x

    calls = [(torch.randn(3), [torch.randn(2)] * count) for count in (2, 3, 1, 9, 300, 4)]
    assert _captures(scaled, calls, None) == 2
    assert _captures(scaled, calls, False) == len(calls)


def test_an_item_that_a_longer_list_has_first_is_as_the_others():
    def first_and_last(x, numbers):
        return x * numbers[0] + numbers[len(numbers) - 1]

    calls = [(torch.randn(3), list(range(start, start + count))) for count in (2, 3, 4) for start in (5, 9, 20)]
    assert _captures(first_and_last, calls, None) <= 5


def test_a_power_that_fits_no_integer():
    calls = [(torch.ones(size, dtype=torch.float64),) for size in (3, 5, 60_000, 7, 61_000, 50_000)]
    assert _captures(lambda x: x * x.shape[0] ** 4, calls) <= 4


def _sum_of_rows(x):
    kept = x[x > 0]
    total = torch.zeros(())
    for value in kept:
        total = total + value
    return total


def test_a_break_where_a_size_follows_from_values_says_where_the_number_is_needed():
    compiled = framefuse.compile(_sum_of_rows)
    line = _sum_of_rows.__code__.co_firstlineno + 3
    for count in (4, 6, 5):
        x = torch.randn(count).abs()
        with framefuse.capture_logs("graph_breaks") as records:
            torch.testing.assert_close(compiled(x), _sum_of_rows(x))
        for _, text in records:
            assert f"at test_numbers_of_sizes.py:{line}" in text
        assert records or count != 4
