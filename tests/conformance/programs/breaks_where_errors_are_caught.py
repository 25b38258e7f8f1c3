"""Graph breaks below code that handles errors: the program's own handlers, and those of C code that asks for attributes."""

import abc

import torch

from conformance.program import Case, program
from conformance.sample import vector


class Lazy:
    def __init__(self, scale):
        self.scale = scale

    @property
    def factor(self):
        torch._dynamo.graph_break()
        return self.scale

    @property
    def nothing(self):
        torch._dynamo.graph_break()
        raise AttributeError("nothing yet")


class Forwarding(Lazy):
    def __getattr__(self, name):
        return len(name)


@program(whole=False)
def attributes_that_break_where_they_are_asked_for():
    def f(x, o):
        has = hasattr(o, "factor"), hasattr(o, "nothing")
        return x * getattr(o, "factor", 7.0) + getattr(o, "nothing", 0.5), has

    return Case(f, vector(), Lazy(3.0), then=[lambda: None])


@program(whole=False)
def attributes_that_break_before_the_fallback():
    def f(x, o):
        return x * o.factor + o.nothing + o.absent

    return Case(f, vector(), Forwarding(3.0), then=[lambda: None])


@program(whole=False)
def patterns_whose_attributes_break():
    def f(x, o):
        match o:
            case Lazy(nothing=n):
                return x * n
            case Lazy(factor=n):
                return x + n
        return x

    return Case(f, vector(), Lazy(3.0), then=[lambda: None])


@program(whole=False)
def iterators_that_break_before_they_end():
    def f(x):
        def made():
            yield x + 1
            torch._dynamo.graph_break()

        items = made()
        return next(items, None), next(items, x * 2), next(items, "ended")

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def callbacks_that_break_below_a_handler_of_everything():
    def f(x):
        seen = []

        def key(v):
            torch._dynamo.graph_break()
            return -v

        try:
            order = sorted([1.0, 3.0, 2.0], key=key)
        except BaseException as error:
            order = [type(error).__name__]
        finally:
            seen.append(len(order))
        return x * order[0], order, seen

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def members_of_abstract_classes_that_raise():
    class Member:
        def __init__(self, answer):
            self.answer = answer

        @property
        def __isabstractmethod__(self):
            return self.answer[0]

    members = [Member([False]), Member([]), Member([True])]

    def f(x):
        told = []
        for member in members:
            try:

                class Made(abc.ABC):
                    part = member

                told.append(sorted(Made.__abstractmethods__))
            except IndexError as error:
                told.append(str(error))
        return x + len(told), told

    return Case(f, vector(), then=[lambda: None])
