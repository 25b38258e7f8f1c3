"""torch.vmap and torch function modes: what the mapped function and the mode's handler may do."""

import functools

import torch
from torch.overrides import TorchFunctionMode

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


class Scaling(TorchFunctionMode):
    def __init__(self, factor):
        super().__init__()
        self.factor, self.seen = factor, []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(getattr(func, "__name__", "?"))
        result = func(*args, **(kwargs or {}))
        return result * self.factor if func is torch.Tensor.sin else result


class Square(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2 * ctx.saved_tensors[0]


@program
def mapped_closure():
    scale = vector()

    def f(x):
        return torch.vmap(lambda row: row * scale + row.sum())(x)

    return Case(f, matrix().requires_grad_(), then=[lambda: setattr(scale, "data", scale * 2)])


@program
def mapped_twice_over_other_dimensions():
    def f(x, y):
        inner = torch.vmap(lambda a, b: a * b + 1, in_dims=(None, 0))
        return torch.vmap(inner, in_dims=(0, None), out_dims=1)(x, y)

    return Case(f, vector(), vector(4))


@program(whole=False)
def mapped_structures():
    def f(x, y):
        low, rest = torch.vmap(lambda t: (t["a"].amin(), {"b": t["a"] * t["y"]}), in_dims=({"a": 0, "y": None},))({"a": x, "y": y})
        return low, rest["b"]

    return Case(f, matrix(), vector(3))


@program(whole=False)
def mapped_partial_and_parts():
    def f(x):
        return torch.vmap(functools.partial(torch.mul, x[0]))(x), torch.vmap(lambda row: row.cumsum(0), chunk_size=1)(x)

    return Case(f, matrix())


@program(whole=False)
def mapped_module():
    linear = torch.nn.Linear(3, 2)

    def f(x):
        return torch.vmap(linear)(x), torch.vmap(lambda row: linear(row).relu())(x)

    return Case(f, matrix(), observe=linear)


@program
def mapped_autograd_function():
    def f(x):
        return torch.vmap(lambda row: Square.apply(row))(x)

    return Case(f, matrix().requires_grad_())


@program(whole=False)
def mapped_function_that_refuses():
    def f(x, flag):
        try:
            return torch.vmap(lambda row: row * row.sum().item() if flag else row * 2)(x)
        except RuntimeError as error:
            return str(error)[:40]

    return Case(f, matrix(), 1, then=[lambda: Args(matrix(), 0), lambda: Args(matrix(), 1)])


@program(whole=False)
def mapped_function_that_branches():
    def f(x, flag):
        log = []

        def row(r):
            log.append(tuple(r.shape))
            if flag:
                raise ValueError(flag)
            return r + len(log)

        try:
            return torch.vmap(row)(x), log
        except ValueError as error:
            return error.args, log

    return Case(f, matrix(), 0, then=[lambda: Args(matrix(), 2), lambda: Args(matrix(), 0)])


@program
def mapped_draws():
    def f(x):
        same = torch.vmap(lambda row: torch.nn.functional.dropout(row, 0.5), randomness="same")(x)
        return same, torch.vmap(lambda row: row + torch.rand(3), randomness="different")(x)

    return Case(f, matrix())


@program
def mode_from_outside():
    mode = Scaling(2)

    def f(x):
        with mode:
            y = x.sin() + 1
        return y.sin(), len(mode.seen)

    return Case(f, vector().requires_grad_(), observe=mode, then=[lambda: setattr(mode, "factor", 5)])


@program
def modes_that_nest():
    def f(x):
        with Scaling(2) as outer:
            y = x.sin()
            with Scaling(3):
                y = y + x.sin() * x.shape[0]
            y = y + x.sin()
        return y, outer.seen

    return Case(f, vector())


@program(whole=False)
def mode_around_what_breaks():
    def f(x):
        with Scaling(2):
            y = x.sin()
            if y.sum() > 100:
                y = y + 1
            y = y + x.sin()
        return y.sin()

    return Case(f, vector())


@program
def mode_that_an_error_leaves():
    def f(x, flag):
        try:
            with Scaling(2):
                y = x.sin()
                if flag:
                    raise KeyError(flag)
        except KeyError as error:
            return x.sin(), error.args
        return y + x.sin()

    return Case(f, vector(), 0, then=[lambda: Args(vector(), 1), lambda: Args(vector(), 0)])
