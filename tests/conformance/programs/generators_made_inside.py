"""Generators of torch that the function makes and seeds: they draw the same numbers in each call, and live on as in eager."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


@program
def seeded_where_it_is_made():
    def f(x):
        return x + torch.rand(3, generator=torch.Generator().manual_seed(3))

    return Case(f, leaf(), then=[lambda: None, lambda: torch.manual_seed(5) and None])


@program
def each_kind_of_numbers():
    def f(x):
        g = torch.Generator(device="cpu")
        g.manual_seed(7)
        return (
            x * torch.randn(3, generator=g),
            torch.rand((2, 2), generator=g, dtype=torch.float64),
            torch.randint(9, (4,), generator=g),
            torch.randint(-4, 4, (2,), generator=g),
            torch.randperm(5, generator=g),
            torch.normal(1.0, 2.0, (3,), generator=g),
            torch.randn(x.shape, generator=g),
        )

    return Case(f, vector(), then=[lambda: None, lambda: None])


@program
def draws_go_on_from_each_other():
    def f(x):
        a, b = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
        first, second = torch.rand(3, generator=a), torch.rand(3, generator=a)
        again = torch.rand(3, generator=b)
        a.manual_seed(1)
        return first - second, first - again, torch.rand(3, generator=a) - first + x, a.initial_seed()

    return Case(f, vector(), then=[lambda: None])


@program
def the_seed_is_an_argument():
    def f(x, seed):
        g = torch.Generator().manual_seed(seed)
        return x * torch.rand(3, generator=g)

    return Case(f, vector(), 1, then=[lambda: Args(vector(), 2), lambda: Args(vector(), 1), lambda: Args(vector(), 2)])


@program
def sizes_that_change():
    def f(x):
        g = torch.Generator().manual_seed(2)
        noise = torch.randn(x.shape[0], generator=g)
        return x * noise + torch.rand(1, generator=g)

    return Case(f, vector(3), then=[lambda n=n: Args(vector(n)) for n in (4, 5, 3, 4)])


@program
def the_result_is_written():
    def f(x):
        noise = torch.rand(3, generator=torch.Generator().manual_seed(4))
        noise.add_(x)
        return noise

    return Case(f, vector(), then=[lambda: None, lambda: None])


@program
def it_lives_on():
    kept = []

    def f(x):
        g = torch.Generator().manual_seed(6)
        y = x + torch.rand(3, generator=g)
        kept.append(g)
        return y

    def numbers():
        return [torch.rand(2, generator=g) for g in kept], len({id(g) for g in kept})

    return Case(f, vector(), look=numbers, then=[lambda: None, lambda: None])


@program(whole=False)
def it_lives_across_a_break():
    def f(x):
        g = torch.Generator().manual_seed(8)
        a = x * torch.rand(3, generator=g)
        torch._dynamo.graph_break()
        return a + torch.rand(3, generator=g)

    return Case(f, vector(), then=[lambda: None, lambda: None])


@program(whole=False)
def it_draws_into_tensors():
    def f(x, m):
        g = torch.Generator().manual_seed(9)
        a = torch.rand(2, generator=g)
        b = torch.bernoulli(x.abs() / 9, generator=g)
        c = torch.multinomial(m.abs() + 1, 2, generator=g)
        return a, b, c, torch.rand(2, generator=g), x.clone().uniform_(generator=g)

    return Case(f, vector(), matrix(), then=[lambda: None])


@program(whole=False)
def wrong_arguments_leave_it_as_it_was():
    def f(x):
        g = torch.Generator().manual_seed(3)
        try:
            torch.randint(5, 2, (3,), generator=g)
        except RuntimeError:
            x = x + 1
        return x + torch.rand(3, generator=g)

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def its_state_is_read():
    def f(x):
        g = torch.Generator().manual_seed(3)
        y = x + torch.rand(3, generator=g)
        state = g.get_state()
        z = torch.rand(3, generator=g)
        g.set_state(state)
        return y, z - torch.rand(3, generator=g)

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def more_numbers_than_an_entry_keeps():
    def f(x):
        g = torch.Generator().manual_seed(3)
        many = torch.rand(1100, 1000, generator=g)
        return x + many[0, :3], torch.rand(2, generator=g)

    return Case(f, vector(), then=[lambda: None])
