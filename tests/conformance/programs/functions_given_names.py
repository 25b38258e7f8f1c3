"""Functions that the frame makes and gives names, texts and attributes: the caller gets them as they were left."""

import functools

from conformance.program import Args, Case, program
from conformance.sample import vector


def _named(function):
    return function.__name__, function.__qualname__, function.__doc__, function.__module__, dict(vars(function))


def _again():
    return Args(vector())


@program
def names_and_texts():
    def f(x):
        def g():
            """Its own text."""
            return x

        def h():
            """Another."""

        g.__name__ = "given"
        g.__doc__ = "A given text."
        g.__module__ = "elsewhere"
        h.__doc__ = None
        return g, h, x + 1

    def names(x):
        g, h, y = f(x)
        return _named(g), _named(h), g(), y

    return Case(names, vector(), then=[_again])


@program
def attributes():
    def f(x):
        def g():
            return x

        g.count = 3
        g.kept = x * 2
        return g, x + 1

    def names(x):
        g, y = f(x)
        return _named(g), y

    return Case(names, vector(), then=[_again])


@program
def wrapped_by_functools():
    def decorated(function):
        @functools.wraps(function)
        def wrapper(*args):
            """Never seen."""
            return function(*args)

        return wrapper

    def f(x):
        @decorated
        def g(y):
            """Adds one."""
            return y + 1

        return g, g(x)

    def names(x):
        g, y = f(x)
        return g.__name__, g.__doc__, g.__wrapped__.__name__, g(y), y

    return Case(names, vector(), then=[_again])


@program
def that_hold_themselves():
    def f(x):
        def g():
            return x

        g.name = "g"
        return [g, g], x + 1

    def same(x):
        (a, b), y = f(x)
        return a is b, a.name, y

    return Case(same, vector(), then=[_again])
