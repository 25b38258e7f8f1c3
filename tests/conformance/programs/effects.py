"""What leaves the function other than by its result: printing, warnings, random numbers, NumPy, files, environment."""

import io
import logging
import os
import random
import sys
import time
import warnings

import numpy as np
import torch
from torch.nn import functional

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


@program(whole=False)
def print_in_the_middle():
    def f(x, n):
        y = x + 1
        print("n is", n, "and", y.shape, sep="|", end="!\n")
        return y * n

    return Case(f, vector(), 2, then=[lambda: Args(vector(5), 3)])


@program(whole=False)
def print_tensor():
    def f(x):
        y = x * 2
        print(y)
        print(y.sum().item())
        return y

    return Case(f, vector())


@program(whole=False)
def print_to_given_file():
    stream = io.StringIO()

    def f(x):
        print("to stream", file=stream)
        stream.write("more")
        return x * 2

    return Case(f, vector(), look=stream.getvalue)


@program(whole=False)
def print_in_loop_and_helper():
    def helper(x, i):
        print("helper", i)
        return x + i

    def f(x):
        for i in range(3):
            x = helper(x, i)
            print("loop", i)
        return x

    return Case(f, vector())


@program(whole=False)
def standard_output_replaced_inside():
    def f(x):
        stream, sys.stdout = sys.stdout, io.StringIO()
        try:
            print("captured")
            text = sys.stdout.getvalue()
        finally:
            sys.stdout = stream
        return x * len(text)

    return Case(f, vector())


@program(whole=False)
def warning_with_level():
    def helper(x):
        warnings.warn("careful", UserWarning, stacklevel=2)
        return x * 2

    def f(x):
        y = x + 1
        return helper(y)

    return Case(f, vector())


@program(whole=False)
def warning_of_own_category():
    class Notice(DeprecationWarning):
        pass

    def f(x):
        warnings.warn(Notice("old"))
        return x + 1

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def warnings_caught_inside():
    def f(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("inside")
            y = x + 1
        return y, [str(w.message) for w in caught]

    return Case(f, vector())


@program(whole=False)
def warning_as_error():
    def f(x):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                warnings.warn("fatal")
            except UserWarning as error:
                return x * 2, str(error)

    return Case(f, vector())


LOGGER = logging.getLogger("conformance.programs")


@program(whole=False)
def logging_calls():
    records = []

    class Keep(logging.Handler):
        def emit(self, record):
            records.append((record.levelname, record.getMessage(), record.lineno))

    LOGGER.handlers[:] = [Keep()]
    LOGGER.propagate = False
    LOGGER.setLevel(logging.INFO)

    def f(x):
        y = x + 1
        LOGGER.info("value %d", 3)
        LOGGER.debug("never")
        return y * 2

    return Case(f, vector(), observe=records)


@program
def torch_random_numbers():
    def f(x):
        return (
            x + torch.rand(3),
            torch.randn_like(x),
            torch.randint(0, 9, (2,)),
            torch.randperm(4),
            x.clone().uniform_(),
            torch.bernoulli(x * 0.3),
        )

    return Case(f, vector(), then=[lambda: None])


@program
def dropout_and_gradient():
    def f(x):
        return functional.dropout(x, 0.5) * 2

    return Case(f, leaf(16), then=[lambda: None])


@program
def dropout_between_two_random_calls():
    def f(x):
        a = torch.rand(2)
        y = functional.dropout(x, 0.3, training=True)
        return a, y, torch.rand(2)

    return Case(f, leaf(8))


@program(whole=False)
def manual_seed_inside():
    def f(x):
        torch.manual_seed(7)
        a = torch.rand(3)
        torch.manual_seed(7)
        return x + a, a == torch.rand(3)

    return Case(f, vector())


@program(whole=False)
def random_state_saved_and_restored():
    def f(x):
        state = torch.get_rng_state()
        a = torch.rand(3)
        torch.set_rng_state(state)
        return x * a, torch.rand(3)

    return Case(f, vector())


@program(whole=False)
def generator_argument():
    g = torch.Generator()
    g.manual_seed(3)

    def f(x):
        return x + torch.rand(3, generator=g)

    return Case(f, vector(), look=lambda: g.get_state(), then=[lambda: g.manual_seed(3)])


@program(whole=False)
def fork_random():
    def f(x):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            a = torch.rand(2)
        return x.sum() * a, torch.rand(2)

    return Case(f, vector())


@program(whole=False, rule=14)
def python_random_module():
    def f(x):
        return x * random.random(), random.randint(1, 100), random.choice([1, 2, 3]), random.sample(range(10), 3)

    return Case(f, vector(), then=[lambda: random.seed(5)])


@program(whole=False, rule=14)
def python_random_then_break():
    def f(x):
        n = random.randint(0, 1000)
        y = x * n
        print(n)
        return y + random.random()

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def shuffle_of_list():
    def f(x, items):
        random.shuffle(items)
        return x * items[0]

    return Case(f, vector(), list(range(6)))


@program(whole=False)
def numpy_random_numbers():
    def f(x):
        return x * float(np.random.rand()), np.random.randint(0, 100)

    return Case(f, vector(), then=[lambda: np.random.seed(9)])


@program
def numpy_functions_on_arrays():
    def f(a):
        b = np.sin(a) + a.mean()
        b[0] = 5
        return b.reshape(1, -1), b.dtype, np.where(a > 1, a, 0), b.sum()

    return Case(f, np.arange(4, dtype=np.float64))


@program(whole=False)
def numpy_and_torch_mixed():
    def f(x):
        a = x.detach().numpy()
        b = np.multiply(a, 2)
        t = torch.from_numpy(b)
        return t + x, a.shape, a.strides

    return Case(f, vector())


@program(whole=False)
def numpy_shares_memory():
    a = np.ones(3, dtype=np.float32)
    t = torch.from_numpy(a)

    def f(t):
        t.add_(1)
        return t * 2

    return Case(f, t, look=lambda: a.copy(), then=[lambda: a.fill(7)])


@program(whole=False, rule=10)
def from_numpy_of_changing_array():
    a = np.array([1.0, 2.0, 3.0], dtype=np.float32)

    def f(x):
        return x + torch.from_numpy(a)

    return Case(f, vector(), then=[lambda: a.__setitem__(0, 50.0)])


@program(whole=False)
def numpy_scalars_as_numbers():
    def f(x, n):
        return x * n, x + np.float32(1.5), n + 1, int(n)

    return Case(f, vector(), np.int64(3), then=[lambda: Args(vector(), np.int64(4))])


@program(whole=False)
def numpy_array_argument_changes():
    def f(x, a):
        return x * len(a) + torch.tensor(a).sum(), a.shape

    return Case(f, vector(), np.array([1.0, 2.0]), then=[lambda: Args(vector(), np.ones((3,)))])


@program(whole=False, rule=3)
def environment_variable():
    def f(x):
        return x * int(os.environ.get("CONFORMANCE_SCALE", "2"))

    return Case(f, vector(), then=[lambda: os.environ.__setitem__("CONFORMANCE_SCALE", "5")])


@program(whole=False, rule=3)
def clock_is_read_each_time():
    def f(x):
        before = time.monotonic_ns()
        y = x + 1
        after = time.monotonic_ns()
        return y, after > before

    return Case(f, vector(), then=[lambda: None])


@program(whole=False, rule=3)
def counter_in_c_state():
    import itertools

    numbers = itertools.count()

    def f(x):
        return x + next(numbers)

    return Case(f, vector(), then=[lambda: None])


@program(rule=3)
def context_variable():
    import contextvars

    scale = contextvars.ContextVar("scale", default=2)

    def f(x):
        return x * scale.get()

    return Case(f, vector(), then=[lambda: scale.set(7) and None])


@program(whole=False)
def temporary_file():
    import tempfile

    def f(x):
        with tempfile.TemporaryFile("w+") as file:
            file.write("12")
            file.seek(0)
            n = int(file.read())
        return x * n

    return Case(f, vector())


@program(whole=False)
def recursion_limit_and_trace_state():
    def f(x):
        sys.setrecursionlimit(sys.getrecursionlimit())
        return x + 1, sys.gettrace() is None, sys.getprofile() is None

    return Case(f, vector())


@program(whole=False)
def frame_inspection():
    def helper():
        frame = sys._getframe(1)
        return (
            frame.f_code.co_name,
            sorted(k for k in frame.f_locals if k != "frame"),
            frame.f_lineno - frame.f_code.co_firstlineno,
        )

    def f(x):
        y = x + 1
        where = helper()
        return y, where

    return Case(f, vector())


@program(whole=False)
def thread_started_inside():
    import threading

    out = []

    def f(x):
        t = threading.Thread(target=lambda: out.append(x.sum() * 2))
        t.start()
        t.join()
        return x * len(out)

    return Case(f, vector(), observe=out)


@program(whole=False)
def deterministic_flag_and_threads():
    def f(x):
        torch.use_deterministic_algorithms(True)
        on = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(False)
        return x * 2, on

    return Case(f, vector())


@program(whole=False)
def profiler_and_record_function():
    def f(x):
        with torch.autograd.profiler.record_function("region"):
            y = x * 2
        return y + 1

    return Case(f, matrix())


@program(whole=False)
def assertion_messages_with_tensor():
    def f(x):
        torch._assert(x.dim() == 1, "rank")
        torch._check(x.shape[0] > 1)
        return x + 1

    return Case(f, vector())
