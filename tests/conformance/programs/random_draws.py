"""Several draws with equal arguments in one graph: each takes its own numbers, in the program's order, and the state moves on.

A compiler that keeps one of two equal operators, drops a draw that nothing uses, or moves one past another is seen here.
"""

import torch
from torch import nn
from torch.nn import functional

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


def again(f, *args):
    return Case(f, *args, then=[lambda: None])


@program
def difference_of_two_uniform_draws():
    return again(lambda x: (x * (torch.rand(5) - torch.rand(5)), torch.rand(5)), vector(5))


@program
def difference_of_two_draws_of_each_kind():
    def f(x):
        return (
            torch.rand_like(x) - torch.rand_like(x),
            torch.randn(4) - torch.randn(4),
            torch.randn_like(x) - torch.randn_like(x),
            torch.randint(0, 100, (4,)) - torch.randint(0, 100, (4,)),
            torch.randperm(6) - torch.randperm(6),
            torch.bernoulli(x / 9) - torch.bernoulli(x / 9),
            torch.normal(x, 1.0) - torch.normal(x, 1.0),
            torch.multinomial(x, 3) - torch.multinomial(x, 3),
        )

    return again(f, vector(4))


@program
def difference_of_two_dropouts():
    return again(lambda x: functional.dropout(x, 0.5) - functional.dropout(x, 0.5), leaf(33))


@program
def difference_of_two_dropouts_of_each_kind():
    def f(x):
        return (
            functional.alpha_dropout(x, 0.5, training=True) - functional.alpha_dropout(x, 0.5, training=True),
            functional.dropout1d(x, 0.5) - functional.dropout1d(x, 0.5),
            functional.feature_alpha_dropout(x, 0.5, training=True)
            - functional.feature_alpha_dropout(x, 0.5, training=True),
            functional.rrelu(x - 2, training=True) - functional.rrelu(x - 2, training=True),
        )

    return again(f, matrix(4, 5).requires_grad_())


@program
def two_layers_with_the_same_rate():
    first, second = nn.Dropout(0.5), nn.Dropout(0.5)

    def f(x):
        return first(x) - second(x), first(x) - first(x)

    return Case(f, leaf(17), then=[lambda: None, lambda: second.eval() and None, lambda: second.train() and None])


@program
def draws_in_place_on_equal_tensors():
    def f(x):
        a, b = torch.zeros(5), torch.zeros(5)
        a.uniform_()
        b.uniform_()
        c, d = x.clone().normal_(), x.clone().normal_()
        return a - b, c - d, torch.empty(3).exponential_() - torch.empty(3).exponential_(), x.clone().bernoulli_(0.5)

    return again(f, vector(5))


@program
def draws_of_a_helper_that_is_called_twice():
    def noise(x):
        return torch.rand(x.shape) * 2 - 1

    def f(x):
        return noise(x) - noise(x), [noise(x) for _ in range(3)]

    return again(f, vector(3))


@program
def a_draw_that_nothing_uses():
    def f(x):
        torch.rand(3)
        unused = torch.randn(7)  # noqa: F841
        y = torch.rand(3) * 0
        return x + y, torch.rand(3)

    return again(f, vector())


@program
def a_draw_that_is_used_by_one_branch():
    def f(x, flag):
        a, b = torch.rand(3), torch.rand(3)
        return (x + a if flag else x + b), torch.rand(1)

    return Case(f, vector(), True, then=[lambda: Args(vector(), False), lambda: Args(vector(), True)])


@program
def draws_of_other_lengths_between():
    def f(x):
        a = torch.rand(16)
        torch.rand(1)
        b = torch.rand(16)
        torch.randn(15)
        return x + a[:3] - b[:3], a - b, torch.randn(16) - torch.randn(16)

    return again(f, vector())


@program
def a_draw_before_and_after_a_write():
    total = vector(4)

    def f(x):
        total.add_(torch.rand(4))
        y = total - torch.rand(4)
        total.sub_(torch.rand(4))
        return x[:1] + y, torch.rand(4) == torch.rand(4)

    return Case(f, vector(), observe=total, then=[lambda: None])


@program
def dropout_in_training_and_after():
    def f(x, training):
        return functional.dropout(x, 0.5, training) - functional.dropout(x, 0.5, training), torch.rand(2)

    return Case(f, leaf(9), True, then=[lambda: Args(leaf(9), False), lambda: Args(leaf(9), True)])


@program
def two_draws_with_gradients_through_both():
    def f(x, w):
        hidden = functional.dropout(x @ w, 0.5)
        return functional.dropout(hidden.relu(), 0.5) - functional.dropout(hidden.relu(), 0.5)

    return again(f, matrix(4, 4).requires_grad_(), (matrix(4, 4) - 1.5).requires_grad_())


@program(whole=False)
def equal_draws_on_both_sides_of_a_break():
    def f(x):
        a, b = torch.rand(3), torch.rand(3)
        print("between")
        c, d = torch.rand(3), torch.rand(3)
        return x + a - b, x + c - d, a - c

    return again(f, vector())


@program(whole=False)
def draw_before_an_index_out_of_bounds():
    def f(x, i):
        noise = torch.rand(3)
        return x[i] * 2, noise

    return Case(f, vector(3), torch.tensor([0, 2]), then=[lambda: Args(vector(3), torch.tensor([0, 7])), lambda: Args(vector(3), torch.tensor([1, 1]))])


@program(whole=False)
def draws_in_place_before_an_operator_fails():
    index = torch.tensor([0, 2])

    def f(x):
        x = x * torch.empty(1).uniform_(1, 2)
        y = functional.dropout(x, 0.5)
        return y + vector(4)[index].sum()

    def too_large():
        index.add_(2)

    def fits_again():
        index.sub_(2)

    return Case(f, vector(), then=[too_large, fits_again])


@program(whole=False)
def draws_into_an_argument_before_an_operator_fails():
    def f(x, index):
        noise = torch.empty_like(x).normal_()
        return noise + torch.zeros(4).scatter(0, index, 1.0).sum()

    return Case(f, vector(), torch.tensor([0, 2]), then=[lambda: Args(vector(), torch.tensor([0, 9])), lambda: Args(vector(), torch.tensor([1]))])


def layers(bound, compare, write=None):
    """A layer is left out where a draw is below a bound, as layer drop has it."""

    def f(x):
        for i in range(3):
            p = torch.rand([])
            if write is not None:
                write(p)
            if compare(p, bound):
                continue
            x = x * (i + 2)
        return x, torch.rand(2)

    return again(f, vector())


@program
def layers_that_are_never_dropped():
    return layers(0.0, lambda p, bound: p < bound)


@program
def layers_that_are_always_dropped():
    return layers(0, lambda p, bound: p >= bound)


@program
def layers_dropped_below_a_negative_number():
    return layers(-0.5, lambda p, bound: bool(p <= bound) or not bound < p)


@program(whole=False)
def layers_that_are_sometimes_dropped():
    return layers(0.5, lambda p, bound: p < bound)


@program(whole=False)
def layers_dropped_at_the_bound():
    return layers(0.0, lambda p, bound: p <= bound)


@program(whole=False)
def layers_whose_draw_is_written():
    return layers(0.0, lambda p, bound: p < bound, lambda p: p.sub_(0.5))


@program(whole=False)
def layers_whose_bound_is_not_a_number():
    return layers(float("nan"), lambda p, bound: p < bound)


@program
def layers_dropped_below_what_an_object_says():
    class Config:
        layerdrop = 0.0

    config = Config()

    def f(x):
        if torch.rand([]) < config.layerdrop:
            return x
        return x + torch.rand(3)

    def change():
        config.layerdrop = -1

    return Case(f, vector(), then=[lambda: None, change])
