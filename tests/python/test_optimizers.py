"""Train steps with each optimizer of torch.optim, whole and `compile(opt.step)` alone: values, state dicts, graphs and breaks."""

import contextlib
import copy
import warnings

import framefuse
import pytest
import torch
import torch._dynamo
from torch import nn, optim

_RATE = torch.tensor(0.01)

# Settings that each optimizer of the list takes, on the CPU, one tensor at a time and as lists of tensors.
_SETTINGS = {
    optim.SGD: [{}, {"momentum": 0.9, "nesterov": True}, {"momentum": 0.5, "dampening": 0.1, "maximize": True}, {"weight_decay": 0.1}],
    optim.ASGD: [{}, {"weight_decay": 0.1, "maximize": True}, {"t0": 1.0, "lambd": 0.1}],
    optim.Adadelta: [{}, {"weight_decay": 0.1, "maximize": True}],
    optim.Adafactor: [{}, {"weight_decay": 0.1, "maximize": True}, {"d": 1.5}],
    optim.Adagrad: [{}, {"lr_decay": 0.1, "weight_decay": 0.1, "maximize": True}],
    optim.Adam: [{}, {"amsgrad": True, "weight_decay": 0.1}, {"maximize": True, "decoupled_weight_decay": True}],
    optim.AdamW: [{}, {"amsgrad": True, "maximize": True}],
    optim.Adamax: [{}, {"weight_decay": 0.1, "maximize": True}],
    optim.NAdam: [{}, {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}],
    optim.RAdam: [{}, {"weight_decay": 0.1, "maximize": True}, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    optim.RMSprop: [{}, {"momentum": 0.9, "centered": True}, {"weight_decay": 0.1, "maximize": True}],
    optim.Rprop: [{}, {"maximize": True}],
}
_CASES = [(kind, {**given, "foreach": each}) for kind, all in _SETTINGS.items() for given in all for each in (False, True)]
_CASES += [(kind, {"lr": _RATE, "foreach": False}) for kind in _SETTINGS]
# A rate that is a tensor is compared with a number that another one gives.
_BREAKS = {"Adafactor(lr=0.009999999776482582, foreach=False)"}
_CASES += [(optim.Muon, {}), (optim.Muon, {"nesterov": False, "weight_decay": 0.0})]
_FUSED = [(kind, {"fused": True}) for kind in (optim.SGD, optim.Adagrad, optim.Adam, optim.AdamW)]


# torch's own code raises there where it is captured, with torch.compile as well, so that the step runs as Python.
_RAISES = {"foreach"} if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13) else set()


def _name(case):
    return f"{case[0].__name__}({', '.join(f'{k}={v}' for k, v in case[1].items())})"


def _model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def _batches(count=3):
    torch.manual_seed(1)
    return [(torch.randn(6, 4), torch.randn(6, 2)) for _ in range(count)]


def _parameters(model, kind):
    return [p for p in model.parameters() if p.dim() == 2 or kind is not optim.Muon]


class _Training:
    """One model and its optimizer; `step` is the whole train step."""

    def __init__(self, make, kind=None):
        self.model = _model()
        self.optimizer = make(_parameters(self.model, kind))

    def backward(self, x, y):
        self.optimizer.zero_grad()
        loss = (self.model(x) - y).square().mean()
        loss.backward()
        return loss.detach()

    def step(self, x, y):
        loss = self.backward(x, y)
        self.optimizer.step()
        return loss

    def result(self, losses):
        return losses, list(self.model.parameters()), copy.deepcopy(self.optimizer.state_dict())


def _run(training, step, batches):
    return training.result([step(x, y) for x, y in batches])


def _assert_same(got, expected):
    if isinstance(expected, dict):
        assert list(got) == list(expected)
        for key in expected:
            _assert_same(got[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert type(got) is type(expected) and len(got) == len(expected)
        for g, e in zip(got, expected):
            _assert_same(g, e)
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(got, expected, rtol=2e-5, atol=1e-6, check_device=True, check_stride=True)
    else:
        assert type(got) is type(expected)
        assert got == (pytest.approx(expected, rel=1e-9) if isinstance(expected, float) else expected)


@contextlib.contextmanager
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _graphs_and_breaks(function, *args):
    told = framefuse.explain(function, backend="fuse")(*args)
    return told.graph_count, told.graph_break_count, [str(b.reason) for b in told.break_reasons]


@pytest.mark.parametrize("case", _CASES + _FUSED, ids=_name)
def test_each_optimizer(case):
    kind, settings = case
    make = lambda parameters: kind(parameters, **settings)  # noqa: E731
    batches = _batches()
    with _quiet():
        eager = _Training(make, kind)
        expected = _run(eager, eager.step, batches)
        whole = _Training(make, kind)
        _assert_same(_run(whole, framefuse.compile(whole.step), batches), expected)
        alone = _Training(make, kind)
        compiled = framefuse.compile(alone.optimizer.step)

        def step(x, y):
            loss = alone.backward(x, y)
            compiled()
            return loss

        _assert_same(_run(alone, step, batches), expected)
        if kind is optim.Adafactor and _RAISES & {key for key, value in settings.items() if value}:
            return
        counted = _Training(make, kind)
        counts = [_graphs_and_breaks(counted.step, x, y) for x, y in batches]
        if _name(case) in _BREAKS:
            assert counts != [(1, 0, [])] * 3
            return
        assert counts == [(1, 0, [])] * 3
        assert _graphs_and_breaks(counted.optimizer.step) == (1, 0, [])


@pytest.mark.parametrize("settings", [{}, {"line_search_fn": "strong_wolfe"}], ids=str)
def test_lbfgs(settings):
    """Values decide how often the closure is called: the graph breaks, and the results are eager's."""

    def train(compiled):
        training = _Training(lambda p: optim.LBFGS(p, max_iter=4, **settings))
        training.model.double()

        def step(x, y):
            def closure():
                training.optimizer.zero_grad()
                loss = (training.model(x) - y).square().mean()
                loss.backward()
                return loss

            return training.optimizer.step(closure).detach()

        batches = [(x.double(), y.double()) for x, y in _batches()]
        return _run(training, framefuse.compile(step) if compiled else step, batches)

    with _quiet():
        _assert_same(train(True), train(False))


def test_gradients_that_are_sparse():
    def train(compiled):
        torch.manual_seed(0)
        table = nn.Embedding(5, 3, sparse=True)
        optimizer = optim.SparseAdam(table.parameters(), lr=0.1)

        def step(ids):
            optimizer.zero_grad()
            loss = table(ids).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = framefuse.compile(step) if compiled else step
        losses = [run(torch.tensor(ids)) for ids in ([0, 1, 1], [2, 4, 0], [3, 3, 3])]
        return losses, table.weight, copy.deepcopy(optimizer.state_dict())

    with _quiet():
        _assert_same(train(True), train(False))


def test_differentiable_steps():
    def train(compiled):
        torch.manual_seed(0)
        rate = torch.tensor(0.1, requires_grad=True)
        leaf = torch.randn(3, requires_grad=True)
        weight = leaf.clone()
        weight.retain_grad()
        optimizer = optim.SGD([torch.empty(0, requires_grad=True)], lr=0.1, differentiable=True)
        optimizer.param_groups[0].update(params=[weight], lr=rate)

        def step(x):
            weight.grad = weight.detach() * x
            optimizer.step()
            return (weight * x).sum()

        run = framefuse.compile(step) if compiled else step
        losses = [run(torch.ones(3)), run(torch.ones(3) * 2)]
        losses[-1].backward()
        return [loss.detach() for loss in losses], leaf.grad, rate.grad

    _assert_same(train(True), train(False))


def _clipped_by_norm(training, x, y):
    loss = training.backward(x, y)
    norm = nn.utils.clip_grad_norm_(training.model.parameters(), 0.1)
    training.optimizer.step()
    return loss, norm


def _clipped_by_value(training, x, y):
    loss = training.backward(x, y)
    nn.utils.clip_grad_value_(training.model.parameters(), 0.01)
    training.optimizer.step()
    return loss


def _accumulated(training, x, y):
    training.optimizer.zero_grad()
    for part, target in zip(x.chunk(3), y.chunk(3)):
        ((training.model(part) - target).square().mean() / 3).backward()
    training.optimizer.step()
    return x.sum()


def _averaged(training, x, y):
    loss = training.step(x, y)
    training.average.update_parameters(training.model)
    return loss, training.average(x).detach()


def _scheduled(training, x, y):
    loss = training.step(x, y)
    training.schedule.step()
    return loss, training.schedule.get_last_lr()


def _scaled(training, x, y):
    training.optimizer.zero_grad()
    loss = (training.model(x) - y).square().mean()
    training.scaler.scale(loss).backward()
    training.scaler.unscale_(training.optimizer)
    training.scaler.step(training.optimizer)
    training.scaler.update()
    return loss.detach()


def _nothing(training):
    pass


def _with_average(training):
    training.average = optim.swa_utils.AveragedModel(training.model, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.9))


def _with_average_of_all(training):
    training.average = optim.swa_utils.AveragedModel(training.model)


def _with_schedule(training):
    training.schedule = optim.lr_scheduler.CosineAnnealingLR(training.optimizer, T_max=5)


def _with_chained_schedule(training):
    schedules = optim.lr_scheduler
    first = schedules.LinearLR(training.optimizer, start_factor=0.1, total_iters=2)
    training.schedule = schedules.SequentialLR(training.optimizer, [first, schedules.ExponentialLR(training.optimizer, 0.9)], [2])


def _with_scaler(training):
    training.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)


# What stands around the step: prepared, and done in a step.
_AROUND = {
    "norm": (_nothing, _clipped_by_norm),
    "value": (_nothing, _clipped_by_value),
    "accumulation": (_nothing, _accumulated),
    "average": (_with_average, _averaged),
    "average_of_all": (_with_average_of_all, _averaged),
    "schedule": (_with_schedule, _scheduled),
    "chained_schedule": (_with_chained_schedule, _scheduled),
    "scaler": (_with_scaler, _scaled),
}


@pytest.mark.parametrize("name", _AROUND)
@pytest.mark.parametrize("foreach", [False, True])
def test_what_stands_around_a_step(name, foreach):
    prepare, step = _AROUND[name]

    def train(compiled):
        training = _Training(lambda p: optim.AdamW(p, lr=0.05, foreach=foreach))
        prepare(training)
        function = framefuse.compile(step) if compiled else step
        result = training.result([function(training, x, y) for x, y in _batches(6)])
        others = [vars(training)[key].state_dict() for key in ("average", "schedule", "scaler") if hasattr(training, key)]
        return result, [{k: v for k, v in other.items() if k != "_schedulers"} for other in others]

    with _quiet():
        _assert_same(train(True), train(False))
        counted = _Training(lambda p: optim.AdamW(p, lr=0.05, foreach=foreach))
        prepare(counted)
        counts = [_graphs_and_breaks(step, counted, x, y) for x, y in _batches(4)]
    assert counts == [(1, 0, [])] * 4


def test_groups_of_parameters():
    def train(compiled):
        model = _model()
        groups = [{"params": model[0].parameters(), "lr": 0.1, "betas": (0.5, 0.9)}, {"params": model[2].parameters()}]
        optimizer = optim.Adam(groups, lr=torch.tensor(0.01), foreach=False)

        def step(x, y):
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = framefuse.compile(step) if compiled else step
        losses = [run(x, y) for x, y in _batches(2)]
        optimizer.param_groups[0]["lr"] = 0.05
        optimizer.param_groups[1]["lr"].fill_(0.1)
        losses += [run(x, y) for x, y in _batches(2)]
        return losses, list(model.parameters()), copy.deepcopy(optimizer.state_dict())

    _assert_same(train(True), train(False))


@pytest.mark.parametrize("kind", list(_SETTINGS), ids=lambda kind: kind.__name__)
def test_later_steps_take_no_captures(kind):
    training = _Training(lambda p: kind(p, lr=0.01), kind)
    run = framefuse.compile(training.step)
    captures = []
    with _quiet():
        for x, y in _batches(12):
            run(x, y)
            captures.append(framefuse.statistics()["captures"])
    assert captures[8:] == captures[8:9] * 4


def test_what_dynamo_disables_for_itself():
    """torch.compile, once called in a process, marks parts of torch.optim as disabled."""
    torch._dynamo.eval_frame.TorchPatcher.patch()
    batches = _batches()
    for kind in (torch.optim.SGD, torch.optim.AdamW):
        training = _Training(lambda parameters, kind=kind: kind(parameters, lr=0.1), kind)
        with _quiet():
            assert [_graphs_and_breaks(training.step, x, y) for x, y in batches] == [(1, 0, [])] * 3
