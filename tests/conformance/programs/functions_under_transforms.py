"""The program's torch.autograd.Function where torch.func's transforms call it: its own rule for a batch, the rule that
torch makes from forward, gradients of both, and second ones, which no other rule would give."""

import torch
from torch import func

from conformance.program import Args, Case, program
from conformance.sample import leaf, vector


class Product(torch.autograd.Function):
    """A product whose derivatives are not those of a product."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return gradient * y * 3, gradient * x * 5


class ProductByRule(Product):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, x, y):
        x, y = (t if d is None else t.movedim(d, 0) for t, d in zip((x, y), in_dims, strict=True))
        return Product.apply(x, y) * info.batch_size, 0


class AnotherForABatch(torch.autograd.Function):
    """What it gives for a batch is computed without it."""

    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, x):
        return x.cos() * 2, in_dims[0]

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def _twice(f):
    """What f gives, its gradient, and the gradient of that; the graph ends before them."""

    def run(x):
        y = f(x)
        torch._dynamo.graph_break()
        (first,) = torch.autograd.grad((y * (torch.arange(y.numel()).reshape(y.shape) + 1.0)).sum(), x, create_graph=True)
        second = torch.autograd.grad(first.square().sum(), x)[0] if first.requires_grad else None
        return y.detach(), first.detach(), second

    return Case(run, leaf(), forward_only=True)


@program
def by_the_rule_that_torch_makes():
    return Case(lambda x: func.vmap(lambda a: Product.apply(a, x[0]))(x), leaf())


@program
def by_a_rule_of_its_own():
    return Case(lambda x: func.vmap(lambda a: ProductByRule.apply(a, x[0]))(x), leaf())


@program
def computed_otherwise_for_a_batch():
    return Case(lambda x: func.vmap(AnotherForABatch.apply)(x), leaf())


@program
def of_what_is_no_batch():
    return Case(lambda x: func.vmap(lambda a: a * Product.apply(x, x))(x), leaf())


@program
def batches_of_batches():
    return Case(lambda x: func.vmap(lambda a: func.vmap(lambda b: Product.apply(a, b))(x))(x), leaf())


@program
def without_a_gradient():
    return Case(lambda x: func.vmap(lambda a: Product.apply(a, x[0]))(x), vector())


@program(whole=False)
def second_derivatives_by_the_rule_that_torch_makes():
    return _twice(lambda x: func.vmap(lambda a: Product.apply(a, x[0]))(x))


@program(whole=False)
def second_derivatives_by_a_rule_of_its_own():
    return _twice(lambda x: func.vmap(lambda a: ProductByRule.apply(a, x[0]))(x))


@program(whole=False)
def second_derivatives_of_batches_of_batches():
    return _twice(lambda x: func.vmap(lambda a: func.vmap(lambda b: Product.apply(a, b))(x))(x))


@program
def gradients_by_transform():
    return Case(lambda x: func.grad(lambda a: Product.apply(a, a * 2).sum())(x), vector())


@program
def gradients_by_transform_of_each():
    return Case(lambda x: func.vmap(func.grad(lambda a: Product.apply(a, a * 2)))(x), vector())


@program
def jacobian_of_it():
    return Case(lambda x: func.jacrev(lambda a: Product.apply(a, a.flip(0)))(x), vector())


@program
def gradients_by_transform_of_a_leaf():
    return Case(lambda x: func.grad(lambda a: Product.apply(a, a * 2).sum())(x), leaf())


@program(whole=False)
def second_derivatives_of_gradients_by_transform():
    return _twice(lambda x: func.grad(lambda a: Product.apply(a, a * 2).square().sum())(x))


@program(whole=False)
def second_derivatives_of_a_hessian():
    """Forward mode's zeros have no memory; behind them stands what a backward pass reads."""
    return _twice(lambda x: func.jacfwd(func.jacrev(lambda a: (a * a * a).sum()))(x))


@program
def a_rule_that_changes():
    class Scaled(ProductByRule):
        @staticmethod
        def vmap(info, in_dims, x, y):
            return x * y * 2, 0

    def change():
        Scaled.vmap = staticmethod(lambda info, in_dims, x, y: (x * y * 7, 0))
        return Args(vector())

    return Case(lambda x: func.vmap(lambda a: Scaled.apply(a, a))(x), vector(), then=[change])
