"""Floats that a later call has otherwise: they become symbolic, and must stay the floats that they are."""

import math

import torch
from torch.nn import functional

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector

NAN, INF = float("nan"), float("inf")
VALUES = (0.25, -1.5, 0.0, -0.0, 1e-30, 7.0, 3.3, 1e300, INF, -INF, NAN, 0.5)
ORDINARY = (0.25, 1.5, 0.75, 3.3, 0.5)


def with_floats(f, first=0.1, values=VALUES):
    return Case(f, vector(), first, then=[lambda v=v: Args(vector(), v) for v in values])


@program
def arithmetic():
    def f(x, v):
        return x * v - v, v * 2 - 1, -v, 1 - v, v + v * v, v / 3

    return with_floats(f)


@program
def divisions_by_what_may_be_zero():
    def f(x, v):
        return x.sin(), 1 / v

    return with_floats(f)


@program
def divisions_of_tensors():
    def f(x, v):
        return x / v, v / x, v - x

    return with_floats(f)


@program
def comparisons_and_extremes():
    def f(x, v):
        y = x + 1 if v > 0.3 else x - 1
        return y, v == 0.5, v != 0, v <= 7, max(v, 0.3), min(v, 0), bool(v), not v, v == v

    return with_floats(f)


@program
def signs_of_zeros():
    def f(x, v):
        return x + 1, math.copysign(1, v), f"{v}", [v * 0]

    return with_floats(f, values=(0.0, -0.0, 2.0, -2.0, 0.0))


@program
def found_in_containers():
    def f(x, v):
        return x + 1, v in (0.5, NAN), {v: 1}, [0.25, v].index(v), (v, v)

    return with_floats(f)


@program
def identity():
    def f(x, v):
        return x * v, v is v, float(v) is v, v

    return with_floats(f)


@program
def constants_that_are_the_argument():
    # The compiler keeps one object of equal constants of a module.
    def f(x, v, n):
        y = x + 1
        return y, [0.25, v, 300, n], {0.25: v, 300: n}

    calls = [(0.25, 300), (-1.5, 7), (0.25, 7), (3.0, 300)]
    return Case(f, vector(), 0.1, 5, then=[lambda c=c: Args(vector(), *c) for c in calls])


@program
def types_that_change():
    def f(x, v):
        return x * v, v + 1, type(v)

    return with_floats(f, values=(0.3, 2, 0.5, True, 0.75, 3, 2**80))


@program
def numbers_of_operators():
    def f(x, v):
        y = x.clone().mul_(v).add_(x, alpha=1 - v)
        z = torch.addcmul(x, x, y, value=v).lerp(x, v)
        return y, z, x.clamp(-v, v), torch.where(x > v, x, v), torch.full((2,), v), x.new_full((3,), -v), x >= v

    return with_floats(f, values=ORDINARY)


@program
def out_of_the_range_of_a_type():
    def f(x, v):
        return x * v, x.half() * v, x.bfloat16() + v, x.double() * v, x.int() * v

    return with_floats(f, values=(0.5, 1e5, 1e38, 3.4e38, 1e39, -1e39, INF, 2.0))


@program
def written_into_integers():
    def f(x, v):
        y = x.int()
        y.fill_(v)
        return y

    return with_floats(f, values=(2.5, 3.0, 1e30, 4.5))


@program
def arguments_that_torch_looks_at():
    def f(x, v):
        rows = functional.layer_norm(x, x.shape, eps=v)
        return rows, functional.dropout(x, v, training=False), x**v, torch.tensor(v), functional.leaky_relu(x, v), functional.elu(x, v)

    return with_floats(f, values=(0.25, 0.75, 0.125, 0.5))


@program
def gradients():
    def f(x, v):
        y = (x * v).tanh() * (v + 1)
        return y.sum() / v, y

    return Case(f, leaf(), 0.1, then=[lambda v=v: Args(leaf(), v) for v in ORDINARY])


@program
def sizes_and_integers_beside():
    def f(x, n, v):
        mean = x.sum() / x.shape[0]
        decay = 0.9**n
        return mean * v, x * (v / x.shape[1]), x.view(-1) * (n / 2), v * n, decay, x * (1 - decay), float(n)

    calls = [(3, 1, 0.1), (4, 2, 0.2), (5, 3, 0.3), (5, 0, 0.3), (5, -1, 0.4)]
    return Case(f, matrix(2, 4), 1, 0.5, then=[lambda c=c: Args(matrix(c[0], 4), c[1], c[2]) for c in calls])


@program
def decays_that_python_raises_for():
    def f(x, n):
        return x + 1, 0.5**n, 2.0**n

    values = (2, 3, 5, -3, 4000, 7)
    return Case(f, vector(), 1, then=[lambda n=n: Args(vector(), n) for n in values])


@program
def learning_rate_of_a_step():
    weight, state = vector(), {"lr": 0.1, "step": 0}

    def f(gradient):
        state["step"] += 1
        weight.add_(gradient, alpha=-state["lr"])
        torch._foreach_add_([weight], [gradient], alpha=-state["lr"] / 2)
        torch._foreach_addcdiv_([weight], [gradient], [gradient.abs() + 1], state["lr"])
        state["lr"] *= 0.5
        return state["lr"]

    return Case(f, vector(), observe=(weight, state), then=[lambda: Args(vector()) for _ in range(4)])


@program
def attributes_globals_and_items():
    class Schedule:
        value = 0.1

    schedule, items = Schedule(), [0.5, 0.25]

    def f(x):
        schedule.value = schedule.value * 0.9
        items[0] = items[0] + items[1]
        return x * schedule.value + items[0]

    return Case(f, vector(), observe=(items, vars(schedule)), then=[lambda: Args(vector()) for _ in range(4)])


@program(whole=False)
def across_a_break():
    def f(x, v):
        scale = v * 2
        y = x * scale
        print("here the graph ends")
        return y + scale, v, scale

    return with_floats(f, values=ORDINARY)


@program
def sizes_that_follow_from_a_factor():
    def f(x, factor):
        y = functional.interpolate(x, scale_factor=factor, mode="nearest", recompute_scale_factor=True)
        y.square().sum().backward()
        return y.detach() * 2, y.shape[2], y.stride(), x.grad.clone()

    def image():
        return torch.arange(24.0).reshape(1, 2, 3, 4).requires_grad_()

    return Case(f, image(), 2.0, then=[lambda v=v: Args(image(), v) for v in (1.5, 3.0, 2.5, 0.75, 3.0)])


@program
def probabilities_of_dropout():
    def f(x, p):
        return functional.dropout(x, p) * 2, functional.dropout(x, p, training=False), torch.zeros(8).uniform_(-p, p)

    return Case(f, matrix(8, 8) + 1, 0.3, then=[lambda v=v: Args(matrix(8, 8) + 1, v) for v in (0.6, 0.125, 0.2, 0.0, 1.0, 0.9)])


@program
def rounded_to_places():
    def f(x, v):
        return x + 1, round(v, 1), round(v, 2), round(v, 0), round(v * 3, 3), +v

    return with_floats(f, values=(2.675, 2.5, 0.125, 1.115, -0.001, -0.0, 1e22, -5.015))


@program
def questions_about_floats():
    def f(x, v):
        return x + 1, math.isfinite(v), math.isnan(v), math.isinf(v), v in (0.25, 7, None), divmod(v, 0.3)

    return with_floats(f, values=ORDINARY)


@program
def arguments_of_functions_of_torch():
    def f(x, v):
        padded = functional.pad(x, (1, 2), value=v)
        loss = functional.huber_loss(x, x.cos(), delta=v) + functional.smooth_l1_loss(x, x.cos(), beta=v)
        return padded, loss, functional.celu(x, v), torch.tensor([v, 1.0]), x.abs() ** v, torch.fmod(x, v)

    return with_floats(f, values=ORDINARY)


@program
def sums_of_floats():
    # From 3.12 on sum() compensates for roundings.
    def f(x, v):
        return x + 1, sum([v, 1e100, -1e100, v]), math.prod([v, 3.0]), math.fsum([v, 1.0]), round(v, 1), divmod(v, 0.3), abs(v), v // 0.2, v % 0.2

    return with_floats(f, values=ORDINARY)


@program
def what_is_no_number_found_in_containers():
    """It equals nothing, not even itself, but is found where it is the same object."""
    several = [0.5, NAN]

    def f(x, v, outside):
        return x + 1, v in (0.5, NAN), v in several, v in outside, v in {NAN, 0.5}, v in {NAN: 1, 2.5: 2}

    calls = (0.25, 7.0, NAN, float("nan"), 0.5)
    return Case(f, vector(), 0.1, (2.0, NAN), then=[lambda v=v: Args(vector(), v, (2.0, NAN)) for v in calls])


@program
def an_integer_where_a_float_was():
    """It is as large, but a product with integers is one of integers."""

    def f(x, v):
        return x * v

    return Case(f, torch.arange(4), 0.5, then=[lambda v=v: Args(torch.arange(4), v) for v in (1.5, 3, 2.5, True, 4.5)])
