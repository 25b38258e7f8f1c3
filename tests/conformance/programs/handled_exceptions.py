"""The exception that is being handled is state: sys.exc_info, a bare raise and a new error's context all read it.

A compiler that runs a part of a handler outside of it, or leaves one handled after it, is seen here.
"""

import contextlib
import sys
import traceback

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


def handled():
    """The text of the exception that is handled where it is called."""
    error = sys.exc_info()[1]
    return None if error is None else (type(error).__name__, error.args)


def refuse(flag):
    if flag:
        raise ValueError("refused", flag)


@program(whole=False)
def seen_inside_and_after():
    def f(x, flag):
        seen = [handled()]
        try:
            refuse(flag)
            x = x + 1
        except ValueError:
            seen.append(handled())
            x = x * 2
        finally:
            seen.append(handled())
        seen.append(handled())
        return x, seen

    return Case(f, vector(), 1, then=[lambda: Args(vector(), 0), lambda: Args(vector(), 2)])


@program(whole=False)
def seen_from_a_callee():
    def helper(x):
        return x * 2, handled(), sys.exc_info()[0]

    def f(x):
        before = helper(x)
        try:
            raise KeyError("k")
        except KeyError:
            inside = helper(x)
        return before, inside, helper(x)

    return Case(f, vector())


@program(whole=False)
def handlers_in_each_other():
    def f(x):
        seen = []
        try:
            raise ValueError("outer")
        except ValueError:
            try:
                raise KeyError("inner")
            except KeyError as error:
                seen += [handled(), error.__context__.args]
            seen.append(handled())
            x = x + 1
            with contextlib.suppress(TypeError):
                raise TypeError("third")
            seen.append(handled())
        return x, seen, handled()

    return Case(f, vector())


@program
def context_of_an_error_raised_in_a_handler():
    def check(x):
        raise RuntimeError("second")

    def f(x):
        try:
            refuse(1)
        except ValueError:
            check(x + 1)

    return Case(f, vector())


@program
def context_of_an_error_raised_after_a_handler():
    def f(x):
        try:
            refuse(1)
        except ValueError:
            x = x * 2
        refuse(2)

    return Case(f, vector())


@program
def context_of_an_error_of_an_operator():
    def f(x):
        try:
            refuse(1)
        except ValueError:
            return x @ matrix(4, 5)

    return Case(f, vector())


@program
def raised_again_by_a_callee():
    def again():
        raise

    def f(x, log):
        try:
            refuse(1)
        except ValueError:
            log.append(2)
            again()

    return Case(f, vector(), [1])


@program(whole=False)
def raised_by_a_break_and_again_by_a_callee():
    def again():
        raise

    def f(x, log):
        try:
            open("/nowhere/at/all")
        except OSError:
            log.append(2)
            again()

    return Case(f, vector(), [1], then=[lambda: None])


@program(whole=False)
def raised_by_a_break_and_caught_around_a_callee():
    def again():
        raise

    def f(x, log):
        try:
            try:
                open("/nowhere/at/all")
            except OSError:
                again()
        except OSError as error:
            log.append([line.lineno for line in traceback.extract_tb(error.__traceback__)])
        return x * len(log)

    return Case(f, vector(), [1], then=[lambda: None])


@program
def raised_again_after_another_was_handled():
    def f(x, log):
        try:
            refuse(1)
        except ValueError:
            try:
                refuse(2)
            except ValueError as error:
                log.append(error.args)
            raise

    return Case(f, vector(), [])


@program(whole=False)
def a_break_in_a_handler():
    def f(x):
        try:
            refuse(1)
        except ValueError as error:
            x = x * 2
            print("handling", handled())
            x = x + len(error.args)
            seen = handled()
            inner = sys.exc_info()[1] is error
        return x, seen, inner, handled()

    return Case(f, leaf())


@program(whole=False)
def a_break_in_a_handler_then_raised_again():
    def f(x, log):
        try:
            log.append(x * 2)
            refuse(1)
        except ValueError:
            print("handling")
            log.append(x * 3)
            raise

    return Case(f, vector(), [])


@program(whole=False)
def a_break_in_a_finally_that_an_error_passes():
    def f(x, log):
        try:
            refuse(3)
        finally:
            log.append(x + 1)
            print("finally", handled())
            log.append(handled())

    return Case(f, vector(), [])


@program(whole=False)
def a_break_in_a_callee_of_a_handler():
    def helper(x):
        print("helping", handled())
        return x * 2, handled()

    def f(x):
        try:
            refuse(1)
        except ValueError:
            y, seen = helper(x + 1)
            after = handled()
        return y, seen, after, handled()

    return Case(f, vector())


@program(whole=False)
def a_callee_that_breaks_outside_and_inside_of_a_handler():
    def helper(x):
        seen = sys.exc_info()[0]
        print("helping")
        return x * 2, seen, handled()

    def f(x):
        before = helper(x)
        try:
            refuse(1)
        except ValueError:
            inside = helper(x)
        try:
            raise KeyError("k")
        except KeyError:
            other = helper(x)
        return before, inside, other, helper(x)

    return Case(f, vector(), then=[lambda: None])


def seen_before_inside_and_after(call):
    """`call(helper, x)` has the helper run as a frame of its own, first where nothing is handled."""

    def helper(x):
        return x * 2, sys.exc_info()[0]

    def f(x):
        seen = [call(helper, x)]
        try:
            raise ValueError("a")
        except ValueError:
            seen.append(call(helper, x))
        try:
            raise KeyError("k")
        except KeyError:
            seen.append(call(helper, x))
        return seen, call(helper, x)

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def seen_by_a_function_that_exec_calls():
    def call(helper, x):
        names = {"helper": helper, "x": x}
        exec("result = helper(x)", names)
        return names["result"]

    return seen_before_inside_and_after(call)


@program(whole=False)
def seen_by_a_method_that_native_code_calls():
    class Shown:
        def __init__(self, helper, x):
            self.helper, self.x = helper, x

        def __repr__(self):
            self.result = self.helper(self.x)
            return ""

    def call(helper, x):
        shown = Shown(helper, x)
        repr([shown])
        return shown.result

    return seen_before_inside_and_after(call)


@program
def errors_of_operators_handled():
    def f(x, m):
        try:
            y = x @ m
        except RuntimeError as error:
            y = x * len(error.args)
        try:
            z = torch.cat([x, m])
        except RuntimeError:
            z = m.sum()
        return y, z

    return Case(f, vector(), matrix(2, 2), then=[lambda: Args(vector(2), matrix(2, 2)), lambda: Args(vector(), matrix(4, 4))])


@program
def errors_handled_in_a_loop():
    def f(x, flags):
        caught = []
        for flag in flags:
            try:
                refuse(flag)
                x = x + 1
            except ValueError as error:
                caught.append((error.args, error.__context__))
                if flag > 2:
                    break
                continue
            else:
                x = x * 2
        return x, caught

    return Case(f, vector(), [0, 1, 0, 3, 0], then=[lambda: Args(vector(), [1, 1]), lambda: Args(vector(), [0])])


@program(whole=False)
def seen_in_a_generator():
    def numbers(x):
        yield handled()
        try:
            raise KeyError("own")
        except KeyError:
            yield handled()
        yield handled()

    def f(x):
        steps = numbers(x)
        seen = [next(steps)]
        try:
            refuse(1)
        except ValueError:
            seen += [next(steps), handled(), next(steps)]
        return x + 1, seen, handled()

    return Case(f, vector())


@program(whole=False)
def thrown_into_a_generator():
    def numbers(x, seen):
        while True:
            try:
                yield x * 2
            except ValueError as error:
                seen.append((error.args, handled()))
                x = x + 1

    def f(x):
        seen = []
        steps = numbers(x, seen)
        first = next(steps)
        second = steps.throw(ValueError("thrown"))
        return first, second, next(steps), seen, handled()

    return Case(f, vector())


@program(whole=False)
def seen_when_a_manager_is_left():
    seen = []

    class Manager:
        def __enter__(self):
            seen.append(handled())

        def __exit__(self, kind, error, trace):
            seen.append((kind, handled()))
            return True

    def f(x):
        with Manager():
            refuse(1)
        try:
            refuse(2)
        except ValueError:
            with Manager():
                x = x + 1
        return x, handled()

    return Case(f, vector(), observe=seen, then=[lambda: None])


@program
def handled_by_its_base_or_in_a_tuple():
    class Own(LookupError):
        pass

    def f(x, kind):
        try:
            raise kind("e")
        except (ArithmeticError, KeyError) as error:
            return x * 2, type(error)
        except LookupError as error:
            return x * 3, error.args
        except Exception:
            return x * 5

    first, *others = (Own, KeyError, ZeroDivisionError, TypeError)
    return Case(f, vector(), first, then=[lambda kind=kind: Args(vector(), kind) for kind in others])


@program
def kept_and_raised_later():
    def f(x, flag):
        kept = None
        try:
            refuse(1)
        except ValueError as error:
            kept = error
        x = x * 2
        if flag:
            raise kept
        return x, kept.__context__, kept.__traceback__ is None

    return Case(f, vector(), False, then=[lambda: Args(vector(), True)])


@program
def raised_from_the_handled_one():
    def f(x):
        try:
            refuse(1)
        except ValueError as error:
            error.add_note("seen")
            raise TypeError("other").with_traceback(None) from error

    return Case(f, vector())


@program(whole=False)
def text_of_the_handled_one():
    def f(x):
        try:
            refuse(1)
        except ValueError:
            return x + 1, traceback.format_exc(limit=0), sys.exception() is not None if hasattr(sys, "exception") else True

    return Case(f, vector())


@program(whole=False)
def context_is_cut_by_hand():
    def f(x):
        try:
            refuse(1)
        except ValueError:
            error = KeyError("k")
            error.__context__ = None
            try:
                raise error
            except KeyError as caught:
                caught.__suppress_context__ = True
                return x + 1, caught, caught.__context__.args

    return Case(f, vector())
