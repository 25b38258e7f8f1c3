"""Attributes of classes and functions that the frame writes, and every way to read them afterwards."""

import functools
import operator

import torch

from conformance.program import Case, program
from conformance.sample import Loud, vector


def _classes():
    class Base:
        level = 1
        label = "base"

        def read(self):
            return self.level

        @classmethod
        def of_class(cls):
            return cls.level

    class Child(Base):
        def from_above(self):
            return super().level

    class Own(Base):
        level = 7

    return Base, Child, Own


@program
def class_write_is_read_everywhere():
    Base, Child, Own = _classes()

    def f(x):
        base, child, own = Base(), Child(), Own()
        Base.level = 5
        reads = base.level, child.level, own.level, child.read(), Child.of_class(), child.from_above()
        return x * base.level, reads, getattr(Child, "level"), hasattr(own, "level"), Own.of_class()

    return Case(f, vector(), observe=[Base, Child, Own], then=[lambda: setattr(Base, "level", 2)])


@program
def class_write_under_an_instance():
    Base, _, _ = _classes()
    base = Base()

    def f(x):
        base.level = 3
        Base.level = 4
        before = base.level, base.read()
        del base.level
        return x * 2, before, base.level, base.read()

    return Case(f, vector(), observe=[Base, base], then=[lambda: None])


@program
def class_write_of_a_tensor():
    Base, Child, _ = _classes()

    def f(x):
        Base.level = x * 2
        Child.level = [x, Base.level]
        return Child().level[1] + Base().read(), Base.level is Child.level[1]

    return Case(f, vector(), observe=[Base, Child])


@program
def class_write_of_a_new_name():
    Base, Child, _ = _classes()

    def f(x):
        had = hasattr(Child(), "made")
        Base.made = getattr(Base, "made", 0) + 1
        Base.made += 1
        return x + Child.made, had, Child().made

    return Case(f, vector(), observe=[Base], then=[lambda: None, lambda: delattr(Base, "made")])


@program
def class_counter_in_a_constructor():
    class Counted:
        made = 0

        def __init__(self):
            Counted.made += 1
            self.number = type(self).made

    def f(x):
        numbers = [Counted().number for _ in range(3)]
        return x * numbers[2], numbers

    return Case(f, vector(), observe=[Counted], then=[lambda: None, lambda: setattr(Counted, "made", 10)])


@program
def class_keeps_its_object():
    class Single:
        only = None

        def __new__(cls):
            if cls.only is None:
                cls.only = super().__new__(cls)
                cls.only.value = 3.0
            return cls.only

    def f(x):
        return x * Single().value, Single() is Single(), Single() is Single.only

    return Case(f, vector(), observe=[Single], then=[lambda: None, lambda: setattr(Single, "only", None)])


@program
def metaclass_is_written():
    class Meta(type):
        made = 0

        def __call__(cls, *args):
            Meta.made += 1
            return super().__call__(*args)

    class Made(metaclass=Meta):
        pass

    def f(x):
        first = Made.made
        Made()
        return x + 1, first, Made.made, Meta.made, hasattr(Made(), "made")

    return Case(f, vector(), observe=[Meta], then=[lambda: None])


@program(whole=False)
def class_write_of_a_descriptor():
    Base, Child, _ = _classes()

    def f(x):
        Base.read = lambda self: self.level * 10
        Base.label = property(lambda self: "computed")
        return x + 1, Child().read(), Child().label

    return Case(f, vector(), observe=[Base])


@program(whole=False)
def class_write_that_a_metaclass_sees():
    seen = []

    class Meta(type):
        def __setattr__(cls, name, value):
            seen.append((name, value))
            super().__setattr__(name, value)

    class Made(metaclass=Meta):
        level = 1

    def f(x):
        Made.level = 2
        return x * Made.level, list(seen)

    return Case(f, vector(), observe=[seen, Made])


@program(whole=False)
def class_write_of_a_protocol():
    class Box:
        def __len__(self):
            return 2

    def f(x):
        box = Box()
        before = len(box)
        Box.__len__ = lambda self: 3
        return x + before, len(box)

    return Case(f, vector(), observe=[Box])


@program(whole=False)
def written_class_is_read_by_c_code():
    Base, Child, _ = _classes()

    def f(x):
        Base.level = 5
        children = [Child(), Child()]
        return x, list(map(operator.attrgetter("level"), children)), sorted(n for n in dir(Base) if n[0] != "_")

    return Case(f, vector(), observe=[Base])


@program(whole=False)
def class_write_before_an_error():
    Base, Child, _ = _classes()

    def f(x):
        Base.level = 5
        try:
            Base.label = Child().level + "text"
        except TypeError as error:
            Base.label = str(error)
        raise ValueError(Child().label)

    return Case(f, vector(), observe=[Base])


@program(whole=False)
def class_write_around_a_break():
    Base, Child, _ = _classes()

    def f(x):
        Base.level = x * 2
        torch._dynamo.graph_break()
        y = Child().level + 1
        Base.level = y
        return Base.level, Child().read() is y

    return Case(f, vector(), observe=[Base])


@program
def class_write_gets_back_the_old():
    Base, _, _ = _classes()

    def f(x):
        old = Base.level
        Base.level = 9
        try:
            y = x * Base().read()
        finally:
            Base.level = old
        return y, Base.level

    return Case(f, vector(), observe=[Base], then=[lambda: setattr(Base, "level", 4)])


@program(whole=False)
def class_write_ends_an_object():
    log = []

    class Holder:
        held = Loud(log)

    def f(x):
        Holder.held = 1
        return x + 1, list(log)

    return Case(f, vector(), observe=[log])


@program
def functions_bound_by_hand():
    def double(self):
        return self * 2

    def f(x):
        bound = double.__get__(x, torch.Tensor)
        texts = []
        for arguments in ((None,), (None, None)):
            try:
                double.__get__(*arguments)
            except TypeError as error:
                texts.append(str(error))
        return bound(), bound.__self__ is x, double.__get__(None, torch.Tensor) is double, texts

    return Case(f, vector())


@program
def function_that_counts_its_calls():
    def counted(x):
        counted.calls += 1
        return x * counted.calls

    counted.calls = 0

    def f(x):
        return counted(x) + counted(x), counted.calls, counted.__dict__["calls"], vars(counted)

    return Case(f, vector(), observe=[counted], then=[lambda: None, lambda: setattr(counted, "calls", -1)])


@program
def decorator_that_counts():
    def counts(function):
        @functools.wraps(function)
        def wrapper(*args):
            wrapper.calls = getattr(wrapper, "calls", 0) + 1
            return function(*args)

        return wrapper

    @counts
    def double(x):
        return x * 2

    def f(x):
        return double(double(x)), double.calls, double.__wrapped__(x), double.__name__

    return Case(f, vector(), observe=[double], then=[lambda: None])


@program
def function_attribute_deleted():
    def helper(x):
        return x + helper.offset

    helper.offset = 2.0
    helper.note = "kept"

    def f(x):
        y = helper(x)
        del helper.offset
        try:
            helper(x)
        except AttributeError as error:
            helper.note = str(error)
        helper.offset = y
        return helper(x), hasattr(helper, "missing")

    return Case(f, vector(), observe=[helper], then=[lambda: setattr(helper, "offset", 1.0)])


@program(whole=False)
def function_text_written():
    def helper(x):
        return x + 1

    def f(x):
        helper.__name__ = "renamed"
        helper.__doc__ = "text"
        helper.__defaults__ = (x,)
        return helper(x), helper.__name__, helper(), helper.__doc__

    return Case(f, vector(), observe=[helper])


@program(whole=False)
def signature_of_a_written_function():
    import inspect

    def helper(x, y=2):
        return x + y

    def other(a):
        return a

    def f(x):
        helper.__wrapped__ = other
        return x + 1, str(inspect.signature(helper))

    return Case(f, vector(), observe=[helper])
