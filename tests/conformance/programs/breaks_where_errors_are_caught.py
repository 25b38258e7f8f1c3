"""Graph breaks below code that handles errors: the program's own handlers, and those of C code that asks for attributes."""

import abc
import contextlib
import functools

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


@program(whole=False)
def bodies_that_break_below_an_exit_that_takes_everything():
    class Taking:
        def __init__(self):
            self.seen = []

        def __enter__(self):
            return self

        def __exit__(self, kind, error, traceback):
            self.seen.append(kind and kind.__name__)
            return True

    def f(x):
        taking = Taking()
        with taking:
            x = x + 1
            torch._dynamo.graph_break()
            x = x * 2
        with taking:
            torch._dynamo.graph_break()
            raise ValueError(x.sum().item())
        return x, taking.seen

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def breaks_in_managers_made_of_generators():
    def f(x):
        seen = []

        @contextlib.contextmanager
        def manager(name):
            try:
                yield name
            except BaseException as error:
                seen.append(type(error).__name__)
                torch._dynamo.graph_break()
            finally:
                seen.append(name)

        with manager("whole") as name, contextlib.suppress(BaseException):
            torch._dynamo.graph_break()
            x = x + len(name)
        with manager("raising"):
            torch._dynamo.graph_break()
            raise KeyError(name)
        return x, seen

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def callbacks_that_handle_everything_around_a_break():
    def f(x):
        seen = []

        def asked(a, b):
            try:
                torch._dynamo.graph_break()
                return a * 10 + b
            except BaseException as error:
                seen.append(type(error).__name__)
                return 0
            finally:
                seen.append(a)

        return x * functools.reduce(asked, [1, 2, 3]), list(map(asked, [1], [2])), seen

    return Case(f, vector(), then=[lambda: None])


class Key:
    def __init__(self, number):
        self.number = number

    def __hash__(self):
        torch._dynamo.graph_break()
        return self.number % 2

    def __eq__(self, other):
        torch._dynamo.graph_break()
        return isinstance(other, Key) and self.number == other.number

    def __index__(self):
        torch._dynamo.graph_break()
        return self.number

    def __len__(self):
        torch._dynamo.graph_break()
        return self.number

    def __getitem__(self, at):
        torch._dynamo.graph_break()
        if at >= self.number:
            raise IndexError(at)
        return at + 0.5


@program(whole=False)
def methods_that_c_code_calls_and_that_break():
    def f(x):
        keys = [Key(1), Key(3), Key(2)]
        try:
            found = keys.index(Key(3)), Key(2) in keys, Key(7) in keys, keys.count(Key(1))
            table = {key: key.number for key in keys}
            told = table.get(Key(3)), table.get(Key(5), "none"), Key(2) in table, len(set(keys))
        except BaseException as error:
            return x, type(error).__name__
        items = [1.0, 2.0, 4.0]
        return x * items[keys[0]] + sum(keys[1]), found, told, bool(Key(0)), list(keys[2]), 1.5 in keys[1]

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def generators_that_wait_in_a_handler_while_the_graph_breaks():
    def f(x):
        seen = []

        def items(name):
            try:
                yield x + 1
                yield x + 2
            except GeneratorExit:
                seen.append("closed " + name)
                raise
            except BaseException as error:
                seen.append(type(error).__name__)
                torch._dynamo.graph_break()
                yield x + 3
            finally:
                seen.append(name)

        closed, thrown, left = items("closed"), items("thrown"), items("left")
        total = next(closed) + next(thrown) + next(left)
        torch._dynamo.graph_break()
        total = total + thrown.throw(ValueError("thrown"))
        torch._dynamo.graph_break()
        closed.close()
        del left
        return total, seen, next(thrown, None)

    return Case(f, vector(), then=[lambda: None])
