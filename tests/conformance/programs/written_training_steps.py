"""Training that a function begins and ends: layers copied inside, optimizers made inside, tensors of its own as keys."""

import copy

import torch
from torch import nn

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector

NOTHING = [lambda: None] * 2


def small_layer():
    layer = nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight.copy_(matrix(2, 3))
        layer.bias.fill_(0.5)
    return layer


def small_model():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))
    with torch.no_grad():
        for n, p in enumerate(model.parameters()):
            p.copy_(torch.arange(p.numel()).reshape(p.shape) / 10 - n / 7)
    return model


def steps(make, count=2):
    """Steps with what `make` makes of the parameters of a copy; the model itself stays as it is."""
    model = small_model()

    def f(x):
        trained = copy.deepcopy(model)
        optimizer = make(trained.parameters())
        losses = []
        for _ in range(count):
            optimizer.zero_grad()
            loss = trained(x).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses, [p.detach() for p in trained.parameters()], list(trained.buffers())

    return Case(f, matrix(4, 3), observe=model, then=NOTHING, forward_only=True)


@program(break_step=499)
def steps_of_a_copy():
    return steps(lambda p: torch.optim.SGD(p, lr=0.1))


@program(break_step=499)
def steps_with_momentum():
    return steps(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01))


@program(break_step=499)
def steps_of_adamw():
    return steps(lambda p: torch.optim.AdamW(p, lr=0.1))


@program(whole=False)
def copy_of_a_layer_under_no_grad():
    layer = small_layer()

    def f(x):
        with torch.no_grad():
            copied = copy.deepcopy(layer)
            copied.weight.mul_(2)
            y = copied(x)
        same = [copied.weight is layer.weight, type(copied.weight).__name__, copied.weight.requires_grad, copied.training]
        return y, same

    def shared():
        layer.bias = nn.Parameter(layer.weight.detach()[:, 0])

    return Case(f, matrix(), observe=layer, then=[lambda: layer.eval() and None, shared])


@program
def copy_of_a_layer_whose_gradient_is_taken():
    layer = small_layer()

    def f(x):
        copied = copy.deepcopy(layer)
        taken = torch.autograd.grad(copied(x).square().sum(), [copied.weight, copied.bias])
        return taken, layer.weight.grad is None

    return Case(f, matrix(), observe=layer, then=NOTHING, forward_only=True)


@program
def buffers_that_come_to_share_memory():
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("first", vector())
            self.register_buffer("second", vector(3, 2.0))

    holder = Holder()

    def f(x):
        copied = copy.deepcopy(holder)
        copied.first.add_(x)
        return copied.first, copied.second * 1

    def share():
        holder.second = holder.first.view(3)

    def part():
        holder.first = vector()
        holder.second = vector(6)[3:]

    return Case(f, vector(), observe=holder, then=[lambda: None, share, part])


@program
def tensors_made_inside_as_keys():
    def f(x):
        y, z = x + 1, x * 2
        table = {y: "y", z: "z", x: "x"}
        table[y] += "!"
        seen = {y, y, z}
        seen.add(x)
        order = [table[k] for k in table], [k is y for k in table]
        del table[z]
        return table[y], table.get(z), z in seen, (x + 5) in table, len(seen), seen.isdisjoint({x + 3}), order, y * z

    return Case(f, vector(), then=[lambda: Args(vector() + 1)])


@program(whole=False)
def tensors_made_inside_as_keys_that_live_on():
    kept = {}

    def f(x):
        y = x + 1
        table, seen = {y: 1}, {y}
        torch._dynamo.graph_break()
        kept["table"], kept["tensor"] = table, y
        return y, table[y], y in seen, y in kept["table"]

    def look():
        return [k is kept["tensor"] for k in kept["table"]], kept["tensor"] in kept["table"]

    return Case(f, vector(), look=look, then=NOTHING)


@program(whole=False)
def addresses_that_a_program_sees():
    """A tensor's hash is its address, by whichever way it is asked for."""

    def f(x, t):
        y = x + 1
        told = [hash(y) == id(y), y.__hash__() == id(y), torch.Tensor.__hash__(t) == id(t), hash(t) == t.__hash__()]
        told += [list(map(torch.Tensor.__hash__, [y, t])) == [id(y), id(t)], list(map(y.__hash__, ())) == []]
        told += [hash(frozenset([y])) == hash(frozenset([y])), hash((t, 1)) == hash((t, 1))]
        told += [sorted([y], key=torch.Tensor.__hash__)[0] is y]  # of two, either may come first
        return y, told

    return Case(f, vector(), vector(3, 5.0), then=[lambda: Args(vector(), vector()), lambda: None])


@program(whole=False)
def addresses_that_c_code_asks_for():
    def f(x):
        y = x + 1
        told = list(map(torch.Tensor.__hash__, [y]))
        return y, told == [id(y)]

    return Case(f, vector(), then=NOTHING)


@program
def addresses_of_arguments():
    def f(x):
        return x + 1, x.__hash__() == id(x), hash(x) == id(x), torch.Tensor.__hash__(x) == hash(x)

    return Case(f, vector(), then=[lambda: Args(vector()), lambda: None])


@program(whole=False)
def sets_of_tensors_made_inside():
    def f(x):
        parts = [x + n for n in range(5)]
        seen = set(parts)
        total = sum(float(p.sum()) for p in seen)
        return len(seen), len(seen - {parts[0]}), frozenset(parts[:2]) <= seen, parts[3] in seen, total

    return Case(f, vector(), then=NOTHING)


@program
def numbers_drawn_into_tensors_by_a_generator_made_inside():
    def f(x):
        g = torch.Generator().manual_seed(3)
        a, b = torch.empty(4).normal_(generator=g), x * 2
        b.uniform_(-1, 1, generator=g)
        c = torch.zeros(2, 3)
        c[1].exponential_(generator=g)
        c.t()[0].random_(0, 9, generator=g)
        w = nn.init.xavier_uniform_(torch.empty(3, 4), generator=g)
        d = torch.empty(5).bernoulli_(0.5, generator=g), torch.empty(2).exponential_(2.0, generator=g), torch.rand(2, generator=g)
        return a, b._version, b + x, c, w, d

    return Case(f, vector(), then=[lambda: Args(vector() + 1)])


@program(whole=False)
def numbers_drawn_into_what_has_a_history():
    def f(x):
        g = torch.Generator().manual_seed(3)
        y = x * 2
        z = y.sum()
        y.normal_(generator=g)
        with torch.no_grad():
            w = (x * 3).uniform_(2, 3, generator=g)
        try:
            torch.empty(2).uniform_(3, 1, generator=g)
        except RuntimeError as error:
            text = str(error)[:30]
        return z, y * x, y, w, text, torch.rand(1, generator=g)

    return Case(f, leaf(), then=NOTHING)


@program
def numbers_drawn_from_no_range_into_an_argument():
    def f(x, to):
        try:
            x.uniform_(3, to)
        except RuntimeError as error:
            return str(error)[:30], x * 2
        return "drawn", x.shape

    return Case(f, vector(), 1.0, then=[lambda: Args(vector(), 4.0), lambda: Args(vector(), 2.0)])


@program
def numbers_drawn_into_an_argument():
    def f(x):
        x.normal_(generator=torch.Generator().manual_seed(1))
        return x * 2

    return Case(f, vector(), versions=True, then=[lambda: None, lambda: Args(vector(5))])
