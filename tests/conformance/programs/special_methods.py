"""Special methods for attributes that are no Python functions: methods of C code, static methods, objects to call."""

import functools

from conformance.program import Case, program
from conformance.sample import vector


class Count:
    """To be called; counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, *args):
        self.calls += 1
        return len(args)


@program
def getattr_of_dict():
    class Settings(dict):
        __getattr__ = dict.get

    settings = Settings(scale=3)

    def f(x):
        missing = settings.missing is None
        return x * settings.scale, getattr(settings, "scale", 100), hasattr(settings, "missing"), missing

    def add():
        settings["missing"] = 1

    return Case(f, vector(), then=[lambda: settings.update(scale=5), add])


@program
def getattr_of_dict_that_raises():
    class Settings(dict):
        __getattr__ = dict.__getitem__

    settings = Settings(scale=3)

    def f(x):
        try:
            return x * settings.missing
        except KeyError as error:
            return x * settings.scale, str(error)

    return Case(f, vector(), then=[lambda: settings.update(missing=4), lambda: settings.pop("missing")])


@program
def attributes_that_are_items():
    class Settings(dict):
        __getattr__ = dict.__getitem__
        __setattr__ = dict.__setitem__
        __delattr__ = dict.__delitem__

    def f(x, name):
        made = Settings(a=1)
        made.b = x + 1
        setattr(made, name, 2)
        del made.a
        try:
            del made.a
        except KeyError as error:
            missing = error.args
        return made.b, sorted(made), vars(made), missing, made

    return Case(f, vector(), "c", then=[lambda: None])


@program
def attributes_that_are_items_of_an_argument():
    class Settings(dict):
        __getattr__ = dict.__getitem__
        __setattr__ = dict.__setitem__

    settings = Settings(a=1)

    def f(x):
        settings.b = settings.a + 1
        settings.kept = x
        return x * settings.b, len(settings)

    return Case(f, vector(), then=[lambda: settings.update(a=7)], observe=settings)


@program
def getattr_that_is_called_as_an_object():
    count = Count()

    class Holder:
        __getattr__ = count

    holder = Holder()

    def f(x):
        return x + holder.anything, getattr(holder, "other", 50), hasattr(holder, "third")

    return Case(f, vector(), then=[lambda: setattr(holder, "other", 7)], observe=count)


@program
def getattr_that_is_static():
    class Holder:
        __getattr__ = staticmethod(lambda name: len(name))

    class OfClass:
        __getattr__ = classmethod(lambda cls, name: cls.__name__ + name)

    def f(x):
        return x + Holder().four, OfClass().b

    return Case(f, vector())


@program(whole=False)
def getattr_with_bound_arguments():
    class Holder:
        def _find(self, scale, name):
            return scale * len(name)

        __getattr__ = functools.partialmethod(_find, 10)

    def f(x):
        return x + Holder().abc

    return Case(f, vector())


@program(whole=False)
def writes_that_an_object_takes():
    setter, deleter = Count(), Count()

    class Holder:
        __setattr__ = setter
        __delattr__ = deleter

    holder = Holder()

    def f(x):
        holder.a = x
        del holder.b
        return x + 1, vars(holder), hasattr(holder, "a")

    return Case(f, vector(), then=[lambda: None], observe=(setter, deleter))


@program
def getattribute_that_is_an_object():
    count = Count()

    class Holder:
        __getattribute__ = count

    class Raising:
        def __call__(self, name):
            raise AttributeError(name)

    class Both:
        __getattribute__ = Raising()
        __getattr__ = count

    holder, both = Holder(), Both()

    def f(x):
        return x + holder.anything, both.anything, getattr(holder, "a", 9)

    return Case(f, vector(), then=[lambda: None], observe=count)


@program
def getattr_of_a_metaclass_that_is_an_object():
    count = Count()

    class Meta(type):
        __getattr__ = count

    class Holder(metaclass=Meta):
        known = 5

    def f(x):
        return x + Holder.known, Holder.unknown, hasattr(Holder, "other")

    return Case(f, vector(), then=[lambda: setattr(Holder, "unknown", 8)], observe=count)


@program
def special_methods_that_are_replaced():
    class Settings(dict):
        __getattr__ = dict.get

    settings = Settings(a=2)

    def f(x):
        try:
            return x * (settings.a or 1), settings.b
        except AttributeError as error:
            return x - 1, str(error)

    def python():
        Settings.__getattr__ = lambda self, name: 11

    def none():
        del Settings.__getattr__

    def again():
        Settings.__getattr__ = dict.get

    def getattribute():
        Settings.__getattribute__ = dict.get

    return Case(f, vector(), then=[python, none, again, getattribute])


@program
def explicit_defaults():
    class Holder:
        __getattribute__ = object.__getattribute__
        __setattr__ = object.__setattr__
        __delattr__ = object.__delattr__

    holder = Holder()
    holder.a = 3

    def f(x):
        holder.b = x
        holder.c = 1
        del holder.c
        return x * holder.a, hasattr(holder, "c")

    return Case(f, vector(), then=[lambda: setattr(holder, "a", 4)], observe=holder)
