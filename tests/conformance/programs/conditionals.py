"""cond() on a tensor: both branches in one graph, and what a branch may not do there."""

import functools

import torch

import framefuse
from conformance.program import Args, Case, program
from conformance.sample import leaf, vector


def both_signs(f, *others, **facts):
    # The first argument chooses: positive, negative, positive again.
    return Case(f, leaf(), *others, then=[lambda: Args(leaf(start=-3.0), *others), lambda: Args(leaf(), *others)], **facts)


@program(graphs=1)
def cond_with_gradients():
    w = leaf(3, 2.0)
    return both_signs(lambda x: framefuse.cond(x.sum() > 0, lambda x: (x * w).sin(), lambda x: x.exp() - w, (x,)), observe=w, named=False)


@program(graphs=1)
def cond_whose_branches_end_alike():
    return both_signs(lambda x: framefuse.cond(x.sum() > 0, lambda x: (x.sin() * 2, x + 1), lambda x: (x * 3, x.exp() + 1), (x,)))


@program(graphs=1)
def cond_between_other_operators():
    def f(x):
        y = x * 2
        y = framefuse.cond(y.mean() > 0, lambda y: y.tanh() * x, lambda y: y.cos() + x, (y,))
        return y.sum() * y

    return both_signs(f)


@program(graphs=1)
def cond_over_modules():
    torch.manual_seed(3)
    first, second = torch.nn.Linear(3, 4), torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU())

    def f(x):
        hidden = framefuse.cond(x.sum() > 0, first, second, (x,))
        return hidden.relu()

    # A module that is not run has gradients of zeros where eager's has none.
    return both_signs(f, forward_only=True)


@program(graphs=1)
def cond_returns_a_structure():
    def f(x):
        def yes(x, y):
            return {"a": x + y, "b": (x * y, [x.sin(), 3])}

        def no(x, y):
            return {"a": x - y, "b": (x / 2, [x.cos() * y, 3])}

        result = framefuse.cond(x.sum() > 0, yes, no, [x, x + 1])
        return result["a"] * result["b"][1][1], result["b"]

    return both_signs(f, named=False)


@program(graphs=1)
def cond_inside_cond():
    def f(x):
        def inner(x):
            return framefuse.cond(x.max() > 2, lambda x: x * 3, lambda x: x * x, (x,))

        return framefuse.cond(x.sum() > 0, inner, lambda x: -x.exp(), (x,))

    return Case(f, leaf(), then=[lambda: Args(leaf(start=-3.0)), lambda: Args(leaf(start=-0.1)), lambda: Args(leaf(start=9.0))], named=False)


@program(graphs=1)
def cond_in_a_loop():
    def f(x):
        for step in range(4):
            x = framefuse.cond(x.sum() > 1, lambda x: x * 0.5 - step, lambda x: x * 1.5 + step, (x,))  # noqa: B023
        return x

    return both_signs(f, named=False)


@program(graphs=1)
def cond_does_not_spoil_gradients_of_the_branch_taken():
    # The root's gradient at 0 and below is infinite or nan: where() would let it in.
    def f(x):
        return framefuse.cond(x.min() > 0, lambda x: x.sqrt(), lambda x: x * 2, (x,))

    def zeros():
        return Args(torch.zeros(3, requires_grad=True))

    return Case(f, leaf(), then=[zeros, lambda: Args(leaf(start=-3.0))], named=False)


@program(graphs=1)
def cond_on_numbers():
    def f(x, n):
        a = framefuse.cond(n, lambda x: x + 1, lambda x: x * 2, (x,))
        b = framefuse.cond(x.sum(), lambda: a.sin(), lambda: a.cos(), ())
        return framefuse.cond(x[:1], lambda b: b * a, lambda b: b - a, (b,))

    return Case(f, vector(3), torch.tensor(2), then=[lambda: Args(torch.zeros(3), torch.tensor(0)), lambda: Args(vector(3), torch.tensor([0]))])


@program(graphs=1)
def cond_on_a_bool_takes_one_branch():
    def f(x, flag):
        return framefuse.cond(flag, lambda x: x + 1, lambda x: x * 2, (x,))

    return Case(f, leaf(), True, then=[lambda: Args(leaf(), True)])


@program(graphs=1)
def cond_without_gradients():
    w = leaf(3, 2.0)

    def f(x):
        with torch.no_grad():
            y = framefuse.cond(x.sum() > 0, lambda x: x * w, lambda x: x - w, (x,))
        return y, x * 2

    return both_signs(f)


@program(graphs=1)
def cond_on_views_and_layouts():
    def f(x):
        y = x.reshape(2, 3).t()
        return framefuse.cond(y[0, 0] > 0, lambda y: (y[:, 1] * y[1:, :1].sum()).exp(), lambda y: y[:, 0] * y.sum(1), (y,))

    return Case(f, leaf(6), then=[lambda: Args(leaf(6, -9.0))], named=False)


@program
def cond_on_strides_of_one_element():
    def f(x):
        column = x.as_strided((1, 2), (1, 1))
        made = framefuse.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (column,))
        return made, made.stride(), (made + column).stride()

    return both_signs(f, named=False)


@program(graphs=1)
def cond_beside_writes_of_its_operands():
    def f(x):
        y = x * 2
        y.add_(1)
        z = framefuse.cond(y.sum() > 0, lambda y: y + x, lambda y: y - x, (y,))
        z.mul_(3)
        return z, y

    return both_signs(f)


@program(graphs=1)
def cond_writes_what_it_made():
    def f(x):
        def yes(x):
            y = x.sin()
            y.mul_(2)
            y[0] = 1.0
            return y

        return framefuse.cond(x.sum() > 0, yes, lambda x: x.clone().add_(1), (x,))

    return both_signs(f, named=False)


@program(graphs=1)
def cond_with_integers_and_bools():
    def f(x):
        def yes(x):
            return x.argmax(), x > 0, x * 2

        def no(x):
            return x.argmin(), x < 0, x * 3

        return framefuse.cond(x.sum() > 0, yes, no, (x,))

    return both_signs(f)


@program(graphs=1)
def cond_without_a_gradient_of_its_own():
    def f(x):
        mask = framefuse.cond(x.sum() > 0, lambda x: x.detach() > 1.2, lambda x: x < 2, (x,))
        return x * mask

    return both_signs(f)


@program(whole=False)
def cond_is_differentiated_twice():
    def f(x):
        y = framefuse.cond(x.sum() > 0, lambda x: x.sin() * x, lambda x: x.exp(), (x,))
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return first * x

    return both_signs(f)


@program(graphs=1)
def cond_draws_random_numbers():
    def f(x):
        def yes(x):
            return torch.nn.functional.dropout(x, 0.5) + torch.rand(3)

        return framefuse.cond(x.sum() > 0, yes, lambda x: x + 1, (x,)), torch.rand(2)

    return Case(f, vector(3), then=[lambda: Args(-vector(3)), lambda: Args(vector(3))])


@program(graphs=1)
def cond_draws_random_numbers_beside_gradients():
    def f(x):
        def yes(x):
            return torch.nn.functional.dropout(x.sin(), 0.5) * torch.rand(3)

        y = framefuse.cond(x.sum() > 0, yes, lambda x: torch.nn.functional.dropout(x, 0.3) + 1, (x,))
        return torch.nn.functional.dropout(y, 0.2), y

    return both_signs(f, named=False)


class Scaled:
    def __init__(self):
        self.factor = torch.full((3,), 2.0)

    def up(self, x, by=3.0):
        return x * self.factor * by

    def down(self, x, by=3.0):
        return x / self.factor / by


@program(graphs=1)
def cond_of_methods_and_partials():
    scaled = Scaled()
    return both_signs(lambda x: framefuse.cond(x.sum() > 0, scaled.up, functools.partial(scaled.down, by=4.0), (x,)), named=False)


@program
def cond_of_which_one_result_has_a_gradient():
    w, s = leaf(), leaf(1, 2.0)

    def f(x):
        made = framefuse.cond(x.sum() > 0, lambda x: ((x * w).exp(), w.sin() * s), lambda x: (x * w, w.cos() * s), (x,))
        return made[0]

    return both_signs(f, observe=[w, s], named=False)
