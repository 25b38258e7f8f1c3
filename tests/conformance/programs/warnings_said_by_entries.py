"""Warnings of Python in captured code: an entry says them when it runs, by the filters of that moment, at their place.

A compiler that says them while it captures, once for many calls, or at a place of its own, is seen here.
"""

import warnings

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


def again(f, *args, **named):
    return Case(f, *args, then=[lambda: None, lambda: None], **named)


@program
def a_warning_of_the_program():
    def f(x):
        y = x * 2
        warnings.warn("doubled", stacklevel=1)
        return y + 1

    return again(f, vector())


@program
def a_warning_in_a_callee_about_its_caller():
    def helper(x):
        warnings.warn(f"of {x.dim()} dimensions", DeprecationWarning, stacklevel=2)
        return x * 2

    def f(x):
        y = helper(x)
        return helper(y + 1)

    return again(f, vector())


@program
def a_loss_that_warns_of_its_reduction():
    def f(x, y):
        return functional.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="mean")

    return again(f, leaf(3), vector(3))


@program
def interpolation_that_is_deprecated():
    def f(x):
        return functional.upsample_nearest(x, scale_factor=2) + 1, functional.upsample_bilinear(x, size=(4, 4))

    return again(f, torch.arange(16.0).reshape(1, 1, 4, 4))


@program
def a_warning_under_a_condition():
    def f(x, loud):
        if loud:
            warnings.warn("loud", stacklevel=1)
        return x + 1

    return Case(f, vector(), True, then=[lambda: Args(vector(), False), lambda: Args(vector(), True)])


def _under_filters(inner, make, first, *actions):
    """One call for each of the filters' actions; an error is caught outside of what warns."""

    def f(x, action):
        with warnings.catch_warnings():
            warnings.simplefilter(action)
            try:
                return inner(x)
            except UserWarning as error:
                return x - len(str(error)[:20])

    return Case(f, make(), first, then=[lambda a=a: Args(make(), a) for a in actions], forward_only=True)


@program(whole=False)
def filters_that_change_around_a_warning():
    def inner(x):
        warnings.warn("careful", stacklevel=1)
        return x * 2

    return _under_filters(inner, vector, "always", "error", "ignore", "error", "always", "default")


@program(whole=False)
def a_list_of_warnings_that_is_read():
    def f(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            y = x * 2
            warnings.warn("heard", stacklevel=1)
            n = len(caught)
            y = y + n
        return y, n, [str(w.message) for w in caught]

    return again(f, vector())


@program(whole=False)
def a_function_that_hears():
    def f(x, heard):
        before = warnings.showwarning
        warnings.showwarning = lambda *args, **kwargs: heard.append(len(heard))
        try:
            warnings.warn("heard", stacklevel=1)
            return x * (len(heard) + 1)
        finally:
            warnings.showwarning = before

    return again(f, vector(), [])


@program(whole=False)
def a_category_of_the_program():
    class Careful(UserWarning):
        pass

    def f(x):
        warnings.warn("with care", Careful, stacklevel=1)
        return x * 2

    return again(f, vector())


@program(whole=False)
def texts_that_change():
    def f(x, text):
        warnings.warn(text, stacklevel=1)
        return x * 2

    return Case(f, vector(), "a", then=[lambda t=t: Args(vector(), t) for t in "bcdea"])


@program
def a_result_that_is_resized():
    """A row of a product is wanted: torch makes the result a matrix, says so, and takes that back."""

    def f(x, w, out):
        torch.matmul(x, w, out=out)
        return out * 2

    return again(f, vector(3), matrix(3, 4), torch.ones(4))


@program
def a_result_of_a_layer_that_is_resized():
    def f(x, w, b):
        out = torch.ones(4)
        torch._C._nn.linear(x, w, b, out=out)
        return out + 1

    return again(f, vector(3), matrix(4, 3), vector(4))


@program
def modes_into_given_tensors():
    def f(x, values, indices):
        torch.mode(x, 1, out=(values, indices))
        return values + 1

    return again(f, torch.tensor([[1.0, 2, 2], [3, 3, 1]]), torch.ones(2), torch.ones(2, dtype=torch.long))


def _outdated(text):
    def decorate(function):
        def wrapper(*args):
            warnings.warn(text, FutureWarning, stacklevel=2)
            return function(*args)

        return wrapper

    return decorate


@_outdated("there is a better one")
def _old(x):
    return x * 2


@program
def texts_of_decorators():
    return again(lambda x: _old(x) + 1, vector(3))


@program
def a_check_that_torch_has_outdated():
    def f(x, n):
        count = n.item()
        torch._check_is_size(count)
        return x.sum() + torch.ones(count)

    return Case(f, vector(3), torch.tensor(3), then=[lambda: Args(vector(3), torch.tensor(5)), lambda: Args(vector(3), torch.tensor(4))])


@program(whole=False)
def texts_that_an_object_brings():
    class Holder:
        text = "a"

    holder = Holder()
    holder.text = "b"

    def f(x, holder):
        warnings.warn(holder.text, stacklevel=1)
        return x * 2

    return Case(f, vector(), holder, then=[lambda t=t: setattr(holder, "text", t) for t in "cd"])


@program
def deviations_of_too_few_numbers():
    """Eager says it each time, for real and imaginary parts apart, and of no numbers as well as of one."""

    def f(x, none):
        a, b = x.std(), x.var(correction=2)
        c = torch.std_mean(none), torch.var_mean(x[None], dim=0)
        d = x.to(torch.complex64).var(), x.half().std(dim=0), none.var(dim=0, correction=0)
        return a, b, c, d, none.std(correction=-1), x.double().var(correction=0.5), x.var(correction=1.5)

    return again(f, vector(1), torch.empty(0))


@program
def deviations_over_a_part_of_nothing():
    """No element is counted, however long the dimension is; a correction below zero is no reason to warn."""
    return again(lambda x: (x.std(1), x.var(1, correction=-1), x.var(0, correction=-1), x * 2), torch.empty(0, 5))


@program
def a_deviation_into_a_given_tensor():
    return again(lambda x, out: torch.var(x, 1, out=out) + 1, matrix(3, 1), torch.empty(3))


@program
def gradients_of_deviations_of_too_few_numbers():
    x = torch.tensor([[1.0], [2.0]], requires_grad=True)
    return again(lambda x: (x.std(1) + x.var(0, correction=3) ** 2, x * 2), x)


@program
def deviations_of_lengths_that_change():
    lengths = (4, 1, 3, 1, 0, 5)
    return Case(lambda x: x.std() * 2 + x.sum(), vector(2), then=[lambda n=n: Args(vector(n)) for n in lengths])


@program(whole=False)
def filters_that_change_around_a_deviation():
    actions = ("ignore", "always", "error", "always", "default", "module", "ignore", "always")
    return _under_filters(lambda x: x.var() + 1, lambda: leaf(1), *actions)


@program(whole=False)
def a_deviation_that_is_computed_again():
    """The second pass says it again."""

    def f(x):
        return checkpoint(lambda y: (y * 2).sin() / (1 + y[:1].var(correction=0) + y.var(0, correction=9)), x, use_reentrant=False)

    return again(f, leaf(3))


@program(whole=False)
def an_operator_that_says_it_to_nobody():
    return again(lambda x: torch.ops.aten.var.correction(x, [0]) + 1, vector(1))
