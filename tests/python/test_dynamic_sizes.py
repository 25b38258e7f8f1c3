"""Symbolic sizes: one capture for many sizes, with eager's values, gradients, strides and numbers."""

import logging
import math

import framefuse
import pytest
import torch
import torch.nn.functional as F
from torch import nn


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    """Tests count captures, and functions compiled twice share what was captured of their code."""
    framefuse.reset()


def _flat(value):
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _flat(item)]
    if isinstance(value, dict):
        return _flat(list(value.items()))
    return [value]


def _outcome(function, inputs, backward):
    try:
        result = function(*inputs)
    except Exception as error:
        return [type(error), str(error)]
    flat = _flat(result)
    if backward:
        sum((t * t).sum() for t in flat if isinstance(t, torch.Tensor) and t.requires_grad).backward()
        flat += [t.grad for t in inputs]
    return flat


def _assert_same(expected, actual):
    assert len(expected) == len(actual)
    for e, a in zip(expected, actual):
        assert type(e) is type(a)
        if isinstance(e, torch.Tensor):
            assert (e.shape, e.stride(), e.dtype) == (a.shape, a.stride(), a.dtype)
            torch.testing.assert_close(a, e, equal_nan=True)
        else:
            assert e == a


def _captures(function, calls, backward=False, dynamic=None):
    """How many captures the calls took; each call gives what eager gives."""
    compiled = framefuse.compile(function, dynamic=dynamic)
    before = framefuse.statistics()["captures"]
    for sizes in calls:
        inputs = [torch.randn(*s) for s in sizes]
        copies = [t.clone().requires_grad_(backward) for t in inputs]
        inputs = [t.requires_grad_(backward) for t in inputs]
        _assert_same(_outcome(function, inputs, backward), _outcome(compiled, copies, backward))
    return framefuse.statistics()["captures"] - before


def _pointwise(x):
    return torch.relu(x * 2 + 1)


def _shapes(x):
    rows, columns = x.shape
    return x.view(rows * columns // 2, 2).softmax(-1), rows, columns + 1, [rows * 2, (columns,)], -rows


def _numbers(x):
    return x * x.shape[0] + torch.arange(x.size(0)).unsqueeze(-1), x.sum() / len(x), x.numel()


def _slices(x):
    half = x.shape[0] // 2
    return x[:half].sum(0), x[half:].t().contiguous(), x[-1], max(x.shape[0], 3), min(half, x.shape[1])


def _norm(x):
    return F.layer_norm(x, (x.shape[-1],)) + x.mean(0, keepdim=True)


def _factories(x):
    n = x.size(0)
    return torch.zeros(n, 2), torch.full((n,), 3.0), x.new_ones(n, n).triu(), torch.eye(4) @ x.reshape(4, -1)


def _losses(x):
    target = torch.arange(x.shape[0]) % x.shape[1]
    return F.cross_entropy(x, target), F.mse_loss(x, torch.zeros_like(x)), F.nll_loss(x.log_softmax(1), target)


_BATCHES = [[(n, 8)] for n in (5, 7, 9, 3, 64, 2, 12)]


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("function", [_pointwise, _shapes, _norm, _losses], ids=lambda f: f.__name__)
def test_the_second_capture_is_for_all_batches(function, backward):
    assert _captures(function, _BATCHES, backward) == 2


@pytest.mark.parametrize("function", [_pointwise, _shapes, _norm, _losses], ids=lambda f: f.__name__)
def test_one_capture_where_all_sizes_are_symbolic(function):
    assert _captures(function, _BATCHES, dynamic=True) == 1


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize(
    "function", [_pointwise, _shapes, _numbers, _slices, _norm, _factories, _losses], ids=lambda f: f.__name__
)
def test_any_size_gives_what_eager_gives(function, dynamic):
    # A size that a fact leaves out is captured for itself, or raises what eager raises.
    _captures(function, [[(n, m)] for n, m in [(4, 6), (8, 6), (1, 6), (0, 6), (5, 4), (2, 2), (7, 1), (12, 33)]], dynamic=dynamic)


def test_without_symbolic_sizes_each_size_is_captured():
    assert _captures(_pointwise, _BATCHES, dynamic=False) == len(_BATCHES)


def test_two_tensors_of_different_sizes():
    def f(x, y):
        return torch.cat([x, y], 0)[1:] * 2

    calls = [[(i, 8), (j, 8)] for i, j in [(5, 6), (7, 7), (2, 3), (4, 9), (30, 2)]]
    assert _captures(f, calls, dynamic=True) == 1
    assert _captures(f, calls, backward=True) == 2


def test_equal_sizes_are_needed_where_the_program_needs_them():
    def f(x, y):
        return x + y

    # (4, 1) is broadcast: another program.
    calls = [[(5, 8), (5, 8)], [(7, 8), (7, 8)], [(4, 8), (1, 8)], [(3, 8), (2, 8)], [(6, 8), (6, 8)]]
    _captures(f, calls, dynamic=True)


def test_sizes_that_are_at_most_each_other_are_equal():
    """As a library asks that a mask is neither longer nor shorter. Kernels that need equal sizes then take them, whatever they are."""

    table = torch.nn.Embedding(8, 8)

    def f(ids, mask):
        if mask.shape[1] - ids.shape[1] > 0:
            return ids.sum() * 1.0
        if mask.shape[1] < ids.shape[1]:
            return mask.sum() * 1.0
        following = torch.nn.functional.pad(ids, (0, 1), value=-100)[..., 1:].contiguous()
        return torch.nn.functional.cross_entropy(table(ids).view(-1, 8), following.view(-1))

    compiled, before = framefuse.compile(f), framefuse.statistics()["captures"]
    for n in range(5, 12):
        ids = torch.arange(2 * n).view(2, n) % 8
        results = [g(ids, torch.ones_like(ids)) for g in (f, compiled)]
        torch.testing.assert_close(*results)
        torch.testing.assert_close(*[torch.autograd.grad(r, table.weight)[0] for r in results])
    assert framefuse.statistics()["captures"] - before == 2


def test_a_branch_on_a_size_is_a_guard():
    def f(x):
        return x.sin() if x.shape[0] > 4 else x.cos()

    assert _captures(f, [[(n,)] for n in (5, 9, 3, 2, 30, 4)], dynamic=True) == 2


def test_a_loop_over_a_size_is_of_that_size():
    def f(x):
        return [x[i] * i for i in range(x.shape[0])]

    assert _captures(f, [[(n,)] for n in (2, 3, 4, 3, 2)], dynamic=True) == 3


def test_a_size_as_a_number_of_python():
    def f(x):
        n = x.shape[0]
        return f"{n}", {n: "key"}, n is None, isinstance(n, int), type(n), math.sqrt(n), hash((n, 2)), [0] * n, x.shape == (n, 2)

    _captures(f, [[(n, 2)] for n in (3, 5, 7, 300, 301)], dynamic=True)


def test_sizes_live_across_a_graph_break():
    def f(x):
        shape, n = x.shape, x.shape[0]
        y = x * 2
        framefuse.graph_break()
        return y + n, shape, [n, (n + 1,)]

    _captures(f, [[(n, 2)] for n in (3, 5, 7, 4)], dynamic=True)


def test_sizes_are_kept_in_objects_and_globals():
    class Box:
        pass

    box = Box()

    def f(x):
        box.size, box.shape = x.shape[0], x.shape
        return x + 1

    compiled = framefuse.compile(f, dynamic=True)
    before = framefuse.statistics()["captures"]
    for n in (3, 5, 300):
        compiled(torch.ones(n, 2))
        assert (box.size, box.shape, type(box.size), type(box.shape)) == (n, (n, 2), int, torch.Size)
    assert framefuse.statistics()["captures"] - before == 1


def test_errors_name_the_sizes_at_hand():
    def f(x):
        return x[5] + 1

    _captures(f, [[(n,)] for n in (3, 7, 4, 9, 5, 6)], dynamic=True)


def test_layouts():
    def f(x):
        return x.t() * 2, x.contiguous().view(-1), x.is_contiguous()

    compiled = framefuse.compile(f, dynamic=True)
    for n in (4, 6, 1, 9):
        for x in (torch.randn(n, 8), torch.randn(8, n).t(), torch.randn(n, 16)[:, ::2], torch.randn(n, 1).expand(n, 8)):
            _assert_same(_flat(f(x)), _flat(compiled(x)))


@pytest.mark.parametrize("mark", [framefuse.mark_dynamic, torch._dynamo.mark_dynamic])
def test_a_marked_dimension_is_symbolic_at_once(mark):
    compiled = framefuse.compile(_pointwise)
    before = framefuse.statistics()["captures"]
    for n in (5, 7, 9):
        x = torch.randn(n, 8)
        mark(x, 0)
        torch.testing.assert_close(compiled(x), _pointwise(x))
    assert framefuse.statistics()["captures"] - before == 1


@pytest.mark.compiles_nothing("it is about arguments")
def test_marks_are_checked():
    with pytest.raises(TypeError, match="takes a tensor"):
        framefuse.mark_dynamic(3, 0)
    with pytest.raises(IndexError, match="dimension 2"):
        framefuse.mark_dynamic(torch.ones(3, 4), 2)


class _Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).split(width, 2)
        q, k, v = (p.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).contiguous().view(batch, length, width)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.second(x))))


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_a_transformer_block_of_many_lengths_and_batches(train):
    torch.manual_seed(0)
    block = _Block(32, 4).train(train)
    compiled = framefuse.compile(block)
    before = framefuse.statistics()["captures"]
    for batch, length in [(2, 5), (2, 9), (4, 9), (3, 17), (2, 5), (5, 6), (2, 9)]:
        x = torch.randn(batch, length, 32)
        gradients = []
        for model in (block, compiled):
            block.zero_grad()
            y = model(x)
            y.square().mean().backward()
            gradients.append([y.detach(), *(p.grad.clone() for p in block.parameters())])
        for e, a in zip(*gradients):
            torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-5)
    assert framefuse.statistics()["captures"] - before == 3  # static, other lengths, other batches


def test_the_reason_for_another_capture_names_the_size(capfd):
    framefuse.set_logs(recompiles=True)
    try:
        compiled = framefuse.compile(lambda x: x.sin() if x.shape[0] > 4 else x.cos(), dynamic=True)
        compiled(torch.ones(5))
        compiled(torch.ones(3))
    finally:
        framefuse.set_logs(recompiles=False)
    assert "L['x'].size(0)" in capfd.readouterr().err


JOINED = {
    "parts of a shape": lambda x: x.reshape(x.shape[:-1] + x.shape[-1:]),
    "tuple before": lambda x: x.view((-1,) + x.shape[1:]),
    "equal shapes": lambda x: x + 1 if x.shape == (x * 2).shape else x,
    "no elements": lambda x: torch.cat([x.new_zeros(0), x]),
}


@pytest.mark.parametrize("name", JOINED)
def test_shapes_that_are_put_together_stay_symbolic(name):
    function = JOINED[name]
    compiled = framefuse.compile(function)
    before = framefuse.statistics()["captures"]
    for rows in (3, 5, 7, 9):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(x), function(x))
    assert framefuse.statistics()["captures"] - before == 2


def _graph_of(compiled, *arguments):
    """The text of the graph that a call has captured, and how many captures it took."""
    before = framefuse.statistics()["captures"]
    framefuse.set_logs(graph=True)
    handler = _Texts()
    logger = logging.getLogger("framefuse.graph")
    logger.addHandler(handler)
    try:
        compiled(*arguments)
    finally:
        logger.removeHandler(handler)
        framefuse.set_logs(graph=False)
    return "\n".join(handler.texts), framefuse.statistics()["captures"] - before


class _Texts(logging.Handler):
    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def test_what_differs_between_two_models_has_not_changed():
    # Both are called by torch's own code, where an entry of the other is found.
    first, second = nn.Sequential(nn.Linear(8, 4), nn.ReLU()), nn.Sequential(nn.Linear(16, 4), nn.ReLU())
    of_first, of_second = framefuse.compile(first), framefuse.compile(second)
    recompiles = framefuse.statistics()["recompiles"]
    for compiled, x in ((of_first, torch.randn(3, 8)), (of_second, torch.randn(5, 16))):
        text, captures = _graph_of(compiled, x)
        assert captures == 1
        assert "symbol" not in text
    assert framefuse.statistics()["recompiles"] == recompiles
    text, captures = _graph_of(of_second, torch.randn(6, 16))
    assert captures == 1
    assert "symbol s0 = 6" in text and "f32[s0, 16]" in text and "symbol s1" not in text


def test_parameters_of_other_sizes_are_other_modules():
    def f(layer, x):
        return torch.relu(layer(x))

    compiled = framefuse.compile(f)
    wide, narrow = nn.Linear(8, 4), nn.Linear(6, 4)
    torch.testing.assert_close(compiled(wide, X8), f(wide, X8))
    text, captures = _graph_of(compiled, narrow, torch.randn(3, 6))
    assert captures == 1
    assert "f32[4, 6]" in text


X8 = torch.randn(3, 8)


@pytest.mark.parametrize("dynamic", [None, True])
def test_convolutions_of_other_strides(dynamic):
    def f(layer, x):
        return torch.relu(layer(x))

    layers = [
        nn.Conv2d(4, 4, 3),
        nn.Conv2d(4, 4, 3, stride=2, padding=1),
        nn.Conv2d(4, 4, 3, stride=(1, 3), dilation=2, groups=2),
        nn.Conv2d(4, 4, 3, padding=(0, 2), bias=False),
        nn.ConvTranspose2d(4, 4, 3, stride=2, output_padding=1),
        nn.ConvTranspose2d(4, 4, 3, stride=3, padding=1),
    ]
    compiled = framefuse.compile(f, dynamic=dynamic, recompile_limit=32)
    before = framefuse.statistics()["eager_fallbacks"]
    for layer in layers:
        for size in (8, 9):
            x = torch.randn(2, 4, size, size + 1)
            torch.testing.assert_close(compiled(layer, x), f(layer, x))
    assert framefuse.statistics()["eager_fallbacks"] == before
