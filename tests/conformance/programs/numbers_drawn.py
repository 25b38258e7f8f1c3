"""Numbers drawn by Python's and numpy's generators inside a function: in eager's order, and as many as eager draws."""

import random

import numpy as np
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


def again(*makes):
    """Some calls with other arguments behind one another."""
    return [lambda make=make: Args(make()) for make in makes]


CALLS = again(*[lambda k=k: vector(8) + k for k in range(4)])


@program
def factors():
    def f(x):
        return x * random.random() + random.uniform(-1, 1)

    return Case(f, vector(8), then=CALLS)


@program
def gradient_through_a_factor():
    def f(x):
        scale = random.gauss(0, 1)
        return (x.sin() * scale).sum() / (1 + random.random())

    return Case(f, leaf(8), then=again(*[lambda: leaf(8)] * 3))


@program
def sizes():
    def f(x):
        n = random.randint(2, 6)
        return x[:n].cumsum(0), n, x[n:].sum()

    return Case(f, vector(8), then=CALLS)


@program
def places_that_depend_on_sizes():
    def f(x):
        begin = random.randint(0, x.shape[0] - 4)
        return x[begin : begin + 4] * 2

    return Case(f, vector(8), then=again(*[lambda k=k: vector(8 + k) for k in range(1, 7)]))


@program
def all_generators_take_turns():
    class Jitter(nn.Module):
        def __init__(self):
            super().__init__()
            self.own = random.Random(5)
            self.old = np.random.RandomState(6)
            self.new = np.random.default_rng(7)

        def forward(self, x):
            x = x + self.own.random() * random.random()
            x = x * np.random.rand() - self.old.uniform(0.5, 2.0)
            x = x + self.new.normal() * self.new.uniform(1, 2)
            return x + np.random.randint(1, 9) * self.own.randrange(3, 30, 2)

    return Case(Jitter(), vector(8), then=CALLS)


@program
def generator_under_two_names():
    class Pair:
        def __init__(self):
            self.left = self.right = random.Random(1)

    pair = Pair()

    def f(pair, x):
        return x * pair.left.random() + pair.right.random() * pair.left.random()

    def apart():
        pair.right = random.Random(2)

    return Case(f, pair, vector(8), then=[lambda: None, lambda: apart(), lambda: None])


@program
def another_generator_comes():
    def f(rng, x):
        return x * rng.random() + rng.uniform(1, 3)

    makes = [lambda: random.Random(2), lambda: random.Random(3)]
    return Case(f, random.Random(1), vector(8), then=[lambda make=make: Args(make(), vector(8)) for make in makes])


@program
def numbers_that_nobody_uses():
    def f(x):
        random.random()
        np.random.rand()
        return x.sin()

    return Case(f, vector(8), then=CALLS)


@program
def numbers_that_are_kept():
    seen = []

    class Model(nn.Module):
        def forward(self, x):
            seen.append(random.random())
            self.last = random.randint(0, 100)
            return x * seen[-1], {"noise": np.random.normal(0.0, 2.0)}

    return Case(Model(), vector(8), then=CALLS)


@program
def a_loop_of_draws():
    def noise(x, scale):
        return x + scale * random.random()

    def f(x):
        for k in range(4):
            x = noise(x, k + 1).tanh()
        return x

    return Case(f, vector(8), then=CALLS)


@program
def draws_around_an_error():
    """Eager draws once where the index is too large, and twice else."""

    def f(table, index):
        scale = random.random()
        rows = table[index] * scale
        return rows * np.random.rand()

    def indices(*numbers):
        return lambda: Args(matrix(4, 3), torch.tensor(numbers))

    return Case(f, matrix(4, 3), torch.tensor([0, 2]), then=[indices(1, 3), indices(1, 9), indices(3, 3)])


@program
def normal_numbers_around_an_error():
    """Each generator makes two normal numbers at a time and keeps one of them for the next call."""

    def f(table, index):
        rows = table[index] * random.gauss(0, 1)
        return rows * np.random.normal()

    def indices(*numbers):
        return lambda: Args(matrix(4, 3), torch.tensor(numbers))

    then = [indices(1, 3), indices(1, 9), indices(3, 3), indices(9, 1), indices(0, 1)]
    return Case(f, matrix(4, 3), torch.tensor([0, 2]), then=then)


@program
def draws_before_a_handled_error():
    def f(table, index):
        scale = random.random()
        try:
            rows = table[index].sum()
        except IndexError:
            return table * scale
        return rows * scale + random.random()

    def indices(*numbers):
        return lambda: Args(matrix(4, 3), torch.tensor(numbers))

    return Case(f, matrix(4, 3), torch.tensor([0, 2]), then=[indices(1, 3), indices(1, 9), indices(3, 3)])


@program
def a_fact_about_a_number_that_fails():
    """A number that is a size has been in bounds so far: where it is not, Python draws the same one."""

    def f(x, most):
        n = random.randint(2, most)
        return x[:n].sum() + torch.arange(8)[:n].sum() + x.narrow(0, 0, n).prod()

    then = [lambda most=most: Args(vector(8), most) for most in (8, 8, 30, 30, 8)]
    return Case(f, vector(8), 8, then=then)


@program(whole=False)
def a_number_decides():
    def f(x):
        x = x * 2
        if random.random() < 0.5:
            return x + 1
        return x - 1

    return Case(f, vector(8), then=CALLS)


@program(whole=False)
def an_item_is_chosen():
    def f(x):
        factor = random.choice([0.5, 1.5, 2.5])
        order = [0, 1, 2]
        random.shuffle(order)
        return x * factor + order[0]

    return Case(f, vector(8), then=CALLS)


@program(whole=False)
def state_is_read_behind_a_draw():
    def f(x):
        first = random.random()
        state = random.getstate()
        second = random.random()
        random.setstate(state)
        return x * first + second * random.random()

    return Case(f, vector(8), then=CALLS)


@program(whole=False)
def attribute_of_a_generator_that_drew():
    def f(rng, x):
        before = rng.gauss_next is None
        x = x * rng.gauss(0, 1)
        return x, before, rng.gauss_next is None

    rng = random.Random(1)
    return Case(f, rng, vector(8), then=[lambda: None] * 3)


@program(whole=False)
def seed_between_draws():
    def f(x):
        x = x * random.random()
        random.seed(3)
        return x + random.random()

    return Case(f, vector(8), then=CALLS)


@program(whole=False)
def many_numbers_at_once():
    def f(x):
        return x * random.random() + torch.from_numpy(np.random.rand(8)).float() * np.random.rand()

    return Case(f, vector(8), then=CALLS)


@program(whole=False)
def draw_in_a_checkpoint():
    """What is computed again draws again."""

    def part(x):
        return (x * random.random()).sin()

    def f(x):
        return checkpoint(part, x, use_reentrant=False).sum()

    return Case(f, leaf(8), then=again(*[lambda: leaf(8)] * 2))


@program(whole=False)
def draw_in_a_hook():
    def f(x):
        y = x.sin()
        y.register_hook(lambda gradient: gradient * random.random())
        return y.sum() * random.random()

    return Case(f, leaf(8), then=again(*[lambda: leaf(8)] * 2))


@torch.library.custom_op("conformance_numbers::noisy", mutates_args=())
def noisy(x: torch.Tensor) -> torch.Tensor:
    return x * random.random()


@noisy.register_fake
def _(x):
    return torch.empty_like(x)


@program(whole=False)
def an_operator_draws_in_between():
    def f(x):
        first = noisy(x)
        return first * random.random() + noisy(first)

    return Case(f, vector(8), then=CALLS)


@program
def numbers_of_an_augmentation():
    class Augment(nn.Module):
        def __init__(self):
            super().__init__()
            self.brightness, self.crop = 0.4, 6

        def forward(self, image):
            factor = random.uniform(1 - self.brightness, 1 + self.brightness)
            image = (image * factor).clamp(0, 1)
            top = random.randint(0, image.shape[-2] - self.crop)
            left = random.randint(0, image.shape[-1] - self.crop)
            return image[..., top : top + self.crop, left : left + self.crop] + torch.randn(1) * np.random.uniform(0, 0.1)

    torch.manual_seed(0)
    return Case(Augment(), torch.rand(2, 3, 8, 10), then=[lambda k=k: Args(torch.rand(2, 3, 8 + k % 2, 10)) for k in range(4)])
