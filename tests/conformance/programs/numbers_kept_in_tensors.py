"""Numbers that a program keeps in tensors and moves on: what they decide is computed anew in each call, behind the writes
that stand before it, and what is computed of them goes on without a look."""

import torch

from conformance.program import Args, Case, program
from conformance.programs.tensors_as_keys import training
from conformance.sample import vector


def steps(f, *more, start=0.0, times=5, **settings):
    count = torch.tensor(start)
    return Case(f, vector(), count, *more, then=[lambda: None] * times, observe=count, forward_only=True, **settings)


@program
def a_count_that_reaches_a_limit():
    def f(x, count):
        count += 1
        if count > 3:
            return x * 2
        return x - count

    return steps(f)


@program
def a_limit_that_another_number_moves():
    limit = torch.tensor(2.5)

    def f(x, count):
        count.add_(1)
        late = bool((count * 2 > limit) & (limit > 0))
        limit.mul_(1.5)
        return x + (3 if late else 1), late

    return steps(f)


@program
def a_view_of_the_count_is_written():
    def f(x, count):
        count.view(1).add_(1)
        row = count.expand(2)
        return (x * 2 if count >= 3 else x), x + row.sum()

    return steps(f)


@program(whole=False)
def counts_that_share_their_memory():
    counts = torch.zeros(2)
    first, second = counts[0], counts[1]

    def f(x):
        counts.add_(1)
        return (x * 2 if first >= 3 else x), x + second

    return Case(f, vector(), then=[lambda: None] * 4, observe=(counts, first, second), forward_only=True)


@program
def a_number_read_behind_its_write():
    def f(x, count):
        count += 1
        step = count.item()
        return x * (1 - 0.5**step) + step**-0.5, count

    return steps(f)


@program
def a_tensor_made_of_a_number():
    def f(x, count):
        count += 1
        rate = torch.as_tensor(1 / (1 + 0.1 * count.item()) ** 0.75)
        exact = torch.tensor(count.item() / 3, dtype=torch.float64)
        whole = torch.tensor(x.shape[0])
        return x * rate, rate, exact, whole, x.to(torch.float64) * exact, x + whole

    return steps(f)


@program
def the_larger_of_two_numbers():
    def f(x, count):
        count += 1
        most = max(1.0, x.norm().item() / 3, count.item() / 2)
        least = min(x.sum().item(), 2.0)
        return x / most, x + least

    return steps(f)


@program
def the_larger_of_numbers_that_are_none():
    def f(x):
        most, least = max(1.0, x.sum().item()), min(x.sum().item(), 1.0)
        return torch.zeros(2) + most, torch.ones(2) * least

    nan = float("nan")
    return Case(f, vector(), then=[lambda: Args(vector(3, nan)), lambda: Args(vector(3, 5.0)), lambda: Args(vector(3, -0.0))])


@program
def the_larger_of_two_zeros():
    def f(x):
        number = x[0].item()
        first, last = torch.as_tensor(max(0.0, number)), torch.as_tensor(max(number, 0.0))
        return torch.ones(2).copysign(first), torch.ones(2).copysign(last), torch.ones(2).copysign(torch.as_tensor(min(number, 0.0)))

    return Case(f, vector(), then=[lambda: Args(torch.tensor([-0.0])), lambda: Args(torch.tensor([0.0])), lambda: Args(-vector())])


@program
def lists_of_tensors_and_computed_numbers():
    def f(x, count):
        count += 1
        n = count.item()
        a, b = [x.clone(), x + 1], [x * 2, x - 1]
        with torch.no_grad():
            torch._foreach_lerp_(a, b, [n / 10, 0.5])
            torch._foreach_mul_(b, n)
            torch._foreach_add_(b, a, alpha=n)
            sums = torch._foreach_add(a, [n, 1.0])
            torch._foreach_addcdiv_(a, b, [x + 9, x + 8], [n, -n])
        return a, b, sums

    return steps(f)


@program(break_step=97)
def step_of_radam():
    return training(lambda p: torch.optim.RAdam(p, lr=0.1, foreach=False), steps=7)


@program(break_step=97)
def step_of_radam_of_lists():
    return training(lambda p: torch.optim.RAdam(p, lr=0.1, weight_decay=0.1, foreach=True), steps=7)


@program(break_step=97)
def step_of_asgd():
    return training(lambda p: torch.optim.ASGD(p, lr=0.1, t0=2, foreach=False))


@program(break_step=97)
def step_of_asgd_of_lists():
    return training(lambda p: torch.optim.ASGD(p, lr=0.1, foreach=True))


@program(break_step=97)
def step_of_adafactor():
    return training(lambda p: torch.optim.Adafactor(p, lr=0.1, foreach=False))


@program(break_step=97)
def step_of_adafactor_of_lists():
    return training(lambda p: torch.optim.Adafactor(p, lr=0.1, weight_decay=0.1, foreach=True))
