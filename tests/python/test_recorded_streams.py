"""Nothing is compiled while the user records the stream (torch.cuda.graph): the constants that a compilation computes
would be recorded instead. What is not compiled yet runs as Python or operator by operator, says so, and is compiled later.

Whether a stream is recorded is asked of a probe; on the CPU the tests answer for it.
"""

import warnings

import framefuse
import pytest
import torch
from torch.utils.checkpoint import checkpoint

from framefuse import _cuda_graphs

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
_X = torch.linspace(-1, 1, 24).view(4, 6)


class _Stream:
    recorded = False


@pytest.fixture
def stream():
    fake = _Stream()
    framefuse._C.set_recording_probe(lambda: fake.recorded)
    framefuse.reset()
    yield fake
    framefuse._C.set_recording_probe(_cuda_graphs.is_recorded)
    framefuse.reset()
    torch._dynamo.reset()


def _compilations(records):
    return sum(name == "output_code" for name, _ in records)


def test_a_first_call_runs_as_python_and_says_so(stream):
    def f(x):
        return x.sin() * 2 + torch.arange(6) * 0.5

    compiled = framefuse.compile(f)
    stream.recorded = True
    with pytest.raises(framefuse.Unsupported, match="its CUDA stream is being recorded"):
        framefuse.compile(f, fullgraph=True)(_X)
    framefuse.reset()
    before = framefuse.statistics()["eager_fallbacks.recorded_stream"]
    with framefuse.capture_logs("fallbacks", "graph") as records:
        with pytest.warns(RuntimeWarning, match=r"f \(.*test_recorded_streams.py:\d+\) runs as Python: its CUDA stream is being recorded"):
            torch.testing.assert_close(compiled(_X), f(_X))
        with warnings.catch_warnings():  # once
            warnings.simplefilter("error")
            torch.testing.assert_close(compiled(_X), f(_X))
    assert [name for name, _ in records] == ["fallbacks"]
    assert framefuse.statistics()["eager_fallbacks.recorded_stream"] == before + 2
    stream.recorded = False
    with framefuse.capture_logs("graph") as records:
        torch.testing.assert_close(compiled(_X), f(_X))
    assert len(records) == 1
    stream.recorded = True
    with framefuse.capture_logs("graph_breaks") as records:
        torch.testing.assert_close(compiled(_X), f(_X))
    assert records == []


def test_stances_come_first(stream):
    compiled = framefuse.compile(lambda x: x + 1)
    compiled(_X)
    stream.recorded = True
    with framefuse.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="recompilation of"):
        compiled(_X.double())


@pytest.mark.parametrize("backend", ["aten", "fuse"])
def test_a_backward_that_was_not_asked_for_before(stream, backend):
    def f(x, w):
        return (x * w).tanh() * torch.arange(6) + w.exp()

    compiled = framefuse.compile(f, fullgraph=True, backend=backend)

    def gradients(function, wanted):
        x, w = _X.clone().requires_grad_(), _X.cos().requires_grad_()
        return torch.autograd.grad(function(x, w).sum(), (x, w)[wanted:])

    gradients(compiled, 0)
    stream.recorded = True
    with framefuse.capture_logs("output_code") as records:
        for _ in range(2):
            torch.testing.assert_close(gradients(compiled, 1), gradients(f, 1))
    assert _compilations(records) == 0
    stream.recorded = False
    with framefuse.capture_logs("output_code") as records:
        torch.testing.assert_close(gradients(compiled, 1), gradients(f, 1))
    assert (_compilations(records) > 0) == (backend == "fuse")


@pytest.mark.compiles_nothing("one operator is called by hand")
def test_a_branch_that_is_not_compiled_any_more(stream):
    """Branches are compiled with the graph that they are of; only the last 4,096 are kept."""
    branch = """graph "branch" functional
input %0: f32[4, 6] argument
%1: f32[4, 6] = aten.sin(%0)
%2: f32[4, 6] = aten.mul.Tensor(%1, %0)
output %2 user
"""
    for recorded in (True, False):
        stream.recorded = recorded
        with framefuse.capture_logs("output_code") as records:
            (got,) = torch.ops.framefuse.cond(torch.tensor(True), branch, branch, [_X], backend="fuse")
        torch.testing.assert_close(got, _X.sin() * _X)
        assert (_compilations(records) == 0) == recorded


def test_a_checkpoint_is_computed_again(stream):
    def f(x):
        return checkpoint(lambda x: (x * 3).sigmoid().exp(), x.sin(), use_reentrant=False).sum()

    compiled = framefuse.compile(f, fullgraph=True)
    results = []
    for function in (compiled, f):
        stream.recorded = False
        x = _X.clone().requires_grad_()
        loss = function(x)
        stream.recorded = True
        with framefuse.capture_logs("output_code") as records:
            loss.backward()
        assert _compilations(records) == 0
        results.append(x.grad)
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("dynamic", [False, True])
def test_as_the_backend_of_torch_compile(stream, dynamic):
    def f(x):
        return x.sin() * 2 + torch.arange(6) * 0.5

    compiled = torch.compile(f, backend="framefuse", dynamic=dynamic)
    for recorded in (True, False, True):
        stream.recorded = recorded
        with framefuse.capture_logs("output_code") as records:
            torch.testing.assert_close(compiled(_X), f(_X))
        assert recorded == (_compilations(records) == 0)


def test_a_probe_that_fails_records_nothing(stream):
    def broken():
        raise ValueError("no answer")

    framefuse._C.set_recording_probe(broken)
    compiled = framefuse.compile(lambda x: x + 1)
    assert torch.equal(compiled(_X), _X + 1) and not framefuse._C.is_stream_recorded()


@on_gpu
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("entry", ["framefuse", "torch"])
def test_a_first_call_in_a_cuda_graph(entry, mode):
    def f(x):
        return x.sin() * 2 + torch.arange(4, device="cuda") * 2

    framefuse.reset()
    torch._dynamo.reset()
    compiled = framefuse.compile(f, mode=mode) if entry == "framefuse" else torch.compile(f, backend="framefuse", options={"mode": mode})
    x, graph = torch.ones(4, device="cuda"), torch.cuda.CUDAGraph()
    f(x)
    assert not framefuse._C.is_stream_recorded()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.cuda.graph(graph):
            assert framefuse._C.is_stream_recorded()
            recorded = compiled(x)
    for _ in range(4):  # nothing was replayed: what was computed while it was recorded has no values
        torch.testing.assert_close(compiled(x), f(x))
    x.copy_(torch.full((4,), 3.0, device="cuda"))
    graph.replay()
    torch.testing.assert_close(recorded, f(x))


@on_gpu
@pytest.mark.parametrize("sizes", [(4104,), (64, 4104)])
def test_unaligned_memory_first_met_in_a_cuda_graph(sizes):
    def f(*tensors):
        return [t.sin() * 2 for t in tensors]

    compiled, graph = framefuse.compile(f, fullgraph=True), torch.cuda.CUDAGraph()
    compiled(*(torch.randn(n, device="cuda") for n in sizes))
    tensors = [torch.randn(n + 1, device="cuda")[1:] for n in sizes]
    with framefuse.capture_logs("fusion") as records:
        with torch.cuda.graph(graph):
            recorded = compiled(*tensors)
    assert not any("given up" in text for _, text in records)
    for t in tensors:
        t.copy_(torch.randn_like(t))
    graph.replay()
    torch.testing.assert_close(recorded, f(*tensors))
    torch.testing.assert_close(compiled(*tensors), f(*tensors))


@on_gpu
def test_a_backward_first_asked_for_in_a_cuda_graph():
    def f(x, w):
        return ((x * w).tanh() * torch.arange(6, device="cuda") + w.exp()).sum()

    compiled, graph = framefuse.compile(f, fullgraph=True), torch.cuda.CUDAGraph()
    x, w = _X.cuda().requires_grad_(), _X.cos().cuda().requires_grad_()
    side = torch.cuda.Stream()  # torch's engine runs a backward on the streams of its forward
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            torch.autograd.grad(compiled(x, w), (x, w))
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        recorded = torch.autograd.grad(compiled(x, w), w)
    with torch.no_grad():
        x.copy_(_X.cuda() * 2)
    torch.testing.assert_close(torch.autograd.grad(compiled(x, w), w), torch.autograd.grad(f(x, w), w))
    graph.replay()
    torch.testing.assert_close(recorded, torch.autograd.grad(f(x, w), w))
