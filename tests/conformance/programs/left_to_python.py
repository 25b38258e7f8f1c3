"""Frames that Python runs: what they compute is right, and the system says that it left them. Silence is seen here."""

import types

from conformance.program import Case, program
from conformance.sample import vector


@types.coroutine
def _suspended():
    yield


@program(whole=False)
def eval_of_a_text():
    def f(x):
        return eval("x + 1") * 2

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def exec_of_a_function():
    def f(x):
        names = {}
        exec("def scaled(x):\n    return x * 3 + 1", names)
        return names["scaled"](x) * 2

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def coroutine_thrown_into():
    async def computes(x):
        try:
            await _suspended()
        except ValueError:
            return x * 2
        return x

    def f(x):
        started = computes(x + 1)
        started.send(None)
        try:
            started.throw(ValueError("thrown"))
        except StopIteration as stop:
            return stop.value

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def generator_thrown_into_from_outside():
    """What the compiled function returns is a generator, and plain Python throws into it."""

    def pieces(x):
        try:
            yield x + 1
        except ValueError:
            yield x * 2

    made = []

    def f(x):
        made.append(pieces(x))
        return x * 3

    def look():
        pieces_of_last = made[-1]
        return next(pieces_of_last), pieces_of_last.throw(ValueError("thrown"))

    return Case(f, vector(), look=look)
