"""torch.nn.attention.sdpa_kernel inside of the program: which kernels attention may take is torch's state, which code sets and puts back."""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from conformance.program import Args, Case, program
from conformance.sample import leaf

FLAGS = ("flash", "mem_efficient", "math", "cudnn", "overrideable")


def states():
    return [getattr(torch._C, f"_get_{name}_sdp_enabled")() for name in FLAGS], torch._C._get_sdp_priority_order()


def heads(x):
    return x.reshape(1, 2, 4, -1)


@program(graphs=1)
def one_kernel():
    def f(x):
        q = heads(x)
        with sdpa_kernel(SDPBackend.MATH):
            y = F.scaled_dot_product_attention(q, q, q.sin(), is_causal=True)
        return y, states()

    return Case(f, leaf(24), then=[lambda: Args(leaf(24, 2.0))])


@program(graphs=1)
def several_in_an_order():
    def f(x, kernels):
        q = heads(x)
        with sdpa_kernel(kernels, set_priority=True):
            inside = states()
            y = F.scaled_dot_product_attention(q, q, q)
        return y, inside, states()

    both = [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]
    return Case(f, leaf(24), both, then=[lambda: Args(leaf(24), both[::-1]), lambda: Args(leaf(24), both)])


@program(graphs=1)
def one_within_another():
    def f(x):
        q = heads(x)
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
            with sdpa_kernel(SDPBackend.MATH):
                y = F.scaled_dot_product_attention(q, q, q)
            return y + F.scaled_dot_product_attention(q, q, q), states()

    return Case(f, leaf(24))


@program(graphs=1)
def put_back_behind_an_exception():
    def f(x):
        q = heads(x)
        try:
            with sdpa_kernel([SDPBackend.MATH]):
                y = F.scaled_dot_product_attention(q, q, q)
                raise KeyError("inside")
        except KeyError:
            return y, states()

    return Case(f, leaf(24))


@program(whole=False)
def printed_between():
    def f(x):
        q = heads(x)
        with sdpa_kernel(SDPBackend.MATH):
            y = F.scaled_dot_product_attention(q, q, q)
            print(states())
            y = F.scaled_dot_product_attention(y, q, q)
        return y, states()

    return Case(f, leaf(24))


@program(graphs=1)
def left_as_the_program_sets_it():
    def f(x, on):
        torch.backends.cuda.enable_flash_sdp(on)
        torch._C._set_sdp_priority_order([0, 1, 2, 3, 4])
        q = heads(x)
        return F.scaled_dot_product_attention(q, q, q)

    return Case(f, leaf(24), False, then=[lambda: Args(leaf(24), True), lambda: Args(leaf(24), False)])


# What the program reads of the state is what the next call is compared with.
@program
def set_outside():
    def f(x):
        q = heads(x)
        return F.scaled_dot_product_attention(q, q, q), torch._C._get_sdp_priority_order().index(0)

    def order(*kernels):
        torch._C._set_sdp_priority_order(list(kernels))
        return Args(leaf(24))

    return Case(f, leaf(24), then=[lambda: order(0, 1, 2, 3, 4), lambda: order(4, 3, 2, 1, 0), lambda: order(1, 2, 0, 3, 4)])


@program
def kernels_as_keys():
    def f(x, kernel):
        names = {SDPBackend.MATH: 1, SDPBackend.FLASH_ATTENTION: 2}
        kinds = {SDPBackend.MATH, kernel}
        found = list(dict.fromkeys([kernel, SDPBackend.MATH, kernel]))
        texts = [kernel.name, str(kernel), int(kernel), kernel == SDPBackend.MATH, kernel in names, names.get(kernel)]
        return x * len(kinds) * len(found), found, texts, getattr(SDPBackend, "MATH") is kernel, isinstance(kernel, SDPBackend)

    first, *others = (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH)
    return Case(f, leaf(3), first, then=[lambda k=k: Args(leaf(3), k) for k in others])


@program(whole=False)
def kernels_that_a_dict_from_outside_lacks():
    def f(x, names, kernel):
        return x * 2, kernel in names, names.get(kernel, "none"), x + 1

    names = {SDPBackend.MATH: 1, SDPBackend.FLASH_ATTENTION: 2}
    kernels = (SDPBackend.MATH, SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)
    return Case(f, leaf(3), names, SDPBackend.MATH, then=[lambda k=k: Args(leaf(3), names, k) for k in kernels])
