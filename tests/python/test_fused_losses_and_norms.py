"""Losses, logsumexp, variance, group norm and batch norm in generated kernels: values and gradients as near to fp64 as eager's, eager's errors, and that kernels ran."""

import copy
import math
import pathlib
import re
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import framefuse

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))
from compare import mismatch, widened  # noqa: E402

ROWS, CLASSES = 33, 71


def values_and_gradients(function, inputs):
    inputs = [t.clone().requires_grad_(t.is_floating_point()) for t in inputs]
    result = function(*inputs)
    # Unequal weights: the gradient of a plain sum of normalised numbers is 0.
    (result.double() * torch.linspace(0.5, 1.5, result.numel()).view(result.shape)).sum().backward()
    return [result.detach(), *(t.grad for t in inputs if t.grad is not None)]


def check(function, *inputs):
    """Compares with eager and fp64; returns what ran as ATen operators."""
    framefuse.reset()
    with framefuse.capture_logs("fusion") as records:
        got = values_and_gradients(framefuse.compile(function, fullgraph=True), inputs)
    assert any(text.startswith(("row", "column")) for _, text in records)
    eager = values_and_gradients(function, inputs)
    exact = values_and_gradients(function, [widened(t) for t in inputs])
    assert len(got) == len(eager)
    for g, e, x in zip(got, eager, exact):
        assert mismatch(g, e, x, roundings=8) == ""
    return " ".join(text for _, text in records if text.startswith(("ATen", "not fused")))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(dtype, reduction):
    torch.manual_seed(1)
    x, target = torch.randn(ROWS, CLASSES, dtype=dtype), torch.randint(0, CLASSES, (ROWS,))
    target[3] = -100
    assert "nll_loss" not in check(lambda x, t: F.cross_entropy(x, t, reduction=reduction), x, target)
    assert "nll_loss" not in check(lambda x, t: F.nll_loss(x, t, reduction=reduction), x, target)
    weight = torch.rand(CLASSES, dtype=dtype)
    weight[5] = 0
    assert "nll_loss" not in check(lambda x, t, w: F.cross_entropy(x, t, w.detach(), reduction=reduction), x, target, weight)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_of_one_row_of_none_and_of_infinite_rows(reduction):
    torch.manual_seed(6)
    for rows in (1, 2):
        x, target = torch.randn(rows, CLASSES), torch.randint(0, CLASSES, (rows,))
        check(lambda x, t: F.cross_entropy(x, t, reduction=reduction), x, target)
    x, target = torch.randn(6, CLASSES), torch.tensor([3, 3, 3, 4, -100, 9])
    x[0, 3], x[1, 4], x[2, 5], x[3] = -math.inf, math.inf, math.nan, -math.inf
    x[4, 3] = math.nan  # of a row that is ignored
    compiled = framefuse.compile(lambda x, t: F.cross_entropy(x, t, reduction=reduction), fullgraph=True)
    assert torch.allclose(compiled(x, target), F.cross_entropy(x, target, reduction=reduction), equal_nan=True)
    compiled = framefuse.compile(lambda x, t: F.nll_loss(x, t, reduction=reduction), fullgraph=True)
    assert torch.allclose(compiled(x, target), F.nll_loss(x, target, reduction=reduction), equal_nan=True)
    assert torch.allclose(compiled(x[:0], target[:0]), F.nll_loss(x[:0], target[:0], reduction=reduction), equal_nan=True)


def test_a_class_is_ignored():
    torch.manual_seed(2)
    x, target = torch.randn(ROWS, CLASSES), torch.randint(0, CLASSES, (ROWS,))
    target[::3] = 7
    assert "nll_loss" not in check(lambda x, t: F.cross_entropy(x * 2, t, ignore_index=7), x, target)


def test_an_ignored_target_is_no_class_of_fewer_bits():
    torch.manual_seed(2)
    ignored = 2**32 + 7
    x, target = torch.randn(ROWS, CLASSES), torch.randint(0, CLASSES, (ROWS,))
    target[::3] = ignored
    check(lambda x, t: F.cross_entropy(x * 2, t, ignore_index=ignored), x, target)


@pytest.mark.parametrize("reduce", [torch.mean, torch.sum, lambda x: x.softmax(-1).sum(-1).sum()], ids=["mean", "sum", "softmax"])
@pytest.mark.parametrize("shape", [(0,), (5, 0), (0, 5), (33, 2, 8, 0)], ids=str)
def test_gradients_of_tensors_without_elements(shape, reduce):
    x = torch.randn(shape, requires_grad=True)
    framefuse.compile(lambda x: reduce(torch.where(x > 1, x * 2, 0.0)), backend="fuse")(x).backward()
    assert x.grad.shape == x.shape


def test_a_row_of_no_elements_read_as_one_number():
    x = torch.randn(5, 1)
    function = framefuse.compile(lambda x, y: ((x.expand(5, 4)[:, 4:] * 2).sum(-1), (x.expand(5, 0) + y).sum(-1) + 1), backend="fuse")
    first, second = function(x, torch.randn(5, 0))
    assert torch.equal(first, torch.zeros(5)) and torch.equal(second, torch.ones(5))


def test_log_sigmoid_has_its_results_row_by_row():
    x = torch.randn(7, 5).t()
    eager, ours = F.logsigmoid(x), framefuse.compile(lambda x: F.logsigmoid(x), backend="fuse")(x)
    assert ours.stride() == eager.stride() and torch.allclose(ours, eager)


def test_all_targets_are_ignored():
    function = framefuse.compile(lambda x, t: F.cross_entropy(x, t), fullgraph=True)
    assert function(torch.randn(ROWS, CLASSES), torch.full((ROWS,), -100)).isnan()


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("wrong", [CLASSES, -1, 2**40])
def test_a_wrong_target_raises_as_in_eager(wrong, weighted, reduction):
    weight = torch.rand(CLASSES) if weighted else None

    def loss(x, t):
        return F.cross_entropy(x, t, weight, reduction=reduction)

    x, target = torch.randn(ROWS, CLASSES), torch.zeros(ROWS, dtype=torch.long)
    compiled = framefuse.compile(loss, fullgraph=True)
    assert torch.allclose(compiled(x, target), loss(x, target))
    target[5] = wrong
    with pytest.raises(IndexError) as eager:
        loss(x, target)
    with pytest.raises(IndexError) as ours:
        compiled(x, target)
    assert str(ours.value).splitlines()[0] == str(eager.value).splitlines()[0]


def test_targets_with_strides_and_a_square_of_classes():
    torch.manual_seed(3)
    check(lambda x, t: F.cross_entropy(x.float(), t[::2]), torch.randn(ROWS, CLASSES).bfloat16(), torch.randint(0, CLASSES, (2 * ROWS,)))
    check(lambda x, t: F.nll_loss(x, t), torch.randn(ROWS, ROWS), torch.randint(0, ROWS, (ROWS,)))
    check(lambda x, t: F.nll_loss(x.t(), t), torch.randn(CLASSES, ROWS), torch.randint(0, CLASSES, (ROWS,)))


def all_kinds_of_rows(dtype):
    x = torch.randn(8, CLASSES, dtype=dtype) * 3
    x[0], x[1], x[2, 7], x[3, 5], x[3, 6] = -math.inf, math.inf, math.inf, math.nan, math.inf
    x[4], x[4, 9], x[5], x[6, 2] = -math.inf, 1, 1e4, -math.inf
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_logsumexp(dtype):
    torch.manual_seed(7)
    x = torch.randn(ROWS, CLASSES, dtype=dtype)
    for dim in (-1, 0, (0, 1)):
        for keep in (False, True):
            assert "logsumexp" not in check(lambda x: torch.logsumexp(x, dim, keep), x)
    assert "logsumexp" not in check(lambda x: torch.logsumexp(x.view(3, 11, CLASSES).transpose(0, 1), (-1,)) * 2, x)
    x = all_kinds_of_rows(dtype)
    compiled = framefuse.compile(lambda x: (x.logsumexp(1), x.logsumexp(1, True)), fullgraph=True)
    for got, eager in zip(compiled(x), (x.logsumexp(1), x.logsumexp(1, True))):
        assert got.dtype == dtype and got.shape == eager.shape
        assert torch.allclose(got, eager, rtol=4 * torch.finfo(dtype).eps, equal_nan=True)
    assert compiled(x)[0][0] == -math.inf and compiled(x)[0][1] == math.inf and compiled(x)[0][3].isnan()
    assert compiled(x[:, :0])[0].tolist() == [-math.inf] * 8


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_variance_without_its_dimension(dtype):
    torch.manual_seed(8)
    x = torch.randn(ROWS, CLASSES, dtype=dtype) + 3
    assert "var" not in check(lambda x: x.var(-1), x)
    assert "var" not in check(lambda x: torch.stack(torch.var_mean(x, 0, correction=0)), x)


@pytest.mark.parametrize("shape, groups", [((2, 8, 5, 7), 4), ((3, 6, 11), 2), ((1, 4, 4, 4), 4), ((2, 6, 3, 4, 5), 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_group_norm(shape, groups, dtype):
    torch.manual_seed(4)
    x, w, b = torch.randn(shape, dtype=dtype) + 0.5, torch.randn(shape[1], dtype=dtype), torch.randn(shape[1], dtype=dtype)
    assert "native_group_norm" not in check(lambda x, w, b: F.silu(F.group_norm(x, groups, w, b)), x, w, b)
    check(lambda x: F.group_norm(x, groups), x)


def batch_norm(shape, **settings):
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[len(shape)]
    module = nn.Sequential(kind(shape[1], **settings), nn.ReLU())
    for t in [*module.parameters(), *module.buffers()]:
        if t.is_floating_point():
            nn.init.uniform_(t, 0.5, 2)
    return module


@pytest.mark.parametrize("shape", [(4, 5, 6, 7), (1, 3, 4, 4), (8, 5), (3, 4, 9), (2, 3, 2, 3, 4)])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("settings", [{}, {"affine": False}, {"track_running_stats": False}, {"momentum": 0.3}])
def test_batch_norm(shape, training, settings):
    torch.manual_seed(5)
    module = batch_norm(shape, **settings).train(training)
    x = torch.randn(shape) * 2 + 1
    ours, eager, exact = module, copy.deepcopy(module), copy.deepcopy(module).double()
    with framefuse.capture_logs("fusion") as records:
        results = [values_and_gradients(framefuse.compile(ours, fullgraph=True), [x])]
    results += [values_and_gradients(eager, [x]), values_and_gradients(exact, [x.double()])]
    for result, owner in zip(results, (ours, eager, exact)):
        result += [t.grad for t in owner.parameters()] + list(owner.buffers())
    for g, e, x in zip(*results):
        assert mismatch(g, e, x, roundings=8) == ""
    assert not any("batch_norm" in text for _, text in records)


def put(place, value):
    def function(x):
        x = x.clone()
        x[place] = value
        return x

    return function


IMAGES = {
    "noise": lambda x: x * 2 + 1,
    "far from zero": lambda x: x + 1000,
    "a first element far off": put((slice(None), slice(None), 0, 0), 300.0),
    "constant": lambda x: x * 0 + 3.3,
    "infinite at first": put((0, 2, 0, 0), torch.inf),
    "infinite in the middle": put((0, 2, 3, 1), -torch.inf),
    "not a number": put((0, 1, 0, 0), torch.nan),
}


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("data", IMAGES)
def test_batch_norm_whose_channels_lie_side_by_side(data, batch):
    """Its moments are made in one reading. Values, gradients and running statistics are as near to float64's as eager's are."""
    torch.manual_seed(6)
    module = batch_norm((2, 6, 1, 1))
    x = IMAGES[data](torch.randn(2, 6, 9, 7))[:batch].contiguous(memory_format=torch.channels_last)
    ours, eager, exact = module, copy.deepcopy(module), copy.deepcopy(module).double()
    with framefuse.capture_logs("fusion") as records:
        results = [values_and_gradients(framefuse.compile(ours, fullgraph=True), [x])]
    results += [values_and_gradients(eager, [x]), values_and_gradients(exact, [x.double()])]
    for result, owner in zip(results, (ours, eager, exact)):
        result += [t.grad for t in owner.parameters()] + list(owner.buffers())
    for got, e, x in zip(*results):
        if not e.isfinite().all():
            assert torch.allclose(got, e, rtol=1e-3, atol=1e-4, equal_nan=True)
        else:
            assert mismatch(got, e, x, roundings=16) == ""
    assert not any("batch_norm" in text for _, text in records)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_batch_norm_as_cudnn_is_called(layout):
    """The operator that a GPU's batch norm is recorded as, and its gradient."""
    torch.manual_seed(7)
    x = torch.randn(3, 5, 6, 4).contiguous(memory_format=layout)
    weight, bias = torch.randn(5), torch.randn(5)

    def program(x, weight, bias, mean, variance):
        return torch.ops.aten._batch_norm_with_update(x, weight, bias, mean, variance, 0.2, 1e-5)[:3]

    def outcome(function):
        mean, variance = torch.zeros(5), torch.ones(5)
        inputs = [t.clone().requires_grad_() for t in (x, weight, bias)]
        result = function(*inputs, mean, variance)
        return [*result, mean, variance, *torch.autograd.grad(result[0].square().sum() + result[0].sin().sum(), inputs)]

    with framefuse.capture_logs("fusion") as records:
        ours = outcome(framefuse.compile(program, fullgraph=True))
    for got, e in zip(ours, outcome(program), strict=True):
        assert torch.allclose(got, e, rtol=1e-4, atol=1e-5)
    assert not any("batch_norm" in text for _, text in records)


def loss_of_a_half(x, w, target):
    logits = x @ w
    return F.cross_entropy(logits.float().view(-1, w.shape[-1]), target, ignore_index=-100)


@pytest.mark.parametrize("classes", [1001, 4096])
def test_a_loss_saves_its_logits_alone(classes):
    """Two numbers a row beside them; log_softmax, as f32, is twice as large."""
    torch.manual_seed(11)
    x, w = (torch.randn(3, 16, 32) / 2).bfloat16(), torch.randn(32, classes).bfloat16()
    target = torch.randint(classes, (48,)).index_fill(0, torch.tensor([5, 40]), -100)
    with framefuse.capture_logs("aot", "fusion") as records:
        got = values_and_gradients(lambda x, w: framefuse.compile(loss_of_a_half, fullgraph=True)(x, w, target), [x, w])
    exact = values_and_gradients(lambda x, w: loss_of_a_half(x, w, target), [x.double(), w.double()])
    for a, e in zip(got, exact):
        assert (a.double() - e).norm() < 0.02 * e.norm()
    saved = re.search(r"(\d+) bytes of intermediates", "\n".join(text for _, text in records))
    assert saved is not None and int(saved.group(1)) < 48 * classes * 2 + 48 * 4 * 3
    kernels = [line for kind, line in records if kind == "fusion"]
    assert any(line.startswith("row: _to_copy, amax") for line in kernels)
    assert any(line.startswith("row: _to_copy, sub, sub, eq, where, sum, exp") for line in kernels)


def test_second_gradient_of_a_loss():
    def program(x, target):
        (gradient,) = torch.autograd.grad(F.cross_entropy(x, target), x, create_graph=True)
        return gradient.square().sum()

    torch.manual_seed(9)
    x, target = torch.randn(5, 7, dtype=torch.float64), torch.randint(7, (5,))
    got = values_and_gradients(lambda x: framefuse.compile(program)(x, target), [x])
    for a, e in zip(got, values_and_gradients(lambda x: program(x, target), [x])):
        torch.testing.assert_close(a, e)
    # The gradient of a compiled loss's gradient; values_and_gradients weighs one number with a half.
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(framefuse.compile(F.cross_entropy)(leaf, target), leaf, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(gradient.square().sum(), leaf)[0] / 2, got[1])


@pytest.mark.parametrize("shape, order", [((5, 7, 48), (1, 0, 2)), ((3, 5, 7, 48), (2, 0, 1, 3)), ((2, 300, 48), (1, 0, 2)), ((4, 48, 50), (0, 2, 1))])
def test_layer_norm_of_rows_in_another_order_than_their_gradients(shape, order):
    torch.manual_seed(7)
    x, scale, shift = torch.randn(shape), torch.randn(48), torch.randn(48)
    aten = check(lambda x, w, b: F.layer_norm(x.permute(order), (48,), w, b), x, scale, shift)
    assert "layer_norm" not in aten
    assert "not fused" not in aten


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dims", [(0, 2, 3), (1, 3), (0, 2), (-1, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_sums_over_dimensions_that_are_not_side_by_side(dtype, dims, memory_format):
    torch.manual_seed(8)
    x = torch.randn(3, 8, 5, 6, dtype=dtype).to(memory_format=memory_format)
    for keep in (False, True):
        assert "sum" not in check(lambda x: (x * 2).sum(dims, keepdim=keep), x)
        assert "mean" not in check(lambda x: (x * 2).mean(dims, keepdim=keep), x)
        assert "var" not in check(lambda x: (x * 2).var(dims, keepdim=keep), x)


def test_a_result_of_a_kernel_that_is_not_to_be_had_has_eagers_layout():
    """One group of a sum over the first dimension and of what goes over images in another order is no kernel."""

    def f(x):
        return torch.stack([x.sum(0), x.mean(0)]), F.logsigmoid(x)

    x = torch.randn(4, 3, 8, dtype=torch.float64).permute(2, 1, 0)
    with framefuse.capture_logs("fusion") as records:
        got = framefuse.compile(f, fullgraph=True)(x)
    assert any(text.startswith("not fused") for _, text in records)
    for g, e in zip(got, f(x)):
        torch.testing.assert_close(g, e)
        assert g.stride() == e.stride()
