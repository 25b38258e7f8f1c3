"""Gradients that are read, cleared or accumulated, backward passes one after the other, views without gradients."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, vector


@program
def gradient_read_and_cleared_between_calls():
    weight = torch.nn.Parameter(torch.ones(2))
    unused = torch.nn.Parameter(torch.ones(2))

    def f(x):
        y = x + 1 if unused.grad is None else x + 2
        weight.grad = None
        return y

    def gradients_appear():
        weight.grad = torch.ones(2)
        unused.grad = torch.ones(2)

    def gradients_go():
        unused.grad = None

    return Case(f, vector(2), observe=(weight, unused), forward_only=True, then=[gradients_appear, gradients_go])


@program(whole=False)
def gradient_cleared_before_a_break():
    weight = torch.nn.Parameter(torch.ones(2))

    def f(x):
        if weight.grad is not None:
            weight.grad = None
        loss = (x * weight).sum()
        print("between")
        loss.backward()
        return loss.detach()

    return Case(f, vector(2), observe=weight, forward_only=True, then=[lambda: None, lambda: None])


@program
def each_output_has_a_backward_pass_of_its_own():
    x, w = leaf(), leaf(3, 2.0)
    outputs = []

    def f(x, w):
        return x.sin(), w.cos(), x * w

    def later():
        # Only what a pass ran is used up: the others may still be run, and none twice.
        errors = []
        first, second, third = outputs.pop()
        for t in (second, first, third, second, first):
            try:
                t.sum().backward()
                errors.append(None)
            except RuntimeError as error:
                errors.append("second time" in str(error))
        return errors

    def keep(x, w):
        outputs.append(f(x, w))
        return outputs[-1][0].detach()

    return Case(keep, x, w, look=later, forward_only=True)


def _one_by_one(f, order, *leaves):
    """Differentiates each result of f alone, in this order; says which passes failed and keeps what leaves got."""
    seen = []

    def run(*inputs):
        with torch.enable_grad():
            results = f(*inputs)
        print("the graph ends here")
        for i in order:
            try:
                results[i].sum().backward()
                seen.append(None)
            except RuntimeError as error:
                seen.append("second time" in str(error))
            seen.append([None if t.grad is None else t.grad.tolist() for t in leaves])
        return results[0].detach()

    return Case(run, *leaves, observe=(seen, leaves), forward_only=True)


@program(whole=False)
def passes_whose_gradients_have_other_strides():
    # A sum's gradient is an expanded number, a product's is not: the second pass must not ask for the first's values.
    return _one_by_one(lambda w: (w.sum(), (w * w).sum(), w.t()), (1, 0, 2, 1), torch.ones(2, 3, requires_grad=True))


@program(whole=False)
def passes_whose_gradients_have_other_strides_in_the_middle():
    def f(w):
        middle = w.exp()
        return middle.sum(), (middle * middle).sum()

    return _one_by_one(f, (1, 0), torch.ones(2, 3, requires_grad=True))


@program(whole=False)
def second_pass_comes_to_a_leaf_before_it_fails():
    def f(w, early):
        return (w * w).sum() + early.sum(), (w * 2).tanh() + early

    return _one_by_one(f, (0, 0, 1, 1), leaf(), leaf(3, 2.0))


@program(whole=False)
def second_pass_comes_to_a_hooked_leaf_before_it_fails():
    called = []
    early = leaf(3, 2.0)
    early.register_hook(lambda g: called.append(g.tolist()))
    early.register_post_accumulate_grad_hook(lambda t: called.append(t.grad.tolist()))
    case = _one_by_one(lambda w, early: ((w * w).sum() + early.sum(),), (0, 0), leaf(), early)
    return Case(case.f, *case.args, observe=(case.observe, called), forward_only=True)


@program
def sum_that_is_differentiated_after_its_product():
    state = {"n": leaf()}

    def f(x):
        old = state["n"]
        state["n"] = old + 1
        return x * old

    return Case(f, vector(), observe=state, then=[lambda: None, lambda: state.update(n=leaf())])


@program
def views_made_without_gradients():
    def f(x):
        with torch.no_grad():
            first = x.view(-1)
            rows = x.unbind(0)
            item = x[0]
        return first, rows, item, item * 2, [t.requires_grad for t in (first, item, *rows)]

    return Case(f, torch.ones(2, 3, requires_grad=True), forward_only=True)


@program
def view_without_gradients_of_an_intermediate():
    def f(x):
        y = x * 2
        with torch.no_grad():
            z = y[1:]
        return y, z, z.requires_grad, z.grad_fn is None

    return Case(f, leaf(), forward_only=True)


@program(whole=False)
def views_without_gradients_of_what_is_dropped():
    def f(x):
        y = x * 2
        with torch.no_grad():
            one = y[1:]
            other = (y * 1).view_as(y)[..., :1]
        return one, one.requires_grad, other, (x + 1).exp()

    def only(x):
        x = x + 1
        with torch.no_grad():
            return x.view_as(x)[:1]

    return Case(lambda x: (f(x), only(x)), leaf(), forward_only=True)


@program
def pass_of_one_output_leaves_the_history_behind_the_other():
    errors = []

    def f(x, w):
        return x * w, w * 2

    def one_by_one(x, w):
        behind = x.exp()
        for t in f(behind, w):
            try:
                t.sum().backward()
                errors.append(None)
            except RuntimeError as error:
                errors.append("second time" in str(error))
        first, second = f(x.exp(), w)
        (first.sum() + second.sum()).backward()
        return second.detach()

    return Case(one_by_one, leaf(), leaf(3, 2.0), observe=errors, forward_only=True)


@program
def returned_loss_after_its_backward_pass():
    def f(x, w):
        loss = (x * w).exp().sum()
        loss.backward()
        return loss, w * 3

    return Case(f, leaf(), leaf(3, 2.0))


@program
def loss_that_saves_nothing_after_its_backward_pass():
    def f(x, w):
        loss = (x + w).sum()
        loss.backward()
        return loss, loss * 2

    return Case(f, leaf(), leaf(3, 2.0))


@program(whole=False)
def hook_on_what_only_the_other_output_has():
    seen = []

    def f(x, w):
        return x * 2, (w * x).sum()

    def outer(x, w):
        behind = w.exp()
        behind.register_hook(lambda gradient: seen.append(gradient is None))
        first, second = f(x, behind)
        first.sum().backward()
        counted = len(seen)
        second.backward()
        return counted, x * 1

    return Case(outer, leaf(), leaf(3, 2.0), observe=seen, forward_only=True)


@program(whole=False)
def hook_put_on_a_leaf_after_the_forward():
    seen = []

    def f(x, w):
        return x * 2, w * 3, x * w

    def outer(x, w):
        first, second, both = f(x, w)
        x.register_hook(lambda gradient: seen.append(("x", gradient is None)))
        handle = w.register_hook(lambda gradient: seen.append(("w", gradient is None)))
        first.sum().backward()
        seen.append("first")
        second.sum().backward()
        seen.append("second")
        both.sum().backward(retain_graph=True)
        handle.remove()
        both.sum().backward()
        return x.grad, w.grad

    return Case(outer, leaf(), leaf(3, 2.0), observe=seen, forward_only=True)


@program
def retained_gradient_of_what_a_result_was_computed_with():
    def f(x):
        y = x * 2
        z = y * 3
        y.retain_grad()
        return z, y

    def outer(x):
        z, y = f(x)
        z.sum().backward()
        return y.grad, x.grad

    return Case(outer, leaf(), forward_only=True)


@program(whole=False)
def hook_on_what_was_used_already():
    seen = []

    def f(x):
        y = x * 2
        z = y * 3
        y.register_hook(lambda g: seen.append(g.tolist()) or g * 10)
        return z

    return Case(f, leaf(), observe=seen)


@program(whole=False)
def gradient_of_one_result_by_another():
    def f(x):
        y = x * 2
        return y, y.sin() * 3

    def outer(x):
        y, z = f(x)
        (by_y,) = torch.autograd.grad(z.sum(), y, retain_graph=True)
        z.sum().backward()
        return by_y, x.grad

    return Case(outer, leaf(), forward_only=True)


@program(whole=False)
def leaves_do_not_share_a_gradient():
    def f(x, w):
        return x.view(-1) + w.view(-1), x.view(-1) * 2

    def outer(x, w):
        for _ in range(2):
            both, first = f(x, w)
            both.sum().backward()
            first.sum().backward()
        (x * 3).sum().backward()
        return x.grad.clone(), w.grad.clone()

    return Case(outer, leaf(), leaf(3, 2.0), forward_only=True)


@program
def hook_on_a_view_that_was_used_on():
    def f(x):
        h = x.view(-1)
        return h, h.sin()

    def outer(x):
        h, z = f(x * 1)
        h.retain_grad()
        z.sum().backward(retain_graph=True)
        (by_h,) = torch.autograd.grad((z * z).sum(), h)
        return h.grad, by_h, x.grad

    return Case(outer, leaf(), forward_only=True)


@program(whole=False)
def hook_on_an_argument_written_in_place():
    seen = []

    def f(x, w):
        x.mul_(w)
        return x.sin(), w.exp()

    def outer(x, w):
        y = x * 1
        z, e = f(y, w * 2)
        y.register_hook(lambda gradient: seen.append(gradient.tolist()) or gradient * 2)
        (z.sum() + e.sum() + y.sum()).backward()
        return x.grad, w.grad

    return Case(outer, leaf(), leaf(3, 2.0), observe=seen, forward_only=True)


@program(whole=False)
def hook_on_a_result_that_results_of_other_leaves_use():
    seen = []

    def f(x, w):
        y = x * x
        return y @ w, y.sin(), y

    def outer(x, w):
        product, sine, y = f(x * 1, w * 1)
        y.register_hook(lambda gradient: seen.append(gradient.clone()))
        product.sum().backward(retain_graph=True)
        sine.sum().backward(retain_graph=True)
        (product.sum() + sine.sum() + y.sum()).backward()
        return x.grad, w.grad

    return Case(outer, leaf(), leaf(3, 2.0), observe=seen, forward_only=True)


@program(whole=False)
def what_is_saved_of_leaves_whose_data_are_written_later():
    weights = [torch.nn.Parameter(torch.full((3,), 0.5)), torch.nn.Parameter(torch.ones(3))]

    def f(x):
        x = x * weights[0] * 2.0
        return torch.tanh(x * weights[1]) + weights[1].cos() * x

    def halve(x):
        for w in weights:
            w.data.mul_(0.5)
        return x * 1

    def both(x):
        y = f(x)
        torch._dynamo.graph_break()
        return halve(y)

    return Case(both, vector(), observe=weights, then=[lambda: None])


@program
def saved_after_an_alias_was_laid_out_anew():
    x = leaf()

    def f(y):
        x.detach().t_()
        return y + x.square().sum()

    return Case(f, vector(), observe=x, versions=True, then=[lambda: None])


@program(whole=False)
def saved_before_an_alias_is_laid_out_anew():
    x = leaf()

    def f(y):
        y = y + x.square().sum()
        x.detach().t_()
        return y

    return Case(f, vector(), observe=x, versions=True, then=[lambda: None])


@program(whole=False)
def hooks_put_on_an_input_between_calls():
    def f(x, w):
        (g,) = torch.autograd.grad((w * w).sum(), w)
        (w * x).sum().backward()
        return g, w.grad

    handles = []

    def hooked(register):
        w = leaf()
        handles.append(register(w))
        return Args(vector(), w)

    return Case(
        f,
        vector(),
        leaf(),
        then=[
            lambda: hooked(lambda w: w.register_hook(lambda g: g + 1)),
            lambda: Args(vector(), leaf()),
            lambda: hooked(lambda w: w.register_post_accumulate_grad_hook(lambda w: w.grad.mul_(2))),
        ],
    )


@program(whole=False)
def hooks_on_an_input_of_the_first_call():
    w = leaf()
    w.register_hook(lambda g: g * 3)

    def f(x):
        return torch.autograd.grad((w * x).sum(), w)[0] + x

    return Case(f, vector())


@program(whole=False)
def history_of_a_leaf_that_is_made_inside():
    w = leaf()

    def f(x):
        inner = vector().requires_grad_()
        (g,) = torch.autograd.grad((inner * inner).sum(), inner, create_graph=True)
        return x + g.sum(), w * 2

    return Case(f, vector(), observe=w)


@program(whole=False)
def history_of_a_leaf_that_is_made_inside_used_up():
    w = leaf()

    def f(x):
        inner = vector().requires_grad_()
        (g,) = torch.autograd.grad((inner * inner).sum(), inner, create_graph=True)
        r = x + g.sum()
        (r * w).sum().backward()
        return r

    return Case(f, vector(), observe=w)


@program
def leaf_made_inside_beside_an_input():
    """As a penalty of gradients has it: nobody sees the leaf."""

    def f(x, w):
        inner = x.detach().requires_grad_()
        (g,) = torch.autograd.grad((inner * w).exp().sum(), inner, create_graph=True)
        return (g * g).sum()

    return Case(f, vector(), leaf())
