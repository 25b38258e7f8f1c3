"""Backward passes in captured code, and what is left of the histories that they used up."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, vector


@program
def loss_and_its_value():
    def f(x, w):
        loss = (x * w).exp().sum()
        loss.backward()
        return loss, loss.detach(), loss.data + 1

    return Case(f, vector(), leaf(3, 2.0), then=[lambda: Args(vector() + 1, leaf(3))])


@program
def second_pass_of_a_returned_loss():
    """The judge runs a pass through the result, which eager refuses."""

    def f(w):
        loss = (w * 2).sin().sum()
        loss.backward()
        return loss

    return Case(f, leaf(3), then=[lambda: Args(leaf(3, 2.0))])


@program
def result_with_a_history_beside_a_pass():
    def f(x, w):
        y = x * w
        y.sum().backward(retain_graph=True)
        return y.sin()

    return Case(f, vector(), leaf(3, 2.0))


@program
def gradients_of_parts_of_one_tensor():
    def f(a, b, c):
        joined = torch.cat([a, b, c]) * torch.arange(9.0)
        (joined.square().sum() + (a + b).sum()).backward()
        for t in (a, b, c):
            t.grad.mul_(2)
        return a.grad + b.grad + c.grad

    return Case(f, leaf(3), leaf(3, 2.0), leaf(3, 3.0), then=[lambda: None])


@program
def step_with_all_that_belongs_to_it():
    w, b = leaf(3), leaf(3, 0.5)
    optimizer = torch.optim.SGD([w, b], lr=0.1, momentum=0.9)

    def f(x):
        optimizer.zero_grad()
        for part in (x, x + 1):
            loss = ((w * part).tanh() + b).square().mean()
            loss.backward()
        norm = torch.nn.utils.clip_grad_norm_([w, b], 0.5)
        optimizer.step()
        return loss.detach(), norm

    return Case(f, vector(), look=lambda: (w, b, w.grad, b.grad), then=[lambda: Args(vector() * 2), lambda: Args(vector() - 1)])


@program
def gradients_asked_for_and_used():
    def f(x, w):
        (g,) = torch.autograd.grad((x * w).exp().sum(), w)
        with torch.no_grad():
            w -= 0.1 * g
        return g * 2, w + 0

    return Case(f, vector(), leaf(3), forward_only=True)


@program
def pass_in_a_mode_of_its_own():
    def f(x, w):
        with torch.no_grad():
            scale = w.norm()
        with torch.enable_grad():
            loss = (x * w / scale).square().sum()
            loss.backward()
        return scale, torch.is_grad_enabled()

    return Case(f, vector(), leaf(3, 2.0))


@program(whole=False)
def views_whose_history_is_used_up():
    def f(w, x):
        r = (x + w.sum() * 3).view(-1)[:2]
        (r * w[:2]).sum().backward()
        return r, w.grad.clone()

    return Case(f, leaf(), vector())


@program(whole=False)
def loss_as_a_number():
    def f(w, x):
        loss = (w * x).sum()
        loss.backward()
        return loss.item(), w.grad * 2

    return Case(f, leaf(), vector(), then=[lambda: Args(leaf(), vector(start=4.0)), lambda: Args(leaf(5), vector(5))])
