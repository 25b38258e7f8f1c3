"""FX backends that take symbolic sizes: one capture and one graph for all sizes, with eager's results and gradients."""

import framefuse
import pytest
import torch
import torch.nn.functional as F
from framefuse import _backends

SIZES = (5, 7, 4, 9, 3, 12, 2, 33)
graphs = []


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    monkeypatch.setattr(_backends, "_registered", {})
    monkeypatch.setattr(_backends, "_dynamic", [])
    graphs.clear()
    yield
    graphs.clear()


def run_graph(gm, examples):
    graphs.append((gm, examples))
    return gm.forward


def by_aot(gm, examples):
    """AOTAutograd, as inductor has it; the graphs that it makes are run as they are."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    graphs.append((gm, examples))
    return aot_autograd(fw_compiler=lambda graph, inputs: make_boxed_func(graph.forward))(gm, examples)


def by_make_fx(gm, examples):
    """A consumer that traces the graph once more, with the symbolic sizes."""
    from torch.fx.experimental.proxy_tensor import make_fx

    graphs.append((gm, examples))
    with torch.no_grad():
        return make_fx(lambda *inputs: gm.forward(*inputs), tracing_mode="real")(*examples).forward


def captures():
    return framefuse.statistics()["captures"]


def check(f, make, backend=run_graph, sizes=SIZES, dynamic=True, most=1, gradients=True, compilations=None):
    """Results and gradients are eager's at every size, by at most `most` captures and as many graphs."""
    framefuse.register_backend(backend, dynamic=True)
    compiled = framefuse.compile(f, backend=backend, dynamic=dynamic, fullgraph=True)
    before = captures()
    for size in sizes:
        results = []
        for call in (compiled, f):
            torch.manual_seed(size)
            inputs = make(size)
            for t in inputs:
                if gradients and isinstance(t, torch.Tensor) and t.is_floating_point():
                    t.requires_grad_()
            result = call(*inputs)
            of = [t for t in (result if isinstance(result, tuple) else (result,)) if isinstance(t, torch.Tensor) and t.requires_grad]
            if of:
                sum(t.square().sum() for t in of).backward()
            results.append((result, [t.grad for t in inputs if isinstance(t, torch.Tensor)]))
        torch.testing.assert_close(*results, rtol=0, atol=0) if backend is run_graph else torch.testing.assert_close(*results)
    assert captures() - before <= most
    assert len(graphs) <= (most if compilations is None else compilations)


def tensor(*shape):
    return torch.randn(*shape)


PROGRAMS = {
    "pointwise": (lambda x: (x * 2).sin() + 1, lambda n: (tensor(n, 3),)),
    "view": (lambda x: x.view(x.shape[0] * 2, -1).relu(), lambda n: (tensor(n, 4),)),
    "number beside a tensor": (lambda x: x * x.shape[0] + x.size(0) / 2, lambda n: (tensor(n, 4),)),
    "reciprocal": (lambda x: 1 / (x.abs() + 1) + x.shape[0] / (x.abs() + 1), lambda n: (tensor(n),)),
    "mean": (lambda x: x.sum(0) / x.shape[0], lambda n: (tensor(n, 4),)),
    "slices": (lambda x: x[1:] - x[:-1] + x[: x.shape[0] - 1], lambda n: (tensor(n, 4),)),
    "factory": (lambda x: x + torch.arange(x.shape[0])[:, None] * torch.ones(x.shape), lambda n: (tensor(n, 4),)),
    "linear": (lambda x, w: F.linear(x, w).softmax(-1), lambda n: (tensor(n, 4), tensor(6, 4))),
    "two sizes": (lambda x, y: x @ y, lambda n: (tensor(n, 4), tensor(4, n + 1))),
    "one size twice": (lambda x, y: torch.cat([x, y]).sum(0) + (x + y).sum(), lambda n: (tensor(n, 4), tensor(n, 4))),
    "broadcast": (lambda x, y: x + y, lambda n: (tensor(n, 1), tensor(1, n + 2))),
    "branch": (lambda x: x * 2 if x.shape[0] > 1 else x, lambda n: (tensor(n, 4),)),
    "padding": (lambda x: F.pad(x, (0, 8 - x.shape[1] % 8)), lambda n: (tensor(2, n),)),
    "attention": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), lambda n: (tensor(2, 2, n, 4),)),
    "interpolate": (lambda x: F.interpolate(x, size=(x.shape[2] * 2, 3)), lambda n: (tensor(1, 2, n, 3),)),
    "convolution": (lambda x, w: F.conv1d(x, w, padding=1).relu(), lambda n: (tensor(2, 3, n), tensor(4, 3, 3))),
    "norm": (lambda x, w: F.layer_norm(x, (4,), w), lambda n: (tensor(n, 4), tensor(4))),
    "expression": (lambda x: x.reshape(-1)[: max(x.numel() // 3, 2)] * min(x.shape[0], 10), lambda n: (tensor(n, 3),)),
    "roots": (lambda x: x * x.shape[0] ** -0.5, lambda n: (tensor(n, 3),)),
    "rows": (lambda x, i: x[i], lambda n: (tensor(n, 3), torch.arange(n) // 2)),
    "keywords": (lambda x: x.new_zeros((x.shape[0],)).fill_(2.0) + torch.full((x.shape[0],), fill_value=x.shape[0] * 1.5), lambda n: (tensor(n),)),
    "parts": (lambda x: tuple(t * 2 for t in x.split([2, x.shape[0] - 2])), lambda n: (tensor(n + 1, 2),)),
    "number out": (lambda x: (x + 1, x.shape[0] * 2), lambda n: (tensor(n, 2),)),
    "integer": (lambda x, n: x[:n] * n, lambda n: (tensor(n, 2), n - 1)),
    "written": (lambda x: x.clone().mul_(x.shape[0]).add_(1), lambda n: (tensor(n, 2),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_by_torch(name):
    check(*PROGRAMS[name], most=2)


@pytest.mark.parametrize("name", PROGRAMS)
def test_by_aot_autograd(name):
    check(*PROGRAMS[name], backend=by_aot, sizes=(5, 7, 4, 9), most=2)


@pytest.mark.parametrize("name", ["pointwise", "view", "mean", "slices", "linear", "broadcast", "expression"])
def test_by_another_tracer(name):
    check(*PROGRAMS[name], backend=by_make_fx, most=2, gradients=False)


def test_one_graph_for_all_sizes():
    check(lambda x: x.view(-1).tanh() * x.shape[0], lambda n: (tensor(n, 4),), dynamic=None, most=2)
    gm, examples = graphs[1]
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    assert [type(e) for e in examples] == [torch.SymInt, torch._subclasses.FakeTensor]
    assert all(node.meta["example_value"] is example for node, example in zip(placeholders, examples, strict=True))
    assert isinstance(examples[1].shape[0], torch.SymInt) and examples[1].shape[1] == 4
    assert any(placeholders[0] in node.all_input_nodes for node in gm.graph.nodes)


def test_what_changed_becomes_symbolic():
    check(lambda x, n: (x + 1).view(-1, 2) * n, lambda n: (tensor(n, 2), n), dynamic=None, most=3)


def test_sizes_of_nothing_and_one():
    f = lambda x: (x * 2).sum(0) + x.shape[0]  # noqa: E731
    check(f, lambda n: (tensor(n, 4),), sizes=(5, 0, 1, 7, 0, 1, 2), most=3, compilations=3)


def test_a_backend_that_decides_by_a_size():
    """torch's ShapeEnv notes it; for sizes on the other side of the decision the backend is called again, not the capture."""
    chosen = []

    def deciding(gm, examples):
        graphs.append((gm, examples))
        large = bool(examples[0] > 6)
        chosen.append(large)

        def run(*inputs):
            assert (inputs[0] > 6) == large
            return gm.forward(*inputs)

        return run

    check(lambda x: x.relu() + 1, lambda n: (tensor(n, 2),), backend=deciding, compilations=2)
    assert sorted(chosen) == [False, True]


def test_a_backend_that_changes_its_graph():
    def changing(gm, examples):
        graphs.append((gm, examples))
        size = int(examples[0])  # a graph for this size only
        result = gm.forward

        def run(*inputs):
            assert inputs[0] == size
            return result(*inputs)

        for node in gm.graph.nodes:
            node.meta.clear()
        return run

    check(lambda x: x.relu() + 1, lambda n: (tensor(n, 2),), backend=changing, sizes=(5, 7, 5, 7, 9), compilations=3)


def test_a_backend_that_fails_for_other_sizes():
    def failing(gm, examples):
        graphs.append((gm, examples))
        if int(examples[0]) != 5:
            raise KeyError("no kernel")
        return gm.forward

    framefuse.register_backend(failing, dynamic=True)
    compiled = framefuse.compile(lambda x: x + 1, backend=failing, dynamic=True)
    assert torch.equal(compiled(torch.ones(5)), torch.full((5,), 2.0))
    with pytest.raises(framefuse.BackendError, match="'failing' raised KeyError"):
        compiled(torch.ones(6))
    assert torch.equal(compiled(torch.ones(5)), torch.full((5,), 2.0))


def test_inputs_that_share_memory():
    def f(x, y):
        x.mul_(2)
        return x + y

    framefuse.register_backend(by_aot, dynamic=True)
    compiled = framefuse.compile(f, backend=by_aot, dynamic=True)
    for n in (5, 7, 9, 5):
        results = []
        for call in (compiled, f):
            base = torch.arange(2.0 * n)
            results.append((call(base[:n], base[: n]), base))
        torch.testing.assert_close(*results)


def test_without_dynamic_a_graph_for_each_size():
    framefuse.register_backend(run_graph)
    compiled = framefuse.compile(lambda x: x + x.shape[0], backend="run_graph", dynamic=True)
    for n in (5, 7, 9):
        assert torch.equal(compiled(torch.ones(n)), torch.ones(n) + n)
    assert [tuple(examples[0].shape) for _, examples in graphs] == [(5,), (7,), (9,)]


def test_dynamic_false():
    framefuse.register_backend(run_graph, dynamic=True)
    compiled = framefuse.compile(lambda x: x + x.shape[0], backend=run_graph, dynamic=False)
    for n in (5, 7):
        assert torch.equal(compiled(torch.ones(n)), torch.ones(n) + n)
    assert [len(examples) for _, examples in graphs] == [1, 1]


def test_a_float_that_changes_is_compared():
    check(lambda x, rate: x * rate, lambda n: (tensor(n), 0.5 if n < 6 else 0.25), most=2)
