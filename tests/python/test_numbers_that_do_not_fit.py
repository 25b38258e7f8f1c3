"""Python numbers that the operator's type has no value for: eager raises, wraps or says inf, and so do we."""

import pytest
import torch

import framefuse

MASK = torch.tensor([True, False, True])

# Each with a tensor and a number.
OPERATORS = {
    "masked_fill": lambda x, n: torch.masked_fill(x, MASK, n),
    "add": lambda x, n: x + n,
    "multiply": lambda x, n: x * n,
    "add with alpha": lambda x, n: torch.add(x, x, alpha=n),
    "less": lambda x, n: x < n,
    "equal": lambda x, n: x == n,
    "where": lambda x, n: torch.where(MASK, x, n),
    "clamp": lambda x, n: x.clamp(max=n),
    "power": lambda x, n: x**n,
    "hardtanh": lambda x, n: torch.nn.functional.hardtanh(x, -1, n),
    "threshold": lambda x, n: torch.nn.functional.threshold(x, 1, n),
    "leaky_relu": lambda x, n: torch.nn.functional.leaky_relu(x, n),
    "elu": lambda x, n: torch.nn.functional.elu(x, n),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
    "lerp": lambda x, n: torch.lerp(x, x, n),
}
NUMBERS = [1e300, 1e5, float("nan"), float("inf"), 1j, 300, -1, 2**40]
TYPES = [torch.float32, torch.float16, torch.int32, torch.int64, torch.uint8, torch.bool]


def outcome(function, *arguments):
    try:
        result = function(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return str(result)


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("name", OPERATORS)
def test_as_eager(name):
    differ = []
    for dtype in TYPES:
        for number in NUMBERS:
            x = torch.ones(3, dtype=dtype)

            def f(x, number=number):
                return OPERATORS[name](x, number)

            framefuse.reset()
            expected, actual = outcome(f, x), outcome(framefuse.compile(f, backend="fuse"), x)
            if actual != expected:
                differ.append((dtype, number, expected, actual))
    assert not differ


def test_a_word_that_gelu_does_not_know():
    def f(x):
        return torch.nn.functional.gelu(x, approximate="nearly")

    with pytest.raises(RuntimeError, match="none or tanh"):
        framefuse.compile(f, backend="fuse")(torch.ones(3))
