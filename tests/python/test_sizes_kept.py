"""Operators that keep sizes symbolic: two captures serve all sizes, with eager's values, strides and gradients, also at 0 and 1."""


import framefuse
import pytest
import torch
import torch.nn.functional as F

_SIZES = [(5, 4), (4, 7), (7, 9), (33, 17), (12, 5), (8, 8), (16, 33)]
_SMALL = [(2, 3), (1, 1), (1, 5), (6, 1), (0, 4), (4, 0), (0, 0)]


def _r(*sizes):
    return torch.randn(*sizes)


def _column(*sizes):
    return torch.arange(torch.Size(sizes).numel()).reshape(sizes) % 3


def _upper_half(x):
    """Reads one half of what it writes the other of."""
    v, k = x * 1, x.shape[0] // 2
    v[:k].add_(v[k : 2 * k])
    return v


_GRU = torch.nn.GRUCell(4, 5)
# name: (arguments for two sizes, the program)
_PROGRAMS = {
    "max_pool3d": (lambda n, m: [_r(n, 2, m + 2, m + 2, 4)], lambda x: F.max_pool3d(x, 2)),
    "max_pool3d with a part of a window": (lambda n, m: [_r(n, 2, m + 2, m + 2, 4)], lambda x: F.max_pool3d(x, 3, 2, 1, ceil_mode=True)),
    "adaptive_avg_pool3d": (lambda n, m: [_r(n, 2, m + 2, m + 2, 4)], lambda x: F.adaptive_avg_pool3d(x, 2)),
    "columns of an image": (lambda n, m: [_r(n, 2, m + 2, m + 2)], lambda x: F.unfold(x, 2)),
    "and back": (lambda n, m: [_r(n, 2, m + 2, m + 2)], lambda x: F.fold(F.unfold(x, 2, stride=1), x.shape[2:], 2)),
    "windows of a tensor": (lambda n, m: [_r(n, m + 3)], lambda x: x.unfold(1, 3, 2) * 2),
    "grid_sample": (lambda n, m: [_r(n, 3, m, m + 1), _r(n, m + 2, 3, 2)], lambda x, g: F.grid_sample(x, g, align_corners=False)),
    "grid_sample in space": (lambda n, m: [_r(n, 2, m, 3, 4), _r(n, m, 3, 3, 3)], lambda x, g: F.grid_sample(x, g, align_corners=True)),
    "max_unpool2d": (lambda n, m: [_r(n, 2, 2 * m + 2, 2 * m + 2)], lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)),
    "interpolate by area": (lambda n, m: [_r(n, 2, m + 1, m + 1)], lambda x: F.interpolate(x, scale_factor=2.0, mode="area")),
    "cdist": (lambda n, m: [_r(n, 5), _r(m, 5)], lambda a, b: torch.cdist(a, b, p=1.0)),
    "diagonal": (lambda n, m: [_r(n, m)], lambda x: x.diagonal() * 2),
    "diagonal below": (lambda n, m: [_r(n + 2, m)], lambda x: x.diagonal(-1) * 2),
    "diag_embed": (lambda n, m: [_r(n, m)], lambda x: torch.diag_embed(x, 1)),
    "trace": (lambda n, m: [_r(n, n)], lambda x: torch.trace(x)),
    "median": (lambda n, m: [_r(n, m)], lambda x: x.median(1)[0]),
    "nanmedian": (lambda n, m: [_r(n, m)], lambda x: x.nanmedian(0)[0]),
    "kthvalue": (lambda n, m: [_r(n, m)], lambda x: x.kthvalue(1, 1)[0]),
    "mode": (lambda n, m: [_r(n, m)], lambda x: x.mode(1)[0]),
    "quantile": (lambda n, m: [_r(n, m)], lambda x: x.quantile(0.3, 1)),
    "cummax": (lambda n, m: [_r(n, m)], lambda x: x.cummax(1)[0]),
    "logcumsumexp": (lambda n, m: [_r(n, m)], lambda x: x.logcumsumexp(1)),
    "fft": (lambda n, m: [_r(n, m)], lambda x: torch.view_as_real(torch.fft.fft(x))),
    "fft2": (lambda n, m: [_r(n, m)], lambda x: torch.fft.fft2(x).abs()),
    "irfft": (lambda n, m: [_r(n, m + 2)], lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=x.shape[1])),
    "one_hot": (lambda n, m: [_column(n)], lambda x: F.one_hot(x, 5)),
    "arange": (lambda n, m: [_r(n + 2, m)], lambda x: x[torch.arange(0, x.shape[0], 2)]),
    "eye": (lambda n, m: [_r(n, n)], lambda x: x + torch.eye(x.shape[0])),
    "gather": (lambda n, m: [_r(n, m + 2), _column(n, m) % 2], lambda x, i: x.gather(1, i)),
    "scatter_add": (lambda n, m: [_r(n, m), _column(n, m)], lambda x, i: x.new_zeros(x.shape[0], 4).scatter_add(1, i, x)),
    "scatter_": (lambda n, m: [_r(n, m)], lambda x: torch.zeros_like(x).scatter_(1, x.argmax(1, keepdim=True), 1.0)),
    "scatter_reduce": (lambda n, m: [_r(n, m), _column(n, m)], lambda x, i: x.new_zeros(x.shape[0], 4).scatter_reduce(1, i, x, "amax")),
    "index_add": (lambda n, m: [_r(n, m), _column(n)], lambda x, i: x.new_zeros(3, x.shape[1]).index_add(0, i, x)),
    "an element of each row": (lambda n, m: [_r(n, m + 3), _column(n)], lambda x, i: x[torch.arange(x.shape[0]), i]),
    "rows": (lambda n, m: [_r(n + 3, m), _column(n, 2)], lambda x, i: x[i]),
    "index_put": (lambda n, m: [_r(n, m + 3), _column(n)], lambda x, i: x.index_put((torch.arange(x.shape[0]), i), torch.zeros(()))),
    "what a mask chooses": (lambda n, m: [_r(n, m)], lambda x: x[x > 0].sin().sum() + x[x[:, 0] > -9].sum()),
    "the upper half": (lambda n, m: [_r(n + 2, m)], _upper_half),
    "a step of a GRU": (lambda n, m: [_r(n, 4), _r(n, 5)], lambda x, h: _GRU(x, h)),
    "count_nonzero": (lambda n, m: [_r(n, m)], lambda x: x.count_nonzero(1)),
    "bucketize": (lambda n, m: [_r(n, m)], lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]))),
    "searchsorted": (lambda n, m: [_r(n, m), _r(m).sort()[0]], lambda x, s: torch.searchsorted(s, x)),
    "pairwise_distance": (lambda n, m: [_r(n, m), _r(n, m)], lambda a, b: F.pairwise_distance(a, b)),
    "cosine_similarity": (lambda n, m: [_r(n, m), _r(n, m)], lambda a, b: F.cosine_similarity(a, b)),
    "triplet_margin_loss": (lambda n, m: [_r(n, m), _r(n, m), _r(n, m)], lambda a, b, c: F.triplet_margin_loss(a, b, c)),
    "huber_loss": (lambda n, m: [_r(n, m), _r(n, m)], lambda a, b: F.huber_loss(a, b)),
    "smooth_l1_loss": (lambda n, m: [_r(n, m), _r(n, m)], lambda a, b: F.smooth_l1_loss(a, b)),
    "binary_cross_entropy": (lambda n, m: [_r(n, m)], lambda x: F.binary_cross_entropy(x.sigmoid(), x.detach().cos().abs())),
    "a loss with smoothed labels": (lambda n, m: [_r(n, m + 3), _column(n)], lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1)),
    "prelu": (lambda n, m: [_r(n, 3, m), _r(3)], lambda a, b: F.prelu(a, b)),
    "glu": (lambda n, m: [_r(n, 2 * m)], lambda x: F.glu(x, 1)),
    "logsigmoid": (lambda n, m: [_r(n, m)], lambda x: F.logsigmoid(x)),
    "logit": (lambda n, m: [_r(n, m)], lambda x: x.sigmoid().logit(1e-6)),
    "lerp_": (lambda n, m: [_r(n, m), _r(n, m), _r(n, m)], lambda a, b, w: (a * 1).lerp_(b, w)),
    "roll": (lambda n, m: [_r(n, m)], lambda x: x.roll((1, 2), (0, 1))),
    "pad to a length": (lambda n, m: [_r(n, m)], lambda x: F.pad(x, (0, 40 - x.shape[1]))),
    "meshgrid": (lambda n, m: [_r(n), _r(m)], lambda a, b: torch.stack(torch.meshgrid(a, b, indexing="ij"))),
    "complex numbers": (lambda n, m: [_r(n, m, 2)], lambda x: torch.view_as_complex(x).abs()),
    "cross": (lambda n, m: [_r(n, 3), _r(n, 3)], lambda a, b: torch.linalg.cross(a, b)),
    "solve": (lambda n, m: [_r(n, 4, 4) + 9 * torch.eye(4), _r(n, 4, m)], lambda a, b: torch.linalg.solve(a, b)),
    "det": (lambda n, m: [_r(n, 3, 3)], lambda x: torch.linalg.det(x)),
}  # fmt: skip


def _outcome(f, arguments):
    arguments = [a.clone().requires_grad_(a.is_floating_point()) for a in arguments]
    try:
        result = f(*arguments)
        if not result.requires_grad:
            return result, []
        (result.reshape(-1) * torch.arange(1.0, result.numel() + 1).sin()).sum().backward()
        return result.detach(), [a.grad for a in arguments]
    except (RuntimeError, IndexError) as error:
        return type(error), []


def _check(f, compiled, arguments):
    (expected, gradients), (found, of_found) = _outcome(f, arguments), _outcome(compiled, arguments)
    if not isinstance(expected, torch.Tensor):
        assert found is expected
        return
    torch.testing.assert_close(found, expected, rtol=2e-4, atol=2e-5, equal_nan=True)
    assert expected.numel() == 0 or found.stride() == expected.stride()
    for gradient, of in zip(of_found, gradients, strict=True):
        torch.testing.assert_close(gradient, of, rtol=2e-4, atol=2e-5, equal_nan=True)


@pytest.mark.parametrize("backend", ["aten", "fuse"])
@pytest.mark.parametrize("name", _PROGRAMS)
def test_two_captures_serve_all_sizes(name, backend):
    make, f = _PROGRAMS[name]
    framefuse.reset()
    torch.manual_seed(0)
    compiled = framefuse.compile(f, backend=backend, recompile_limit=64)
    before = framefuse.statistics()
    for n, m in _SIZES:
        _check(f, compiled, make(n, m))
    after = framefuse.statistics()
    assert after["captures"] - before["captures"] == 2
    assert after["eager_fallbacks"] == before["eager_fallbacks"]
    for n, m in _SMALL:
        _check(f, compiled, make(n, m))


def test_sizes_that_torch_needs_as_numbers():
    """The gradient of affine_grid is code of torch's that takes no symbolic sizes: captured for each, in one graph."""
    framefuse.reset()
    f = lambda x, t: F.grid_sample(x, F.affine_grid(t, x.shape, align_corners=False), align_corners=False)  # noqa: E731
    compiled = framefuse.compile(f, fullgraph=True)
    for n, m in [(5, 4), (4, 7), (7, 9), (5, 4)]:
        _check(f, compiled, [_r(n, 3, m, m + 1), _r(n, 2, 3)])
    before = framefuse.statistics()
    for n, m in [(3, 4), (4, 6), (9, 8), (12, 12)]:  # without gradients sizes stay symbolic
        x, t = _r(n, 3, m, m + 1), _r(n, 2, 3)
        torch.testing.assert_close(compiled(x, t), f(x, t))
    after = framefuse.statistics()
    assert after["captures"] - before["captures"] <= 2 and after["graph_breaks"] == before["graph_breaks"]


def test_the_log_says_why_no_size_is_symbolic():
    framefuse.reset()
    with framefuse.capture_logs("dynamic") as records:
        grid = framefuse.compile(lambda t, x: F.affine_grid(t, x.shape, align_corners=False), dynamic=True)
        grid(_r(4, 3, 4).requires_grad_(), _r(4, 3, 5, 6, 7))
    assert any("concrete integers" in text for _, text in records)
