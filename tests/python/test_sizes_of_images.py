"""Images of many sizes: pooling, interpolation, padding, pieces of a dimension and losses take one capture for all, with eager's gradients."""

import framefuse
import pytest
import torch
import torch.nn.functional as F

_SIZES = [(4, 16, 20), (3, 12, 24), (5, 19, 22), (7, 26, 15), (9, 31, 37), (3, 12, 24)]


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    torch.manual_seed(0)
    framefuse.reset()


def _halves(x):
    first, second = x.chunk(2, 2)
    return first.sum(2), second.sum(2) * 3


_PROGRAMS = {
    "average pooling": lambda x: F.avg_pool2d(x, 2),
    "average pooling with overlap": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "maximum pooling": lambda x: F.max_pool2d(x, 2),
    "maximum pooling, rounded up": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "maximum pooling, dilated": lambda x: F.max_pool2d(x, 3, 1, 0, 2),
    "pooling of rows": lambda x: F.avg_pool1d(x.flatten(2), 3),
    "pooling to a size": lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
    "twice as large": lambda x: F.interpolate(x, scale_factor=2),
    "half as large": lambda x: F.interpolate(x, scale_factor=0.5, mode="nearest-exact"),
    "larger by a part": lambda x: F.interpolate(x, scale_factor=(1.5, 1.3), mode="bilinear"),
    "larger, scales anew": lambda x: F.interpolate(x, scale_factor=1.3, mode="bicubic", recompute_scale_factor=True),
    "corners aligned": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
    "to a size": lambda x: F.interpolate(x, size=(8, 9), mode="bilinear"),
    "to the size of another": lambda x: F.interpolate(x[:, :, ::2, ::2], size=x.shape[2:], mode="bilinear") + x,
    "smooth": lambda x: F.interpolate(x, size=(8, 9), mode="bilinear", antialias=True),
    "a line": lambda x: F.interpolate(x.flatten(2), scale_factor=2, mode="linear"),
    "an area": lambda x: F.interpolate(x, size=(4, 4), mode="area"),
    "a module": torch.nn.Upsample(scale_factor=2, mode="nearest"),
    "reflected": lambda x: F.pad(x, (1, 2, 3, 0), mode="reflect"),
    "pixels shuffled": lambda x: F.pixel_shuffle(x.repeat(1, 2, 1, 1), 2),
    "deviations": lambda x: x.std((2, 3)) + x.var((2, 3), correction=0),
    "pieces of a dimension that stays": lambda x: [t * 2 for t in x.split(2, 1)] + [t + 1 for t in x.unbind(1)],
    "halves": _halves,
    "split by a size": lambda x: [t * 2 for t in x.split((x.shape[2] + 1) // 2, 2)],
    "all but one": lambda x: [t * 2 for t in x.split([x.shape[0] - 1, 1], 0)],
    "loss": lambda x: F.cross_entropy(x, torch.zeros(x.shape[0], x.shape[2], x.shape[3], dtype=torch.long)),
    "losses": lambda x: F.cross_entropy(x, torch.ones(x.shape[0], x.shape[2], x.shape[3], dtype=torch.long), reduction="none"),
}


def _flat(value):
    return [leaf for item in value for leaf in _flat(item)] if isinstance(value, (tuple, list)) else [value]


def _results(function, x):
    results = _flat(function(x))
    sum((t * t).sum() for t in results).backward()
    return results + [x.grad]


def _compare(function, compiled, sizes):
    x = torch.randn(sizes[0], 6, *sizes[1:])
    expected = _results(function, x.clone().requires_grad_())
    got = _results(compiled, x.clone().requires_grad_())
    exact = _results(function, x.double().requires_grad_())
    assert len(expected) == len(got)
    for e, g, d in zip(expected, got, exact):
        assert (e.shape, e.stride(), e.dtype) == (g.shape, g.stride(), g.dtype)
        # Sums that come out near zero have lost their digits in eager, too: as far from float64's as eager's may be.
        lost = (e.double() - d).abs().max().item()
        torch.testing.assert_close(g, e, rtol=1.3e-6, atol=max(1e-5, 2 * lost))


@pytest.mark.parametrize("name", _PROGRAMS)
def test_one_capture_for_all(name):
    function = _PROGRAMS[name]
    compiled = framefuse.compile(function)
    before = framefuse.statistics()
    for sizes in _SIZES:
        _compare(function, compiled, sizes)
    after = framefuse.statistics()
    assert after["captures"] - before["captures"] == 2
    assert after["eager_fallbacks"] == before["eager_fallbacks"]


def test_another_number_of_pieces_is_another_capture():
    compiled = framefuse.compile(lambda x: [t * 2 for t in x.split(8, 2)], dynamic=True)
    before = framefuse.statistics()["captures"]
    for height in (18, 24, 20, 8, 5, 16, 10):
        _compare(lambda x: [t * 2 for t in x.split(8, 2)], compiled, (3, height, 5))
    assert framefuse.statistics()["captures"] - before == 3  # three pieces, one and two


@pytest.mark.parametrize(
    "arguments",
    [
        dict(size=(4, 4), scale_factor=2),
        dict(),
        dict(size=(4,)),
        dict(scale_factor=(2, 2, 2)),
        dict(size=4, recompute_scale_factor=True),
        dict(size=4, align_corners=True),
        dict(size=4, mode="linear"),
        dict(size=(4.5, 4)),
        dict(size=0),
        dict(scale_factor="2"),
        dict(scale_factor=0.01),
        dict(size=4, mode="bilinear", antialias=1),
        dict(scale_factor=True),
    ],
    ids=str,
)
def test_what_torch_refuses_is_refused(arguments):
    def outcome(f):
        try:
            return f(torch.ones(2, 3, 5, 5)).shape
        except Exception as error:
            return type(error), str(error)

    def function(x):
        return F.interpolate(x, **arguments)

    assert outcome(framefuse.compile(function)) == outcome(function)
