"""Who else looks at operations, or runs in the place of the caller, gets what the Python code does: torch.jit, torch.export,
torch.fx, torch.compile, torch.func, modes, workers and threads around compiled functions and modules."""

import threading

import framefuse
import pytest
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.fc(x)) + 1


def plain(x):
    return torch.sin(x) * 2 + x.sum()


@pytest.fixture
def x():
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture(params=["not called before", "called before"])
def compiled(request, x):
    torch.manual_seed(0)
    framefuse.reset()  # all modules share the code of their calls, and its limit
    function, module = framefuse.compile(plain), framefuse.compile(Net())
    if request.param == "called before":
        function(x), module(x)
    return function, module


# ---------------------------------------------------------------- torch.jit

# Each of these ended in a signal, or in an internal assertion of torch's.
TRACES = {
    "module": "torch.jit.trace(module, x)(x + 1), net(x + 1)",
    "module that requires grad": "torch.jit.trace(module, x.clone().requires_grad_())(x + 1), net(x + 1)",
    "method": "torch.jit.trace_module(module, {'forward': x})(x + 1), net(x + 1)",
    "submodule": "torch.jit.trace(nn.Sequential(module, nn.ReLU()), x)(x + 1), net(x + 1).relu()",
    "function": "torch.jit.trace(function, x)(x + 1), plain(x + 1)",
    "inner function": "torch.jit.trace(lambda x: function(x) + 1, x)(x + 1), plain(x + 1) + 1",
    "in captured code": "framefuse.compile(lambda x: torch.jit.trace(plain, x)(x + 1))(x), plain(x + 1)",
}

PROGRAM = """
import torch, framefuse
from torch import nn
def plain(x):
    return torch.sin(x) * 2 + x.sum()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
    def forward(self, x):
        return torch.relu(self.fc(x)) + 1
net, x = Net(), torch.randn(3, 4)
function, module = framefuse.compile(plain), framefuse.compile(net)
if {warm}:
    function(x), module(x)
with framefuse.capture_logs("graph_breaks") as records:
    {do}
print(sum("torch.jit.trace" in text.splitlines()[1] for _, text in records))
assert not torch.jit.is_tracing()
torch.testing.assert_close(function(x), plain(x))
torch.testing.assert_close(module(x), net(x))
"""


@pytest.mark.compiles_nothing("runs in a process of its own")
@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("case", TRACES)
def test_jit_trace(fresh_python, case, warm):
    told = fresh_python(PROGRAM.format(warm=warm, do=f"torch.testing.assert_close(*({TRACES[case]}))"))
    assert int(told) > 0 or case == "in captured code"


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_onnx_export(fresh_python):
    fresh_python(
        PROGRAM.format(
            warm=False,
            do="""
    import io
    try:
        torch.onnx.export(module, (x,), io.BytesIO(), dynamo=False)
    except torch.onnx.errors.OnnxExporterError as error:  # all is done by then but the file
        assert "onnx is not installed" in str(error)
""",
        )
    )


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_a_traced_graph_has_the_operators_of_the_code(fresh_python):
    told = fresh_python(PROGRAM.format(warm=True, do="graph = str(torch.jit.trace(module, x).inlined_graph)\n    print(graph)"))
    for name in ("aten::linear", "aten::relu", "aten::add"):
        assert name in told


def test_jit_script(compiled, x):
    function, module = compiled
    torch.testing.assert_close(torch.jit.script(function)(x), plain(x))
    torch.testing.assert_close(torch.jit.script(module)(x), module._orig_mod(x))
    torch.testing.assert_close(function(x), plain(x))


@pytest.mark.compiles_nothing("about the object that compile returns, which is not called")
def test_a_script_module_stays_one(x):
    scripted = torch.jit.script(Net())
    torch.testing.assert_close(framefuse.compile(scripted)(x), scripted(x))


# ---------------------------------------------------------------- other tracers


def test_export(compiled, x):
    _, module = compiled
    program = torch.export.export(module, (x,))
    torch.testing.assert_close(program.module()(x + 1), module._orig_mod(x + 1))
    assert torch.ops.aten.linear.default in [node.target for node in program.graph.nodes]


def test_fx(compiled, x):
    function, module = compiled
    torch.testing.assert_close(torch.fx.symbolic_trace(module)(x + 1), module._orig_mod(x + 1))
    torch.testing.assert_close(torch.fx.symbolic_trace(lambda x: function(x))(x + 1), plain(x + 1))


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx(compiled, x, mode):
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(compiled[0], tracing_mode=mode)(x)
    torch.testing.assert_close(graph(x + 1), plain(x + 1))
    assert torch.ops.aten.sin.default in [node.target for node in graph.graph.nodes]


def test_torch_compile_of_and_around_and_inside(compiled, x):
    function, module = compiled
    torch.testing.assert_close(torch.compile(function, backend="eager")(x), plain(x))
    torch.testing.assert_close(torch.compile(module, backend="eager")(x), module._orig_mod(x))
    torch.testing.assert_close(torch.compile(lambda x: function(x) + 1, backend="eager")(x), plain(x) + 1)
    inner = torch.compile(plain, backend="eager")
    torch.testing.assert_close(framefuse.compile(lambda x: inner(x) + 1)(x), plain(x) + 1)


# ---------------------------------------------------------------- torch.func, modes


def test_functions_of_torch_func(compiled, x):
    function, module = compiled
    for transform in (
        lambda f: torch.func.grad(lambda x: f(x).sum()),
        lambda f: torch.func.vmap(f),
        lambda f: lambda x: torch.func.jvp(f, (x,), (x,)),
        torch.func.jacrev,
        torch.func.jacfwd,
    ):
        torch.testing.assert_close(transform(function)(x), transform(plain)(x))
        torch.testing.assert_close(transform(module)(x), transform(module._orig_mod)(x))
    torch.testing.assert_close(function(x), plain(x))


@pytest.mark.parametrize("name", ["vmap", "grad", "functionalize"])
def test_what_runs_eagerly_inside_of_a_transform_is_told_of(x, name):
    transform = getattr(torch.func, name)

    def inner(row):
        return (row.sin() * row).sum()

    def f(x):
        return transform(lambda row: inner(row))(x) + 1

    with framefuse.capture_logs("graph_breaks") as records:
        torch.testing.assert_close(framefuse.compile(f)(x if name == "vmap" else x[0]), f(x if name == "vmap" else x[0]))
    intercepted = [text for artifact, text in records if artifact == "graph_breaks" and "a torch.func transform" in text]
    # Those that are captured, are captured with what they call.
    told = ["<lambda>"] if name == "functionalize" else []
    assert [text.split(":")[1].split(" in ")[1] for text in intercepted] == told


def test_functional_call_under_transforms(compiled, x):
    module = compiled[1]
    parameters = {name: p.detach() * 2 for name, p in module.named_parameters()}

    def loss(parameters, of):
        return torch.func.functional_call(of, parameters, x).sum()

    torch.testing.assert_close(
        torch.func.grad(loss)(parameters, module), torch.func.grad(loss)(parameters, module._orig_mod)
    )


def test_fake_tensors(compiled, x):
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    function, _ = compiled
    with FakeTensorMode():
        fake = torch.randn(3, 4)
        assert isinstance(function(fake), FakeTensor)
    assert isinstance(function(fake), FakeTensor)
    torch.testing.assert_close(function(x), plain(x))


def test_a_dispatch_mode_sees_what_it_sees_of_the_code_and_is_told_of_once(compiled, x):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Sees(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.seen.append(function)
            return function(*args, **(kwargs or {}))

    _, module = compiled
    with Sees() as of_python:
        module._orig_mod(x)
    with Sees() as of_compiled, framefuse.capture_logs("graph_breaks") as records:
        module(x)
    assert of_compiled.seen == of_python.seen != []
    assert [name for name, _ in records].count("graph_breaks") == 1  # not once more for each frame that it calls


def test_dual_tensors(compiled, x):
    from torch.autograd import forward_ad

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x)
        for f, g in ((compiled[0], plain), (compiled[1], compiled[1]._orig_mod)):
            torch.testing.assert_close(forward_ad.unpack_dual(f(dual)), forward_ad.unpack_dual(g(dual)))


# ---------------------------------------------------------------- threads and workers


def test_threads(compiled, x):
    function, module = compiled
    results = [None] * 6

    def work(i):
        results[i] = function(x + i), module(x + i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(results))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, result in enumerate(results):
        torch.testing.assert_close(result, (plain(x + i), module._orig_mod(x + i)))


class Transformed(torch.utils.data.Dataset):
    def __init__(self, x, transform):
        self.x, self.transform = x, transform

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return self.transform(self.x + i)


@pytest.mark.parametrize("workers", [0, 1])
def test_data_loader(compiled, x, workers):
    loaded = torch.utils.data.DataLoader(Transformed(x, compiled[0]), batch_size=2, num_workers=workers)
    torch.testing.assert_close(torch.cat(list(loaded)), torch.stack([plain(x + i) for i in range(4)]))
    torch.testing.assert_close(compiled[0](x), plain(x))


def test_replicas_for_data_parallel(compiled, x):
    replica = compiled[1]._replicate_for_data_parallel()
    replica._parameters = dict(compiled[1]._parameters)
    assert isinstance(replica, framefuse.CompiledModule)
    torch.testing.assert_close(replica(x), compiled[1]._orig_mod(x))
