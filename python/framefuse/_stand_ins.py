"""Python functions that stand in captured code for others, which C++ finds by name and calls as captured code.

Invariant: run as Python, outside captured code, each does what it stands for.
"""

import functools


def attributes(*dotted):
    """operator.attrgetter, where C code calls it: by itself it would read the objects as they were before."""
    paths = [name.split(".") for name in dotted]

    def get(owner):
        found = []
        for path in paths:
            value = owner
            for name in path:
                value = getattr(value, name)
            found.append(value)
        return found[0] if len(found) == 1 else tuple(found)

    return get


def method(name, *args):
    """operator.methodcaller, where C code calls it."""

    def call(owner):
        return getattr(owner, name)(*args)

    return call


def dispatched(registry, cls):
    """What functools.singledispatch finds for a class. Its cache is known to itself alone, and is not looked at."""
    if cls in registry:
        return registry[cls]
    plain = type(cls).mro is type.mro
    for key in registry:
        plain = plain and type(key).__subclasscheck__ is type.__subclasscheck__
    if not plain:
        return functools._find_impl(cls, registry)
    for base in cls.__mro__:  # abstract classes would come between
        if base in registry:
            return registry[base]
