"""The programs of torch.compile's tutorial, on the CPU: eager's values, graph breaks exactly where the tutorial says, none elsewhere."""

import pathlib
import sys

import framefuse
import pytest
import torch

sys.path.append(str(pathlib.Path(__file__).parents[2] / "benchmarks"))
import models  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    framefuse.reset()
    torch.manual_seed(0)


def counted(call):
    """The call's result, and how many graphs and breaks it made."""
    before = framefuse.statistics()
    result = call()
    after = framefuse.statistics()
    assert after["bugs"] == before["bugs"]
    assert after["live_fakes"] == 0
    return result, after["graphs"] - before["graphs"], after["graph_breaks"] - before["graph_breaks"]


def assert_one_graph(function, *args):
    compiled = framefuse.compile(function)
    result, graphs, breaks = counted(lambda: compiled(*args))
    # Terms that cancel leave no relative exactness, in eager neither: 2 roundings of numbers about 1.
    torch.testing.assert_close(result, function(*args), rtol=1e-5, atol=1e-6)
    assert (graphs, breaks) == (1, 0)
    again, graphs, breaks = counted(lambda: compiled(*args))
    assert torch.equal(again, result)
    assert (graphs, breaks) == (0, 0)


def test_function():
    def foo(x, y):
        a = torch.sin(x)
        b = torch.cos(y)
        return a + b

    assert_one_graph(foo, torch.randn(10, 10), torch.randn(10, 10))


class MyModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(100, 10)

    def forward(self, x):
        return torch.nn.functional.relu(self.lin(x))


class OuterModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner_module = MyModule()
        self.outer_lin = torch.nn.Linear(10, 2)

    def forward(self, x):
        x = self.inner_module(x)
        return torch.nn.functional.relu(self.outer_lin(x))


@pytest.mark.parametrize("module", [MyModule, OuterModule])
def test_modules(module):
    assert_one_graph(module(), torch.randn(10, 100))


def nested_function(x):
    return torch.sin(x)


def test_nested_calls():
    def outer_function(x, y):
        a = nested_function(x)
        b = torch.cos(y)
        return a + b

    assert_one_graph(outer_function, torch.randn(10, 10), torch.randn(10, 10))


@pytest.mark.parametrize("disable", [torch.compiler.disable, framefuse.disable])
def test_disabled_function(disable):
    def complex_conjugate(z):
        return torch.conj(z)

    @disable(recursive=False)
    def complex_function(real, imag):
        z = torch.complex(real, imag)
        return complex_conjugate(z)

    def outer_function():
        real = torch.tensor([2, 3], dtype=torch.float32)
        imag = torch.tensor([4, 5], dtype=torch.float32)
        z = complex_function(real, imag)
        return torch.abs(z)

    result, _, breaks = counted(framefuse.compile(outer_function))
    assert torch.allclose(result, torch.tensor([4.4721, 5.8310]))
    assert breaks >= 1


def test_densenet_inference():
    model = models.DenseNet121(layers=(2, 3, 2, 2)).eval()
    compiled = framefuse.compile(model, mode="reduce-overhead")
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(2, 3, 32, 32)
            assert torch.allclose(compiled(x), model(x), atol=1e-5)
        result, graphs, breaks = counted(lambda: compiled(x))
    assert (graphs, breaks) == (0, 0)


def test_densenet_training_step_compiled_whole():
    # In doubles: Adam divides by the size of a gradient, and behind a normalisation over two samples most of a gradient is
    # rounding, so that the last bit of one kernel decides the sign of a step.
    def losses(compile):
        torch.manual_seed(1)
        model = models.DenseNet121(layers=(2, 2, 2, 2)).double()
        opt = torch.optim.Adam(model.parameters())
        reported = []

        def train(mod, data):
            opt.zero_grad(True)
            pred = mod(data[0])
            loss = torch.nn.CrossEntropyLoss()(pred, data[1])
            loss.backward()
            opt.step()
            reported.append(loss.detach().clone())

        step = compile(train)
        for _ in range(3):
            step(model, (torch.randn(2, 3, 32, 32).double(), torch.randint(1000, (2,))))
        return torch.stack(reported)

    assert torch.allclose(losses(framefuse.compile), losses(lambda f: f), atol=1e-10)


def test_branch_on_data():
    def f1(x, y):
        if x.sum() < 0:
            return -y
        return y

    compiled = framefuse.compile(f1)
    x, y = torch.randn(5, 5), torch.randn(5, 5)
    for _ in range(2):
        assert torch.equal(compiled(x, y), f1(x, y))
        assert torch.equal(compiled(-x, y), f1(-x, y))


def test_integer_argument():
    def f2(x, y):
        return x + y

    assert_one_graph(f2, torch.randn(5, 5), 3)


def test_scipy_in_between():
    import scipy

    def f3(x):
        x = x * 2
        x = scipy.fft.dct(x.numpy())
        x = torch.from_numpy(x)
        x = x * 2
        return x

    compiled = framefuse.compile(f3)
    for _ in range(3):
        x = torch.randn(5, 5)
        assert torch.allclose(compiled(x), f3(x))


# From Python 3.13 on one instruction compares and asks for the truth: the comparison is not before the break.
_BEFORE_THE_BRANCH = 4 if sys.version_info >= (3, 13) else 5


def bar(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def test_bar_is_three_graphs_over_both_branches():
    graphs = []

    def custom_backend(gm, example_inputs):
        graphs.append([str(node.target) for node in gm.graph.nodes if node.op.startswith("call")])
        return gm.forward

    compiled = framefuse.compile(bar, backend=custom_backend)
    a, b = torch.randn(10), torch.ones(10)
    for _ in range(2):
        assert torch.equal(compiled(a, b), bar(a, b))
        assert torch.equal(compiled(a, -b), bar(a, -b))
    assert len(graphs) == 3
    assert [len(graph) for graph in graphs] == [_BEFORE_THE_BRANCH, 1, 2]
    assert graphs[0][1:4] == ["<built-in function add>", "<built-in function truediv>", "sum"]


def test_bar_explained():
    report = framefuse.explain(bar)(torch.randn(10), -torch.ones(10))
    assert (report.graph_count, report.graph_break_count, report.op_count) == (2, 1, _BEFORE_THE_BRANCH + 2)
    assert [len(operations) for operations in report.ops_per_graph] == [_BEFORE_THE_BRANCH, 2]
    (reason,) = report.break_reasons
    frame = reason.user_stack[-1]
    assert pathlib.Path(frame.filename) == pathlib.Path(__file__)
    assert frame.lineno == bar.__code__.co_firstlineno + 2
    assert frame.name == "bar"
    assert frame.line == "if b.sum() < 0:"
    assert reason.hint
    assert f"Graph Count: 2\nGraph Break Count: 1\nOp Count: {_BEFORE_THE_BRANCH + 2}\n" in str(report)
    assert report.out_guards


def test_fullgraph_names_the_line():
    with pytest.raises(framefuse.Unsupported) as raised:
        framefuse.compile(bar, fullgraph=True)(torch.randn(10), torch.randn(10))
    message = str(raised.value)
    assert f"{pathlib.Path(__file__).name}" in message and "if b.sum() < 0:" in message
    assert str(bar.__code__.co_firstlineno + 2) in message


def test_fullgraph_of_a_model():
    model = models.DenseNet121(layers=(1, 2, 1, 1)).eval()
    x = torch.randn(2, 3, 32, 32)
    assert torch.allclose(framefuse.compile(model, fullgraph=True)(x), model(x), atol=1e-5)


def test_equal_blocks_share_one_graph():
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(8, 8)

        def forward(self, x):
            return x + torch.relu(self.fc(x))

    blocks = [Block() for _ in range(4)]
    x = torch.randn(2, 8)
    compiled = [framefuse.compile(block) for block in blocks]
    results, graphs, breaks = counted(lambda: [block(x) for block in compiled])
    assert all(torch.allclose(result, block(x)) for result, block in zip(results, blocks))
    assert (graphs, breaks) == (1, 0)


def test_introductions_training_loop():
    class SimpleModel(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = torch.nn.Linear(128, 256)
            self.relu = torch.nn.ReLU()
            self.fc2 = torch.nn.Linear(256, 10)

        def forward(self, x):
            x = self.fc1(x)
            x = self.relu(x)
            x = self.fc2(x)
            return x

    dataset = torch.utils.data.TensorDataset(torch.randn(200, 128), torch.randint(0, 10, (200,)))

    def losses(compile):
        torch.manual_seed(2)
        model = SimpleModel()
        criterion = torch.nn.CrossEntropyLoss()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
        compiled = compile(model)
        found = []
        for _ in range(2):
            for inputs, targets in torch.utils.data.DataLoader(dataset, batch_size=32, shuffle=True):
                optimizer.zero_grad()
                loss = criterion(compiled(inputs), targets)
                loss.backward()
                optimizer.step()
                found.append(loss.item())
        return torch.tensor(found)

    expected = losses(lambda model: model)
    (result, graphs, breaks) = counted(lambda: losses(framefuse.compile))
    assert torch.allclose(result, expected, atol=1e-5)
    assert (graphs, breaks) == (2, 0)  # 32 rows, and 8 in the last batch
