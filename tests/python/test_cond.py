"""cond() on a tensor: torch's spelling, backends, derivatives of derivatives, errors while a branch runs, and the operator itself."""

import framefuse
import pytest
import torch

_X = torch.tensor([1.0, 2.0, 3.0])
_DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def _choose(x, w):
    return framefuse.cond(x.sum() > 0, lambda x: (x * w).sin(), lambda x: x.exp() - 1, (x,))


def _torch_choose(x, w):
    return torch.cond(x.sum() > 0, lambda x: (x * w).sin(), lambda x: x.exp() - 1, (x,))


def _with_gradients(f, scale, device):
    x = (_X.to(device) * scale).requires_grad_()
    w = torch.tensor([0.5, 0.25, 2.0], requires_grad=True, device=device)
    y = f(x, w)
    y.sum().backward()
    return y.detach(), x.grad, w.grad


@pytest.mark.parametrize("device", _DEVICES)
@pytest.mark.parametrize("backend", ["aten", "fuse", "eager", "aot_eager"])
@pytest.mark.parametrize("f", [_choose, _torch_choose])
def test_one_graph_and_the_gradients_of_torch_cond(f, backend, device):
    compiled = framefuse.compile(f, fullgraph=True, backend=backend)
    for scale in (1.0, -1.0, 2.0):
        # Tensors that only the other branch reads get zeros, as in torch.cond.
        for ours, theirs in zip(_with_gradients(compiled, scale, device), _with_gradients(_torch_choose, scale, device)):
            torch.testing.assert_close(ours, theirs)
    report = framefuse.explain(f, backend=backend)(_X, torch.ones(3))
    assert (report.graph_count, report.graph_break_count) == (1, 0)


@pytest.mark.parametrize("backend", ["aten", "fuse"])
def test_second_derivatives(backend):
    def second(f):
        x = _X.clone().requires_grad_()
        (first,) = torch.autograd.grad(f(x, torch.ones(3)).sum(), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    torch.testing.assert_close(second(framefuse.compile(_choose, backend=backend)), -_X.sin())


def test_only_the_branch_taken_runs_and_its_errors_name_the_line():
    table = torch.ones(2, 2)

    def f(flag, index):
        return framefuse.cond(flag, lambda i: torch.nn.functional.embedding(i, table), lambda i: torch.zeros(1, 2) + i, (index,))

    compiled = framefuse.compile(f, fullgraph=True)
    outside = torch.tensor([7])
    assert torch.equal(compiled(torch.tensor(False), outside), torch.full((1, 2), 7.0))
    with pytest.raises(IndexError, match="index out of range"):
        compiled(torch.tensor(True), outside)
    assert torch.equal(compiled(torch.tensor(True), torch.tensor([1])), torch.ones(1, 2))


def test_a_branch_with_an_effect_is_refused_with_its_line():
    seen = []

    @framefuse.compile(fullgraph=True)
    def f(x):
        return framefuse.cond(x.sum() > 0, lambda x: (seen.append(1), x + 1)[1], lambda x: x * 2, (x,))

    with pytest.raises(framefuse.Unsupported, match=r"test_cond.py:\d+ in f(.|\n)*a branch of cond(.|\n)*changes what is outside"):
        f(_X)
    assert seen == []


def test_branches_are_fused(capfd):
    def f(x):  # used nowhere else: a branch is compiled once a process
        return framefuse.cond(x.sum() > 0, lambda x: (x * 7).atan(), lambda x: x.exp() - 7, (x,))

    framefuse.set_logs(output_code=True)
    try:
        framefuse.compile(f, fullgraph=True)(_X)
    finally:
        framefuse.set_logs()
    log = capfd.readouterr().err
    assert "pointwise: mul, atan" in log
    assert "pointwise: exp, sub" in log


def test_a_random_branch_moves_the_generator_only_when_taken():
    @framefuse.compile(fullgraph=True)
    def f(flag, x):
        return framefuse.cond(flag, lambda x: x + torch.rand(3), lambda x: x + 1, (x,))

    for flag in (True, False):
        torch.manual_seed(7)
        ours = f(torch.tensor(flag), _X)
        after = torch.rand(1)
        torch.manual_seed(7)
        assert torch.equal(ours, _X + torch.rand(3) if flag else _X + 1)
        assert torch.equal(after, torch.rand(1))


_BRANCH = """graph "branch"
input %0: f32[2,3] argument
%1: f32[2,3] = aten.mul.Tensor(%0, %0)
output %1 user
"""


@pytest.mark.compiles_nothing("wrong arguments are refused before anything is compiled")
def test_the_operator_checks_its_operands():
    cond = torch.ops.framefuse.cond
    yes, no = _BRANCH, _BRANCH.replace("mul", "add").replace("%0)", "%0, alpha=1)")
    x = torch.arange(6.0).reshape(3, 2).t()  # another layout than the graph says
    assert torch.equal(cond(torch.tensor(True), yes, no, [x])[0], x * x)
    assert torch.equal(cond(torch.tensor(False), yes, no, [x], backend="fuse")[0], x + x)
    with pytest.raises(RuntimeError, match="an operand has sizes"):
        cond(torch.tensor(True), yes, no, [torch.ones(3, 2)])
    with pytest.raises(RuntimeError, match="2 operands for 1"):
        cond(torch.tensor(True), yes, no, [x, x])
    with pytest.raises(RuntimeError, match="no backend is called"):
        cond(torch.tensor(True), yes, no, [x], backend="none")
    with pytest.raises(RuntimeError):
        cond(torch.tensor(True), "no graph", no, [x])


@pytest.mark.parametrize("device", _DEVICES)
@pytest.mark.parametrize("backend", ["aten", "fuse"])
def test_random_branches_have_the_gradients_of_what_they_drew(backend, device):
    def f(x):
        y = framefuse.cond(x.sum() > 0, lambda x: torch.nn.functional.dropout(x.sin(), 0.5), lambda x: torch.rand_like(x) * x, (x,))
        return torch.nn.functional.dropout(y, 0.5) * 3

    compiled = framefuse.compile(f, fullgraph=True, backend=backend)
    for sign in (1.0, -1.0):
        x = (torch.full((64,), sign, device=device)).requires_grad_()
        torch.manual_seed(5)
        y = compiled(x)
        between = torch.rand(2, device=device)
        (gradient,) = torch.autograd.grad(y.sum(), x)
        # What was drawn forward is known from the result; the backward draws the same and leaves the generator alone.
        per_unit = y.detach() / x.detach().sin() * x.detach().cos() if sign > 0 else y.detach() / x.detach()
        torch.testing.assert_close(gradient, per_unit)
        after = torch.rand(2, device=device)
        torch.manual_seed(5)
        compiled(x)
        assert torch.equal(torch.rand(2, device=device), between)
        assert torch.equal(torch.rand(2, device=device), after)


@pytest.mark.parametrize("backend", ["aten", "fuse"])
def test_second_derivatives_through_random_branches(backend):
    def plain(x):
        return torch.nn.functional.dropout(x.sin() * x, 0.5)

    def f(x):
        return framefuse.cond(x.sum() > 0, plain, lambda x: x.exp(), (x,))

    def checkpointed(x):
        return torch.utils.checkpoint.checkpoint(plain, x, use_reentrant=False)

    def second(g):
        torch.manual_seed(0)
        x = torch.linspace(0.5, 2.0, 32).requires_grad_()
        (first,) = torch.autograd.grad(g(x).sum(), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0], torch.rand(1)

    def inside(x):
        (first,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        return first * x

    eager = second(plain)
    torch.testing.assert_close(second(framefuse.compile(f, backend=backend, fullgraph=True)), eager)
    torch.testing.assert_close(second(framefuse.compile(checkpointed, backend=backend, fullgraph=True)), eager)
    torch.testing.assert_close(second(framefuse.compile(inside, backend=backend)), second(inside))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_branch_without_gradients_of_operands_that_need_them_by_a_backend_in_python(backend):
    def f(x):
        mask = framefuse.cond(x.sum() > 0, lambda x: x.detach() > 1.2, lambda x: x < 2, (x,))
        return x * mask

    compiled = framefuse.compile(f, backend=backend)
    for sign in (1, -1):
        x = (torch.arange(4.0) * sign).requires_grad_()
        y = x.detach().clone().requires_grad_()
        compiled(x).sum().backward()
        f(y).sum().backward()
        assert torch.equal(compiled(x), f(y)) and torch.equal(x.grad, y.grad)
