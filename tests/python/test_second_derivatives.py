"""create_graph=True: derivatives of the gradients of what was compiled, by eager's formulas where those that were recorded
have no derivatives or wrong ones. The nightly test asks every operator that torch has samples of."""

import itertools
import warnings

import framefuse
import pytest
import torch
import torch.nn.functional as F
from torch import nn

_DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def _leaves(tree):
    return [t for t in torch.utils._pytree.tree_leaves(tree) if isinstance(t, torch.Tensor) and t.requires_grad]


def _second(function, leaves):
    """Derivatives of the gradients' squares; None where there are none."""
    outputs = [t for t in _leaves(function()) if not t.is_complex()]
    if not outputs:
        return None
    first = torch.autograd.grad([(t * t).sum() for t in outputs], leaves, create_graph=True, allow_unused=True)
    first = [g for g in first if g is not None and g.requires_grad and not g.is_complex()]
    if not first:
        return None
    found = torch.autograd.grad(sum((g * g).sum() for g in first), leaves, allow_unused=True)
    return [torch.zeros_like(t) if g is None else g for g, t in zip(found, leaves)]


def _set_items(x, y):
    z = x.sin()
    z[0] = y[1] * 2
    z[:, 1:] *= 3
    z.t()[2].mul_(x[:, 0])
    return z * y


def _set_complex_items(x, y):
    z = torch.complex(x, y)
    w = z * z
    w[1] = z[0] * z[2]
    w[:, 2:] = z[:, :1]
    return torch.view_as_real(w)


def _branch(x, y):
    def one(x):
        z = x.sin()
        z.t()[0].mul_(3)
        return z * y

    return framefuse.cond(x.sum() > -1e9, one, lambda x: x * y, (x,))


_CASES = {
    "written_items": _set_items,
    "written_complex_items": _set_complex_items,
    "written_items_of_a_branch": _branch,
    "silu": lambda x, y: F.silu(x) * y,
    "mish": lambda x, y: F.mish(x) * y,
    "logit": lambda x, y: torch.logit(x.sigmoid()) + torch.logit(y, 0.1),
    "group_norm": lambda x, y: F.group_norm(x, 2, y[0], y[1]) * x,
    "batch_norm": lambda x, y: F.batch_norm(x, None, None, y[0], y[1], training=True) * x,
    "solve": lambda x, y: torch.linalg.solve(x @ x.T + 9 * torch.eye(4).to(x), y),
    "solve_as_it_is": lambda x, y: torch.linalg.solve(x[:, :4], y),
    "det": lambda x, y: torch.linalg.det(x[:, :4]) * y,
    "det_of_a_contiguous": lambda x, y: torch.linalg.det(x[:, :4].contiguous()) * y,
    "logdet": lambda x, y: torch.logdet(x @ x.T + torch.eye(4).to(x)) * y,
}


@pytest.mark.parametrize("device", _DEVICES)
@pytest.mark.parametrize("backend", ["aten", "fuse"])
@pytest.mark.parametrize("name", _CASES)
def test_as_in_eager(name, backend, device):
    torch.manual_seed(0)
    leaves = [torch.randn(4, 6, dtype=torch.float64).to(device).requires_grad_() for _ in range(2)]
    results = [_second(lambda: f(*leaves), leaves) for f in (_CASES[name], framefuse.compile(_CASES[name], fullgraph=True, backend=backend))]
    assert results[0] is not None
    torch.testing.assert_close(results[1], results[0])


class _Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.SiLU(), nn.Linear(8, 8), nn.GroupNorm(2, 8), nn.Mish(), nn.Linear(8, 1))

    def forward(self, x):
        return self.body(x)


@pytest.mark.parametrize("device", _DEVICES)
@pytest.mark.parametrize("backend", ["aten", "fuse"])
def test_a_gradient_penalty_through_norms_in_training(backend, device):
    torch.manual_seed(0)
    model = _Critic().double().to(device)
    start = {k: v.clone() for k, v in model.state_dict().items()}
    x, results = torch.randn(5, 6, dtype=torch.float64).to(device), []
    for call in (model, framefuse.compile(model, fullgraph=True, backend=backend)):
        model.load_state_dict(start)
        steps = []
        for _ in range(3):
            model.zero_grad()
            t = x.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(call(t).sum(), t, create_graph=True)
            ((gradient.norm(dim=1) - 1) ** 2).mean().backward()
            steps.append([gradient.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)])
        results.append((steps, {k: v.clone() for k, v in model.state_dict().items()}))
    torch.testing.assert_close(*results)


try:
    from torch.testing._internal.common_methods_invocations import op_db
except ImportError:  # a torch without its test helpers
    op_db = []
# Operators of torch's own insides, which write what they read.
_INSIDES = ("_native_batch_norm_legit", "_batch_norm_with_update")


def _through_data(y):
    y.data.mul_(2)


def _through_detach(y):
    y.detach().mul_(2)


def _in_no_grad(y):
    with torch.no_grad():
        y.mul_(2)


def _of_a_view_in_no_grad(y):
    with torch.no_grad():
        y[0].mul_(2)


def _of_items_in_no_grad(y):
    with torch.no_grad():
        y[:1] = 3.0


@pytest.mark.parametrize("backend", ["aten", "fuse"])
@pytest.mark.parametrize("write", [_through_data, _through_detach, _in_no_grad, _of_a_view_in_no_grad, _of_items_in_no_grad])
def test_through_a_write_that_autograd_does_not_see(write, backend):
    """As in eager, with the new values through the old history."""

    def f(x):
        y = x * 1
        write(y)
        return (y * y).sin()

    x = torch.tensor([0.3, 0.5], requires_grad=True)
    compiled, before = framefuse.compile(f, backend=backend), framefuse.statistics()["graphs"]
    results = [_second(lambda: g(x), [x]) for g in (f, compiled)]
    assert framefuse.statistics()["graphs"] > before
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("backend", ["aten", "fuse"])
def test_the_old_value_of_a_leaf_is_kept(backend):
    def f(x):
        y = x.exp()
        x.detach().mul_(2)
        return y * x.sin()

    results = []
    for g in (f, framefuse.compile(f, fullgraph=True, backend=backend)):
        x = torch.tensor([0.3, 0.5], requires_grad=True)
        results.append(_second(lambda: g(x), [x]))
    torch.testing.assert_close(*results)


@pytest.mark.nightly
@pytest.mark.parametrize("op", op_db, ids=lambda op: op.name + "." + op.variant_test_name)
def test_every_operator(op):
    if not op.supports_gradgrad or not op.supports_dtype(torch.float64, "cpu") or op.name in _INSIDES:
        pytest.skip("no second derivatives")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in itertools.islice(op.sample_inputs("cpu", torch.float64, requires_grad=True), 2):
            leaves = _leaves((sample.input, sample.args, sample.kwargs))

            def by(function):
                torch.manual_seed(0)
                return _second(lambda: function(sample.input, *sample.args, **sample.kwargs), leaves)

            try:
                expected = by(op)
            except RuntimeError:  # eager has none
                continue
            if expected is not None:
                got = by(framefuse.compile(lambda x, *args, **kwargs: op(x, *args, **kwargs), backend="aten"))
                torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-7, equal_nan=True)
    framefuse.reset()
