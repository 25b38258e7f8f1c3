"""mode="reduce-overhead": plans replayed as CUDA graphs compute what eager computes, and overwrite nothing that somebody holds.

What needs a GPU is skipped without one; tests/runtime/cuda_graph_executable_test.cpp has the same questions without.
"""

import copy
import gc
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import framefuse
from framefuse import _cuda_graphs

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
ENTRIES = ["framefuse", "torch", "torch_options"]


def compiled(function, entry="framefuse", **settings):
    if entry == "framefuse":
        return framefuse.compile(function, mode="reduce-overhead", **settings)
    if entry == "torch":
        return torch.compile(function, backend="framefuse", mode="reduce-overhead", dynamic=False)
    return torch.compile(function, backend="framefuse", options={"mode": "reduce-overhead"}, dynamic=False)


@pytest.fixture(autouse=True)
def fresh_state():
    before = nn.Module.__init__, nn.Module.__setstate__
    torch.manual_seed(0)
    framefuse.reset()
    yield
    framefuse.reset()
    torch._dynamo.reset()
    nn.Module.__init__, nn.Module.__setstate__ = before


@pytest.fixture
def counts(monkeypatch):
    """How often a recording was made and replayed."""
    seen = {"recorded": 0, "replayed": 0}

    def counted(name, key):
        original = getattr(_cuda_graphs.Recording, name)

        def method(self):
            seen[key] += 1
            return original(self)

        monkeypatch.setattr(_cuda_graphs.Recording, name, method)

    counted("end", "recorded")
    counted("replay", "replayed")
    return seen


def tensor(*sizes, **facts):
    return torch.randn(*sizes, device="cuda", **facts)


def close(got, expected):
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def mlp():
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8))


def test_work_on_the_host_says_why_it_is_not_recorded():
    with framefuse.capture_logs("fusion") as records:
        call = framefuse.compile(lambda x: x.sin() + 1, mode="reduce-overhead")
        x = torch.randn(4)
        for _ in range(4):
            close(call(x), x.sin() + 1)
    assert [text for _, text in records if "CUDA graph" in text] == ["no CUDA graph: the work is on cpu"]


def test_settings_of_torch_compile():
    f, x = (lambda x: x.sin() + 1), torch.randn(4)
    for entry in ("torch", "torch_options"):
        with framefuse.capture_logs("fusion") as records:
            close(compiled(f, entry)(x), f(x))
        assert any(text.startswith("no CUDA graph") for _, text in records)
        torch._dynamo.reset()
    with pytest.raises(Exception, match="has no mode 'fast'"):
        torch.compile(f, backend="framefuse", options={"mode": "fast"})(x)


@on_gpu
@pytest.mark.parametrize("entry", ENTRIES)
def test_inference(entry, counts):
    model = mlp().cuda()
    call = compiled(model, entry)
    held = []
    with torch.no_grad():
        for _ in range(10):
            x = tensor(16, 32)
            held.append((call(x), model(x)))
    # Inputs may lie where others lay before: then a recording reads them there, and is made again when they do not.
    assert 1 <= counts["recorded"] <= 4 and counts["replayed"] >= 3
    for got, expected in held:
        close(got, expected)


@on_gpu
@pytest.mark.parametrize("entry", ENTRIES)
def test_training(entry, counts):
    ours = mlp().cuda()
    eager = copy.deepcopy(ours)
    call = compiled(ours, entry)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (ours, eager)]
    losses = []
    for _ in range(12):
        x = tensor(16, 32)
        row = []
        for optimizer, module in zip(optimizers, (call, eager)):
            optimizer.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            optimizer.step()
            row.append(loss)
        losses.append(row)
    for got, expected in losses:
        close(got, expected)
    close(list(ours.state_dict().values()), list(eager.state_dict().values()))
    assert counts["recorded"] >= 2 and counts["replayed"] >= 8


@on_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("entry", ENTRIES)
def test_attention(entry, dtype, counts):
    def f(x, w):
        q, k, v = (x @ w).view(2, 32, 3, 4, 32).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 32, 128)

    call, w = compiled(f, entry), (tensor(128, 384) / 8).to(dtype).requires_grad_()
    for _ in range(10):
        x = tensor(2, 32, 128).to(dtype)
        got, expected = call(x, w), f(x, w)
        torch.testing.assert_close(got, expected, rtol=1e-2, atol=1e-2)
        gradients = [torch.autograd.grad(y.float().square().sum(), w)[0].float() for y in (got, expected)]
        assert (gradients[0] - gradients[1]).abs().max() <= 2e-2 * gradients[1].abs().max()
    assert counts["replayed"] >= 2  # how many depends on when addresses come back


@on_gpu
@pytest.mark.parametrize("entry", ENTRIES)
def test_gradients_are_held_over_later_steps(entry, counts):
    weight = tensor(64, 64, requires_grad=True)
    call = compiled(lambda x, w: F.layer_norm(torch.tanh(x @ w), (64,)), entry)
    held = []
    for _ in range(10):
        x = tensor(8, 64)
        (gradient,) = torch.autograd.grad(call(x, weight).square().sum() + call(x + 1, weight).sum(), weight)
        y = lambda x: F.layer_norm(torch.tanh(x @ weight), (64,))
        (expected,) = torch.autograd.grad(y(x).square().sum() + y(x + 1).sum(), weight)
        held.append((gradient, expected))
    for gradient, expected in held:
        torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-3)
    assert counts["replayed"] > 0


@on_gpu
def test_several_forwards_before_their_backwards(counts):
    w = tensor(32, 32, requires_grad=True)
    f = lambda x: F.gelu(x @ w).softmax(-1).square()
    call = compiled(f)
    for _ in range(6):
        xs = [tensor(4, 32) for _ in range(5)]
        outputs = [call(x) for x in xs]
        got = [torch.autograd.grad(out.sum(), w, retain_graph=i == 0)[0] for i, out in enumerate(outputs)]
        again = torch.autograd.grad(outputs[0].sum(), w)[0]
        expected = [torch.autograd.grad(f(x).sum(), w)[0] for x in xs]
        close([*got, again], [*expected, expected[0]])
    assert counts["replayed"] > 0


@on_gpu
def test_random_numbers_are_eagers(counts):
    def f(x):
        return F.dropout(x, 0.3) + torch.rand_like(x)

    call, x, results = compiled(f), tensor(64, 64), []
    for function in (call, f):
        torch.manual_seed(7)
        results.append([function(x) for _ in range(8)] + [torch.rand(4, device="cuda")])
    assert counts["replayed"] >= 4
    for got, expected in zip(*results):
        close(got, expected)


@on_gpu
@pytest.mark.parametrize("kind", ["FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION"])
def test_dropout_of_attention_is_eagers(counts, kind):
    """Its seeds are on the host, or on the device where the forward was recorded: the backward is not yet when the forward is."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    w = tensor(64, 64, dtype=torch.bfloat16, requires_grad=True)

    def f(x):
        heads = (x @ w).unflatten(-1, (4, 16)).transpose(1, 2)
        return F.scaled_dot_product_attention(heads, heads, heads, dropout_p=0.25) * 2

    call, x, results = compiled(f), tensor(2, 128, 64, dtype=torch.bfloat16), []
    with sdpa_kernel(getattr(SDPBackend, kind)):
        for function in (call, f):
            torch.manual_seed(7)
            results.append([])
            for _ in range(12):
                out = function(x)
                results[-1] += [out.detach(), *torch.autograd.grad(out, w, torch.ones_like(out))]
    for got, expected in zip(*results):
        assert (got - expected).norm() < 0.03 * expected.norm()  # other numbers drawn: about the norm itself
    assert counts["replayed"] >= 12 or kind == "CUDNN_ATTENTION"  # which is not recorded


@on_gpu
def test_running_statistics_and_buffers_written_in_place(counts):
    ours = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).cuda()
    eager = copy.deepcopy(ours)
    call = compiled(ours)
    with torch.no_grad():
        for _ in range(10):
            x = tensor(4, 3, 16, 16)
            close(call(x), eager(x))
    close(list(ours.buffers()), list(eager.buffers()))
    assert counts["replayed"] >= 4


@on_gpu
def test_other_sizes_layouts_and_addresses():
    f = lambda x, y: F.softmax(x * y, -1) + x
    call = compiled(f)
    for _ in range(3):
        for n in (1, 7, 64, 130):
            x, y = tensor(n, 33), tensor(33, n).t()
            for pair in ((x, y), (y, x), (x[:, 1:], y[:, 1:]), (x.expand(3, n, 33), y)):
                close(call(*pair), f(*pair))


@on_gpu
def test_work_of_other_streams_and_threads(counts):
    f = lambda x, w: torch.relu(x @ w) @ w
    call = compiled(f)
    w = tensor(256, 256) / 16
    call(tensor(64, 256), w)
    wrong = []

    def work(seed):
        generator = torch.Generator("cuda").manual_seed(seed)
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
            held = []
            for _ in range(30):
                x = torch.randn(64, 256, device="cuda", generator=generator)
                held.append((call(x, w), f(x, w)))
            torch.cuda.current_stream().synchronize()
            wrong.extend(1 for got, expected in held if not torch.allclose(got, expected, rtol=1e-3, atol=1e-3))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@on_gpu
def test_under_the_users_own_recording(counts):
    f = lambda x: F.gelu(x) * 2 + x.sum()
    call, x = compiled(f), tensor(128)
    for _ in range(4):
        call(x)
    before = dict(counts)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call(x)
    assert counts == before
    x.copy_(tensor(128))
    graph.replay()
    close(out, f(x))


@on_gpu
def test_a_memory_that_was_exported_stays():
    call = compiled(lambda x: x * 2 + 1)
    exported = []
    for i in range(8):
        x = torch.full((32,), float(i), device="cuda")
        exported.append((torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(call(x))), 2.0 * i + 1))
    for view, value in exported:
        assert view.eq(value).all()


@on_gpu
def test_what_waits_for_the_device_is_not_recorded(counts):
    f = lambda x: x[x > 0].sum() + x.nonzero().shape[0]
    call = framefuse.compile(f, mode="reduce-overhead")
    for _ in range(5):
        x = tensor(100)
        close(call(x), f(x))
    g = lambda x: torch.linalg.inv(x) + 1
    call = framefuse.compile(g, mode="reduce-overhead")
    for _ in range(5):
        x = tensor(8, 8) + 10 * torch.eye(8, device="cuda")
        close(call(x), g(x))


@on_gpu
def test_a_recording_that_fails_leaves_everything_usable(monkeypatch, counts):
    """Waits for the device while it is recorded, as an operator may that is not known to."""
    begin = _cuda_graphs.begin

    def spoiled(device):
        recording = begin(device)
        try:
            torch.ones(1, device="cuda").item()
        except Exception:
            pass
        return recording

    framefuse._C.set_graph_recorder(spoiled, _cuda_graphs.carries)
    try:
        f = lambda x: F.dropout(x, 0.5) + x.exp()
        call, x, results = compiled(f), tensor(64), []
        with framefuse.capture_logs("fusion") as records:
            for function in (call, f):
                torch.manual_seed(3)
                results.append([function(x) for _ in range(6)])
        close(*results)
        assert counts["replayed"] == 0
        assert any(text.startswith("no CUDA graph") for _, text in records)
    finally:
        framefuse._C.set_graph_recorder(begin, _cuda_graphs.carries)
    # Both go on: torch's generator, and recordings of others.
    torch.rand(4, device="cuda")
    g = lambda x: F.dropout(x, 0.5) * 3
    call, results = compiled(g), []
    for function in (call, g):
        torch.manual_seed(4)
        results.append([function(x) for _ in range(6)])
    close(*results)
    assert counts["replayed"] >= 3


@on_gpu
def test_recordings_give_their_memory_back():
    w = tensor(1024, 1024)

    def once():
        call = compiled(lambda x: torch.relu(x @ w) @ w)
        with torch.no_grad():
            for _ in range(8):
                call(tensor(1024, 1024))
        framefuse.reset()

    once()
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    for _ in range(5):
        once()
        gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= before + (4 << 20)
