"""Operators by changing sizes: name → (function, what makes its inputs of a size, sizes). All inputs that are floats get gradients.

Sizes of 0 and 1 stand at the end: they may take a capture of their own each.
"""

import torch
import torch.nn.functional as F
from torch import nn

F64 = torch.float64
IMAGES = ((2, 6, 7), (3, 8, 9), (2, 9, 12), (4, 11, 6), (2, 16, 16), (5, 6, 9))  # of how many, height and width
LENGTHS = (5, 7, 9, 4, 12, 3, 33, 6)
SMALL = (1, 0)

TABLE = {}


def floats(*shape):
    return torch.randn(*shape, dtype=F64)


def places(most, *shape):
    return torch.randint(0, most, shape)


def image(name, function, channels=3, more=lambda n, height, width: []):
    TABLE[name] = (function, lambda size: [floats(size[0], channels, *size[1:]), *more(*size)], IMAGES)


def rows(name, function, make=lambda n: [floats(n, 3)], sizes=(*LENGTHS, *SMALL)):
    TABLE[name] = (function, make, sizes)


def some(name, function, make=lambda n: [floats(n, 3)]):
    """Not without elements."""
    rows(name, function, make, (*LENGTHS, 1))


def several(name, function, make=lambda n: [floats(n, 3)]):
    """At least two."""
    rows(name, function, make, LENGTHS)


# ---- images
for corners in (False, True):
    image(
        f"affine_grid {corners}",
        lambda x, theta, corners=corners: F.grid_sample(x, F.affine_grid(theta, list(x.shape), align_corners=corners), align_corners=corners),
        more=lambda n, h, w: [floats(n, 2, 3)],
    )
for mode in ("bilinear", "nearest", "bicubic"):
    for padding in ("zeros", "border", "reflection"):
        image(
            f"grid_sample {mode} {padding}",
            lambda x, grid, mode=mode, padding=padding: F.grid_sample(x, grid.tanh(), mode=mode, padding_mode=padding, align_corners=False),
            more=lambda n, h, w: [floats(n, w, h, 2)],
        )
several("max_pool1d", lambda x: F.max_pool1d(x, 3, stride=2, padding=1), lambda n: [floats(2, 3, n)])
several("max_pool1d rounded up", lambda x: F.max_pool1d(x, 2, stride=2, ceil_mode=True), lambda n: [floats(2, 3, n)])
some("max_pool1d of many", lambda x: F.max_pool1d(x, 2), lambda n: [floats(n, 3, 8)])
image("max_pool2d", lambda x: F.max_pool2d(x, 2))
image("max_pool2d places", lambda x: F.max_pool2d(x, 3, stride=2, padding=1, return_indices=True))
image("max_unpool2d", lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2, output_size=x.shape[-2:]))
image("avg_pool2d", lambda x: F.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False))
image("lp_pool2d", lambda x: F.lp_pool2d(x.abs() + 0.1, 2, 2))
for output in (1, 3, (2, 4), (None, 3)):
    image(f"adaptive_avg_pool2d {output}", lambda x, output=output: F.adaptive_avg_pool2d(x, output))
for output in (1, 3, (2, 4)):
    image(f"adaptive_max_pool2d {output}", lambda x, output=output: F.adaptive_max_pool2d(x, output))
image("adaptive_avg_pool2d to a half", lambda x: F.adaptive_avg_pool2d(x, (x.shape[2] // 2, x.shape[3] // 2)))
for mode in ("nearest", "bilinear", "bicubic", "area", "nearest-exact"):
    for factor in (2, 0.5, 1.3):
        image(f"interpolate {mode} {factor}", lambda x, mode=mode, factor=factor: F.interpolate(x, scale_factor=factor, mode=mode))
    image(f"interpolate {mode} to", lambda x, mode=mode: F.interpolate(x, size=(9, 5), mode=mode))
    image(f"interpolate {mode} by size", lambda x, mode=mode: F.interpolate(x, size=(x.shape[2] + 1, x.shape[3] * 2), mode=mode))
image("interpolate to corners", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True))
image("interpolate smoothed", lambda x: F.interpolate(x, size=(4, 3), mode="bilinear", antialias=True))
for mode in ("constant", "reflect", "replicate", "circular"):
    image(f"pad {mode}", lambda x, mode=mode: F.pad(x, (1, 2, 2, 1), mode=mode))
    several(f"pad of lines {mode}", lambda x, mode=mode: F.pad(x, (2, 1), mode=mode), lambda n: [floats(2, 3, n)])
image("unfold", lambda x: F.unfold(x, 3, padding=1, stride=2))
image("fold", lambda x: F.fold(F.unfold(x, 3, padding=1), x.shape[-2:], 3, padding=1))
image("conv2d", lambda x, w: F.conv2d(x, w, padding=1, stride=2), more=lambda n, h, w: [floats(4, 3, 3, 3)])
image("conv2d same", lambda x, w: F.conv2d(x, w, padding="same"), more=lambda n, h, w: [floats(4, 3, 3, 3)])
image(
    "conv_transpose2d",
    lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
    more=lambda n, h, w: [floats(3, 4, 3, 3)],
)
some("conv_transpose1d", lambda x, w: F.conv_transpose1d(x, w, stride=2), lambda n: [floats(2, 3, n), floats(3, 4, 4)])
image("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), channels=8)
image("channel_shuffle", lambda x: F.channel_shuffle(x, 2), channels=4)
image("roll of windows", lambda x: x.roll((-1, 2), (2, 3)))
image("batch_norm", nn.BatchNorm2d(3).double())
image("instance_norm", nn.InstanceNorm2d(3, affine=True).double())
image("cross_entropy of images", lambda x, y: F.cross_entropy(x, y), more=lambda n, h, w: [places(3, n, h, w)])

# ---- waves
window = torch.hann_window(8, dtype=F64)
some("stft", lambda x: torch.stft(x, 8, hop_length=3, window=window, return_complex=True).abs(), lambda n: [floats(2, n + 8)])
some("stft as it is", lambda x: torch.stft(x, 8, center=False, window=window, return_complex=True).abs(), lambda n: [floats(n + 8)])
some("fft2", lambda x: torch.fft.fft2(x).abs(), lambda n: [floats(n, n + 1)])

# ---- places and orders
for p in (1.0, 3.0, float("inf")):
    rows(f"cdist {p}", lambda x, y, p=p: torch.cdist(x, y, p=p), lambda n: [floats(2, n, 3), floats(2, n + 2, 3)])
some("pdist", F.pdist)
rows("tril", lambda x: torch.tril(x) + torch.triu(x, 1), lambda n: [floats(n, n + 1)])
rows("roll", lambda x: x.roll((2, -1), (0, 1)) + x.roll(1))
rows("roll by a size", lambda x: x.roll(x.shape[0] // 2, 0))
rows("flip", lambda x: x.flip(0, 1))
rows("repeat", lambda x: x.repeat(2, 3))
some("repeat by a size", lambda x: x.repeat(x.shape[0], 1))
rows("tile", lambda x: x.tile((2, 2, 1)))
some("chunk", lambda x: [c * 2 for c in x.chunk(2, 0)], lambda n: [floats(2 * n, 3)])
some("split by a size", lambda x: torch.split(x, x.shape[0] // 2, 0)[0] * 2, lambda n: [floats(2 * n, 3)])
several("split by sizes", lambda x: torch.split(x, [x.shape[0] - 1, 1], 0)[0] * 2)
some("unflatten", lambda x: x.unflatten(0, (-1, 2)).sum(1), lambda n: [floats(2 * n, 3)])
rows("movedim", lambda x: x.movedim(0, -1).contiguous() * 2, lambda n: [floats(n, 3, 2)])
rows("einsum", lambda x, y: torch.einsum("bij,bjk->bik", x, y), lambda n: [floats(n, 3, n + 1), floats(n, n + 1, 2)])
rows("einsum of a diagonal", lambda x: torch.einsum("ii->i", x), lambda n: [floats(n, n)])
several("topk", lambda x: x.topk(2, 0)[0])
several("topk by a size", lambda x: x.topk((x.shape[0] + 3) // 2, 0)[0])
several("topk of a part", lambda x: x.topk(max(1, int(x.shape[0] * 0.2)), 0)[0], lambda n: [floats(n + 8, 3)])
rows("sort", lambda x: x.sort(0, descending=True))
rows("cumsum", lambda x: x.cumsum(0))
rows("scatter", lambda x, i: torch.zeros(4, 3, dtype=F64).scatter(0, i, x), lambda n: [floats(n, 3), places(4, n, 3)])
some("gather", lambda x, i: x.gather(0, i), lambda n: [floats(n, 3), places(n, n + 1, 3)])
some("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 0), lambda n: [floats(n, 3), places(n, n + 1, 1)])
some("index_put", lambda x, i: x.clone().index_put((i,), torch.ones(3, dtype=F64)), lambda n: [floats(n, 3), places(n, n + 1)])
some(
    "index_put added",
    lambda x, i, v: x.clone().index_put((i,), v, accumulate=True),
    lambda n: [floats(n, 3), places(n, n + 1), floats(n + 1, 3)],
)
rows("masked_select", lambda x: x.masked_select(x > 0))
rows("pad_sequence", lambda x: nn.utils.rnn.pad_sequence([x, x[:2]], batch_first=True), sizes=LENGTHS)
rows("kron", lambda x, y: torch.kron(x, y), lambda n: [floats(n, 3), floats(2, n)])
rows("block_diag", lambda x, y: torch.block_diag(x, y), lambda n: [floats(n, 3), floats(2, n)])
several("multinomial", lambda x: torch.multinomial(x.softmax(0), 2), lambda n: [floats(n)])
some("histc", lambda x: x * torch.histc(x.detach(), 5).sum())

# ---- matrices
def definite(x):
    return x @ x.mT + torch.eye(x.shape[-1], dtype=F64)


rows("cholesky", lambda x: torch.linalg.cholesky(definite(x)), lambda n: [floats(2, n, n)])
rows("solve", lambda x, y: torch.linalg.solve(definite(x), y), lambda n: [floats(n, n), floats(n, 2)])
several("inverse", lambda x: torch.linalg.inv(definite(x)), lambda n: [floats(n, n)])
some("determinant", lambda x: torch.linalg.det(definite(x)).log(), lambda n: [floats(2, n, n)])
some("qr", lambda x: torch.linalg.qr(x)[1].abs(), lambda n: [floats(n + 2, 3)])
several("solve triangular", lambda x, y: torch.linalg.solve_triangular(definite(x), y, upper=True, left=False), lambda n: [floats(n, n), floats(3, n)])

# ---- losses
weight = torch.arange(1.0, 4, dtype=F64)
some("nll_loss", lambda x, y: F.nll_loss(x.log_softmax(1), y, weight=weight), lambda n: [floats(n, 3), places(3, n)])
some(
    "cross_entropy smoothed",
    lambda x, y: F.cross_entropy(x, y, weight=weight, label_smoothing=0.1, reduction="none"),
    lambda n: [floats(n, 3), places(3, n)],
)
some("cross_entropy of classes", lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), lambda n: [floats(4, n), places(n, 4)])
some("multi_margin_loss", F.multi_margin_loss, lambda n: [floats(n, 3), places(3, n)])
some("multilabel_margin_loss", F.multilabel_margin_loss, lambda n: [floats(n, 3), places(3, n, 3)])
for mode in ("mean", "sum", "max"):
    some(f"embedding_bag {mode}", lambda w, i, mode=mode: F.embedding_bag(i, w, mode=mode), lambda n: [floats(7, 3), places(7, n, 4)])
some(
    "embedding_bag of offsets",
    lambda w, i, o: F.embedding_bag(i, w, o, mode="sum"),
    lambda n: [floats(7, 3), places(7, n + 3), torch.tensor([0, 2, 3])],
)

# ---- layers
attention = nn.MultiheadAttention(8, 2, batch_first=True).double()
some("attention", lambda x: attention(x, x, x), lambda n: [floats(2, n, 8)])
some(
    "masked attention",
    lambda x: attention(x, x, x, attn_mask=nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=F64), need_weights=False)[0],
    lambda n: [floats(2, n, 8)],
)
rows("layer_norm", nn.LayerNorm(3).double())
rows("rms_norm", nn.RMSNorm(3).double())
rows("rms_norm without weights", lambda x: F.rms_norm(x, (3,), eps=1e-3))
some("layer_norm over sizes", lambda x: F.layer_norm(x, x.shape[1:]), lambda n: [floats(2, n, 3)])
several("group_norm", nn.GroupNorm(2, 4).double(), lambda n: [floats(2, 4, n)])
several("batch_norm of rows", nn.BatchNorm1d(3).double())
