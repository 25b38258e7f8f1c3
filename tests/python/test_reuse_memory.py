"""Results that a kernel writes over what dies there: where that happens, and where it must not. Values are eager's."""

import framefuse
import pytest
import torch
from peak_memory import peak_bytes

W = torch.linspace(-1, 1, 64).reshape(8, 8)


def last_reader(x):
    return ((x @ W).exp() + 1) @ W


def through_views(x):
    return ((x @ W).view(2, 4, 8).transpose(0, 1) * 2).permute(2, 0, 1)


def result_too(x):
    y = x @ W
    return y, y.exp() @ W


def view_of_it_is_a_result(x):
    y = x @ W
    return y.exp() @ W, y.view(-1)[3:7]


def read_again(x):
    y = x @ W
    return y.exp() @ W + y


def under_two_names(x):
    y = x @ W
    return (y + y.t()) @ W


def broadcast(x):
    y = x[:1] @ W
    return (y + x) @ W


def argument(x):
    return (x * 2) @ W


def other_type(x):
    return (x @ W).double().exp() @ W.double()


IMAGE = torch.linspace(-1, 1, 8 * 8).reshape(1, 1, 8, 8)
FILTERS = torch.linspace(-1, 1, 9).reshape(1, 1, 3, 3)


def convolution(x):
    return torch.conv2d((x @ IMAGE), FILTERS, padding=1).exp() @ W


def convolution_beside_its_argument(x):
    y = (x @ IMAGE).sin()
    return (torch.conv2d(y, FILTERS, padding=1).exp() + y) @ W


def convolution_read_again(x):
    y = torch.conv2d(x @ IMAGE, FILTERS, padding=1)
    return y.exp() @ W + y


def results(value):
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize(
    "program, count",
    [(last_reader, 1), (through_views, 1), (result_too, 0), (view_of_it_is_a_result, 0), (read_again, 1), (under_two_names, 0), (broadcast, 0), (argument, 0), (other_type, 0), (convolution, 1), (convolution_beside_its_argument, 2), (convolution_read_again, 1)],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_results_take_the_memory_of_what_dies(program, count):
    x = torch.linspace(-0.1, 0.1, 64).reshape(8, 8)  # exp() of large sums would make roundings large
    compiled = framefuse.compile(torch.no_grad()(program), fullgraph=True)
    with framefuse.capture_logs("fusion") as records:
        got = compiled(x)
    said = [text for _, text in records if "the memory of what dies" in text]
    assert [int(text.split()[0]) for text in said] == [count] * (count > 0)
    for _ in range(3):
        for a, b in zip(results(got), results(program(x)), strict=True):
            torch.testing.assert_close(a, b)
            assert a.stride() == b.stride()
            assert a.untyped_storage().nbytes() == b.untyped_storage().nbytes()
        x = x * 0.5
        got = compiled(x)


def test_a_chain_takes_no_more_than_eager_in_place():
    """Of three wide tensors that follow each other two are there at a time."""
    w = torch.randn(64, 4096)

    @torch.no_grad()
    def program(x):
        return (((x @ w).tanh() * 3).view(64, 2, 2048).transpose(0, 1).contiguous() + 1).sum()

    x = torch.randn(64, 64)
    compiled = framefuse.compile(program, fullgraph=True)
    torch.testing.assert_close(compiled(x), program(x), rtol=1e-4, atol=1e-2)
    assert peak_bytes(compiled, x) <= 2.1 * w.shape[1] * 64 * 4
