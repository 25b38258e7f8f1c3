"""Each of torch's global states changed alone, and in pairs, between two calls of one program.

A compiler must see each state by itself: a guard on one of them, or on all of them together as they were, is wrong for
one of these. The states are put back by the harness after a run, whatever a program left.
"""

import torch
from torch.utils import deterministic

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


def set_autocast(on):
    torch.set_autocast_enabled("cpu", on)
    torch.clear_autocast_cache()  # as the end of a block does


def set_autocast_dtype(dtype):
    torch.set_autocast_dtype("cpu", dtype)
    torch.clear_autocast_cache()


# What turns a state on, and what turns it off again.
# Not the number of threads: programs run in forked workers, whose OpenMP pool stayed in the parent.
STATES = {
    "grad": (lambda: torch._C._set_grad_enabled(False), lambda: torch._C._set_grad_enabled(True)),
    "autocast": (lambda: set_autocast(True), lambda: set_autocast(False)),
    "autocast_dtype": (lambda: set_autocast_dtype(torch.float16), lambda: set_autocast_dtype(torch.bfloat16)),
    "autocast_cache": (lambda: torch.set_autocast_cache_enabled(False), lambda: torch.set_autocast_cache_enabled(True)),
    "default_dtype": (lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)),
    "determinism": (
        lambda: torch.use_deterministic_algorithms(True),
        lambda: torch.use_deterministic_algorithms(False),
    ),
    "filling": (
        lambda: setattr(deterministic, "fill_uninitialized_memory", False),
        lambda: setattr(deterministic, "fill_uninitialized_memory", True),
    ),
    "matmul_precision": (
        lambda: torch.set_float32_matmul_precision("medium"),
        lambda: torch.set_float32_matmul_precision("highest"),
    ),
    "denormals": (lambda: torch.set_flush_denormal(True) and None, lambda: torch.set_flush_denormal(False) and None),
    "default_device": (lambda: torch.set_default_device("cpu"), lambda: torch.set_default_device(None)),
    "forward_grad": (lambda: torch._C._set_fwd_grad_enabled(False), lambda: torch._C._set_fwd_grad_enabled(True)),
    "view_replay": (lambda: torch._C._set_view_replay_enabled(True), lambda: torch._C._set_view_replay_enabled(False)),
    "anomalies": (
        lambda: torch.autograd.set_detect_anomaly(True) and None,
        lambda: torch.autograd.set_detect_anomaly(False) and None,
    ),
}


def on(name):
    return STATES[name][0]


def off(name):
    return STATES[name][1]


def work(x, m, n):
    """Something of each kind that a state changes, and what can be read of the states."""
    product = m @ m
    made = torch.ones(3) * 1e-3 + x
    small = made * 1e-36 * 1e-5
    read = torch.is_grad_enabled(), torch.get_default_dtype(), torch.is_autocast_enabled("cpu")
    types = torch.get_autocast_dtype("cpu"), torch.are_deterministic_algorithms_enabled()
    return product, torch.addmm(n, n, n), made, small, x.exp().sum(), read, types


def case(*changes):
    # One sum of two gradients: three are rounded once or twice, as a backend likes, in the types of autocast.
    return Case(work, vector().requires_grad_(), matrix(3, 3).requires_grad_(), matrix(3, 3), then=changes)


def alone(name):
    return case(on(name), off(name), on(name))


def pair(a, b):
    return case(on(a), on(b), off(a), off(b), on(b), on(a), off(b))


@program
def grad_alone():
    return alone("grad")


@program
def autocast_alone():
    return alone("autocast")


@program
def autocast_dtype_alone():
    return alone("autocast_dtype")


@program
def autocast_cache_alone():
    return alone("autocast_cache")


@program
def default_dtype_alone():
    return alone("default_dtype")


@program
def determinism_alone():
    return alone("determinism")


@program
def filling_alone():
    return alone("filling")


@program
def matmul_precision_alone():
    return alone("matmul_precision")


@program
def denormals_alone():
    return alone("denormals")


@program
def default_device_alone():
    return alone("default_device")


@program
def anomalies_alone():
    return alone("anomalies")


@program
def forward_grad_alone():
    return alone("forward_grad")


@program
def view_replay_alone():
    return alone("view_replay")


@program(whole=False)
def a_torch_function_that_is_skipped():
    def behind(x):
        print("the graph begins here")
        return x.sin() + torch.ones(1)

    def f(x, skips):
        set_skips = getattr(torch._C, "_set_skip_next_torch_function", lambda on: None)  # torch 2.11 has none
        set_skips(skips)
        x = behind(x)
        set_skips(False)
        return x

    return Case(f, vector(), True, then=[lambda: Args(vector(), False), lambda: Args(vector(), True)])


@program
def grad_and_autocast():
    return pair("grad", "autocast")


@program
def grad_and_autocast_dtype():
    return pair("grad", "autocast_dtype")


@program
def grad_and_default_dtype():
    return pair("grad", "default_dtype")


@program
def grad_and_determinism():
    return pair("grad", "determinism")


@program
def grad_and_default_device():
    return pair("grad", "default_device")


@program
def autocast_and_autocast_dtype():
    return pair("autocast", "autocast_dtype")


@program
def autocast_and_default_dtype():
    return pair("autocast", "default_dtype")


@program
def autocast_and_determinism():
    return pair("autocast", "determinism")


@program
def autocast_and_default_device():
    return pair("autocast", "default_device")


@program
def autocast_dtype_and_default_dtype():
    return pair("autocast_dtype", "default_dtype")


@program
def autocast_dtype_and_determinism():
    return pair("autocast_dtype", "determinism")


@program
def autocast_dtype_and_default_device():
    return pair("autocast_dtype", "default_device")


@program
def default_dtype_and_determinism():
    return pair("default_dtype", "determinism")


@program
def default_dtype_and_default_device():
    return pair("default_dtype", "default_device")


@program
def determinism_and_default_device():
    return pair("determinism", "default_device")


@program
def type_of_autocast_while_it_is_on():
    torch.set_autocast_enabled("cpu", True)
    return case(on("autocast_dtype"), off("autocast_dtype"), off("autocast"), on("autocast"), on("autocast_dtype"))


@program
def type_of_autocast_by_an_argument():
    def f(m, dtype):
        with torch.autocast("cpu", dtype=dtype):
            a = m @ m
            return a, a + 1, torch.get_autocast_dtype("cpu")

    other = lambda dtype: lambda: Args(matrix(3, 3).requires_grad_(), dtype)
    return Case(f, *other(torch.bfloat16)().args, then=[other(torch.float16), other(torch.bfloat16)])


@program
def two_types_of_autocast_in_one_call():
    def f(m):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = m @ m
            with torch.autocast("cpu", dtype=torch.float16):
                b = m @ m
            c = m @ m
        return a, b, c, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    return Case(f, matrix(3, 3), then=[on("autocast_dtype"), on("autocast"), off("autocast_dtype")])


@program
def states_set_inside():
    def f(x, m, flag):
        torch.set_default_dtype(torch.float64 if flag else torch.float32)
        torch.set_autocast_enabled("cpu", flag)
        torch.set_autocast_dtype("cpu", torch.float16 if flag else torch.bfloat16)
        return work(x, m, m)

    other = lambda flag: lambda: Args(vector(), matrix(3, 3), flag)
    return Case(f, *other(False)().args, then=[other(True), other(True), other(False)])


@program
def asks_a_device_that_may_be_missing():
    def is_recorded():
        try:
            return torch.cuda.is_current_stream_capturing()
        except Exception:
            return False

    def f(x):
        return x * 3 if is_recorded() else x * 2

    return Case(f, vector())
