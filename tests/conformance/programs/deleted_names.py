"""Globals and closure variables that the frame deletes, writes again and reads in between."""

import torch

from conformance.program import Case, program
from conformance.sample import Loud, vector

LEVEL = 1
HELD: object = None


def _reset(**values):
    for name in ("LEVEL", "HELD", "EXTRA", "FIRST"):
        globals().pop(name, None)
    globals().update(values)


def _order():
    return [name for name in globals() if name in ("LEVEL", "HELD", "EXTRA", "FIRST")]




@program
def global_deleted_and_made_again():
    _reset(LEVEL=2, HELD=3)

    def f(x):
        global LEVEL, EXTRA, FIRST
        before = LEVEL
        del LEVEL
        try:
            LEVEL  # noqa: B018
        except NameError as error:
            text = str(error), error.name
        EXTRA, FIRST = 1, 2
        del EXTRA
        EXTRA = 3
        LEVEL = x * before
        return LEVEL, text

    return Case(f, vector(), look=_order, then=[lambda: _reset(LEVEL=5, HELD=1, EXTRA=2)])


@program
def global_deleted_for_good():
    _reset(LEVEL=2, HELD=3)

    def f(x):
        global LEVEL, HELD
        try:
            del LEVEL
            return x * 2, "HELD" in dir_of(HELD)
        except NameError as error:
            return x * 3, str(error)

    def dir_of(value):
        return ["HELD", value]

    return Case(f, vector(), look=_order, then=[lambda: None, lambda: _reset(LEVEL=4, HELD=5)])


@program
def global_deleted_that_a_builtin_stands_behind():
    globals()["abs"] = lambda v: v * 10

    def f(x):
        global abs
        first = abs(-1)
        del abs
        return x * first, abs(-2)

    def put_back():
        globals()["abs"] = lambda v: v * 7

    return Case(f, vector(), then=[put_back])


@program(whole=False)
def global_deleted_around_a_break():
    _reset(LEVEL=2)

    def f(x):
        global LEVEL
        del LEVEL
        torch._dynamo.graph_break()
        missing = False
        try:
            LEVEL  # noqa: B018
        except NameError:
            missing = True
        LEVEL = x + 1
        return LEVEL, missing

    return Case(f, vector(), look=_order)


@program(whole=False)
def global_write_ends_an_object():
    log = []
    _reset(HELD=Loud(log))

    def f(x):
        global HELD
        HELD = 1
        return x + 1, list(log)

    return Case(f, vector(), observe=[log], then=[lambda: _reset(HELD=Loud(log))])


@program(whole=False)
def global_delete_ends_an_object():
    log = []
    _reset(HELD=Loud(log))

    def f(x):
        global HELD
        del HELD
        return x + 1, list(log)

    return Case(f, vector(), observe=[log], then=[lambda: _reset(HELD=Loud(log))])


@program
def closure_variable_deleted_and_made_again():
    value, kept = 2, [1]

    def change(x, delete):
        nonlocal value
        if delete:
            del value
        else:
            value = x
        return x

    def read():
        return value

    def f(x):
        nonlocal kept
        first = read()
        change(x, True)
        texts = []
        for action in (read, lambda: change(x, True)):
            try:
                action()
            except NameError as error:
                texts.append((type(error).__name__, str(error), error.name))
        change(x * 2, False)
        del kept
        return read() * first, texts

    def again():
        nonlocal value, kept
        value, kept = 3, [2]

    return Case(f, vector(), observe=[read], then=[again])


@program(whole=False)
def closure_variable_of_the_frame_deleted():
    def f(x):
        value = x + 1
        other = x * 2

        def read():
            return value + other

        first = read()
        del value
        torch._dynamo.graph_break()
        try:
            read()
        except NameError as error:
            text = str(error)
        value = first
        return read(), text

    return Case(f, vector())


@program
def cells_by_their_contents():
    scale = 2

    def g(x):
        return x * scale

    def f(x):
        cell = g.__closure__[0]
        first = cell.cell_contents
        cell.cell_contents = x
        second = g(x)
        del cell.cell_contents
        try:
            cell.cell_contents  # noqa: B018
        except ValueError as error:
            text = str(error)
        cell.cell_contents = first + 1
        return g(x), first, second, text

    return Case(f, vector(), observe=[g], then=[lambda: None])
