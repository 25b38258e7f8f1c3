"""Import statements inside of functions: by full names, and relative to the package of the code."""

import builtins
import sys
import types
import warnings

from conformance.program import Case, program
from conformance.sample import vector


def _in_a_module(f, **names):
    """The function, in a module of its own that has these names."""
    module = types.ModuleType("made_for_imports")
    vars(module).update(torch_like=vector, **names)
    return types.FunctionType(f.__code__, vars(module), f.__name__, f.__defaults__, f.__closure__), vars(module)


@program
def from_the_package_itself():
    def f(x):
        from . import unbacked_sizes
        from .. import sample

        return x * 2 + sample.vector(3), unbacked_sizes.__name__

    return Case(f, vector(3))


@program
def from_a_module_beside_and_above():
    def f(x):
        from ..program import Case as kind
        from .statements import vector as make

        return x + make(3), kind.__name__

    return Case(f, vector(3))


@program
def in_a_function_that_is_called_for_each_part():
    def scaled(x, n):
        from ..sample import vector as make

        return x * n + make(3)

    def f(x):
        return sum(scaled(part, n) for n, part in enumerate([x, x + 1, x * 2]))

    return Case(f, vector(3))


@program
def name_replaced_in_the_package_it_comes_from():
    package = types.ModuleType("package_of_scales")
    package.scale, package.__path__ = 2.0, []
    part = types.ModuleType("package_of_scales.part")
    sys.modules[package.__name__], sys.modules[part.__name__] = package, part

    def body(x):
        from . import scale

        return x * scale

    f, _ = _in_a_module(body, __package__="package_of_scales", __spec__=None)
    return Case(f, vector(3), then=[lambda: setattr(package, "scale", 5.0), lambda: setattr(package, "scale", 7.0)])


@program
def package_of_the_code_replaced():
    for name, scale in (("one_package", 2.0), ("other_package", 3.0)):
        made = sys.modules[name] = types.ModuleType(name)
        made.scale, made.__path__ = scale, []

    def body(x):
        from . import scale

        return x * scale

    f, names = _in_a_module(body, __package__="one_package", __spec__=None)
    other, one = lambda: names.update(__package__="other_package"), lambda: names.update(__package__="one_package")
    return Case(f, vector(3), then=[other, one, lambda: None])


@program(whole=False)
def package_that_the_function_writes():
    def body(x):
        global __package__
        before = __package__
        __package__ = "conformance.programs"
        from . import statements

        __package__ = before
        return x * 2, statements.__name__

    f, _ = _in_a_module(body, __package__="conformance", __spec__=None)
    return Case(f, vector(3))


@program(whole=False)
def package_that_the_spec_does_not_name():
    def body(x):
        from . import sample

        return x + sample.vector(3)

    spec = types.SimpleNamespace(**{"name": "elsewhere.module", "parent": "elsewhere"})
    f, _ = _in_a_module(body, __package__="conformance", __spec__=spec)

    def told(x):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            y = f(x)
        return y, [str(w.message) for w in said]

    return Case(told, vector(3))


@program(whole=False)
def beyond_the_top_and_without_a_package():
    def body(x):
        try:
            from ... import sample
        except ImportError as error:
            return x * 2, str(error)
        return x + sample.vector(3)

    top, _ = _in_a_module(body, __package__="conformance", __spec__=None)
    none, _ = _in_a_module(body, __package__="", __spec__=None)
    return Case(lambda x: (top(x), none(x)), vector(3))


@program(whole=False)
def name_that_the_package_lacks():
    def f(x):
        try:
            from . import nothing_of_this_name
        except ImportError as error:
            return x * 2, type(error).__name__, error.name
        return x, nothing_of_this_name

    return Case(f, vector(3))


@program
def globals_without_builtins():
    def body(x):
        from collections import OrderedDict, defaultdict, deque
        from functools import partial

        kept = deque([x, x + 1], maxlen=2)
        by_name = defaultdict(list)
        by_name["x"].append(partial(lambda a, b: a * b, x)(3))
        return OrderedDict(a=kept[0] + by_name["x"][0], b=sum(kept))

    return Case(types.FunctionType(body.__code__, {}, "body", None, body.__closure__), vector(3))


# Where a graph is made as a module of torch.fx, code of torch in Python imports, too.
@program(whole=False, not_ways=("fx", "fx-sizes", "fx-kept", "fx-breaks"))
def import_that_the_program_replaced():
    asked = []

    def f(x):
        import math

        return x * math.pi

    def told(x):
        def own(name, *args):
            asked.append(name)
            return before(name, *args)

        before, builtins.__import__ = builtins.__import__, own
        try:
            return f(x), len(asked)
        finally:
            builtins.__import__ = before

    return Case(told, vector(3), observe=asked, then=[lambda: None])
