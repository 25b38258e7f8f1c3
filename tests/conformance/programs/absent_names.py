"""Names that are absent in an object, in its type or in a scope, and that appear between two calls.

A guard must say that a name is absent as well as what a name holds, in each place that Python looks at on the way.
"""

import builtins
import types

import torch
from torch import nn

from conformance.program import Args, Case, program
from conformance.sample import vector


def changing(f, observe, *changes):
    return Case(f, vector(), observe=observe, then=changes)


def make_class(*bases, **names):
    return type("Made", bases or (object,), names)


@program
def in_an_instance_then_there():
    o = make_class()()

    def f(x):
        return x * getattr(o, "n", 2), hasattr(o, "n"), "n" in vars(o)

    return changing(f, o, lambda: setattr(o, "n", 5), lambda: delattr(o, "n"), lambda: setattr(o, "m", 1))


@program
def in_a_type_then_there():
    cls = make_class()
    o = cls()

    def f(x):
        return x * getattr(o, "n", 2), getattr(cls, "n", None)

    return changing(f, o, lambda: setattr(cls, "n", 5), lambda: setattr(o, "n", 7), lambda: delattr(cls, "n"))


@program
def in_a_base_then_there():
    base = make_class()
    cls = make_class(base)
    o = cls()

    def f(x):
        return x * getattr(o, "n", 2)

    return changing(f, o, lambda: setattr(base, "n", 5), lambda: setattr(cls, "n", 7), lambda: delattr(cls, "n"))


@program
def between_two_bases():
    left, right = make_class(), make_class(n=3)
    cls = make_class(left, right)
    o = cls()

    def f(x):
        return x * o.n

    return changing(f, o, lambda: setattr(left, "n", 5), lambda: delattr(left, "n"), lambda: setattr(right, "n", 4))


@program
def in_an_instance_that_its_type_has():
    cls = make_class(n=3)
    o = cls()

    def f(x):
        return x * o.n

    return changing(f, o, lambda: setattr(o, "n", 5), lambda: setattr(cls, "n", 9), lambda: delattr(o, "n"))


@program
def property_put_over_an_attribute():
    cls = make_class()
    o = cls()
    o.n = 3

    def f(x):
        return x * o.n

    return changing(f, o, lambda: setattr(cls, "n", property(lambda self: 8)), lambda: delattr(cls, "n"))


@program
def method_put_over_by_an_attribute():
    cls = make_class(scale=lambda self, x: x * 2)
    o = cls()

    def f(x):
        return o.scale(x)

    return changing(f, o, lambda: setattr(o, "scale", lambda x: x * 5), lambda: delattr(o, "scale"))


@program
def getattr_that_appears():
    cls = make_class()
    o = cls()

    def f(x):
        return x * getattr(o, "n", 2)

    return changing(f, o, lambda: setattr(cls, "__getattr__", lambda self, name: 6), lambda: delattr(cls, "__getattr__"))


@program
def getattribute_that_appears():
    cls = make_class(n=2)
    o = cls()

    def f(x):
        return x * o.n

    def always(self, name):
        return 9

    return changing(f, None, lambda: setattr(cls, "__getattribute__", always), lambda: delattr(cls, "__getattribute__"))


@program
def name_in_the_metaclass():
    meta = type("Meta", (type,), {})
    cls = meta("Made", (), {})

    def f(x):
        return x * getattr(cls, "n", 2), hasattr(cls(), "n")

    return changing(f, None, lambda: setattr(meta, "n", 5), lambda: setattr(cls, "n", 7), lambda: delattr(meta, "n"))


@program
def slot_that_is_not_set():
    o = make_class(__slots__=("n",))()

    def f(x):
        return x * getattr(o, "n", 2), hasattr(o, "n")

    return changing(f, o, lambda: setattr(o, "n", 5), lambda: delattr(o, "n"))


@program
def truth_by_methods_that_appear():
    cls = make_class()
    o = cls()

    def f(x):
        return (x * 2 if o else x * 3), not o

    return changing(
        f,
        None,
        lambda: setattr(cls, "__len__", lambda self: 0),
        lambda: setattr(cls, "__bool__", lambda self: True),
        lambda: delattr(cls, "__len__"),
        lambda: delattr(cls, "__bool__"),
    )


@program
def equality_and_order_that_appear():
    cls = make_class()
    a, b = cls(), cls()

    def f(x):
        try:
            ordered = a < b
        except TypeError as error:
            ordered = type(error).__name__
        return x + 1, a == b, a != b, a in [b], ordered

    return changing(
        f,
        None,
        lambda: setattr(cls, "__eq__", lambda self, other: True),
        lambda: setattr(cls, "__lt__", lambda self, other: "less"),
        lambda: delattr(cls, "__eq__"),
    )


@program
def operators_in_place_that_appear():
    cls = make_class(__add__=lambda self, other: other * 2)

    def f(x):
        o = cls()
        o += x
        return o

    return changing(f, None, lambda: setattr(cls, "__iadd__", lambda self, other: other * 5), lambda: delattr(cls, "__iadd__"))


@program
def reflected_operators_that_appear():
    base = make_class(__add__=lambda self, other: 2)
    cls = make_class(base)

    def f(x):
        return x * (base() + cls())

    return changing(f, None, lambda: setattr(cls, "__radd__", lambda self, other: 7), lambda: delattr(cls, "__radd__"))


@program
def contains_falls_to_iter():
    cls = make_class(__iter__=lambda self: iter([1, 2]))
    o = cls()

    def f(x):
        return x * 2, 2 in o, 3 in o

    def contains(self, item):
        return item == 3

    return changing(f, None, lambda: setattr(cls, "__contains__", contains), lambda: delattr(cls, "__contains__"))


@program
def special_methods_of_an_instance_count_for_nothing():
    o = make_class(__len__=lambda self: 3, __call__=lambda self, x: x * 2)()

    def f(x):
        return o(x) * len(o), bool(o)

    return changing(f, None, lambda: setattr(o, "__len__", lambda: 0), lambda: setattr(o, "__call__", lambda x: x * 9))


@program
def global_that_hides_a_builtin():
    globals().pop("len", None)

    def f(x):
        return x * len([1, 2])

    return changing(f, None, lambda: globals().update(len=lambda items: 7), lambda: globals().pop("len") and None)


@program
def global_that_is_nowhere():
    globals().pop("NOWHERE", None)

    def f(x):
        try:
            return x * NOWHERE  # noqa: F821
        except NameError as error:
            return x, error.name

    return changing(
        f,
        None,
        lambda: setattr(builtins, "NOWHERE", 3),
        lambda: globals().update(NOWHERE=4),
        lambda: delattr(builtins, "NOWHERE"),
        lambda: globals().pop("NOWHERE") and None,
    )


@program
def name_in_a_module():
    module = types.ModuleType("made")

    def f(x):
        return x * getattr(module, "n", 2), hasattr(module, "n")

    return changing(
        f,
        None,
        lambda: setattr(module, "n", 5),
        lambda: delattr(module, "n"),
        lambda: setattr(module, "__getattr__", lambda name: 8),
        lambda: delattr(module, "__getattr__"),
    )


@program
def key_in_a_dict():
    table, deep = {"a": 1}, {"in": {}}

    def f(x):
        return x * table.get("n", 2), "n" in table, deep["in"].get("n"), table.setdefault("a", 5)

    return changing(
        f, [table, deep], lambda: table.update(n=5), lambda: deep["in"].update(n=6), lambda: table.pop("n") and None
    )


@program(whole=False)
def missing_that_appears():
    cls = type("Table", (dict,), {})
    table = cls(a=1)

    def f(x):
        try:
            return x * table["n"]
        except KeyError:
            return x

    return changing(f, None, lambda: setattr(cls, "__missing__", lambda self, key: 4), lambda: delattr(cls, "__missing__"))


@program
def member_of_a_set_that_decides():
    s = {1}

    def f(x):
        return x * (2 if "n" in s else 3), s.isdisjoint({"n"})

    return changing(f, s, lambda: s.add("n"), lambda: s.discard("n"))


def module_with(name, value):
    m = nn.Module()
    m.n = 2

    def f(x):
        found = getattr(m, name, None)
        return (x * m.n if found is None else x + 1), hasattr(m, name)

    def put():
        m.__dict__.pop(name, None)
        setattr(m, name, value())

    return changing(f, m, put, lambda: delattr(m, name), put)


@program
def parameter_of_a_module():
    return module_with("weight", lambda: nn.Parameter(vector()))


@program
def child_of_a_module():
    return module_with("layer", nn.ReLU)


@program
def plain_attribute_of_a_module():
    return module_with("plain", lambda: 5)


@program
def buffer_of_a_module():
    m = nn.Module()

    def f(x):
        return x * 2 if getattr(m, "b", None) is None else x + m.b

    return changing(f, m, lambda: m.register_buffer("b", vector()), lambda: delattr(m, "b"), lambda: m.register_buffer("b", None))


@program
def attribute_of_a_tensor():
    t = vector()

    def f(x):
        return x * getattr(t, "scale", 2), hasattr(t, "scale")

    return changing(f, t, lambda: setattr(t, "scale", 5), lambda: delattr(t, "scale"))


@program
def attribute_of_a_function():
    def g(x):
        return x + 1

    def f(x):
        return g(x) * getattr(g, "scale", 2), hasattr(g, "__wrapped__")

    wrap = lambda: setattr(g, "__wrapped__", torch.sin)
    return changing(f, None, lambda: setattr(g, "scale", 5), lambda: delattr(g, "scale"), wrap)


@program
def text_of_a_slot_that_was_deleted():
    class Slotted:
        __slots__ = ("n",)

    slotted = Slotted()

    def f(x):
        slotted.n = 1
        del slotted.n
        try:
            x = x + slotted.n
        except AttributeError as error:
            x = x + len(str(error))
        try:
            del slotted.n
        except AttributeError as error:
            x = x * len(str(error))
        return x

    return Case(f, vector(), observe=slotted)


@program
def what_errors_tell_of_the_attribute():
    class Plain:
        pass

    class Slotted:
        __slots__ = ("n",)

    def told(error, o):
        return len(str(error.name)) + 100 * (error.obj is o) + len(str(error))

    def f(x, o):
        try:
            del o.n
        except AttributeError as error:
            x = x + told(error, o)
            o.n = 0
        try:
            x = x + o.n
        except AttributeError as error:
            x = x + told(error, o)
        o.n = 1
        del o.n
        try:
            x = x + o.n
        except AttributeError as error:
            x = x + told(error, o)
        return x

    kinds = [Plain(), Slotted()]
    return Case(f, vector(), kinds[0], then=[lambda: None, lambda: Args(vector(), kinds[1]), lambda: setattr(kinds[1], "n", 2), lambda: setattr(kinds[0], "n", 3)])
