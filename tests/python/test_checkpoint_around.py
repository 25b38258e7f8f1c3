"""A compiled module inside a checkpoint, or under save_on_cpu(): hooks of torch's own keep what its graphs save.

A user's hooks see each operation, and get eager's tensors: there Python runs, as where a graph does more than compute.
"""

import contextlib
import random
import sys

import framefuse
import pytest
import torch
from peak_memory import peak_bytes
from torch import nn
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

BACKENDS = ["aten", "fuse", lambda module, inputs: module]


class _Block(nn.Module):
    def __init__(self, size=8, dropout=0.0):
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.up = nn.Linear(size, 4 * size)
        self.down = nn.Linear(4 * size, size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return x + self.dropout(self.down(nn.functional.gelu(self.up(self.norm(x)))))


class _Prints(_Block):
    def forward(self, x):
        y = super().forward(x)
        print("inside")
        return super().forward(y)


def _run(call, parameters, rows=3):
    """Loss, gradients and what the generator gives next."""
    torch.manual_seed(1)
    random.seed(1)
    x = torch.linspace(-1, 1, 8 * rows).view(rows, 8).requires_grad_()
    loss = call(x).square().sum()
    found = torch.autograd.grad(loss, [x, *parameters], allow_unused=True)
    return [loss.detach(), *found, torch.rand(3)]


def _alike(found, expected):
    for ours, eagers in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, eagers)


def _compiled(module, backend, **settings):
    framefuse.reset()
    return framefuse.compile(module, backend=backend, **settings)


def _kept(f, **settings):
    return lambda x: checkpoint(f, x, use_reentrant=False, **settings)


@pytest.fixture(autouse=True)
def from_the_beginning():
    torch.manual_seed(0)
    yield
    framefuse.reset()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("settings", [{}, {"early_stop": False}, {"determinism_check": "none"}])
def test_a_block_is_one_graph_in_both_runs(backend, dropout, settings):
    block = _Block(dropout=dropout)
    compiled = _compiled(block, backend, fullgraph=True)
    before = framefuse.statistics()
    for rows in (3, 3, 5):
        expected = _run(_kept(block, **settings), block.parameters(), rows)
        _alike(_run(_kept(compiled, **settings), block.parameters(), rows), expected)
    counts = framefuse.statistics()
    assert counts["eager_fallbacks"] == before["eager_fallbacks"]
    assert counts["captures"] == before["captures"] + 2  # the second for any number of rows


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_blocks_within_each_other(backend):
    blocks = [_Block() for _ in range(3)]
    parameters = [p for block in blocks for p in block.parameters()]

    def call(functions):
        def inner(x):
            return functions[2](checkpoint(functions[1], functions[0](x), use_reentrant=False)).tanh()

        return lambda x: checkpoint(inner, x, use_reentrant=False) * functions[0](x)

    compiled = [_compiled(block, backend) for block in blocks]
    for _ in range(2):
        _alike(_run(call(compiled), parameters), _run(call(blocks), parameters))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_graph_break_within(backend):
    block = _Block()

    def f(x):
        y = block(x)
        framefuse.graph_break()
        return block(y).sin()

    compiled = _compiled(f, backend)
    for _ in range(2):
        _alike(_run(_kept(compiled), block.parameters()), _run(_kept(f), block.parameters()))


@pytest.mark.parametrize("backend", BACKENDS)
def test_second_derivatives_through_a_checkpoint(backend):
    block = _Block()
    compiled = _compiled(block, backend)

    def second(f):
        x = torch.linspace(-1, 1, 16).view(2, 8).requires_grad_()
        (first,) = torch.autograd.grad(_kept(f)(x).square().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), [x, *block.parameters()], allow_unused=True)

    _alike(second(compiled), second(block))


@pytest.mark.parametrize("backend", ["aten", "fuse"])
def test_a_pass_that_keeps_its_graph(backend):
    block = _Block()

    def twice(f):
        x = torch.linspace(-1, 1, 16).view(2, 8).requires_grad_()
        loss = _kept(f)(x).square().sum()
        first = torch.autograd.grad(loss, x, retain_graph=True)
        return [*first, *torch.autograd.grad(loss, [x, *block.parameters()])]

    _alike(twice(_compiled(block, backend)), twice(block))


@pytest.mark.parametrize("backend", ["aten", "fuse"])
def test_a_step_holds_what_one_block_saves(backend):
    """That is what a checkpoint is for: of eight blocks without any, all would be held."""
    blocks = nn.Sequential(*(_Block(32) for _ in range(8)))
    compiled = [_compiled(block, backend, fullgraph=True) for block in blocks]
    x = torch.randn(256, 32, requires_grad=True)

    def step(wrap):
        y = x
        for block in compiled:
            y = wrap(block)(y)
        y.sum().backward()
        blocks.zero_grad()

    for wrap in (_kept, lambda block: block):
        step(wrap)
    assert peak_bytes(step, _kept) < 0.6 * peak_bytes(step, lambda block: block)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_saved_in_other_memory(backend):
    block = _Block(dropout=0.5)
    compiled = _compiled(block, backend, fullgraph=True)

    def on_cpu(f):
        def call(x):
            with torch.autograd.graph.save_on_cpu():
                return f(x)

        return call

    before = framefuse.statistics()["eager_fallbacks"]
    for _ in range(2):
        _alike(_run(on_cpu(compiled), block.parameters()), _run(on_cpu(block), block.parameters()))
    assert framefuse.statistics()["eager_fallbacks"] == before


class _Counting(_Block):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.register_buffer("seen", torch.zeros(()))
        self.batch_norm = nn.BatchNorm1d(8)


class _CountsCalls(_Counting):
    def forward(self, x):
        self.calls += 1
        return super().forward(x)


class _WritesABuffer(_Counting):
    def forward(self, x):
        y = super().forward(x)
        self.seen.add_(1)
        return y


class _HasABatchNorm(_Counting):
    def forward(self, x):
        return self.batch_norm(super().forward(x))


class _DrawsInPython(_Counting):
    def forward(self, x):
        return super().forward(x) * random.random()


def _train_both(kind, backend):
    """The compiled module, and how often it ran as Python."""
    torch.manual_seed(0)
    ours = kind()
    torch.manual_seed(0)
    eagers = kind()
    compiled = _compiled(ours, backend)
    before = framefuse.statistics()["eager_fallbacks"]
    for _ in range(4):
        _alike(_run(_kept(compiled), ours.parameters()), _run(_kept(eagers), eagers.parameters()))
        assert ours.calls == eagers.calls
        _alike(ours.buffers(), eagers.buffers())
    return ours, framefuse.statistics()["eager_fallbacks"] - before


@pytest.mark.parametrize(
    ("kind", "backend"),
    [(_HasABatchNorm, backend) for backend in BACKENDS] + [(_WritesABuffer, BACKENDS[2])],  # a graph for Python saves as it runs
)
def test_writes_before_the_last_saved_tensor_are_done_in_the_second_run(kind, backend):
    _, as_python = _train_both(kind, backend)
    assert as_python == 0


@pytest.mark.parametrize(
    ("kind", "backend"),
    [(kind, backend) for kind in (_CountsCalls, _WritesABuffer, _DrawsInPython) for backend in BACKENDS[:2]] + [(_CountsCalls, BACKENDS[2])],
)
def test_what_does_more_than_compute_runs_as_python_and_says_so(kind, backend):
    ours, as_python = _train_both(kind, backend)
    assert as_python > 0
    strict = _compiled(ours, backend, fullgraph=True)
    with pytest.raises(framefuse.Unsupported, match="hooks keep what it saves"):
        _kept(strict)(torch.ones(2, 8, requires_grad=True))


@pytest.mark.parametrize("backend", BACKENDS)
def test_without_gradients_more_than_computing_is_compiled(backend):
    block = _CountsCalls()
    compiled = _compiled(block, backend, fullgraph=True)
    with torch.no_grad():
        _alike([_kept(compiled)(torch.ones(2, 8))], [_Block.forward(block, torch.ones(2, 8))])
    assert block.calls == 1


@contextlib.contextmanager
def _hooks_of_a_user(seen):
    def pack(t):
        seen.append(tuple(t.shape))
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        yield


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("inside", [False, True])
def test_hooks_of_a_user_see_what_eager_saves(backend, inside):
    block = _Block()
    compiled = _compiled(block, backend)
    _alike(_run(_kept(compiled), block.parameters()), _run(_kept(block), block.parameters()))

    def shapes(f):
        seen = []

        def under_hooks(x):
            with _hooks_of_a_user(seen):
                return f(x)

        if inside:
            _run(_kept(under_hooks), block.parameters())
        else:
            with _hooks_of_a_user(seen):
                _run(f, block.parameters())
        return seen

    assert shapes(compiled) == shapes(block)


def test_a_function_that_takes_the_name_of_torchs_hook_is_a_users():
    block = _Block()
    compiled = _compiled(block, "fuse")
    seen = []

    def pack(t):
        seen.append(t)
        return t

    pack.__qualname__ = "save_on_cpu.__init__.<locals>.pack_to_cpu"
    pack.__module__ = "torch.autograd.graph"
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        compiled(torch.ones(2, 8, requires_grad=True))
        ours = len(seen)
        block(torch.ones(2, 8, requires_grad=True))
    assert ours == len(seen) - ours


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_checkpoint_that_breaks_the_graph_of_its_caller(backend, capsys):
    """Python runs what is in it: where the backward runs it again nothing is compiled."""
    block = _Block()

    def inner(x):
        y = block(x)
        print("inside")
        return block(y)

    def f(x):
        return checkpoint(inner, x * 2, use_reentrant=False).sin()

    compiled = _compiled(f, backend)
    for _ in range(2):
        _alike(_run(compiled, block.parameters()), _run(f, block.parameters()))
    assert capsys.readouterr().out.count("inside") == 8


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch was built without torch.distributed")
def test_a_module_whose_own_calls_are_kept(backend):
    """Its hooks come on inside of the compiled call, and its second run is called by torch alone."""
    from torch.distributed._composable.checkpoint_activation import checkpoint as kept_by_itself

    ours, eagers = nn.Sequential(_Prints(), _Block()), nn.Sequential(_Prints(), _Block())
    eagers.load_state_dict(ours.state_dict())
    for model in (ours, eagers):
        kept_by_itself(model[0])
    compiled = _compiled(ours, backend)
    for _ in range(2):
        _alike(_run(compiled, ours.parameters()), _run(eagers, eagers.parameters()))


@pytest.mark.parametrize("backend", BACKENDS)
def test_objects_that_each_run_makes_anew(backend):
    """What was compiled for those of the first run fits the second one's only if its graph is the same."""
    block = _Block()

    def f(x):
        scale = [2.0]

        def by(y):
            return y * scale[0]

        y = block(x)
        framefuse.graph_break()
        return by(block(y))

    compiled = _compiled(f, backend)
    for _ in range(3):
        _alike(_run(_kept(compiled), block.parameters()), _run(_kept(f), block.parameters()))


def test_a_second_run_that_goes_by_other_state_says_so():
    block, state = _Block(), {"scale": 2.0}
    compiled = _compiled(lambda x: block(x) * state["scale"], "fuse", dynamic=False)
    loss = _kept(compiled)(torch.ones(2, 8, requires_grad=True)).sum()
    state["scale"] = 3.0
    with pytest.raises(torch.utils.checkpoint.CheckpointError, match="scale"):
        loss.backward()


@framefuse.disable
def _backward_where_nothing_is_compiled(loss):
    loss.backward()


@torch.compiler.disable
def _backward_where_torch_compiles_nothing(loss):
    loss.backward()


def _backward_by_stance(loss):
    with framefuse.set_stance("force_eager"):
        loss.backward()


class _Traced:
    """A trace function that looks into frames, as a debugger's."""

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(lambda frame, event, argument: lambda *_: None)

    def __exit__(self, *error):
        sys.settrace(self.before)


def _backward_while_traced(loss):
    with _Traced():
        loss.backward()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_forward_that_is_traced_and_a_backward_that_is_not(backend):
    block = _Block()
    compiled = _compiled(block, backend)

    def step(f, traced):
        x = torch.linspace(-1, 1, 24).view(3, 8).requires_grad_()
        with _Traced() if traced else contextlib.nullcontext():
            loss = _kept(f)(x).square().sum()
        return torch.autograd.grad(loss, [x, *block.parameters()])

    for traced in (True, False, True):
        _alike(step(compiled, traced), step(block, False))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "backward", [_backward_where_nothing_is_compiled, _backward_where_torch_compiles_nothing, _backward_by_stance, _backward_while_traced]
)
def test_a_backward_pass_where_nothing_is_compiled(backward, backend):
    """What ran compiled runs compiled again, and what did not does not: else other tensors would be saved."""
    block = _Block(dropout=0.5)
    compiled = _compiled(block, backend)

    def step(f, off):
        torch.manual_seed(2)
        x = torch.linspace(-1, 1, 24).view(3, 8).requires_grad_()
        block.zero_grad()
        with framefuse.set_stance("force_eager") if off else contextlib.nullcontext():
            loss = _kept(f)(x).square().sum()
        backward(loss)
        return [loss.detach(), x.grad, *(p.grad.clone() for p in block.parameters())]

    for off in (False, True, False):
        _alike(step(compiled, off), step(block, False))


def test_a_second_run_that_is_another_is_torchs_error():
    """The kind of error that eager raises; which tensors were saved is another question."""
    block = _Block()
    compiled = _compiled(block, "fuse")
    runs = []

    def other_way(x):
        runs.append(1)
        return compiled(x) if len(runs) == 1 else compiled(compiled(compiled(x))).sin()

    with set_checkpoint_early_stop(False):
        loss = checkpoint(other_way, torch.ones(2, 8, requires_grad=True), use_reentrant=False).sum()
        with pytest.raises(torch.utils.checkpoint.CheckpointError, match="takes another way|more tensors during recomputation"):
            loss.backward()


def test_the_capture_hands_hooks_nothing():
    block = _Block()
    compiled = _compiled(block, "aten")
    _kept(compiled)(torch.ones(2, 8, requires_grad=True)).sum().backward()
    assert framefuse.statistics()["live_fakes"] == 0
