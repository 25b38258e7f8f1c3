"""Recorded graphs through the aten plan: values, mutations, aliasing and gradients of real calls equal eager's.
Needs the graph tests' module (target ff_graph_testing) beside ours."""
import copy
import gc
import glob
import importlib.util
import os

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from harness import ROOT, Recording, clone_tree, native, tensors_of
from test_models import GPT, Llama, ResNet


def _plans():
    folders = [os.environ["FF_BUILD_DIR"]] if "FF_BUILD_DIR" in os.environ else sorted(glob.glob(os.path.join(ROOT, "build*")))
    for folder in folders:
        for path in glob.glob(os.path.join(folder, "tests", "graph", "ff_graph_testing*.so")):
            spec = importlib.util.spec_from_file_location("ff_graph_testing", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    pytest.skip("ff_graph_testing is not built", allow_module_level=True)


plans = _plans()
PlanClass = next(v for v in vars(plans).values() if isinstance(v, type) and hasattr(v, "run"))


@pytest.fixture(autouse=True)
def no_fake_survives():
    yield
    gc.collect()
    assert native.live_fakes() == 0


def compare(f, *args, module=None, seed=0):
    """Twice in a row: f on copies through the plan and in eager, then backward from a random tangent."""
    recording = Recording(f, args, module=module)
    plan = PlanClass(recording.closed.text())
    rows = [r for r in recording.closed.inputs() if r["tangent_of"] < 0]
    recording.drop()
    modules = [copy.deepcopy(module) for _ in range(2)] if module is not None else [None, None]
    for call in range(2):
        sides = []
        for which in (0, 1):
            own_args = clone_tree(args)
            leaves = [] if module is None else list(modules[which].parameters()) + list(modules[which].buffers())
            for t in tensors_of(own_args):
                if not any(t is u for u in leaves):
                    leaves.append(t)
            torch.manual_seed(seed + call)
            if which == 0:
                outputs = plan.run([leaves[r["index"]] for r in rows])
            elif module is None:
                outputs = tensors_of(f(*own_args))
            else:
                outputs = tensors_of(run_with(f, own_args, module, modules[1]))
            sides.append((outputs, leaves))
        (got, plan_leaves), (want, eager_leaves) = sides
        assert len(got) == len(want)
        for g, e in zip(got, want):
            assert torch.equal(g, e) and g.stride() == e.stride() and g.requires_grad == e.requires_grad
        for g, e in zip(plan_leaves, eager_leaves):
            assert torch.equal(g, e)
        backward(got, want, plan_leaves, eager_leaves)


def run_with(f, args, module, other):
    saved = {}
    for (path, a), (_, b) in zip(module.named_modules(), other.named_modules()):
        saved[path] = (a._parameters, a._buffers)
        a._parameters, a._buffers = b._parameters, b._buffers
    try:
        return f(*args)
    finally:
        for path, a in module.named_modules():
            a._parameters, a._buffers = saved[path]


def backward(got, want, plan_leaves, eager_leaves):
    heads = [i for i, t in enumerate(want) if t.requires_grad and t.grad_fn is not None]
    leaves = [i for i, t in enumerate(eager_leaves) if t.requires_grad and t.is_leaf]
    if not heads or not leaves:
        return
    tangents = [torch.randn_like(want[i]) for i in heads]
    a = torch.autograd.grad([got[i] for i in heads], [plan_leaves[i] for i in leaves], tangents, allow_unused=True)
    b = torch.autograd.grad([want[i] for i in heads], [eager_leaves[i] for i in leaves], tangents, allow_unused=True)
    for x, y in zip(a, b):
        assert (x is None) == (y is None)
        assert x is None or torch.allclose(x, y, rtol=1e-5, atol=1e-6)


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def test_pointwise():
    compare(lambda x, w: (x * w).sin() + 1, torch.randn(3, 4), leaf(4))


def test_mutations():
    compare(lambda x, y: (x.add_(y), x.view(-1)[2:].mul_(2), x * 3)[2], torch.randn(3, 4), torch.randn(4))


def test_mutation_before_a_saved_use():
    compare(lambda x, w: x.add_(1) * w, torch.randn(3), leaf(3))


def test_write_through_views_with_gradient():
    def f(x):
        y = x * 2
        y[1].mul_(x[0])
        y.t()[2:] += 1
        return y.exp()

    compare(f, leaf(3, 4))


def test_aliasing_outputs():
    def f(x):
        y = x * 2
        return y[0], y[1], x.view(-1)

    compare(f, leaf(3, 4))


def test_input_that_starts_to_require_grad():
    compare(lambda x, w: x.mul_(w), torch.randn(3), leaf(3))


def test_dropout():
    compare(lambda x: F.dropout(x, 0.4, True) * 2, leaf(5, 6))


def test_constants():
    def f(x):
        y = x.clone()
        y[0] = 3.0
        return y

    compare(f, leaf(3, 4))


@pytest.mark.parametrize("training", [True, False])
def test_resnet(training):
    model = ResNet().train(training)
    compare(lambda x, y: F.cross_entropy(model(x), y), torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,)), module=model)


def test_gpt():
    model = GPT()
    ids = torch.randint(0, 50, (2, 16))
    compare(lambda ids: F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()), ids, module=model)


def test_llama():
    model = Llama()
    compare(model, torch.randn(2, 6, 32), module=model)


def test_transformer_encoder():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True), 2)
    compare(model, torch.randn(2, 7, 32), module=model)
