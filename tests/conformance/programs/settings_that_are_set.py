"""Torch's settings that a function sets on the way: each operator runs under what was set before it, and what is set
last stays."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector

NOTHING = [lambda: None] * 2


def settings():
    """What a program can ask for, after a call."""
    cudnn, mkldnn = torch.backends.cudnn, torch.backends.mkldnn
    return (
        torch.get_default_dtype(),
        torch.get_float32_matmul_precision(),
        (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32),
        (mkldnn.enabled, mkldnn.deterministic),
        torch.backends.cuda.matmul.allow_tf32,
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )


@program
def before_all_else():
    def f(x):
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.deterministic = False
        return x @ x.t(), torch.backends.cudnn.benchmark

    def off():
        torch.backends.cudnn.benchmark = False

    return Case(f, matrix(), then=[*NOTHING, off, lambda: Args(matrix(4, 2))], look=settings)


@program
def another_dtype_for_a_while():
    def f(x):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        scale = torch.ones(3) * 2.5
        made = torch.tensor([1.5]) + torch.arange(3) / 2
        torch.set_default_dtype(before)
        return x * scale, made

    return Case(f, vector(), then=NOTHING, look=settings)


@program
def another_dtype_that_stays():
    def f(x):
        torch.set_default_dtype(torch.float64)
        return x.long() / 2, torch.ones(2)

    return Case(f, vector(), then=[*NOTHING, lambda: torch.set_default_dtype(torch.float32)], look=settings)


@program(whole=False)
def another_dtype_in_the_middle():
    def f(x):
        first = x.long() / 2
        torch.set_default_dtype(torch.float64)
        second = x.long() / 3
        torch.set_default_dtype(torch.float32)
        return first, second, torch.ones(2)

    return Case(f, vector(), then=NOTHING, look=settings)


@program
def behind_the_last_operator():
    def f(x):
        y = (x @ x.t()).relu()
        torch.backends.mkldnn.deterministic = True
        torch.backends.cudnn.enabled = False
        return y

    def back():
        torch.backends.mkldnn.deterministic = False
        torch.backends.cudnn.enabled = True

    return Case(f, matrix(), then=[*NOTHING, back], look=settings)


@program
def operators_of_elements_do_not_mind():
    def f(x):
        y = x.sin()
        torch.backends.cudnn.enabled = False
        z = y * 2 + x
        torch.backends.cudnn.enabled = True
        return z.cos() @ x.t()

    return Case(f, matrix(), then=NOTHING, look=settings)


@program(whole=False)
def blocks_of_flags():
    def f(x):
        with torch.backends.mkldnn.flags(enabled=False):
            y = x @ x.t()
        return y + 1

    return Case(f, matrix(), then=NOTHING, look=settings)


@program
def blocks_of_flags_of_cudnn():
    def f(x):
        with torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=True):
            y = x @ x.t()
            seen = torch.backends.cudnn.deterministic
        return y + 1, seen

    return Case(f, matrix(), then=NOTHING, look=settings)


@program
def to_what_they_are():
    def f(x):
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = True
        torch.set_num_threads(torch.get_num_threads())
        return x @ x.t()

    def tf32():
        torch.backends.cudnn.allow_tf32 = False

    return Case(f, matrix(), then=[*NOTHING, tf32, lambda: None], look=settings)


@program(whole=False)
def precision_of_products():
    def f(x):
        torch.set_float32_matmul_precision("high")
        y = x @ x.t()
        return y, torch.get_float32_matmul_precision()

    return Case(f, matrix(), then=[*NOTHING, lambda: torch.set_float32_matmul_precision("highest")], look=settings)


@program(whole=False)
def precision_for_a_while():
    def f(x):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("medium")
        y = x @ x.t()
        torch.set_float32_matmul_precision(before)
        return y + 1

    return Case(f, matrix(), then=NOTHING, look=settings)


@program
def an_error_behind_a_setting():
    def f(x, index):
        torch.backends.cudnn.benchmark = True
        torch.set_default_dtype(torch.float64)
        picked = x[index]
        torch.set_default_dtype(torch.float32)
        return picked * 2

    def off(index):
        torch.set_default_dtype(torch.float32)
        torch.backends.cudnn.benchmark = False
        return Args(vector(), torch.tensor([index]))

    return Case(f, vector(), torch.tensor([1]), then=[lambda: off(7), lambda: off(2)], look=settings)


@program
def a_backward_behind_a_setting():
    def f(x):
        torch.backends.cudnn.deterministic = True
        loss = (x @ x.t()).sum()
        loss.backward()
        torch.backends.cudnn.deterministic = False
        return loss.detach(), x.grad

    return Case(f, matrix().requires_grad_(), then=[lambda: Args(matrix().requires_grad_())], look=settings)


@program(whole=False)
def not_what_is_expected():
    def f(x):
        try:
            torch.set_default_dtype(torch.int64)
        except TypeError as error:
            text = str(error)
        try:
            torch.set_float32_matmul_precision(1)
        except (TypeError, RuntimeError) as error:
            text += type(error).__name__
        return x + 1, text

    return Case(f, vector(), look=settings)
