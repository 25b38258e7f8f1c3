"""Operators that warn when they run: each call warns as in Python, with the program's line, as often and in that order.

A compiler that warns while it captures, or runs a kernel where nobody hears it, is seen here.
"""

import warnings

import torch
from torch.nn import functional

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


def complex_vector():
    return torch.tensor([1 + 2j, 0.5, -1j])


def again(f, *args):
    return Case(f, *args, then=[lambda: None, lambda: None])


@program(whole=False)
def complex_numbers_become_real():
    def f(x, z):
        x = x + z.to(torch.float64).sum().to(x.dtype)
        y = torch.ones(3)
        y.copy_(z)
        y[1:] = z[1:]
        return x, y, z.int(), z.type_as(x).mean(), z.sum(dtype=torch.float32)

    return again(f, vector(), complex_vector())


@program(whole=False)
def a_property_that_warns_at_its_end():
    def f(x):
        y = x.sum() + 1
        return y, y.mT * 2

    return again(f, vector())


@program
def complex_numbers_become_bools():
    return again(lambda x, z: x * z.bool().sum(), vector(), complex_vector())


@program(whole=False)
def only_a_later_call_warns():
    return Case(lambda x, z: x + z.to(torch.float64).sum(), vector(), vector(), then=[lambda: Args(vector(), complex_vector())])


@program
def deviation_of_one_number():
    def f(x):
        a = x.std()
        b = x.var(correction=2)
        return a, b, torch.std_mean(x[:0]), torch.var_mean(x[None], dim=0)

    return again(f, vector(1))


@program
def deviation_of_enough_numbers():
    return again(lambda x: (x.std(), x.var(1), x[:, :1].std(1, correction=0), torch.var_mean(x, dim=0)), matrix(3, 4))


@program(whole=False)
def writes_to_an_expanded_tensor():
    def f(x):
        y = (x[:1] * 2).expand(3)
        y.masked_fill_(torch.tensor(True), 2.0)
        z = (x[:1] + 1).expand(3)
        z.index_fill_(0, torch.tensor([0]), 3.0)
        w = (x[:1] + 2).expand(3)
        w.index_put_((torch.tensor([0]),), torch.tensor(5.0))
        return y, z, w

    return again(f, vector())


@program(whole=False)
def writes_to_an_expanded_argument():
    def f(x, y):
        return y.masked_fill_(y > 1, x.numel())

    return Case(f, vector(), vector(1).expand(3), then=[lambda: Args(vector(), vector(3)), lambda: Args(vector(), vector(1).expand(3))])


@program
def an_expanded_tensor_is_filled():
    def f(x):
        y = (x[:1] * 2).expand(3)
        y.fill_(3)
        z = (x[:1] * 2).expand(3)
        z.zero_()
        return y + z

    return again(f, vector())


@program(whole=False)
def functions_that_are_deprecated():
    def f(x):
        a = x.T
        b = torch.cross(x[:, :, :3], x[:, :, :3])
        c, d = torch.meshgrid(x[0, 0], x[0, 1])
        e = torch.where(torch.tensor([1, 0, 1, 0], dtype=torch.uint8), x, x + 1)
        return a, b, c, d, e, torch.range(1, 3)

    return again(f, torch.arange(12.0).reshape(3, 1, 4).repeat(1, 2, 1))


@program(whole=False)
def functions_in_beta():
    return again(lambda x: x.index_reduce(0, torch.tensor([0, 1]), x[:2] + 1, "mean"), vector(4))


@program(whole=False)
def a_search_in_a_part_of_a_tensor():
    def f(x):
        return torch.searchsorted(x[::2], x[1::2]), torch.bucketize(x, x[::2]), torch.searchsorted(x, x)

    return again(f, vector(8))


@program(whole=False)
def numbers_drawn_beyond_the_type():
    def f(x):
        return x.new_empty(3).random_(0, 2**40), x.new_empty(3).random_(2**30), x.new_empty(3).random_(0, 100)

    return again(f, vector())


@program(whole=False)
def a_padding_that_copies():
    return again(lambda x, w: functional.conv1d(x, w, padding="same"), torch.ones(1, 1, 5), torch.ones(1, 1, 2))


@program(whole=False)
def complex_numbers_of_two_halves():
    return again(lambda x: (x.to(torch.complex32) * 1).real.sum(), vector())


@program(whole=False)
def the_gradient_of_an_inner_tensor():
    def f(x):
        y = x * 2
        return y + 1, y.grad

    return again(f, leaf())


@program(whole=False)
def warnings_that_are_caught():
    def f(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            y = x.std()
        return y, [str(w.message)[:30] for w in caught]

    return again(f, vector(1))


@program(whole=False)
def warnings_that_are_errors():
    def f(x, log):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            log.append(x.numel())
            try:
                x = x + x.std()
            except UserWarning as error:
                log.append(str(error)[:20])
        return x * 2

    return Case(f, vector(1), [], then=[lambda: Args(vector(4), []), lambda: Args(vector(1), [])])


@program(whole=False)
def warnings_around_a_failing_operator():
    def f(x, z):
        try:
            return x + z.to(torch.float64)
        except RuntimeError as error:
            return x, str(error)[:30]

    return again(f, vector(5), complex_vector())


@program
def warnings_in_a_callee():
    def helper(x):
        y = x * 2
        return y + y[:1].std()

    return again(lambda x: helper(x) + helper(x + 1), vector(4))


@program(whole=False)
def filters_that_change_between_calls():
    """No operator says these: a function of torch's warns of its name, and an attribute of who reads it."""

    def inner(x):
        y = x * 2
        try:
            return y + torch.range(0, 2), y.grad
        except UserWarning as error:
            return y - len(str(error)), None

    def f(x, action):
        with warnings.catch_warnings():
            warnings.simplefilter(action)
            return inner(x)

    actions = ("always", "error", "always", "default", "module", "ignore", "always")
    return Case(f, leaf(), "ignore", then=[lambda a=a: Args(leaf(), a) for a in actions], forward_only=True)


@program(whole=False)
def filters_that_change_around_an_attribute():
    def inner(x):
        return (x * 2).grad

    def f(x, action):
        with warnings.catch_warnings():
            warnings.simplefilter(action)
            try:
                inner(x)
            except UserWarning:
                x = x - 1
        return x + 1

    actions = ("always", "error", "default", "module", "ignore", "error")
    return Case(f, leaf(), "error", then=[lambda a=a: Args(leaf(), a) for a in actions], forward_only=True)
