"""Attribute access: properties, slots, attribute hooks, descriptors, attributes by name."""

import threading
import types

import torch

from conformance.program import Case, program
from conformance.sample import vector


@program
def property_get_set_delete():
    class Temperature:
        def __init__(self):
            self.log = []
            self._value = 1

        @property
        def value(self):
            self.log.append("get")
            return self._value

        @value.setter
        def value(self, new):
            self.log.append("set")
            self._value = new

        @value.deleter
        def value(self):
            self.log.append("delete")
            self._value = 0

    t = Temperature()

    def f(x):
        y = x * t.value
        t.value = t.value + 1
        t.value += 5
        z = x * t.value
        del t.value
        return y, z, t._value

    return Case(f, vector(), observe=t, then=[lambda: setattr(t, "_value", 50)])


@program
def property_without_setter():
    class Fixed:
        @property
        def n(self):
            return 4

    o = Fixed()

    def f(x):
        try:
            o.n = 5
        except AttributeError as error:
            return x * o.n, str(error)

    return Case(f, vector())


@program
def property_raising_attribute_error_falls_to_getattr():
    class Odd:
        @property
        def n(self):
            raise AttributeError("inner")

        def __getattr__(self, name):
            return len(name) + 10

    o = Odd()

    def f(x):
        return x * o.n, o.other

    return Case(f, vector())


@program
def cached_property_fills_dict():
    import functools

    class Lazy:
        runs = 0

        @functools.cached_property
        def table(self):
            Lazy.runs += 1
            return [1, 2, Lazy.runs]

    o = Lazy()

    def f(x):
        return x * len(o.table), o.table[2], "table" in o.__dict__

    return Case(f, vector(), observe=[o, Lazy], then=[lambda: o.__dict__.pop("table"), lambda: None])


@program
def slots():
    class Slotted:
        __slots__ = ("a", "b")

        def __init__(self, a):
            self.a = a

    s = Slotted(2)

    def f(x):
        text = ""
        try:
            s.b
        except AttributeError as error:
            text = str(error)
        s.b = x * s.a
        s.a += 1
        try:
            s.c = 1
        except AttributeError as error:
            text += str(error)
        return s.b, text

    return Case(f, vector(), observe=s, then=[lambda: delattr(s, "b")])


@program
def getattr_hook():
    class Proxy:
        def __init__(self, inner):
            self.inner = inner
            self.log = []

        def __getattr__(self, name):
            self.log.append(name)
            return getattr(self.inner, name)

    p = Proxy(vector())

    def f(x):
        return x * p.shape[0] + p.sum(), hasattr(p, "nothing"), len(p.log)

    return Case(f, vector(), observe=p, then=[lambda: setattr(p, "inner", vector(5))])


@program
def getattribute_hook():
    class Watched:
        def __init__(self):
            object.__setattr__(self, "log", [])
            object.__setattr__(self, "n", 3)

        def __getattribute__(self, name):
            if name != "log":
                object.__getattribute__(self, "log").append(name)
            return object.__getattribute__(self, name)

        def go(self, x):
            return x * self.n

    w = Watched()

    def f(x):
        return w.go(x) + w.n

    return Case(f, vector(), observe=w)


@program
def setattr_and_delattr_hooks():
    class Guarded:
        def __init__(self):
            self.__dict__["log"] = []

        def __setattr__(self, name, value):
            self.log.append(("set", name))
            object.__setattr__(self, name, value)

        def __delattr__(self, name):
            self.log.append(("delete", name))
            object.__delattr__(self, name)

    g = Guarded()

    def f(x):
        g.a = x + 1
        g.b = 2
        y = g.a * g.b
        del g.b
        return y

    return Case(f, vector(), observe=g)


@program
def dynamic_attribute_functions():
    class Bag:
        pass

    def f(x):
        bag = Bag()
        for i, name in enumerate(["p", "q"]):
            setattr(bag, name, x * i)
        values = [getattr(bag, n) for n in sorted(vars(bag))]
        delattr(bag, "p")
        return values, getattr(bag, "p", None), hasattr(bag, "q"), list(bag.__dict__)

    return Case(f, vector())


@program
def descriptors():
    class Logged:
        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, o, owner=None):
            if o is None:
                return self
            o.log.append("get " + self.name)
            return o.__dict__.get(self.name, 0)

        def __set__(self, o, value):
            o.log.append("set " + self.name)
            o.__dict__[self.name] = value

    class Model:
        n = Logged()

        def __init__(self):
            self.log = []

    m = Model()

    def f(x):
        m.n = m.n + 1
        return x * m.n, type(Model.n).__name__

    return Case(f, vector(), observe=m)


@program
def non_data_descriptor_shadowed():
    class Plain:
        def __get__(self, o, owner=None):
            return 7

    class Model:
        n = Plain()

    m = Model()

    def f(x):
        return x * m.n

    return Case(f, vector(), then=[lambda: m.__dict__.update(n=2), lambda: m.__dict__.clear()])


@program(whole=False)
def namespace_of_a_module():
    m = types.ModuleType("made_here")
    m.n = 1
    namespace = vars(m)

    def f(x):
        d = m.__dict__
        d["n"] = m.n + 1
        d["late"] = 5
        return x * m.n, m.late, d is namespace, namespace["n"], "late" in vars(m)

    return Case(f, vector(), observe=[namespace], then=[lambda: namespace.update(n=10), lambda: namespace.pop("late") and None])


@program(whole=False)
def what_modules_have_by_their_type():
    """Neither a module's `__getattr__` nor a global of that name comes before what the type of modules says."""
    asked = []
    module = types.ModuleType("made")
    module.__getattr__ = lambda name: asked.append(name) or f"no {name}"
    exec("__class__ = 'not the class'", vars(module))

    def f(x):
        known = "asked" in vars(module), type(vars(module)).__name__, module.__class__ is types.ModuleType
        text = module.other, getattr(module, "__wrapped__", None), module.__annotations__, module.__init__ is not None
        return x + len(module.__dict__) * 0, known, text, len(vars(types)) > 3, torch.__class__.__name__

    return Case(f, vector(), observe=asked)


@program(whole=False)
def another_in_each_thread():
    class Depth(threading.local):
        depth = 1
        names = ("class",)

        def __init__(self):
            self.stack = ["first"]

    class Hooked(threading.local):
        scale = 2

        def __getattr__(self, name):
            return len(name)

        def __getattribute__(self, name):
            return super().__getattribute__(name)

    depth, hooked = Depth(), Hooked()
    depth.depth = 5
    hooked.scale = 7

    def f(x):
        y = x * depth.depth * hooked.scale + hooked.more
        if hasattr(depth, "extra"):
            y = y + getattr(depth, "extra")
        return y, depth.names, list(depth.stack), getattr(depth, "depth"), depth.__class__ is Depth

    def change():
        depth.depth, depth.extra, hooked.scale, depth.names = 6, 3, 8, ("own",)
        depth.stack.append("more")

    return Case(f, vector(), then=[change, lambda: delattr(depth, "depth")])
