"""Graphs that are rewritten for a GPU, on the CPU (config.rewrite_always): channels_last around convolutions, products padded to aligned
sizes. Values, gradients, buffers and strides are eager's."""

import copy

import framefuse
import pytest
import torch
import torch.nn.functional as F
from torch import nn


@pytest.fixture(autouse=True)
def rewritten():
    framefuse.reset()
    with framefuse.config.patch(rewrite_always=True):
        yield


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 1)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.skip(x))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.Sequential(Block(8, 12), Block(12, 16, 2))
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = F.max_pool2d(torch.tanh(self.stem(x)), 2)
        return self.head(torch.flatten(F.adaptive_avg_pool2d(self.blocks(x), 1), 1))


class Dense(nn.Module):
    """Concatenations of what convolutions make, average pooling, and an output with four dimensions."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(4 * (i + 1), 4, 3, padding=1) for i in range(4))
        self.last = nn.Conv2d(20, 6, 1)

    def forward(self, x):
        for conv in self.convs:
            x = torch.cat([x, F.gelu(conv(x))], 1)
        return F.avg_pool2d(self.last(x), 2)


class Pooled(nn.Module):
    """The largest of windows of several kinds, at the edges and beyond, of channels enough for kernels."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)

    def forward(self, x):
        y = self.stem(x)
        strided, near = F.max_pool2d(y, 3, 2, 1), F.max_pool2d(y.relu(), (3, 2), (2, 1), 1)
        beyond, apart = F.max_pool2d(y, 2, 3, 0, ceil_mode=True), F.max_pool2d(y, 2, 1, 0, dilation=2)
        return strided + 1, near, beyond * 2, apart, F.max_pool2d(y, 3, 1, 1) - y, F.max_pool2d_with_indices(y, 2)[1].float()


class UNet(nn.Module):
    """Up and down, with a skip connection, a gate of one element a channel, and a mean over the image."""

    def __init__(self):
        super().__init__()
        self.down, self.middle, self.up = nn.Conv2d(4, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(12, 4, 3, padding=1)
        self.gate = nn.Conv2d(8, 8, 1)

    def forward(self, x):
        y = F.silu(self.down(x))
        y = y * torch.sigmoid(self.gate(y.mean((2, 3), keepdim=True)))
        y = F.interpolate(F.silu(self.middle(y)), scale_factor=2, mode="nearest")
        y = self.up(torch.cat([x, y], 1))
        return y, y.mean((2, 3)), y.permute(0, 2, 3, 1).reshape(-1, 4), y.amax(1)


class Mixed(nn.Module):
    """Operators that need the recorded layout between convolutions: views, sums over a batch, random numbers of a fixed seed."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(4, 4, 3)
        self.depthwise = nn.Conv2d(4, 4, 3, groups=4)

    def forward(self, x):
        y = self.first(x)
        batch, channels, height, width = y.shape
        z = y.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(batch, channels, height, width)
        left, right = z.chunk(2, 1)
        y = self.depthwise(self.second(left * right.sum(0, keepdim=True)))
        flat = y.flatten(1)
        return y, flat, flat @ flat.t(), left, y.transpose(1, 3).contiguous(memory_format=torch.channels_last)


class Softmaxes(nn.Module):
    """Over each dimension, in f32 and in bf16."""

    def forward(self, x):
        half = x.bfloat16()
        return x.softmax(0), x.log_softmax(1), x.softmax(2), half.softmax(1).float(), half.log_softmax(0).float(), x.mT.softmax(1)


class Products(nn.Module):
    """Products with odd sizes on each side, with and without a bias."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(11, 13), nn.Linear(13, 9, bias=False)
        self.table = nn.Embedding(7, 9)

    def forward(self, x):
        y = self.down(F.gelu(self.up(x)))
        scores = y @ self.table.weight.t()
        return scores, F.log_softmax(scores, -1), (y.t() @ x).t(), x.t() @ y


IMAGES = {"classifier": (Classifier, (2, 3, 16, 16)), "dense": (Dense, (2, 4, 8, 8)), "U-Net": (UNet, (3, 4, 12, 12)), "mixed": (Mixed, (2, 3, 9, 10)), "pooled": (Pooled, (2, 3, 9, 11))}
CASES = {**IMAGES, "products": (Products, (6, 11)), "softmaxes": (Softmaxes, (5, 7, 6))}


def seen(model, call, x, train):
    """All that a step shows."""
    x = x.clone().requires_grad_(train)
    outputs = call(x)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    if not train:
        return [*outputs, *model.buffers()]
    sum(((i + 1) * 3 * o.float().square().mean() for i, o in enumerate(outputs)), start=0.0).backward()
    return [*(o.detach() for o in outputs), x.grad, *(p.grad for p in model.parameters() if p.grad is not None), *model.buffers()]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_as_eager(name, train, dynamic):
    make, shape = CASES[name]
    torch.manual_seed(0)
    model = make().train(train)
    twin = copy.deepcopy(model)
    compiled = framefuse.compile(twin, dynamic=dynamic)
    before = framefuse.statistics()
    for batch in (shape[0], shape[0] + 1):
        x = torch.randn(batch, *shape[1:])
        with torch.set_grad_enabled(train):
            expected, actual = seen(model, model, x, train), seen(twin, compiled, x, train)
        assert len(expected) == len(actual)
        for e, a in zip(expected, actual):
            assert (e.shape, e.dtype, e.stride()) == (a.shape, a.dtype, a.stride())
            torch.testing.assert_close(a, e, rtol=1e-2 if name == "softmaxes" else 1e-3, atol=1e-3 if name == "softmaxes" else 1e-4)
        model.zero_grad(), twin.zero_grad()
    after = framefuse.statistics()
    assert {k: after[k] for k in ("eager_fallbacks", "bugs")} == {k: before[k] for k in ("eager_fallbacks", "bugs")}


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", IMAGES)
def test_convolutions_get_channels_last(name, train, capfd):
    make, shape = IMAGES[name]
    framefuse.set_logs(aot=True)
    framefuse.compile(make().train(train))(torch.randn(shape))
    assert "after lay_out_channels_last" in capfd.readouterr().err


def test_products_are_padded_where_a_kernel_writes(capfd):
    framefuse.set_logs(fusion=True)
    with torch.no_grad():
        framefuse.compile(Products())(torch.randn(6, 11))
    assert "in place: pad" in capfd.readouterr().err


def test_off(capfd):
    framefuse.set_logs(aot=True, fusion=True)
    with framefuse.config.patch(rewrite_for_device=False):
        framefuse.compile(Classifier())(torch.randn(2, 3, 16, 16))
        framefuse.compile(Products())(torch.randn(6, 11))
    text = capfd.readouterr().err
    assert "after lay_out_channels_last" not in text
    assert "after pad_products" not in text


@pytest.mark.parametrize("pads", [(0, 3), (0, 1, 0, 2), (2, 1), (0, -1), (0, 0, 0, 5)])
@pytest.mark.parametrize("value", [0.0, -0.0, 1.5])
def test_pads_of_the_program(pads, value):
    def f(x):
        return F.pad(x * 2, pads, value=value), F.pad(x, pads, value=value)

    x = torch.randn(3, 5)
    for e, a in zip(f(x), framefuse.compile(f)(x)):
        assert torch.equal(e, a)
        assert torch.equal(torch.signbit(e), torch.signbit(a))
        assert e.stride() == a.stride()


class Statistics(nn.Module):
    """Buffers of two types, written with and without autograd; two change places, there and back, one takes an argument's numbers."""

    def __init__(self):
        super().__init__()
        for i in range(4):
            self.register_buffer(f"number{i}", torch.full((3,), float(i)))
        self.register_buffer("count", torch.tensor(0))
        self.register_buffer("calls", torch.tensor(10))
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x):
        held = self.number0.clone()
        self.number0.copy_(self.number1)
        self.number1.copy_(held)
        held = self.number3.clone()
        self.number3.copy_(self.number2)
        self.number2.copy_(held)
        self.number2.add_(x.detach().sum(0))
        with torch.no_grad():
            self.number3.add_(x[0])
        self.count += 1
        self.calls += 2
        return x * self.weight + self.number2


def test_buffers_are_written_as_eager_writes_them():
    model = Statistics()
    twin = copy.deepcopy(model)
    compiled = framefuse.compile(twin, fullgraph=True)
    before = {name: (e._version, a._version) for (name, e), (_, a) in zip(model.named_buffers(), twin.named_buffers())}
    for _ in range(3):
        x = torch.randn(4, 3)
        assert torch.equal(model(x), compiled(x))
        for (name, e), (_, a) in zip(model.named_buffers(), twin.named_buffers()):
            assert torch.equal(e, a), name
            assert e._version - before[name][0] == a._version - before[name][1], name


def test_a_users_own_channels_last_stays():
    """Its results have the strides of eager's, whatever the weights'."""
    for weights in (torch.contiguous_format, torch.channels_last):
        model = nn.Sequential(nn.Conv2d(4, 6, 3, bias=False), nn.Conv2d(6, 5, 1)).to(memory_format=weights)
        for inputs in (torch.contiguous_format, torch.channels_last):
            x = torch.randn(2, 4, 7, 7).contiguous(memory_format=inputs)
            expected, actual = model(x), framefuse.compile(model)(x)
            assert expected.stride() == actual.stride()
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


class Residual(nn.Module):
    """Rows of a transposed batch; the norm reads the products through views."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(24, 40), nn.Linear(40, 24), nn.LayerNorm(24)

    def forward(self, x):
        y = torch.relu(self.first(x.transpose(0, 1).contiguous()))
        return self.norm(self.second(y).transpose(0, 1) + x)


@pytest.mark.parametrize("dtype, opened", [(torch.float32, True), (torch.float64, True), (torch.bfloat16, False)], ids=str)
def test_the_bias_of_a_product_is_added_by_the_kernel_that_reads_it(dtype, opened):
    torch.manual_seed(5)
    eager = Residual().to(dtype)
    ours = copy.deepcopy(eager)
    x = torch.randn(6, 5, 24, dtype=dtype)
    with framefuse.capture_logs("fusion") as records:
        got = framefuse.compile(ours, fullgraph=True)(x)
        got.square().sum().backward()
    want = eager(x)
    want.square().sum().backward()
    tolerance = {"rtol": 0.05, "atol": 0.05} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(got, want, **tolerance)
    assert got.stride() == want.stride()
    for a, b in zip(ours.parameters(), eager.parameters()):
        torch.testing.assert_close(a.grad, b.grad, **(tolerance and {"rtol": 0.1, "atol": 0.5}))
    aten = " ".join(text for _, text in records if text.startswith("ATen"))
    assert ("addmm" not in aten) == opened
    assert any(text.startswith("row: add, add") for _, text in records) == opened


def test_the_bias_of_a_product_is_added_behind_a_permutation():
    torch.manual_seed(5)
    down, scale, x = nn.Linear(12, 8), torch.randn(8, 1, 1), torch.randn(3, 5, 8, 6)

    @torch.no_grad()
    def program(y):
        return x.transpose(1, 2) + scale * down(y).permute(0, 3, 1, 2)

    y = torch.randn(3, 5, 6, 12)
    with framefuse.capture_logs("fusion") as records:
        got = framefuse.compile(program, fullgraph=True)(y)
    torch.testing.assert_close(got, program(y))
    assert got.stride() == program(y).stride()
    assert "addmm" not in " ".join(text for _, text in records if text.startswith("ATen"))
    assert any(text.startswith("pointwise: add, mul, add") for _, text in records)


CONVOLUTIONS = [(nn.Conv2d, (3, 4, 7, 7)), (nn.Conv1d, (3, 4, 9)), (nn.ConvTranspose2d, (3, 4, 5, 5)), (nn.Conv3d, (2, 4, 4, 4, 4))]


@pytest.mark.parametrize("make, size", CONVOLUTIONS)
def test_the_bias_of_a_convolution_is_added_by_the_kernel_that_reads_it(make, size):
    torch.manual_seed(6)
    conv, x = make(4, 8, 3), torch.randn(size)

    @torch.no_grad()
    def program(x):
        y = conv(x)
        return y.tanh(), conv(x + 1).movedim(1, -1).softmax(-1)

    with framefuse.capture_logs("fusion") as records:
        got = framefuse.compile(program, fullgraph=True)(x)
    for a, b in zip(got, program(x)):
        torch.testing.assert_close(a, b)
        assert a.stride() == b.stride()
    kernels = [text for _, text in records if text.startswith(("row", "column", "pointwise"))]
    assert any("add" in text and "tanh" in text for text in kernels)
    assert len([text for text in kernels if "add" in text]) >= 2


@pytest.mark.parametrize("make, size", CONVOLUTIONS)
def test_the_gradient_of_a_convolutions_bias_is_summed_by_a_kernel(make, size):
    torch.manual_seed(6)
    eager = make(4, 8, 3)
    ours = copy.deepcopy(eager)
    x = torch.randn(size, requires_grad=True)
    with framefuse.capture_logs("fusion") as records:
        (framefuse.compile(lambda x: ours(x).tanh(), fullgraph=True)(x) ** 2).sum().backward()
    own, x.grad = x.grad, None
    (eager(x).tanh() ** 2).sum().backward()
    for got, want in [(own, x.grad), *((a.grad, b.grad) for a, b in zip(ours.parameters(), eager.parameters()))]:
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
        assert got.stride() == want.stride()
    assert any(text.startswith(("row", "column")) and "tanh_backward" in text and "sum" in text for _, text in records)


DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"))]


@pytest.fixture
def without_tf32():
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("groups", [1, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_convolutions_of_channels_last_inputs_give_eagers_layouts(dtype, groups, device, without_tf32):
    """Which backend runs, and with it the layout of its results, is torch's choice; the capture asks for it."""
    plain, turned, deep = nn.Conv2d(8, 16, 3, groups=groups), nn.ConvTranspose2d(8, 16, 3, 2, groups=groups), nn.Conv3d(8, 16, 2, groups=groups)
    model = nn.ModuleList([plain, turned, deep]).to(device, dtype)

    def program(image, volume):
        results = [plain(image), turned(image), deep(volume)]
        return results, [r.stride() for r in results]

    compiled = framefuse.compile(program, fullgraph=True)
    for formats in ((torch.channels_last, torch.channels_last_3d), (torch.contiguous_format, torch.contiguous_format)):
        torch.manual_seed(8)
        sizes = (2, 8, 9, 9), (2, 8, 5, 5, 5)
        given = [torch.randn(s, device=device, dtype=dtype).to(memory_format=f).requires_grad_() for s, f in zip(sizes, formats)]
        found = []
        for function in (program, compiled):
            results, strides = function(*given)
            assert [r.stride() for r in results] == strides
            gradients = torch.autograd.grad([r.float().pow(2).sum() for r in results], [*given, *model.parameters()])
            found.append((results, strides, gradients, [g.stride() for g in gradients]))
        eager, own = found
        assert own[1] == eager[1]
        assert own[3] == eager[3]
        for got, expected in zip([*own[0], *own[2]], [*eager[0], *eager[2]]):
            torch.testing.assert_close(got, expected, rtol=2e-2 if dtype == torch.bfloat16 else 1e-3, atol=2e-2 if dtype == torch.bfloat16 else 1e-3)
