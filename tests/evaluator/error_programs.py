"""Programs for the pause and continue tests that raise and catch; see programs.py."""

import contextlib

from program_list import Recorder, program


@program
def with_raises(log):
    with Recorder(log) as r:
        r["x"] = 1
        del r["x"]
        raise ValueError(r.size)


@program
def try_blocks(log):
    def risky(n):
        try:
            log.append(n)
            if n == 0:
                raise KeyError("zero")
            if n == 1:
                return "returned"
            return 10 // (n - 2)
        except KeyError as error:
            log.append(repr(error))
            return "caught"
        except (ZeroDivisionError, TypeError) as error:
            raise RuntimeError("wrapped") from error
        finally:
            log.append("finally")

    results = [risky(0), risky(1), risky(3)]
    try:
        risky(2)
    except RuntimeError as error:
        results.append((str(error), repr(error.__cause__), repr(error.__context__)))
    try:
        try:
            {}["key"]
        except KeyError:
            log.append("context")
            undefined_name
    except NameError as error:
        results.append((str(error), error.name, repr(error.__context__)))
    return results


@program
def reraises(log):
    try:
        try:
            raise ValueError("first")
        except ValueError:
            log.append("again")
            raise
        finally:
            log.append("cleanup")
    except ValueError as error:
        log.append(str(error))
        raise TypeError("second")


@program
def escapes(log):
    def inner(values):
        for value in values:
            log.append(value)
            value.missing

    def middle():
        with contextlib.suppress(KeyError):
            inner([1, 2])

    middle()


@program
def unbound(log):
    if log:
        value = 1
    log.append("before")
    return value


@program
def unbound_cell(log):
    def read():
        return late

    log.append("before")
    read()
    late = 1


@program
def generator_raises(log):
    def broken():
        yield 1
        raise StopIteration("inside")

    for value in broken():
        log.append(value)


@program
def unpacking_fails(log):
    log.append("start")
    a, b = [1, 2, 3]


@program
def calls_fail(log):
    def f(a, *, b):
        return a

    for make in (
        lambda: f(),
        lambda: f(1, 2, b=3),
        lambda: f(*5),
        lambda: f(**5),
        lambda: f(1, **{"b": 1}, **{"b": 2}),
        lambda: f(1, **{1: 2}),
        lambda: (log and 1)(),
        lambda: [*1],
        lambda: {**1},
        lambda: iter(3),
        lambda: log["x"],
    ):
        try:
            make()
        except TypeError as error:
            log.append(str(error))


@program
def assertion(log):
    log.append("start")
    assert not log, f"log has {len(log)}"


@program
def exception_groups(log):
    namespace = {}
    exec(
        """
def split(log, group):
    try:
        raise group
    except* ValueError as values:
        log.append(("values", len(values.exceptions)))
    except* (KeyError, TypeError) as others:
        log.append(("others", len(others.exceptions)))
        raise
    finally:
        log.append("finally")
""",
        namespace,
    )
    split = namespace["split"]
    split(log, ExceptionGroup("one", [ValueError(1), ValueError(2)]))
    try:
        split(log, ExceptionGroup("two", [ValueError(1), ExceptionGroup("in", [KeyError(2), OSError(3)])]))
    except ExceptionGroup as group:
        log.append(repr(group))
    return split(log, ValueError("naked"))
