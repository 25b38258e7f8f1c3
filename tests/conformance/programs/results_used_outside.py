"""Results that leave the compiled function with their history, and what a program does with them after it.

Where a program differentiates inside of what is compiled, the capture sees the pass; here torch's engine meets the compiled
function's own nodes. `look` runs after each call, outside.
"""

import types

import torch

from conformance.program import Case, program
from conformance.sample import leaf, matrix


def gradients(*leaves):
    """Copies of their gradients, which then are none."""
    found = [None if t.grad is None else t.grad.clone() for t in leaves]
    for t in leaves:
        t.grad = None
    return found


@program
def retained_gradient_of_what_a_result_was_computed_with():
    kept, x = types.SimpleNamespace(), leaf()

    def f():
        y = x * 2
        kept.y, kept.z = y, y * 3

    def look():
        kept.y.retain_grad()
        (kept.z * kept.y).sum().backward()
        return kept.y.grad, gradients(x)

    return Case(f, look=look, then=[lambda: None], forward_only=True)


@program(whole=False)
def gradient_retained_inside():
    kept, x = types.SimpleNamespace(), leaf()

    def f():
        y = x * 2
        y.retain_grad()
        kept.y, kept.z = y, y * y

    def look():
        kept.z.sum().backward()
        return kept.y.retains_grad, kept.y.grad, gradients(x)

    return Case(f, look=look, then=[lambda: None], forward_only=True)


# A break makes one sum of two: the last bit differs.
@program(not_ways=("breaks", "breaks-inlined", "fx-breaks"))
def second_derivative():
    kept, x = types.SimpleNamespace(), leaf()

    def f():
        kept.y = torch.exp(torch.sin(x)) * x.tanh()

    def look():
        (first,) = torch.autograd.grad(kept.y.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad((first * first).sum(), x)
        return first.detach(), second

    return Case(f, look=look, then=[lambda: None], forward_only=True)


@program
def gradients_of_two_leaves_through_one_sum():
    kept, x, w = types.SimpleNamespace(), matrix().requires_grad_(), matrix().requires_grad_()

    def f():
        kept.y = x.view(-1) + w.view(-1)

    def look():
        kept.y.sum().backward()
        (x * 3).sum().backward()
        (w * 5).sum().backward()
        return gradients(x, w)

    return Case(f, look=look, then=[lambda: None], forward_only=True)


@program
def dropped_without_a_backward_pass():
    x = leaf()

    def f():
        return x.exp() + x.sigmoid(), x.tanh()

    return Case(f, then=[lambda: None], forward_only=True)


@program
def one_result_dropped_without_a_backward_pass():
    x = leaf()

    def f():
        return x.exp()

    return Case(f, then=[lambda: None], forward_only=True)


@program
def copy_of_a_leaf_that_is_written_before_the_pass():
    kept, x = types.SimpleNamespace(), leaf()

    def f():
        y = x.clone()
        kept.z = y * y * 3

    def look():
        with torch.no_grad():
            x.mul_(10)
        kept.z.sum().backward()
        return gradients(x)

    return Case(f, look=look, then=[lambda: None], forward_only=True)


@program
def gradients_on_inside_while_off_outside():
    kept, x = types.SimpleNamespace(), leaf()

    def f():
        with torch.enable_grad():
            kept.y = x * x

    def look():
        if kept.y.requires_grad:
            kept.y.sum().backward()
        return kept.y.requires_grad, gradients(x)

    off, on = (lambda: torch._C._set_grad_enabled(False)), (lambda: torch._C._set_grad_enabled(True))
    return Case(f, look=look, then=[off, lambda: None, on], forward_only=True)


@program
def hooks_of_leaves_that_the_pass_does_not_reach():
    kept, x, w, seen = types.SimpleNamespace(), leaf(), leaf(3, 2.0), []
    for name, t in (("x", x), ("w", w)):
        t.register_hook(lambda g, name=name: seen.append((name, g.tolist())))

    def f():
        both = x * w
        kept.first, kept.second = x * 2, both + w

    def look():
        kept.first.sum().backward()
        of_first = gradients(x, w)
        kept.second.sum().backward()
        return of_first, gradients(x, w), list(seen)

    return Case(f, look=look, then=[lambda: None], forward_only=True)


@program
def each_result_has_a_pass_of_its_own():
    kept, x, w = types.SimpleNamespace(), leaf(), leaf(3, 2.0)

    def f():
        kept.results = (x * w).exp(), (w * 3).tanh(), x.sin()

    def look():
        found = []
        for result in kept.results:
            result.sum().backward(retain_graph=True)
            found.append(gradients(x, w))
        kept.results[0].sum().backward()
        try:
            kept.results[0].sum().backward()
        except RuntimeError as error:
            found.append(str(error)[:40])
        return found, gradients(x, w)

    return Case(f, look=look, then=[lambda: None], forward_only=True)


@program
def shared_work_is_used_up_by_the_first_pass():
    kept, x = types.SimpleNamespace(), leaf()

    def f():
        shared = x.exp()
        kept.results = shared.sin(), shared.cos()

    def look():
        kept.results[0].sum().backward()
        try:
            kept.results[1].sum().backward()
        except RuntimeError as error:
            return str(error)[:40], gradients(x)
        return gradients(x)

    return Case(f, look=look, then=[lambda: None], forward_only=True)


@program
def result_written_before_the_pass():
    kept, x = types.SimpleNamespace(), leaf()

    def f():
        y = x.exp()
        kept.y, kept.z = y, y * 2

    def look():
        with torch.no_grad():
            kept.y.mul_(2)
        try:
            kept.z.sum().backward()
        except RuntimeError as error:
            return "modified by an inplace operation" in str(error), gradients(x)
        return gradients(x)

    return Case(f, look=look, then=[lambda: None], forward_only=True)


@program
def gradient_with_other_strides():
    kept, x = types.SimpleNamespace(), leaf()
    rows = torch.arange(12.0).view(4, 3).t()

    def f():
        kept.y = (x * 2).unsqueeze(1).expand(3, 4).tanh()

    def look():
        kept.y.backward(rows)
        return gradients(x)

    return Case(f, look=look, then=[lambda: None], forward_only=True)
