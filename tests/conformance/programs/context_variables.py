"""Context variables: read, set, reset by their tokens, in nested calls, around breaks, and beside other state."""

import contextlib
import contextvars

import torch
from torch import nn

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


def runs(function):
    """A change of state: the function is called, and the arguments stay."""
    return lambda: function() and None


@program
def collector_is_set_and_reset():
    active = contextvars.ContextVar("active", default=None)

    class Collector:
        def __init__(self, variable):
            self.variable = variable

        def get(self):
            return self.variable.get()

        def set(self, value):
            return self.variable.set(value)

        def reset(self, token):
            self.variable.reset(token)

    collector = Collector(active)

    def note(module, args, output):
        found = collector.get()
        if found is not None and "states" in found:
            found["states"].append(output)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
            for layer in self.layers:
                layer.register_forward_hook(note)

        def forward(self, x, states=False):
            found = {"states": []} if states else {}
            token = collector.set(found)
            try:
                for layer in self.layers:
                    x = layer(x).tanh()
            finally:
                collector.reset(token)
            return x, tuple(found.get("states", ()))

    torch.manual_seed(0)
    return Case(Model(), matrix(2, 4), then=[lambda: Args(matrix(2, 4), states=True)])


@program
def default_of_the_variable_and_of_the_call():
    scale = contextvars.ContextVar("scale", default=2)
    bare = contextvars.ContextVar("bare")

    def f(x):
        return x * scale.get() + bare.get(3) - scale.get(7)

    return Case(f, vector(), then=[runs(lambda: scale.set(5)), runs(lambda: bare.set(11)), runs(lambda: bare.set(12))])


@program
def no_value_and_no_default():
    bare = contextvars.ContextVar("bare")

    def f(x):
        try:
            return x * bare.get()
        except LookupError as error:
            return x + 1, error.args[0] is bare

    return Case(f, vector(), then=[runs(lambda: bare.set(4))])


@program
def value_is_a_tensor():
    weight = contextvars.ContextVar("weight")
    weight.set(leaf())

    def f(x):
        return x * weight.get()

    return Case(f, vector(), then=[runs(lambda: weight.set(vector() * 3)), runs(lambda: weight.set(torch.ones(3)))])


@program
def value_is_an_object():
    class Settings:
        def __init__(self, scale):
            self.scale = scale
            self.seen = []

    current = contextvars.ContextVar("current")
    settings = Settings(3)
    current.set(settings)

    def change():
        settings.scale = 4

    def f(x):
        now = current.get()
        now.seen.append(tuple(x.shape))
        return x * now.scale

    return Case(f, vector(), then=[runs(change), runs(lambda: current.set(Settings(7)))], look=lambda: settings.seen)


@program
def stays_set():
    level = contextvars.ContextVar("level", default=0)

    def f(x):
        level.set(level.get() + 1)
        level.set(level.get() * 2)
        return x + level.get()

    return Case(f, vector(), look=level.get, then=[runs(lambda: level.set(-1))])


@program
def set_to_a_result():
    last = contextvars.ContextVar("last", default=None)

    def f(x):
        y = x.sin()
        last.set({"result": y, "shape": y.shape})
        return y * 2

    return Case(f, vector(), look=last.get, then=[lambda: Args(vector(5))])


@program
def nested_settings():
    depth = contextvars.ContextVar("depth", default=0)

    @contextlib.contextmanager
    def deeper():
        token = depth.set(depth.get() + 1)
        try:
            yield depth.get()
        finally:
            depth.reset(token)

    def f(x):
        with deeper() as a, deeper() as b:
            x = x * depth.get() + a
            with deeper():
                x = x - depth.get() * b
        return x + depth.get()

    return Case(f, vector(), look=depth.get, then=[runs(lambda: depth.set(4))])


@program
def reset_to_the_first():
    mode = contextvars.ContextVar("mode", default="none")

    def f(x):
        first = mode.set("a")
        mode.set("b")
        third = mode.set("c")
        mode.reset(third)
        told = [mode.get(), first.old_value is contextvars.Token.MISSING, third.old_value, third.var is mode]
        mode.reset(first)
        return x + 1, told, mode.get()

    return Case(f, vector(), look=mode.get, then=[runs(lambda: mode.set("d"))])


@program
def set_and_reset_when_it_raises():
    guard = contextvars.ContextVar("guard", default=False)

    def inner(x):
        if guard.get():
            raise ValueError("in a guarded call")
        return x * 2

    def f(x):
        token = guard.set(True)
        try:
            return inner(x)
        except ValueError as error:
            return x - 1, str(error)
        finally:
            guard.reset(token)

    return Case(f, vector(), look=guard.get)


@program(not_ways=("threads",))  # a token is of the thread that made it
def token_is_kept():
    name = contextvars.ContextVar("name", default="x")
    kept = []

    def f(x):
        name.set("y")
        kept.append(name.set("z"))
        return x + 1

    def change():
        name.reset(kept.pop())

    def look():
        return [token.old_value for token in kept], name.get()

    return Case(f, vector(), look=look, then=[runs(change)])


@program
def another_variable_of_the_model():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = contextvars.ContextVar("scale", default=2)
            self.other = contextvars.ContextVar("other", default=3)

        def forward(self, x):
            token = self.scale.set(5)
            y = x * self.other.get() + self.scale.get()
            self.scale.reset(token)
            return y

    model = Scaled()

    def one_for_both():
        model.other = model.scale

    return Case(model, vector(), then=[runs(one_for_both)])


@program
def used_token_is_refused():
    flag = contextvars.ContextVar("flag", default=0)

    def f(x):
        token = flag.set(1)
        flag.reset(token)
        try:
            flag.reset(5)
        except TypeError:
            x = x + 1
        return x * 2

    return Case(f, vector(), look=flag.get)


@program(whole=False)
def break_while_it_is_set():
    scale = contextvars.ContextVar("scale", default=2)

    def f(x):
        outer = scale.set(3)
        inner = scale.set(4)
        x = x * scale.get()
        torch._dynamo.graph_break()
        x = x + scale.get()
        scale.reset(inner)
        x = x * scale.get()
        scale.reset(outer)
        return x - scale.get()

    return Case(f, vector(), look=scale.get, then=[runs(lambda: scale.set(9))])


@program(whole=False)
def token_from_before():
    scale = contextvars.ContextVar("scale", default=2)
    tokens = []

    def f(x):
        x = x * scale.get()
        if tokens:
            scale.reset(tokens.pop())
        return x + scale.get()

    return Case(f, vector(), look=scale.get, then=[runs(lambda: tokens.append(scale.set(7)))])


@program(whole=False)
def token_is_used_twice():
    flag = contextvars.ContextVar("flag", default=0)

    def f(x):
        token = flag.set(1)
        flag.reset(token)
        try:
            flag.reset(token)
        except RuntimeError as error:
            return x + 1, type(error).__name__
        return x

    return Case(f, vector(), look=flag.get)


@program(whole=False)
def copied_context_runs_a_function():
    scale = contextvars.ContextVar("scale", default=2)

    def inner(x):
        scale.set(scale.get() + 1)
        return x * scale.get()

    def f(x):
        token = scale.set(5)
        context = contextvars.copy_context()
        y = context.run(inner, x)
        scale.reset(token)
        return y + scale.get(), context[scale], scale in context

    return Case(f, vector(), look=scale.get, then=[runs(lambda: scale.set(8))])


@program(whole=False)
def backward_reads_it():
    scale = contextvars.ContextVar("scale", default=2.0)

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * scale.get()

    def f(x):
        token = scale.set(3.0)
        y = Scaled.apply(x)
        scale.reset(token)
        return y

    return Case(f, leaf(), then=[runs(lambda: scale.set(5.0))])


@program(whole=False)
def token_from_before_the_break():
    bare = contextvars.ContextVar("bare")
    scale = contextvars.ContextVar("scale", default=2)

    def f(x):
        first, second, third = bare.set(3), bare.set(4), scale.set(x)
        torch._dynamo.graph_break()
        scale.reset(third)
        bare.reset(second)
        x = x * bare.get() + scale.get()
        bare.reset(first)
        told = bare.get("nothing")
        again = bare.set(9)
        x = x + bare.get()
        bare.reset(again)
        return x, told, bare.get("nothing"), scale.get(7)

    return Case(f, vector(), look=lambda: (bare.get(None), scale.get()), then=[runs(lambda: bare.set(6)), lambda: None])


@program
def reset_by_tokens_that_are_handed_in():
    scale = contextvars.ContextVar("scale", default=2)
    other = contextvars.ContextVar("other", default=3)
    scale.set(6)
    tokens = (other.set(4), scale.set(7))

    def f(x, first, second):
        x = x * scale.get() + other.get()
        try:
            other.reset(first)
            scale.reset(second)
        except (RuntimeError, ValueError) as error:
            return x + other.get(), type(error)
        return x + scale.get() * other.get(), None

    def handed(token):
        return lambda: Args(vector(), other.set(5), token())

    def used():
        token = scale.set(6)
        scale.reset(token)
        return token

    return Case(
        f,
        vector(),
        *tokens,
        look=lambda: (scale.get(), other.get()),
        then=[handed(lambda: scale.set(8)), handed(used), handed(lambda: other.set(9)), handed(lambda: scale.set(1))],
    )


@program(whole=False)
def set_behind_a_reset_and_kept():
    level = contextvars.ContextVar("level", default="none")

    def f(x):
        outer = level.set("outer")
        torch._dynamo.graph_break()
        level.reset(outer)
        kept = level.set("kept")
        x = x + 1
        torch._dynamo.graph_break()
        told = kept.old_value is contextvars.Token.MISSING, level.get()
        level.reset(kept)
        return x, told, level.get()

    return Case(f, vector(), look=level.get, then=[runs(lambda: level.set("more"))])


@program(whole=False)
def tokens_that_are_refused():
    mode = contextvars.ContextVar("mode", default="none")
    other = contextvars.ContextVar("other", default="none")

    def f(x):
        token = mode.set("a")
        torch._dynamo.graph_break()
        told = []
        for variable in (other, mode, mode):
            try:
                variable.reset(token)
            except (RuntimeError, ValueError) as error:
                told.append(type(error).__name__)
        return x + len(told), told, mode.get()

    return Case(f, vector(), look=mode.get, then=[lambda: None])
