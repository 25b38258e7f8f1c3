"""Hooks of leaves run while a compiled backward still computes: as DDP needs it, and with what eager's hooks may do."""

import framefuse
import pytest
import torch
from torch import nn
from torch.nn import functional as F

X = torch.randn(4, 16, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    def __init__(self, layers=4):
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = F.gelu(layer(x)) + x
        return x


def note(name):
    with torch.autograd.profiler.record_function(name):
        pass


def both(scenario):
    """What a scenario returns, given a module and what to call: of eager and of a compiled one."""
    results = []
    for compiler in (lambda m: m, framefuse.compile):
        model = Net()
        results.append(scenario(model, compiler(model)))
    return results


def gradients(model):
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def assert_same(left, right):
    for a, b in zip(left, right, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_hooks_run_between_products_in_eagers_order():
    def scenario(model, call):
        for name, p in model.named_parameters():
            p.register_post_accumulate_grad_hook(lambda _, name=name: note(name))
        for _ in range(2):
            call(X).sum().backward()
        loss = call(X).sum()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            loss.backward()
        events = sorted(profile.events(), key=lambda e: e.time_range.start)
        return [e.name for e in events if e.name == "aten::mm" or e.name.startswith("layers.")]

    eager, compiled = both(scenario)
    hooks = [name for name in compiled if name != "aten::mm"]
    assert hooks == [name for name in eager if name != "aten::mm"] and len(hooks) == 8
    first = compiled.index(hooks[0])
    assert compiled[first:].count("aten::mm") >= 5


def test_hook_that_raises_ends_the_pass_where_eager_ends_it():
    def scenario(model, call):
        def stop(_):
            raise ValueError("stop")

        model.layers[2].bias.register_post_accumulate_grad_hook(stop)
        with pytest.raises(ValueError, match="stop"):
            call(X).square().sum().backward()
        return gradients(model)

    eager, compiled = both(scenario)
    assert sum(g is None for g in eager) > 0
    assert_same(eager, compiled)


def test_hook_that_runs_backward_passes_of_the_same_graph():
    def scenario(model, call):
        y, z = call(X).sum(), call(X * 2).sum()
        runs = []

        def again(_):
            runs.append(len(runs))
            if len(runs) < 3:
                (z if len(runs) == 1 else y).backward(retain_graph=True)

        model.layers[1].weight.register_post_accumulate_grad_hook(again)
        y.backward(retain_graph=True)
        assert len(runs) == 3
        return gradients(model)

    assert_same(*both(scenario))


def test_optimizer_steps_in_hooks_that_drop_gradients():
    def scenario(model, call):
        optimizers = {p: torch.optim.SGD([p], lr=0.01, momentum=0.9) for p in model.parameters()}

        def step(p):
            optimizers[p].step()
            optimizers[p].zero_grad()

        for p in model.parameters():
            p.register_post_accumulate_grad_hook(step)
        for _ in range(5):
            call(X).square().mean().backward()
        return [p.detach().clone() for p in model.parameters()]

    assert_same(*both(scenario))


def test_hooks_that_change_gradients_before_and_after():
    def scenario(model, call):
        def triple(p):
            p.grad.mul_(3)

        model.layers[0].weight.register_hook(lambda g: g * 2)
        model.layers[3].weight.register_post_accumulate_grad_hook(triple)
        for _ in range(2):
            (call(X).square().sum() + call(X * 2).sum()).backward()
        return gradients(model)

    assert_same(*both(scenario))
