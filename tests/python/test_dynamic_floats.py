"""Symbolic floats: how many captures a changing learning rate, weight or temperature takes, and what its kernels are."""

import framefuse
import pytest
import torch
from torch import nn

LATER = (0.2, 0.3, 0.45, 1e-3, 7.0)


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    framefuse.reset()


def _captures(function, dynamic=None, values=(0.1, *LATER), backend="fuse"):
    """How many captures the calls took; each gives what eager gives."""
    compiled = framefuse.compile(function, dynamic=dynamic, backend=backend)
    before = framefuse.statistics()["captures"]
    x = torch.randn(3, 4)
    for value in values:
        torch.testing.assert_close(compiled(x, value), function(x, value), rtol=1e-5, atol=1e-6)
    return framefuse.statistics()["captures"] - before


STAY = {
    "product": lambda x, v: x * v,
    "difference from it": lambda x, v: v - x,
    "quotients": lambda x, v: x / v + v / (x.abs() + 1),
    "arithmetic": lambda x, v: x * (1 - v) + (v * 2 + 1) / v - -v,
    "comparison of a tensor": lambda x, v: (x > v) & (x <= -v),
    "alpha": lambda x, v: torch.add(x, x, alpha=-v),
    "in place": lambda x, v: x.clone().mul_(v).add_(x, alpha=1 - v),
    "value": lambda x, v: torch.addcdiv(x, x, x.abs() + 1, value=v),
    "lerp": lambda x, v: x.lerp(x * 2, v),
    "clamp": lambda x, v: x.clamp(-v, v),
    "full": lambda x, v: torch.full((3, 4), v) + x,
    "where": lambda x, v: torch.where(x > 0, x, v),
    "foreach": lambda x, v: torch._foreach_add(torch._foreach_mul([x, x + 1], v), [x, x], alpha=-v),
    "slope": lambda x, v: nn.functional.leaky_relu(x, v),
    "beside a size": lambda x, v: x * (v / x.shape[0]),
}


@pytest.mark.parametrize("name", STAY)
def test_it_stays_symbolic(name):
    assert _captures(STAY[name]) == 2


@pytest.mark.parametrize("name", STAY)
def test_operator_by_operator(name):
    assert _captures(STAY[name], backend="aten") == 2


def test_all_at_once():
    assert _captures(STAY["product"], dynamic=True) == 1


def test_never():
    assert _captures(STAY["product"], dynamic=False) == 6


LOOK = {
    "text": lambda x, v: x if f"{v}" else x + 1,
    "probability": lambda x, v: nn.functional.alpha_dropout(x, v, training=True).shape[0] + x,
    "key": lambda x, v: x * {v: 2}[v],
}


@pytest.mark.parametrize("name", LOOK)
def test_who_looks_at_it_pins_it(name):
    assert _captures(LOOK[name], values=(0.1, 0.2, 0.3, 0.45)) == 4


def test_branches_are_guards():
    assert _captures(lambda x, v: x * v if v > 0.25 else x - v) == 3  # for 0.1, then for what is below and above


def test_one_kernel_takes_it(capfd):
    def f(x, v):
        return (x * v + v).relu() * (1 - v)

    compiled = framefuse.compile(f)
    compiled(torch.randn(8), 0.1)
    framefuse.set_logs(fusion=True)
    try:
        compiled(torch.randn(8), 0.2)
    finally:
        framefuse.set_logs()
    log = capfd.readouterr().err
    assert "pointwise: mul, add, relu, mul" in log
    assert "ATen" not in log


def test_the_guard_says_what_it_wants(capfd):
    compiled = framefuse.compile(lambda x, v: x * v)
    x = torch.ones(3)
    for value in (0.1, 0.2):
        compiled(x, value)
    before = framefuse.statistics()["captures"]
    framefuse.set_logs(recompiles=True)
    try:
        torch.testing.assert_close(compiled(x, 2), x * 2)
    finally:
        framefuse.set_logs()
    assert framefuse.statistics()["captures"] == before + 1
    assert "L['v'] is no float" in capfd.readouterr().err


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_a_schedule_takes_no_captures(optimizer):
    def train(compiled):
        torch.manual_seed(0)
        model = nn.Linear(4, 3)
        step = optimizer(model.parameters(), lr=0.1)
        run = framefuse.compile(step.step) if compiled else step.step
        captures = [framefuse.statistics()["captures"]]
        for i in range(8):
            model(torch.ones(2, 4) + i).square().sum().backward()
            run()
            step.zero_grad()
            step.param_groups[0]["lr"] *= 0.9
            captures.append(framefuse.statistics()["captures"])
        return captures, [p.detach() for p in model.parameters()]

    captures, parameters = train(compiled=True)
    _, expected = train(compiled=False)
    torch.testing.assert_close(parameters, expected)
    assert captures[1] > captures[0]
    assert captures[4:] == captures[4:5] * 5
