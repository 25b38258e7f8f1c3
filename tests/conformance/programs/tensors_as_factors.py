"""addcdiv() with a tensor as their factor `value`, and the optimizers that give them one."""

import torch
from torch import nn

from conformance.program import Case, program
from conformance.sample import leaf, matrix, vector


def with_factor(method, dtype=torch.float32, factor=None):
    """A function of the method's, without gradients."""

    def f(x, a, b, v):
        with torch.no_grad():
            y = getattr(x.clone(), method)(a, b, value=v)
            return y, y.dtype

    factor = torch.tensor(0.3) if factor is None else factor
    return Case(f, vector().to(dtype), vector(3, 2.0).to(dtype), vector(3, -3.25).to(dtype), factor)


@program
def quotient_in_place():
    return with_factor("addcdiv_")


@program(whole=False)
def product_in_place():
    return with_factor("addcmul_")


@program
def quotient_of_doubles():
    return with_factor("addcdiv", torch.float64)


@program
def factor_of_another_type():
    return with_factor("addcdiv", torch.float32, torch.tensor(0.1, dtype=torch.float64))


@program
def factor_computed_in_the_frame():
    def f(x, a, b, step):
        step += 1
        x.addcdiv_(a, b, value=-(0.1 / (1 - 0.9**step)))
        return x * 2

    return Case(f, vector(), vector(3, 2.0), vector(3, 4.0), torch.tensor(0.0), versions=True, then=[lambda: None])


@program
def number_as_the_factor():
    return with_factor("addcdiv_", torch.float32, 0.25)


@program(whole=False)
def factor_with_gradients():
    def f(x, a, b, v):
        return x.addcdiv(a, b, value=v), x.addcmul(a, b, value=v)

    return Case(f, leaf(), leaf(3, 2.0), leaf(3, 4.0), torch.tensor(0.3))


@program(whole=False)
def factor_of_whole_numbers():
    return with_factor("addcdiv_", torch.float32, torch.tensor(3))


@program(whole=False)
def operands_that_are_broadcast():
    def f(x, a, v):
        return x.addcmul(a, a, value=v), x.half().addcdiv(a.half(), a.half(), value=v)

    return Case(f, matrix(), vector(), torch.tensor(0.3))


@program(whole=False)
def factors_that_are_none():
    def f(x, a):
        texts = []
        for factor in (torch.ones(1), torch.ones(2), torch.tensor(1.0, requires_grad=True)):
            try:
                x.addcdiv_(a, a, value=factor)
            except (TypeError, RuntimeError) as error:
                texts.append(type(error).__name__)
        return x * 2, texts

    return Case(f, vector(), vector(3, 2.0))


def trained(make, changes=()):
    """Steps of an optimizer inside."""
    model = nn.Linear(3, 1)
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(torch.arange(p.numel()).reshape(p.shape) * 0.1 + i)
    optimizer = make(model.parameters())

    def f(x):
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    then = [(lambda c=c: c(optimizer)) for c in changes] or [lambda: None, lambda: None]
    return Case(f, matrix(), observe=optimizer.state, forward_only=True, then=then)


@program
def adam_with_weight_decay():
    return trained(lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.1))


@program
def adam_with_another_rate():
    def slower(optimizer):
        optimizer.param_groups[0]["lr"] = 0.01

    return trained(lambda p: torch.optim.AdamW(p, lr=0.1, betas=(0.8, 0.99)), [slower, lambda o: None])


@program
def adam_that_keeps_the_largest():
    return trained(lambda p: torch.optim.Adam(p, lr=0.1, amsgrad=True, foreach=False))


@program
def factor_of_a_sum():
    def f(x, a, v):
        y = x.add(a, alpha=-v).sub(a, alpha=v * 2)
        y.add_(a, alpha=v)
        return torch.add(y, a, alpha=v)

    return Case(f, vector(), vector(3, 2.0), torch.tensor(0.3), then=[lambda: None])


@program
def factors_of_a_product():
    def f(x, a, v):
        y = torch.addmm(x, x, a, alpha=v, beta=-v)
        return y, torch._foreach_add([x, y], [a, a], alpha=v)

    return Case(f, matrix(3, 3), matrix(3, 3) + 1, torch.tensor(0.3))


@program
def factor_of_a_sum_with_gradients():
    def f(x, a, v):
        return x.add(a, alpha=v).sin()

    return Case(f, leaf(), leaf(3, 2.0), torch.tensor(0.3))


@program(whole=False)
def factors_of_a_sum_that_are_none():
    def f(x, a):
        texts = []
        for factor in (torch.ones(2), torch.tensor(1.0, requires_grad=True), torch.tensor(True), torch.tensor(1j)):
            try:
                x = x.add(a, alpha=factor)
            except (TypeError, RuntimeError) as error:
                texts.append(type(error).__name__)
        return x * 2, texts

    return Case(f, vector(), vector(3, 2.0))


@program(whole=False)
def factor_of_whole_numbers_that_is_a_float():
    def f(n, v):
        try:
            return n.add(n, alpha=v)
        except RuntimeError as error:
            return n + 1, str(error)

    return Case(f, torch.arange(3), torch.tensor(2.0))


def halved(optimizer):
    optimizer.param_groups[0]["lr"].mul_(0.5)


@program(break_step=97)
def sgd_with_a_tensor_as_rate():
    return trained(lambda p: torch.optim.SGD(p, lr=torch.tensor(0.1), weight_decay=0.1), [halved, lambda o: None])


@program(break_step=97)
def momentum_with_a_tensor_as_rate():
    return trained(lambda p: torch.optim.SGD(p, lr=torch.tensor(0.1), momentum=0.9, nesterov=True), [halved, lambda o: None])


@program(break_step=97)
def adadelta_with_a_tensor_as_rate():
    return trained(lambda p: torch.optim.Adadelta(p, lr=torch.tensor(0.1)), [halved, lambda o: None])
