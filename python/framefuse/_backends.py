"""Backends by name: framefuse's own, those that the user registered, and torch's registry.

A backend is one of the two that C++ has built in ("fuse", "aten") or a callable that takes an `fx.GraphModule` and
example inputs and returns a callable, as torch.compile's backends are.
"""

import difflib
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

BUILT_IN = ("fuse", "aten")
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")

_registered: "dict[str, Callable[..., Any]]" = {}
_dynamic: "list[Callable[..., Any]]" = []  # those that take symbolic sizes


class Backend(NamedTuple):
    """A resolved backend: its name for messages, and the FX callable, None where C++ has it built in."""

    name: str
    fx: "Callable[..., Any] | None"

    @property
    def is_dynamic(self) -> bool:
        """Whether it takes graphs with symbolic sizes."""
        return self.fx is None or any(self.fx is known for known in _dynamic)


def register_backend(
    compiler_fn: "Callable[..., Any] | None" = None, name: "str | None" = None, *, dynamic: bool = False
) -> "Callable[..., Any]":
    """Register a backend, so that `compile(backend="name")` finds it. Usable as a decorator, with or without a name.

    Args:
        compiler_fn: `compiler_fn(gm: fx.GraphModule, example_inputs: list[Tensor]) -> callable`.
        name: the name to register; by default the callable's `__name__`.
        dynamic: whether the backend takes symbolic sizes. Then the graph's first placeholders are the sizes (and integers) that change, and
            example inputs are torch's `SymInt`s for them and FakeTensors of such sizes, as under `torch.compile`. Else it gets a graph for each
            size.
    """
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, dynamic=dynamic)
    if not callable(compiler_fn):
        raise TypeError(f"register_backend() takes a callable, not {type(compiler_fn).__name__}")
    name = name or getattr(compiler_fn, "__name__", None)
    if not isinstance(name, str):
        raise TypeError("register_backend() needs name=…, since the callable has no __name__")
    if name in BUILT_IN:
        raise ValueError(f"'{name}' is built in and cannot be registered again")
    if _registered.get(name, compiler_fn) is not compiler_fn:
        raise ValueError(f"a backend named '{name}' is registered already")
    _registered[name] = compiler_fn
    if dynamic and not any(known is compiler_fn for known in _dynamic):
        _dynamic.append(compiler_fn)
    return compiler_fn


def list_backends(*, torch_registry: bool = True) -> "list[str]":
    """Return the names that `compile(backend=…)` takes: built in, registered, and (unless switched off) torch's registry."""
    names = [*BUILT_IN, *sorted(_registered)]
    if torch_registry:
        # With no tag left out: "eager" and "aot_eager" are tagged as for debugging.
        theirs = _torch_registry().list_backends(exclude_tags=())
        names += [name for name in theirs if name not in names and not name.endswith("_TESTING_ONLY")]
    return names


def resolve_backend(backend) -> Backend:
    """Return the `Backend` that a user's `backend=` argument means, or raise with the list of names."""
    if isinstance(backend, str):
        if backend in BUILT_IN:
            return Backend(backend, None)
        if backend in _registered:
            return Backend(backend, _registered[backend])
        return Backend(backend, _from_torch_registry(backend))
    if callable(backend):
        return Backend(getattr(backend, "__name__", type(backend).__name__), backend)
    raise TypeError(f"backend must be a name or a callable, not {type(backend).__name__}")


def _torch_registry():
    # Importing torch._dynamo takes a second or more: only for names that nobody else knows.
    import torch._dynamo.backends.registry as registry

    return registry


def _from_torch_registry(name):
    registry = _torch_registry()
    if name not in registry.list_backends(exclude_tags=()):
        known = list_backends()
        close = difflib.get_close_matches(name, known, n=1)
        hint = f" (did you mean '{close[0]}'?)" if close else ""
        raise ValueError(f"unknown backend '{name}'{hint}; the backends are: {', '.join(known)}, or any callable")
    return registry.lookup_backend(name)
