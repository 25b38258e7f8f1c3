"""torch.func inside a compiled function: gradients, Jacobians, products with them, and what a transformed function does."""

import torch
from torch import func

from conformance.program import Case, program
from conformance.sample import leaf, matrix, vector


def _cubes(x):
    return (x**3).sum()


@program
def gradient_of_a_function():
    def f(x):
        return func.grad(_cubes)(x), func.grad(lambda y: (y * x).sin().sum())(x)

    return Case(f, vector(), then=[lambda: None])


@program
def gradient_that_eager_goes_through():
    w = leaf(3, 2.0)

    def f(x):
        first = func.grad(lambda y: (y * y * w).sum())(x)
        return first, (first * w).sum()

    return Case(f, leaf())


@program
def gradients_of_gradients():
    def f(x):
        return func.grad(lambda y: func.grad(_cubes)(y).sum())(x), func.hessian(_cubes)(x)

    return Case(f, leaf())


@program
def gradients_by_argument_with_more():
    def loss(a, b, *, factor):
        return (a * b).sum() * factor, (a + b, "note")

    def f(x):
        gradients, (total, note) = func.grad(loss, argnums=(0, 1), has_aux=True)(x, x + 1, factor=2.0)
        second, value = func.grad_and_value(loss, has_aux=True)(x, x, factor=3.0)
        return gradients, total, note, second, value

    return Case(f, vector())


@program
def gradients_per_sample():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))

    def loss(parameters, sample):
        return func.functional_call(model, parameters, (sample,)).square().sum()

    def f(x):
        parameters = {name: p.detach() for name, p in model.named_parameters()}
        return func.vmap(func.grad(loss), in_dims=(None, 0))(parameters, x)

    with torch.no_grad():
        for n, p in enumerate(model.parameters()):
            p.copy_(torch.arange(p.numel()).reshape(p.shape) / 10 - n / 5)
    return Case(f, matrix(3, 4))


@program
def jacobians_both_ways():
    def f(x):
        return func.jacrev(torch.sin)(x), func.jacfwd(lambda y: y * y.sum())(x), func.jacrev(func.jacfwd(_cubes))(x)

    return Case(f, leaf())


@program
def products_with_jacobians():
    def f(x):
        value, pull = func.vjp(lambda y: (y.sin(), y * 2), x)
        out, tangent = func.jvp(lambda y: y.exp(), (x,), (torch.ones_like(x),))
        return value, pull((x, x + 1)), out, tangent

    return Case(f, vector())


@program(whole=False)
def product_kept_for_later():
    def f(x):
        value, pull = func.vjp(torch.sin, x)
        torch._dynamo.graph_break()
        return value, pull(x)[0]

    return Case(f, vector())


@program
def gradient_of_code_with_effects():
    seen = []
    calls = {"n": 0}

    def loss(y):
        calls["n"] += 1
        seen.append(calls["n"])
        for scale in (1.0, 2.0):
            y = y * scale
        return y.square().sum()

    def f(x):
        return func.grad(loss)(x) + func.grad(loss)(x), len(seen)

    return Case(f, vector(), observe=[seen, calls], then=[lambda: None])


@program(whole=False)
def gradient_of_code_that_branches():
    def loss(y):
        if y.sum() > 0:
            return (y * 2).sum()
        return (y * 3).sum()

    def f(x):
        return func.grad(loss)(x)

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def gradient_of_code_that_raises():
    def loss(y):
        raise ValueError("no loss")

    def f(x):
        try:
            func.grad(loss)(x)
        except ValueError as error:
            text = str(error)
        try:
            func.grad(lambda y: y * 2)(x)
        except RuntimeError as error:
            return x + 1, text, str(error)
        return x, text

    return Case(f, vector())


@program
def gradient_with_writes_in_place():
    def loss(y):
        z = y * 1
        z[0] = 5.0
        z.mul_(y)
        return z.sum()

    def f(x):
        return func.grad(loss)(x)

    return Case(f, vector())


@program
def gradient_without_grad_mode():
    def loss(y):
        with torch.no_grad():
            scale = y * 2
        return (scale * y).sum()

    def f(x):
        with torch.no_grad():
            inside = func.grad(loss)(x)
        return inside, func.grad(loss)(x), func.grad(lambda y: (y.detach() * y).sum())(x)

    return Case(f, leaf())


@program(whole=False)
def gradient_of_a_draw():
    def f(x):
        torch.manual_seed(3)
        return func.grad(lambda y: (torch.nn.functional.dropout(y, 0.5) * y).sum())(x)

    return Case(f, vector())


@program(whole=False)
def gradient_of_a_module_with_a_buffer():
    norm = torch.nn.BatchNorm1d(3)

    def f(x):
        def loss(y):
            return norm(y).square().sum()

        return func.grad(loss)(x), norm.running_mean.clone()

    return Case(f, matrix(4, 3), observe=[norm])


@program
def gradient_of_what_is_not_used():
    def f(x):
        return func.grad(lambda y: (y * 0).sum() + 1)(x), func.grad(lambda a, b: b.sum(), argnums=1)(x, x)

    return Case(f, vector())
