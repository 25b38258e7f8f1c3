"""CompiledModule: what `compile(module)` and `disable(module)` return.

The result is a twin of the original: an object of a subclass of the original's class that shares the original's `__dict__`. So
parameters, buffers, hooks, attributes, train/eval mode and `state_dict` keys are one thing seen through two objects, and
`isinstance` holds for the original's class. Only calls differ: they run compiled code on the original.
Invariant: nothing of framefuse is stored in the shared `__dict__`; what the twin adds lives in slots of its own.
"""

import copy
import functools
import inspect
import types
import weakref

import torch

from framefuse import _C


class _Forward:
    """`twin.forward`: the compiled form of the class's forward. A non-data descriptor, so that a `forward` assigned to the
    instance goes to the shared `__dict__` and is what both objects use from then on."""

    def __get__(self, twin, owner):
        return super(CompiledModule, owner).forward if twin is None else twin._framefuse_forward


class _Signature:
    """`inspect.signature` of a twin, or of its class: the original's. It would look at `__call__` of the class, a slot."""

    def __get__(self, twin, owner):
        if owner is CompiledModule:
            raise AttributeError("__signature__")
        return inspect.signature(_original_class(owner) if twin is None else twin._framefuse_original)


class CompiledModule(torch.nn.Module):
    """Base of every compiled module; `isinstance(m, framefuse.CompiledModule)` tells. Made by `framefuse.compile`, never directly."""

    __slots__ = ()

    __signature__ = _Signature()

    def __new__(cls, *args, **kwargs):
        # Libraries make another module of a class with type(module)(...) or cls.__new__(cls): one of the original's class.
        original = _original_class(cls)
        return original.__new__(original, *args, **kwargs)

    def __init_subclass__(cls, **kwargs):
        # Ends here: the original class's __init_subclass__ (a registry, say) is not told of the twin's class.
        pass

    @property
    def _orig_mod(self):
        """The module that was compiled."""
        return self._framefuse_original

    def __prepare_scriptable__(self):
        return self._orig_mod  # torch.jit.script asks for what it is to look at

    def _replicate_for_data_parallel(self):
        return self._framefuse_remake(self._orig_mod._replicate_for_data_parallel())

    def __copy__(self):
        return self._framefuse_remake(copy.copy(self._orig_mod))

    def __deepcopy__(self, memo):
        return self._framefuse_remake(copy.deepcopy(self._orig_mod, memo))

    def __reduce_ex__(self, protocol):
        return self._framefuse_remake, (self._orig_mod,)


def make_compiled_module(module, options, remake):
    """Return the compiled twin of `module`; `remake` makes such a twin of another module, also in another process."""
    return _make_twin(module, functools.partial(_make_compiled_call, options=options, remake=remake), remake)


def make_disabled_module(module, recursive, remake, reason=None):
    """Return a twin of `module` whose calls run without capture; `remake` makes such a twin of another module."""
    module = getattr(module, "_orig_mod", module) if isinstance(module, CompiledModule) else module
    return _make_twin(module, functools.partial(make_disabled_function, recursive=recursive, remake=remake, reason=reason), remake)


def _make_compiled_call(callable, options, remake):
    return _C.make_compiled_function(callable, options, remake)


def make_disabled_function(callable, recursive, remake, reason=None):
    disabled = _C.make_disabled_function(callable, recursive, remake)
    if reason is not None:
        disabled._torchdynamo_disable_msg = reason  # torch's name for it: C++ reads one attribute for both
    return disabled


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


def _original_class(cls):
    bases = cls.__bases__
    if len(bases) != 2 or bases[0] is not CompiledModule:
        raise TypeError("use framefuse.compile(module)")
    return bases[1]


def _new_original(cls, *args, **kwargs):
    return _original_class(cls)(*args, **kwargs)


@functools.cache
def _twin_metaclass(metaclass):
    return type(metaclass.__name__, (metaclass,), {"__call__": _new_original, "__module__": metaclass.__module__})


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
        keywords = {"metaclass": _twin_metaclass(type(cls))}
        twin_class = types.new_class(cls.__name__, (CompiledModule, cls), keywords, lambda body: body.update(names))
        _twin_classes[cls] = twin_class
    return twin_class
