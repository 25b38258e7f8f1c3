"""Soundness rules 15 to 22 (resuming, guards, gradients, runtime), each with programs that show them."""

import contextlib
import sys

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, vector


@program(rule=15, whole=False)
def break_inside_with_in_try_in_loop():
    log = []

    @contextlib.contextmanager
    def noted(i):
        log.append(("in", i))
        try:
            yield i
        finally:
            log.append(("out", i))

    def f(x):
        for i in range(3):
            try:
                with noted(i) as n:
                    x = x + n
                    print(n)
                    if n == 1:
                        raise KeyError(n)
                    x = x * 2
            except KeyError:
                x = x - 100
            finally:
                log.append("f")
        return x

    return Case(f, vector())


@program(rule=16)
def guards_do_not_materialise_dict():
    class Light:
        def __init__(self):
            self.a = 1
            self.b = vector()

    o = Light()

    def f(x):
        return x * o.a + o.b

    return Case(
        f,
        vector(),
        then=[lambda: setattr(o, "a", 2), lambda: setattr(o, "b", vector(3, 5.0)), lambda: o.__dict__.update(a=9)],
    )


@program(rule=16)
def one_key_of_a_big_dict():
    big = {str(i): i for i in range(1000)}

    def f(x):
        return x * big["500"]

    return Case(f, vector(), then=[lambda: big.update(new=1), lambda: big.pop("3"), lambda: big.update({"500": 7})])


@program(rule=16)
def equality_of_user_key_not_called_by_guards():
    calls = []

    class Key:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return 1

        def __eq__(self, other):
            calls.append("eq")
            return self.n == other.n

    a, b = Key(1), Key(2)
    table = {a: 10, b: 20}

    def f(x):
        return x * table[b]

    return Case(f, vector(), then=[lambda: table.__setitem__(b, 5)])


@program(rule=17)
def two_functions_share_code():
    def make(scale):
        def g(x):
            return x * scale

        return g

    first, second = make(2), make(5)

    def f(x):
        return first(x), second(x)

    return Case(f, vector())


@program(rule=17)
def equal_blocks_with_different_weights():
    class Block(torch.nn.Module):
        def __init__(self, value):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.full((3,), value))

        def forward(self, x):
            return x * self.weight

    model = torch.nn.Sequential(Block(1.0), Block(2.0), Block(3.0))
    return Case(model, vector(), then=[lambda: setattr(model[1], "weight", torch.nn.Parameter(torch.zeros(3)))])


@program(rule=17, whole=False, not_ways=("breaks", "breaks-inlined", "fx-breaks"))
def tracing_is_on():
    lines = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name == "traced":
            lines.append((event, frame.f_lineno - frame.f_code.co_firstlineno))
            return tracer
        return None

    def traced(x):
        y = x + 1
        return y * 2

    def f(x, on):
        if on:
            sys.settrace(tracer)
        try:
            return traced(x)
        finally:
            sys.settrace(None)

    return Case(f, vector(), False, observe=lines, then=[lambda: Args(vector(), True)])


@program(rule=17, whole=False, not_ways=("breaks", "breaks-inlined", "fx-breaks"))
def tracing_that_starts_between_calls():
    """The third call is one that an entry would answer; its lines are seen all the same."""
    lines = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name == "traced_from_outside":
            lines.append((event, frame.f_lineno - frame.f_code.co_firstlineno))
            return tracer
        return None

    def traced_from_outside(x):
        y = x + 1
        return y * 2

    steps = [lambda: None, lambda: sys.settrace(tracer), lambda: sys.settrace(None)]
    return Case(traced_from_outside, vector(), observe=lines, then=steps)


@program(rule=18, whole=False)
def backward_with_print():
    class Loud(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, g):
            print("backward", g.shape)
            return g * 3

    def f(x):
        return Loud.apply(x)

    return Case(f, leaf())


@program(rule=19)
def parameter_changed_between_forward_and_backward():
    w = leaf()

    def g(x):
        return (x * w.detach()).sin() * w

    def f(x):
        y = g(x)
        return y.sum()

    def outer(x):
        loss = f(x)
        with torch.no_grad():
            x.mul_(1)
        return loss

    return Case(outer, vector(), observe=w)


@program(rule=20)
def outputs_own_their_memory():
    kept = []

    def f(x):
        y = x * 2
        z = y + 1
        return y[0], z

    def keep():
        kept.append(f(vector(3, 9.0)))

    return Case(f, vector(), observe=kept, then=[keep, keep])


@program(rule=20, whole=False)
def error_after_a_mutation():
    def f(x, y):
        x.add_(1)
        return x @ y

    return Case(f, vector(3), vector(3), versions=True, then=[lambda: Args(vector(3), vector(4))])


@program(rule=22, whole=False)
def index_out_of_bounds():
    def f(x, i):
        x.add_(1)
        return x[i] * 2

    return Case(f, vector(3), torch.tensor([0, 2]), versions=True, then=[lambda: Args(vector(3), torch.tensor([0, 7]))])


@program(rule=22, whole=False)
def embedding_out_of_bounds():
    table = torch.nn.Embedding(3, 2)
    with torch.no_grad():
        table.weight.fill_(0.5)

    def f(i):
        return table(i) + 1

    return Case(f, torch.tensor([0, 1]), then=[lambda: Args(torch.tensor([1, 3]))])
