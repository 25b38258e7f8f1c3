"""CompiledModule: what `compile(module)` and `disable(module)` return.

The result is a twin of the original: an object of a subclass of the original's class that shares the original's `__dict__`. So
parameters, buffers, hooks, attributes, train/eval mode and `state_dict` keys are one thing seen through two objects, and
`isinstance` holds for the original's class. Only calls differ: they run compiled code on the original.
Invariant: nothing of framefuse is stored in the shared `__dict__`; what the twin adds lives in slots of its own.
"""

import copy
import functools
import types
import weakref

import torch

from framefuse import _C


class _Forward:
    """`twin.forward`: the compiled form of the class's forward. A non-data descriptor, so that a `forward` assigned to the
    instance goes to the shared `__dict__` and is what both objects use from then on."""

    def __get__(self, twin, owner):
        return super(CompiledModule, owner).forward if twin is None else twin._framefuse_forward


class CompiledModule(torch.nn.Module):
    """Base of every compiled module; `isinstance(m, framefuse.CompiledModule)` tells. Made by `framefuse.compile`, never directly."""

    __slots__ = ()

    def __init__(self, *args, **kwargs):
        raise TypeError("use framefuse.compile(module)")

    def __init_subclass__(cls, **kwargs):
        # Ends here: the original class's __init_subclass__ (a registry, say) is not told of the twin's class.
        pass

    @property
    def _orig_mod(self):
        """The module that was compiled."""
        return self._framefuse_original

    def __copy__(self):
        return self._framefuse_remake(copy.copy(self._orig_mod))

    def __deepcopy__(self, memo):
        return self._framefuse_remake(copy.deepcopy(self._orig_mod, memo))

    def __reduce_ex__(self, protocol):
        return self._framefuse_remake, (self._orig_mod,)


def make_compiled_module(module, options, settings):
    """Return the compiled twin of `module`; `settings` are the keyword arguments of `compile` that `options` were made of."""
    compile_call = functools.partial(_make_compiled_call, options=options)
    return _make_twin(module, compile_call, functools.partial(_compile_again, settings=settings))


def make_disabled_module(module, recursive):
    """Return a twin of `module` whose calls run without capture."""
    module = getattr(module, "_orig_mod", module) if isinstance(module, CompiledModule) else module
    disable_call = functools.partial(_make_disabled_call, recursive=recursive)
    return _make_twin(module, disable_call, functools.partial(make_disabled_module, recursive=recursive))


def _make_compiled_call(callable, options):
    return _C.make_compiled_function(callable, options)


def _make_disabled_call(callable, recursive):
    return _C.make_disabled_function(callable, recursive)


def _compile_again(module, settings):
    from framefuse._compile import compile

    return compile(module, **settings)


def _make_twin(module, wrap_call, remake):
    cls = type(module)
    twin = object.__new__(_twin_class(cls))
    slots = {
        "__dict__": module.__dict__,
        "__call__": wrap_call(types.MethodType(cls.__call__, module)),
        "_framefuse_forward": wrap_call(types.MethodType(cls.forward, module)),
        "_framefuse_original": module,
        "_framefuse_remake": remake,  # pickles; original → twin
    }
    for name, value in slots.items():
        object.__setattr__(twin, name, value)
    return twin


_twin_classes: "weakref.WeakValueDictionary[type, type]" = weakref.WeakValueDictionary()


def _twin_class(cls):
    """The class of twins of `cls`'s instances: one for each class, as long as one of its twins lives."""
    twin_class = _twin_classes.get(cls)
    if twin_class is None:
        names = {
            # A slot named __call__ is a descriptor, so that a call goes from CPython's C code straight to the compiled function.
            "__slots__": ("__call__", "_framefuse_forward", "_framefuse_original", "_framefuse_remake"),
            "forward": _Forward(),
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__,
            "__doc__": cls.__doc__,
        }
        twin_class = types.new_class(cls.__name__, (CompiledModule, cls), exec_body=lambda body: body.update(names))
        _twin_classes[cls] = twin_class
    return twin_class
