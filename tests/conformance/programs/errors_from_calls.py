"""Errors that builtins and torch raise, caught and escaping."""

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


@program
def exceptions_from_builtins():
    def f(x):
        texts = []
        for attempt in (
            lambda: [][1],
            lambda: {}["k"],
            lambda: int("q"),
            lambda: None.attribute,
            lambda: 1 + "a",
            lambda: "a" + 1,
            lambda: len(3),
            lambda: next(iter([])),
            lambda: (1, 2).index(5),
            lambda: [1].remove(2),
            lambda: 1 // 0,
            lambda: undefined_name,  # noqa: F821
            lambda: [1, "a"].sort(),
            lambda: object().x,
            lambda: chr(-1),
            lambda: {[]: 1},
        ):
            try:
                attempt()
            except Exception as error:
                texts.append((type(error).__name__, str(error)))
        return x + len(texts), texts

    return Case(f, vector())


@program(whole=False)
def torch_shape_error_escapes():
    def f(x, y):
        a = x * 2
        return a @ y

    return Case(f, matrix(2, 3), matrix(2, 3), then=[lambda: Args(matrix(2, 3), matrix(3, 2))])


@program(whole=False)
def torch_shape_error_caught():
    def f(x, y):
        try:
            return x + y
        except RuntimeError as error:
            return x, str(error)

    return Case(f, vector(3), vector(4), then=[lambda: Args(vector(4), vector(4)), lambda: Args(vector(2), vector(5))])


@program(whole=False)
def torch_index_error_caught():
    def f(x, n):
        try:
            return x[n]
        except IndexError as error:
            return x * 2, str(error)

    return Case(f, vector(3), 5, then=[lambda: Args(vector(3), 1), lambda: Args(vector(9), 5)])


@program(whole=False)
def item_under_except_exception():
    def f(x):
        try:
            n = x.sum().item()
        except Exception:
            n = -1
        return x * n

    return Case(f, vector(), then=[lambda: Args(vector(3, 5.0))])


@program
def except_with_computed_class():
    def f(x, kind):
        try:
            raise KeyError("k")
        except kind:
            return x * 2
        except Exception:
            return x * 3

    return Case(
        f, vector(), KeyError, then=[lambda: Args(vector(), (ValueError, OSError)), lambda: Args(vector(), LookupError)]
    )


@program
def except_with_invalid_class():
    def f(x):
        try:
            try:
                raise KeyError("k")
            except 3:
                return None
        except TypeError as error:
            return x, str(error), type(error.__context__).__name__

    return Case(f, vector())


@program
def stop_iteration_value():
    def f(x):
        def g():
            yield x
            return 42

        steps = g()
        next(steps)
        try:
            next(steps)
        except StopIteration as stop:
            return x * stop.value

    return Case(f, vector())


@program
def raising_in_init_of_exception():
    class Broken(Exception):
        def __init__(self, *args):
            raise TypeError("can't make it")

    def f(x):
        try:
            raise Broken(1)
        except TypeError as error:
            return x + 1, str(error)

    return Case(f, vector())
