"""Gradients: backward inside and outside, hooks, custom functions, higher order, functional transforms."""

import warnings

import torch
from torch.utils.checkpoint import checkpoint

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.save_for_backward(x)
        ctx.by = by
        return x * by

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * ctx.by + x * 0, None


@program(graphs=1)
def gradient_of_chain():
    def f(x, w):
        return torch.tanh(x @ w).sum(), (x * w[0]).sin()

    return Case(f, matrix().requires_grad_(), matrix(3, 3).requires_grad_())


@program
def gradient_only_of_some_inputs():
    def f(x, y):
        return x * y, y * 2

    return Case(f, leaf(), vector(), then=[lambda: Args(vector(), leaf()), lambda: Args(vector(), vector())])


@program
def output_not_requiring_gradient():
    def f(x):
        return x * 2, x.detach() * 3, (x > 1), x.argmax()

    return Case(f, leaf())


@program
def backward_inside():
    def f(x):
        loss = (x * x).sum()
        loss.backward()
        return loss.detach()

    return Case(f, leaf(), then=[lambda: None, lambda: Args(leaf(4))])


@program
def grad_function_inside():
    def f(x):
        y = (x**3).sum()
        (g,) = torch.autograd.grad(y, x)
        return g * 2

    return Case(f, leaf())


@program
def grad_with_create_graph():
    def f(x):
        y = (x**3).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return (g * g).sum()

    return Case(f, leaf())


@program
def double_backward_outside():
    def f(x):
        return (x**3).sum()

    def outer(x):
        y = f(x)
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return g.sum()

    return Case(outer, leaf())


@program
def gradient_accumulates_over_calls():
    x = leaf()

    def f():
        return (x * 2).sum()

    return Case(f, observe=x, then=[lambda: None, lambda: setattr(x, "grad", None)])


@program
def grad_attribute_read_and_cleared():
    x = leaf()
    x.grad = torch.ones(3)

    def f(x):
        old = x.grad
        x.grad = None
        y = old * 2
        return y, x.grad

    return Case(f, x, then=[lambda: setattr(x, "grad", torch.ones(3) * 5)])


@program
def grad_attribute_written():
    def f(x):
        x.grad = x.detach() * 2
        x.grad.add_(1)
        return x.detach() + x.grad

    return Case(f, leaf())


@program
def custom_function():
    def f(x):
        return Scale.apply(x, 3) + Scale.apply(x, 2.0)

    return Case(f, leaf())


@program
def custom_function_with_needs_input_grad():
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b, a + b

        @staticmethod
        def backward(ctx, g1, g2):
            a, b = ctx.saved_tensors
            ga = g1 * b + g2 if ctx.needs_input_grad[0] else None
            gb = g1 * a + g2 if ctx.needs_input_grad[1] else None
            return ga, gb

    def f(a, b):
        p, s = Product.apply(a, b)
        return p * s

    return Case(f, leaf(), leaf(3, 2.0), then=[lambda: Args(leaf(), vector())])


@program
def custom_function_setup_context():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return g * 3 * ctx.saved_tensors[0] ** 2

    def f(x):
        return Cube.apply(x)

    return Case(f, leaf())


@program
def custom_function_in_place():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def f(x):
        y = x + 1
        z = Double.apply(y)
        return z, z is y

    return Case(f, leaf())


@program(whole=False)
def effect_in_backward():
    log = []

    class Noted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            log.append("forward")
            return x * 2

        @staticmethod
        def backward(ctx, g):
            log.append("backward")
            return g * 2

    def f(x):
        return Noted.apply(x) + 1

    return Case(f, leaf(), observe=log)


@program(whole=False, rule=18)
def hook_on_intermediate():
    seen = []

    def f(x):
        y = x * 2
        y.register_hook(lambda g: seen.append(g.sum()))
        return y * 3

    return Case(f, leaf(), observe=seen)


@program(whole=False, rule=18)
def hook_changes_gradient():
    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * 10)
        return y + x

    return Case(f, leaf())


@program
def hook_on_argument_registered_before():
    x = leaf()
    seen = []
    x.register_hook(lambda g: seen.append(g.clone()))

    def f(x):
        return x * 2

    return Case(f, x, observe=seen)


@program
def retain_grad():
    def f(x):
        y = x * 2
        y.retain_grad()
        return (y * y).sum(), y

    return Case(f, leaf())


@program
def in_place_on_non_leaf():
    def f(x):
        y = x * 2
        y.add_(1)
        y.mul_(x)
        return y

    return Case(f, leaf())


@program(whole=False)
def in_place_on_leaf_error():
    def f(x):
        y = x * 2
        x.add_(1)
        return y

    return Case(f, leaf())


@program
def in_place_on_leaf_under_no_grad():
    def f(w, x):
        with torch.no_grad():
            w -= 0.1 * x
        return (w * x).sum()

    return Case(f, leaf(), vector())


@program(whole=False)
def saved_tensor_modified_error():
    def f(x):
        y = x.exp()
        y.add_(1)
        return y

    return Case(f, leaf())


@program
def view_and_in_place_gradient():
    def f(x):
        y = x * 1
        v = y[1:]
        v.mul_(3)
        return y.sum(), v

    return Case(f, leaf(4))


@program
def detached_branch():
    def f(x):
        y = x * 2
        return y * y.detach(), (x - y.detach()).square()

    return Case(f, leaf())


@program
def gradient_through_indexing_and_cat():
    def f(m):
        parts = [m[i] * (i + 1) for i in range(m.shape[0])]
        return torch.cat(parts).sum() + m[:, ::2].prod() + m.t()[0].sum()

    return Case(f, matrix().requires_grad_())


@program
def where_and_clamp_gradients():
    def f(x):
        return torch.where(x > 1.4, x * x, x), x.clamp(1.2, 1.7), x.abs(), torch.relu(x - 1.5), x.max()

    return Case(f, leaf(4))


@program
def checkpointed_block():
    def block(x, w):
        return torch.tanh(x @ w)

    def f(x, w):
        return checkpoint(block, x, w, use_reentrant=False) * 2

    return Case(f, matrix(2, 3).requires_grad_(), matrix(3, 3).requires_grad_())


@program
def functional_grad_and_vmap():
    def loss(x):
        return (x**2).sum()

    def f(m):
        return (
            torch.func.grad(loss)(m[0]),
            torch.func.vmap(lambda r: r * r.sum())(m),
            torch.func.grad_and_value(loss)(m[1]),
        )

    return Case(f, matrix())


@program
def functional_jacobians():
    def g(x):
        return x**2 + x.sum()

    # What torch imports at the first jvp warns of torch.jit.script's age: that is the process's, not the program's.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.func.jvp(g, (vector(),), (torch.ones(3),))

    def f(x):
        return (
            torch.func.jacrev(g)(x),
            torch.func.jvp(g, (x,), (torch.ones(3),)),
            torch.func.hessian(lambda v: g(v).sum())(x),
        )

    return Case(f, vector())


@program
def functional_call_on_module():
    model = torch.nn.Linear(3, 2)

    def f(x, w, b):
        return torch.func.functional_call(model, {"weight": w, "bias": b}, (x,))

    return Case(f, matrix(), matrix(2, 3).requires_grad_(), torch.ones(2).requires_grad_())


@program
def forward_mode():
    import torch.autograd.forward_ad as forward_ad

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the first import of torch's own formulas warns
        import torch._decomp.decompositions_for_jvp  # noqa: F401

    def f(x, t):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, t)
            out = (dual**2).sin()
            return forward_ad.unpack_dual(out).tangent

    return Case(f, vector(), torch.ones(3), forward_only=True)


@program
def gradient_with_mixed_dtypes():
    def f(x, h):
        return x.double() * 2 + h.float(), h * h

    return Case(f, leaf(), vector().half().requires_grad_())


@program
def unused_output_gradient():
    def f(x, w):
        a = x * w
        b = w.sin()
        return a.detach(), b

    return Case(f, leaf(), leaf(3, 2.0))


@program
def only_one_of_two_outputs_used():
    def f(x, w):
        return x * w, w.exp()

    def outer(x, w):
        a, b = f(x, w)
        return a

    return Case(outer, leaf(), leaf())


@program
def grad_fn_is_visible():
    def f(x):
        y = x * 2
        return y, y.grad_fn is not None, x.grad_fn is None, y.requires_grad, y.is_leaf

    return Case(f, leaf(), then=[lambda: Args(vector())])


@program
def undefined_gradient_in_custom_function():
    class Split(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            return (0 if a is None else a * 2) + (0 if b is None else b * 3)

    def f(x):
        first, second = Split.apply(x)
        return first, second.detach()

    return Case(f, leaf())


@program(whole=False)
def saved_tensor_hooks():
    log = []

    def pack(t):
        log.append("pack")
        return t

    def unpack(t):
        log.append("unpack")
        return t

    def f(x):
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            return x.exp() * x

    return Case(f, leaf(), observe=log)


@program
def extremes_and_their_ties():
    def f(x):
        hidden = torch.where(x > 1.5, x, x * float("nan"))
        return (x - x.max()).exp().sum() + x.min() * x.median(), torch.stack([x, x]).max(), hidden.max()

    return Case(f, leaf())
