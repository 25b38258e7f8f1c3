"""Concatenations whose pieces kernels write where they belong: values, strides and gradients as in eager, and that nothing was copied."""

import pytest
import torch
import torch.nn.functional as F

import framefuse


def rotated(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def rotary(q, k, cos, sin):
    return q * cos + rotated(q) * sin, k * cos + rotated(k) * sin


def heads(n, dtype):
    return torch.randn(2, 16, n, 64, dtype=dtype).transpose(1, 2)


def run(function, *inputs):
    """Results and what the log says of the forward pass; compares with eager."""
    framefuse.reset()
    with framefuse.capture_logs("fusion") as records:
        got = framefuse.compile(function, fullgraph=True)(*inputs)
    want = function(*inputs)
    got, want = ([t] if isinstance(t, torch.Tensor) else list(t) for t in (got, want))
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert g.stride() == w.stride() and g.dtype == w.dtype
        tolerance = {} if g.dtype == torch.float32 else {"rtol": 0.03, "atol": 0.06}
        torch.testing.assert_close(g, w, **tolerance)
    return [text for _, text in records]


def copies(log):
    return sum(text.startswith("ATen") and "cat" in text.split(": ")[1].split(", ") for text in log)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_rotation_is_one_kernel(dtype):
    torch.manual_seed(0)
    log = run(rotary, heads(4, dtype), heads(2, dtype), torch.randn(16, 64, dtype=dtype), torch.randn(1, 1, 16, 64, dtype=dtype))
    assert copies(log) == 0 and log.count("in place: cat") == 2
    assert sum(text.startswith("pointwise") for text in log) == 2


CASES = {
    "pieces from elsewhere": (lambda x, y: torch.relu(torch.cat((x, y), 1)), 0),
    "pieces from kernels": (lambda x, y: torch.cat((x * 2, y + 1), 1), 0),
    "one piece from a kernel": (lambda x, y: torch.cat((x * 2, y, x), 1), 0),
    "along rows": (lambda x, y: torch.cat((x * 2, x + 1, x), 0) * 3, 0),
    "two at once": (lambda x, y: torch.cat((x, y), 1) * torch.cat((x + 1, y + 1), -1) + torch.arange(64), 0),
    "other boundaries": (lambda x, y: torch.cat((x, y), 1) * torch.cat((y, x), 1), 1),
    "before a reduction": (lambda x, y: F.layer_norm(torch.cat((x, y), 1) * 2, (64,)), 0),
    "read twice": (lambda x, y: (lambda c: (c.relu(), c.mT.exp()))(torch.cat((x, y), 1)), 1),
    "a piece read elsewhere": (lambda x, y: (lambda p: (torch.cat((p, y), 1), p + 1))(x.sin()), 1),
    "a piece twice": (lambda x, y: (lambda p: torch.cat((p, p), 1))(x.sin()), 1),
    "a piece returned": (lambda x, y: (lambda p: (torch.cat((p, y), 1), p))(x.sin()), 1),
    "no whole vectors": (lambda x, y: torch.relu(torch.cat((x[:, :3], y * 2), 1)), 1),
    "many pieces": (lambda x, y: torch.relu(torch.cat([x * i for i in range(9)], 1)), 1),
    "of a broadcast result": (lambda x, y: torch.cat((x, y), 1)[:, None] * torch.ones(8, 3, 64), 1),
    "another type after it": (lambda x, y: torch.cat((x, y), 1).double() + 1, 0),
    "nothing in a piece": (lambda x, y: torch.cat((x[:, :0], y * 2), 1), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_strides(name):
    torch.manual_seed(1)
    function, copied = CASES[name]
    log = run(function, torch.randn(8, 24), torch.randn(8, 40))
    assert copies(log) == copied, log
    log = run(function, torch.randn(24, 8).t(), torch.randn(8, 80)[:, ::2])


def test_channels_last():
    torch.manual_seed(2)
    x, y = (torch.randn(2, 8, 5, 6).to(memory_format=torch.channels_last) for _ in range(2))
    assert copies(run(lambda x, y: F.relu(torch.cat((x, y), 1)), x, y)) == 0


def test_gradients():
    torch.manual_seed(3)
    inputs = [heads(4, torch.float32), heads(2, torch.float32), torch.randn(16, 64), torch.randn(16, 64)]

    def gradients(function):
        given = [t.clone().requires_grad_() for t in inputs]
        sum(t.square().sum() for t in function(*given)).backward()
        return [t.grad for t in given]

    for mine, eager in zip(gradients(framefuse.compile(rotary, fullgraph=True)), gradients(rotary)):
        torch.testing.assert_close(mine, eager)


WEIGHTS = [torch.randn(8 * (k + 1), 8) / 4 for k in range(9)]


def block(x, dim=-1, look=lambda k, c: c * 2 + 1):
    """Each layer reads all features so far, each 8 wide along `dim`."""
    features = [x]
    for k, w in enumerate(WEIGHTS):
        c = look(k, torch.cat(features, dim))
        features.append(c @ w if dim == -1 else (c.mT @ w).mT)
    return torch.cat(features, dim)


def test_growing_concatenations_share_memory():
    # Those of few pieces go below the kernel.
    assert run(block, torch.randn(5, 8)).count("in place: growing cat") == 6


def test_growing_along_rows():
    log = run(lambda x: block(x, dim=0), torch.randn(8, 12))
    assert log.count("in place: growing cat") >= 5


def test_a_beginning_that_others_read_is_one_of_its_own():
    seen = []

    def look(k, c):
        if k == 6:
            seen.append(c)
        return c * 2 + 1 if k != 5 else c

    def f(x):
        seen.clear()
        return block(x, look=look), seen[0]

    # Not what leaves the graph, nor what a product reads.
    assert run(f, torch.randn(5, 8)).count("in place: growing cat") == 4


def test_beginnings_in_another_order():
    def f(a, b, c, d, e, g):
        long = torch.cat([a, b, c, d, e, g], 1)
        middle = torch.cat([a, b, c, d, e], 1)
        short = torch.cat([a, b, c, d], 1) * 3
        return long, middle.sum(1), short.relu(), torch.cat([a, b, c, d, e, a], 1) - long

    run(f, *(torch.randn(4, 8) for _ in range(6)))


def test_growing_concatenations_with_gradients():
    torch.manual_seed(0)
    x = torch.randn(5, 8, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    block(x).square().sum().backward()
    framefuse.compile(block)(y).square().sum().backward()
    torch.testing.assert_close(y.grad, x.grad, rtol=1e-4, atol=1e-4)


def test_growing_images():
    convolutions = torch.nn.ModuleList(torch.nn.Conv2d(4 * (k + 1), 4, 3, padding=1) for k in range(8))

    def f(x):
        features = [x]
        for convolution in convolutions:
            features.append(convolution(torch.relu(torch.cat(features, 1))))
        return torch.cat(features, 1)

    with torch.no_grad():
        assert run(f, torch.randn(2, 4, 6, 5)).count("in place: growing cat") >= 4
        with framefuse.config.patch(rewrite_always=True):  # channels_last
            run(f, torch.randn(2, 4, 6, 5))


def halves(x):
    return x[..., :32], x[..., 32:]


def turned(x):
    a, b = halves(x)
    return torch.cat((-b, a), -1)


JOINED = {
    "halves": (lambda x: turned(x) * 3, (4, 8, 64)),
    "halves and the whole": (lambda x: x * 2 + turned(x) * 3, (4, 8, 64)),
    "items": (lambda x: x[0] * x[1] + x[2], (3, 16, 32)),
    "items inside, turned": (lambda x: (x[:, 0] * x[:, 1]).transpose(0, 1) + x[:, -1].transpose(0, 1), (4, 3, 32)),
    "three parts, one by its end": (lambda x: x[:, :2].sum() + (x[:, 2:-3] * 2).sum() + x[:, -3:].abs().sum(), (4, 8, 32)),
}
APART = {
    "parts that meet": (lambda x: x[:, :5] * x[:, 3:8], (4, 8, 32)),
    "a part that nobody reads": (lambda x: x[:, :3] * x[:, 3:6], (4, 8, 32)),
    "steps": (lambda x: x[:, ::2] * x[:, 1::2], (4, 8, 32)),
}


def gradient(function, shape, dtype):
    """Of a weighted sum with zeros of both signs among the weights."""
    torch.manual_seed(3)
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    result = function(x)
    weights = torch.linspace(-2, 2, result.numel(), dtype=dtype).view(result.shape).round()
    (result * weights).sum().backward()
    return x.grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", [*JOINED, *APART])
def test_gradients_of_slices_that_cover_a_tensor_are_joined(name, dtype):
    function, shape = {**JOINED, **APART}[name]
    framefuse.reset()
    with framefuse.capture_logs("fusion") as records:
        got = gradient(framefuse.compile(function, fullgraph=True), shape, dtype)
    want = gradient(function, shape, dtype)
    assert got.stride() == want.stride()
    assert torch.equal(got, want) and torch.equal(got.signbit(), want.signbit())
    padded = sum("slice_backward" in text or "select_backward" in text for _, text in records if text.startswith("ATen"))
    assert (padded == 0) == (name in JOINED)
