"""with: user managers, contextlib, torch's contexts, nested, raising, suppressing, returning from inside."""

import contextlib

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


class Recorder:
    """Notes what happens to it; may swallow exceptions."""

    def __init__(self, log, name="r", swallow=False):
        self.log = log
        self.name = name
        self.swallow = swallow

    def __enter__(self):
        self.log.append(f"enter {self.name}")
        return self

    def __exit__(self, kind, error, trace):
        self.log.append(f"exit {self.name} {kind.__name__ if kind else None} {error} {trace is not None}")
        return self.swallow


@program
def user_manager():
    log = []

    def f(x):
        with Recorder(log) as r:
            y = x + 1
            r.log.append("body")
        return y * len(log)

    return Case(f, vector(), then=[log.clear])


@program
def nested_managers_order():
    def f(x):
        log = []
        with Recorder(log, "a"), Recorder(log, "b") as b, Recorder(log, "c"):
            x = x * 2
            log.append(b.name)
        return x, log

    return Case(f, vector())


@program
def suppressing_manager():
    def f(x):
        log = []
        with Recorder(log, swallow=True):
            x = x + 1
            raise ValueError("gone")
            x = x * 100
        return x, log

    return Case(f, vector())


@program(whole=False)
def exception_passes_through_manager():
    log = []

    def f(x):
        with Recorder(log, "outer"):
            with Recorder(log, "inner"):
                y = x + 1
                raise KeyError("k")
        return y

    return Case(f, vector())


@program
def caught_outside_of_manager():
    def f(x):
        log = []
        try:
            with Recorder(log):
                raise KeyError("k")
        except KeyError:
            log.append("caught")
        return x * 2, log

    return Case(f, vector())


@program
def return_inside_with():
    log = []

    def f(x):
        with Recorder(log):
            return x + 1

    return Case(f, vector())


@program
def break_and_continue_inside_with():
    log = []

    def f(x):
        for i in range(4):
            with Recorder(log, str(i)):
                if i == 1:
                    continue
                if i == 3:
                    break
                x = x + i
        return x

    return Case(f, vector())


@program
def manager_from_argument():
    log = []

    def f(x, manager):
        with manager as m:
            y = x * 2
        return y, m.name

    return Case(f, vector(), Recorder(log, "given"), observe=log, then=[lambda: Args(vector(), Recorder(log, "other"))])


@program
def contextmanager_generator():
    def f(x):
        log = []

        @contextlib.contextmanager
        def scaled(by):
            log.append("in")
            try:
                yield by
            finally:
                log.append("out")

        with scaled(3) as s:
            y = x * s
        return y, log

    return Case(f, vector())


@program
def contextmanager_catches():
    @contextlib.contextmanager
    def forgiving(log):
        try:
            yield
        except ValueError as error:
            log.append(str(error))

    def f(x):
        log = []
        with forgiving(log):
            x = x + 1
            raise ValueError("inside")
        return x, log

    return Case(f, vector())


@program
def contextmanager_as_decorator():
    log = []

    @contextlib.contextmanager
    def noted(name):
        log.append(name)
        yield
        log.append("end")

    @noted("g")
    def g(x):
        return x * 2

    def f(x):
        return g(x) + g(x)

    return Case(f, vector())


@program
def exit_stack():
    def f(x):
        log = []
        with contextlib.ExitStack() as stack:
            managers = [stack.enter_context(Recorder(log, str(i))) for i in range(2)]
            stack.callback(log.append, "callback")
            x = x * len(managers)
        return x, log

    return Case(f, vector())


@program
def suppress_and_nullcontext():
    def f(x, items):
        with contextlib.suppress(IndexError, KeyError):
            x = x + 1
            items[10]
            x = x * 100
        with contextlib.nullcontext(5) as five:
            x = x * five
        return x

    return Case(f, vector(), [1], then=[lambda: Args(vector(), list(range(20)))])


@program(whole=False, rule=12)
def suppress_around_item():
    def f(x):
        y = x + 1
        with contextlib.suppress(Exception):
            y = y * x.sum().item()
        return y

    return Case(f, vector(), then=[lambda: Args(vector(3, 4.0))])


@program
def closing_and_redirect():
    class Resource:
        closed = 0

        def close(self):
            self.closed += 1

    def f(x, resource):
        with contextlib.closing(resource) as r:
            y = x + 1
            same = r is resource
        return y, same, resource.closed

    return Case(f, vector(), Resource())


@program(graphs=1)
def no_grad_block():
    def f(x):
        with torch.no_grad():
            y = x * 2
        z = x * 3
        return y, z, y.requires_grad, z.requires_grad, torch.is_grad_enabled()

    return Case(f, leaf())


@program
def no_grad_and_enable_grad_nested():
    def f(x):
        with torch.no_grad():
            a = x + 1
            with torch.enable_grad():
                b = x * 2
            c = b * 3
        return a, b, c

    return Case(f, leaf())


@program
def no_grad_decorator():
    @torch.no_grad()
    def g(x):
        return x * 2

    def f(x):
        return g(x), x * 3

    return Case(f, leaf())


@program
def set_grad_enabled_call():
    def f(x, flag):
        torch.set_grad_enabled(flag)
        return x * 2

    return Case(f, leaf(), False, then=[lambda: torch.set_grad_enabled(True) and None, lambda: Args(leaf(), True)])


@program
def grad_mode_changed_between_calls():
    def f(x):
        y = x * 2
        return y, y.requires_grad

    return Case(f, leaf(), then=[lambda: torch._C._set_grad_enabled(False), lambda: torch._C._set_grad_enabled(True)])


@program
def inference_mode_block():
    def f(x):
        with torch.inference_mode():
            y = x * 2
        return y, y.is_inference()

    return Case(f, vector(), forward_only=True)


@program
def autocast_block():
    def f(m):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = m @ m
            b = a + 1
        return a, b, m @ m, a.dtype

    return Case(f, matrix(3, 3))


@program
def autocast_disabled_inside():
    def f(m):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = m @ m
            with torch.autocast("cpu", enabled=False):
                b = m @ m
            c = m @ m
        return a, b, c

    return Case(f, matrix(3, 3))


@program
def autocast_outside_of_call():
    def f(m):
        return m @ m, (m + 1).sum(), torch.is_autocast_enabled("cpu")

    def outer(m):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return f(m)

    return Case(outer, matrix(3, 3))


@program
def grad_mode_restored_after_exception():
    def f(x):
        try:
            with torch.no_grad():
                y = x * 2
                raise ValueError
        except ValueError:
            pass
        return y, x * 3, torch.is_grad_enabled()

    return Case(f, leaf())


@program
def torch_context_stored_and_reused():
    context = torch.no_grad()

    def f(x):
        with context:
            y = x * 2
        with context:
            z = x * 3
        return y, z, x + 1

    return Case(f, leaf())


@program(whole=False)
def break_inside_with_and_try():
    log = []

    def f(x):
        with Recorder(log):
            try:
                y = x + 1
                print("inside", len(log))
                y = y * 2
            finally:
                log.append("finally")
        return y

    return Case(f, vector())


@program(whole=False, rule=15)
def break_inside_no_grad():
    def f(x):
        with torch.no_grad():
            y = x * 2
            print(torch.is_grad_enabled())
            z = y + x
        return y, z, x * 2

    return Case(f, leaf())


@program(whole=False, rule=15)
def break_in_helper_under_autocast():
    def helper(m):
        a = m @ m
        print(a.dtype)
        return a @ m

    def f(m):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            b = helper(m)
        return b, m @ m

    return Case(f, matrix(3, 3))


@program
def enter_raises():
    class Broken:
        def __enter__(self):
            raise OSError("can't enter")

        def __exit__(self, *rest):
            raise AssertionError("must not run")

    def f(x):
        try:
            with Broken():
                x = x * 100
        except OSError as error:
            return x + 1, str(error)

    return Case(f, vector())


@program
def exit_raises_with_context():
    class Broken:
        def __enter__(self):
            return self

        def __exit__(self, *rest):
            raise ValueError("exit")

    def f(x):
        try:
            with Broken():
                raise KeyError("body")
        except ValueError as error:
            return x + 1, type(error.__context__).__name__

    return Case(f, vector())


@program
def not_a_manager():
    def f(x):
        try:
            with 3:
                pass
        except TypeError as error:
            return x, str(error)

    return Case(f, vector())


@program
def class_based_decorator_manager():
    class Timer(contextlib.ContextDecorator):
        runs = 0

        def __enter__(self):
            Timer.runs += 1
            return self

        def __exit__(self, *rest):
            return False

    @Timer()
    def g(x):
        return x + Timer.runs

    def f(x):
        return g(x) * g(x)

    return Case(f, vector())
