"""Random numbers from a torch.Generator that the program has: drawn in the graph, and its state moves on as in eager."""

import torch
from torch import nn

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


def seeded(seed):
    return torch.Generator().manual_seed(seed)


@program
def each_kind_of_draw():
    g = seeded(1)

    def f(x):
        return (
            torch.rand(3, generator=g) - torch.rand(3, generator=g),
            torch.randn(2, 3, generator=g, device=g.device),
            torch.randint(0, 50, (3,), generator=g),
            torch.randperm(5, generator=g),
            torch.normal(x, 1.0, generator=g),
            torch.multinomial(x, 2, generator=g),
            torch.bernoulli(x / 9, generator=g),
            torch.rand(3),
            torch.empty(3).uniform_(generator=g),
            x.clone().normal_(generator=g),
        )

    return Case(f, vector(), look=lambda: g.get_state(), then=[lambda: None, lambda: g.manual_seed(1) and None])


@program
def an_argument():
    g, other = seeded(1), seeded(2)

    def f(x, g):
        noise = torch.randn(x.shape, generator=g)
        return x + noise * 0.5

    return Case(
        f,
        vector(),
        g,
        look=lambda: (g.get_state(), other.get_state()),
        then=[lambda: None, lambda: Args(vector(), other), lambda: Args(vector(), None), lambda: Args(vector(), torch.default_generator)],
    )


@program
def two_of_them():
    a, b = seeded(1), seeded(1)

    def f(x):
        return x * (torch.rand(3, generator=a) - torch.rand(3, generator=b)), torch.rand(3) * torch.rand(3, generator=a)

    return Case(f, leaf(), look=lambda: (a.get_state(), b.get_state()), then=[lambda: a.manual_seed(5) and None])


@program
def kept_in_a_module():
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.generator = seeded(4)

        def forward(self, x):
            y = self.linear(x)
            for _ in range(2):
                y = y + torch.randn(y.shape, generator=self.generator, dtype=y.dtype)
            return y.relu()

    torch.manual_seed(0)
    module = Noisy()

    def change():
        module.generator = seeded(6)

    return Case(module, matrix(2, 3), look=lambda: module.generator.get_state(), then=[lambda: None, change])


@program
def draws_of_a_call_that_fails():
    g = seeded(1)

    def f(x, index):
        y = torch.rand(3, generator=g)
        try:
            return y + x[index]
        except IndexError:
            return y

    good, bad = torch.tensor([0, 1, 2]), torch.tensor([0, 1, 7])
    return Case(f, vector(), good, look=lambda: g.get_state(), then=[lambda: Args(vector(), bad), lambda: Args(vector(), good)])


@program(whole=False)
def seeded_in_the_function():
    g = seeded(1)

    def f(x):
        y = x + torch.rand(3, generator=g)
        g.manual_seed(3)
        return y * torch.rand(3, generator=g), g.initial_seed()

    return Case(f, vector(), look=lambda: g.get_state())


@program
def kinds_whose_kernels_in_python_take_no_generator():
    g = seeded(1)

    def f(x):
        return x.clone().cauchy_(generator=g), x.clone().log_normal_(generator=g), x.clone().geometric_(0.3, generator=g), x.clone().exponential_(generator=g)

    return Case(f, vector(), look=lambda: g.get_state(), then=[lambda: None, lambda: Args(vector(4))])
