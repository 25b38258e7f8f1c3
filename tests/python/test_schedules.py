"""Schedules of learning rates within a compiled step: one capture for many steps, with the very floats that eager has."""

import math

import framefuse
import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as schedules
from torch.optim.swa_utils import SWALR


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    framefuse.reset()


def _warmed(step):
    return min((step + 1) ** -0.5, (step + 1) * 8**-1.5)


def _warm_up_then_cosine(o):
    return schedules.SequentialLR(o, [schedules.LinearLR(o, 0.1, 1.0, 4), schedules.CosineAnnealingLR(o, 40)], milestones=[4])


def _three_parts(o):
    parts = [schedules.LinearLR(o, 0.1, 1.0, 3), schedules.ConstantLR(o, 1.0, 3), schedules.ExponentialLR(o, 0.9)]
    return schedules.SequentialLR(o, parts, milestones=[3, 6])


# The first capture is for parameters that have no gradients yet, and for the numbers at hand. A branch that the schedule takes is one more.
SCHEDULES = {
    "lambda": (lambda o: schedules.LambdaLR(o, lambda step: 0.95**step), 2),
    "lambda by whole numbers": (lambda o: schedules.LambdaLR(o, lambda step: 1 / (1 + step // 4)), 2),
    "lambda with a warm-up": (lambda o: schedules.LambdaLR(o, _warmed), 2),
    "lambda of a cosine": (lambda o: schedules.LambdaLR(o, lambda step: max(0.0, 0.5 * (1 + math.cos(math.pi * step / 30)))), 2),
    "multiplicative": (lambda o: schedules.MultiplicativeLR(o, lambda step: 0.95), 2),
    "steps": (lambda o: schedules.StepLR(o, 7), 3),
    "a milestone": (lambda o: schedules.MultiStepLR(o, [12]), 3),
    "milestones": (lambda o: schedules.MultiStepLR(o, [5, 12, 20]), 3),
    "a milestone that counts twice": (lambda o: schedules.MultiStepLR(o, [3, 6, 6, 12, 20], gamma=0.5), 4),
    "a table of rates": (lambda o: schedules.LambdaLR(o, lambda step: {4: 0.5, 9: 0.5, 17: 0.5}.get(step, 1.0)), 3),
    "constant": (lambda o: schedules.ConstantLR(o, 0.5, 5), 3),
    "linear": (lambda o: schedules.LinearLR(o, 0.3, 1.0, 8), 3),
    "exponential": (lambda o: schedules.ExponentialLR(o, 0.9), 2),
    "polynomial": (lambda o: schedules.PolynomialLR(o, 10, 2.0), 3),
    "cosine": (lambda o: schedules.CosineAnnealingLR(o, 40), 2),
    "cosine with restarts": (lambda o: schedules.CosineAnnealingWarmRestarts(o, 10), 3),
    "one cycle": (lambda o: schedules.OneCycleLR(o, 0.3, total_steps=40), 3),
    "one cycle of lines": (lambda o: schedules.OneCycleLR(o, 0.3, total_steps=40, anneal_strategy="linear"), 3),
    "cycles": (lambda o: schedules.CyclicLR(o, 0.01, 0.1, step_size_up=5), 3),
    "smaller cycles": (lambda o: schedules.CyclicLR(o, 0.01, 0.1, step_size_up=5, mode="triangular2"), 3),
    "cycles that fade": (lambda o: schedules.CyclicLR(o, 0.01, 0.1, step_size_up=5, mode="exp_range", gamma=0.99), 3),
    # A capture for each part of the schedule, and one for the step at which the next one begins.
    "a warm-up, then a cosine": (_warm_up_then_cosine, 5),
    "three parts": (_three_parts, 8),
    "averaged weights": (lambda o: SWALR(o, 0.05, 5), 4),
    "two at once": (lambda o: schedules.ChainedScheduler([schedules.ExponentialLR(o, 0.9), schedules.ExponentialLR(o, 0.95)]), 2),
}


def _state_of(schedule):
    """Its state, and those of the schedules that it is made of. A function has no text of its own."""
    state = {key: value for key, value in vars(schedule).items() if type(value) in (int, float, bool, list, str) and key not in ("_schedulers", "lr_lambdas")}
    return state, [_state_of(part) for part in getattr(schedule, "_schedulers", ())]


def _train(make, optimizer, compiled, steps=30):
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = optimizer(model.parameters(), lr=0.1)
    schedule = make(optimizer)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss.detach()

    run = framefuse.compile(step) if compiled else step
    before = framefuse.statistics()["captures"]
    rates, weights, states = [], [], []
    for i in range(steps):
        run(torch.full((2, 4), 0.1 * (1 + i % 3)))
        rates.append([{name: group.get(name) for name in ("lr", "momentum", "betas")} for group in optimizer.param_groups])
        weights.append([p.detach().clone() for p in model.parameters()])
        states.append(repr(_state_of(schedule)))
    return framefuse.statistics()["captures"] - before, (rates, states), weights


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCHEDULES)
def test_captures_and_rates(name):
    make, captures = SCHEDULES[name]

    def sgd(parameters, lr):
        return torch.optim.SGD(parameters, lr=lr, momentum=0.9)

    for optimizer in (sgd, torch.optim.AdamW) if "cycle" not in name or name.startswith("one") else (sgd,):
        framefuse.reset()
        took, rates, weights = _train(make, optimizer, compiled=True)
        _, expected, expected_weights = _train(make, optimizer, compiled=False)
        assert rates == expected
        torch.testing.assert_close(weights, expected_weights)
        assert took <= captures
