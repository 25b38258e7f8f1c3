"""Dicts whose keys are tensors, as an optimizer's state is: read, written, walked, and whole training steps."""

import collections

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


@program
def table_by_tensor():
    a, b, other = vector(), vector(3, 5.0), vector(3, 7.0)
    table = {a: "a", b: [1], "name": 2, other: 3}

    def f(x, y):
        table[y].append(len(table[y]))
        return x + 1, table[x], table.get(y), y in table, table["name"], table.get(x, "none")

    return Case(f, a, b, observe=table[b], then=[lambda: Args(a, b), lambda: table.update(name=4)])


@program
def table_by_tensor_with_absent_keys():
    a, b = vector(), vector(3, 5.0)
    table = {a: "a"}

    def f(x, y):
        made = x + 1
        try:
            table[y]
        except KeyError as error:
            missing = error.args[0] is y
        return made, made in table, y in table, table.get(made, "none"), missing

    return Case(f, a, b, then=[lambda: Args(a, vector())])


@program
def table_that_is_written_and_walked():
    a, b = vector(), vector(3, 5.0)
    table = {a: 1, b: 2}

    def f(x, y):
        total = table[x] + table[y]
        table[x] = total + 10
        seen = [(k is x, k is y, v) for k, v in table.items()]
        del table[y]
        table[y] = x * table[x]
        return seen, total, len(table), list(table.values())[0], [k is y for k in table]

    def again():
        table.clear()
        table.update({b: 3, a: 4})

    return Case(f, a, b, look=lambda: [(k is a, v) for k, v in table.items()], then=[again])


@program
def tensor_keys_change_places():
    a, b = vector(), vector(3, 5.0)
    table = {a: 1.0, b: 2.0}

    def f(x):
        return x * table[x]

    def swap():
        table[a], table[b] = table[b], table[a]

    return Case(f, a, then=[swap, lambda: Args(b), lambda: Args(a)])


@program
def default_table_by_tensor():
    a, b = vector(), vector(3, 5.0)
    table = collections.defaultdict(dict)
    table[a]["steps"] = 1

    def f(x, y):
        state = table[x]
        state["steps"] = state.get("steps", 0) + 1
        if "mean" not in state:
            state["mean"] = torch.zeros_like(x)
        state["mean"].mul_(0.5).add_(x)
        return state["mean"] + y, state["steps"]

    return Case(f, a, b, look=lambda: [(k is a, v) for k, v in table.items()], then=[lambda: None, lambda: Args(b, a)])


def training(make, changes=(), steps=3, size=3):
    """A step of training with what `make` makes of the parameters; before each further call a change of the optimizer."""
    model = torch.nn.Sequential(torch.nn.Linear(size, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    with torch.no_grad():
        for n, p in enumerate(model.parameters()):
            p.copy_(torch.arange(p.numel()).reshape(p.shape) / 10 - n / 7)
    optimizer = make(model.parameters())

    def f(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def look():
        state = optimizer.state_dict()["state"]
        return [{k: v for k, v in sorted(s.items())} for s in state.values()], [p.grad for p in model.parameters()]

    then = [lambda c=c: c(optimizer) for c in changes] or [lambda: None] * steps
    return Case(f, matrix(4, size), observe=model, look=look, then=then, forward_only=True)


@program(break_step=97)
def step_with_momentum():
    return training(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01))


@program(break_step=97)
def step_with_momentum_of_all_at_once():
    return training(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True))


@program(break_step=97)
def step_of_rmsprop():
    return training(lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True))


@program(break_step=97)
def step_of_adadelta():
    return training(lambda p: torch.optim.Adadelta(p, lr=0.1))


@program(break_step=97)
def step_of_rprop():
    return training(lambda p: torch.optim.Rprop(p, lr=0.01))


@program(break_step=97)
def step_of_rprop_with_a_tensor_as_rate():
    return training(lambda p: torch.optim.Rprop(p, lr=torch.tensor(0.01)))


@program(break_step=97)
def step_of_a_fused_adam():
    return training(lambda p: torch.optim.Adam(p, lr=0.01, fused=True))


@program(whole=False, break_step=97)
def step_of_adam():
    return training(lambda p: torch.optim.Adam(p, lr=0.01))


@program(whole=False, break_step=97)
def groups_that_change_between_steps():
    case = training(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    optimizer = next(c.cell_contents for c in case.f.__closure__ if isinstance(c.cell_contents, torch.optim.Optimizer))
    extra = vector(2).requires_grad_()

    def add():
        extra.grad = torch.ones_like(extra)
        optimizer.add_param_group({"params": [extra], "lr": 0.5})

    def slower():
        optimizer.param_groups[0]["lr"] = 0.01

    case.then = (add, slower, lambda: optimizer.state.clear())
    return case
