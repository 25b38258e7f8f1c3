"""Strides that follow from no size: how often windows of larger tensors are captured, with eager's values and strides."""

import framefuse
import pytest
import torch


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    framefuse.reset()


def captures(function, calls, **settings):
    compiled = framefuse.compile(function, **settings)
    before = framefuse.statistics()["captures"]
    for inputs in calls:
        expected, actual = function(*inputs), compiled(*inputs)
        torch.testing.assert_close(actual, expected)
        for e, a in zip(expected, actual):
            assert e.stride() == a.stride()
    return framefuse.statistics()["captures"] - before


def pointwise(x):
    return x * 2 + 1, x.transpose(0, 1).exp()


def attention(q, keys, values):
    return (torch.nn.functional.scaled_dot_product_attention(q, keys, values),)


def windows(rows):
    """The last eight columns of a matrix that grows, from its first column on."""
    for width in range(1, 30):
        yield (torch.randn(rows, width)[:, -8:],)


@pytest.mark.parametrize("rows", [1, 3])
def test_the_end_of_a_growing_tensor(rows):
    before = framefuse.statistics()["eager_fallbacks"]
    # For one column, for fewer than eight, for eight of any width.
    assert captures(pointwise, windows(rows)) <= 4
    assert framefuse.statistics()["eager_fallbacks"] == before


def test_windows_of_other_widths():
    assert captures(pointwise, [(torch.randn(4, width)[:, :6],) for width in (9, 11, 8, 20, 33)]) == 2
    assert captures(pointwise, [(torch.randn(width, 7, 2)[:, :5],) for width in (3, 4, 5)]) == 2  # only a size changes


def test_all_at_once():
    assert captures(pointwise, [(torch.randn(4, width)[:, :6],) for width in (9, 11, 8, 20, 33)], dynamic=True) == 1
    # Contiguous ones have strides that follow from their sizes: another entry, for all of them.
    assert captures(pointwise, [(torch.randn(4, width),) for width in (9, 11, 8)], dynamic=True) == 1


def test_never():
    assert captures(pointwise, [(torch.randn(4, width)[:, :6],) for width in (9, 11, 8)], dynamic=False) == 3


def test_layouts_in_turn_are_not_symbolic():
    """Each follows from the sizes, so two entries serve both."""
    contiguous, turned = torch.randn(4, 6), torch.randn(6, 4).T
    assert captures(pointwise, [(contiguous,), (turned,), (contiguous,), (turned,)]) == 2


def test_a_cache_of_other_lengths():
    def call(length):
        cache = torch.randn(2, 1, 3, length, 8)
        return torch.randn(1, 3, 2, 8), cache[0][:, :, :5], cache[1][:, :, :5]

    assert captures(attention, [call(length) for length in (8, 16, 32, 12)]) == 2


@pytest.mark.parametrize("backend", ["fuse", "aten", lambda gm, example_inputs: gm.forward])
def test_a_written_window_that_overlaps_itself(backend):
    """What was captured for rows that lie apart does not serve rows that share memory: two writes are no single one there."""

    def f(x):
        x.mul_(2)
        x.add_(1)
        return x + 0

    compiled = framefuse.compile(f, backend=backend)
    before = framefuse.statistics()["captures"]
    for stride in (7, 9, 12, 2, 3, 5, 40):
        expected, actual = (torch.arange(100.0).as_strided((3, 4), (stride, 1)) for _ in range(2))
        torch.testing.assert_close(compiled(actual), f(expected))
        torch.testing.assert_close(actual, expected)
    assert framefuse.statistics()["captures"] > before


def test_the_message_names_the_stride(capfd):
    compiled = framefuse.compile(lambda x: x.view(-1) + 1 if x.stride(0) == 6 else x * 2)
    framefuse.set_logs(recompiles=True)
    try:
        for width in (9, 11, 6):
            compiled(torch.randn(4, width)[:, :6])
    finally:
        framefuse.set_logs()
    assert "L['x'].stride(0) != 6 failed: 6 and 6" in capfd.readouterr().err
