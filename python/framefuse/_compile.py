"""framefuse.compile: checks the arguments, at once and with the right choices in the message, and builds the callable."""

import functools
from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

import torch

from framefuse import _C, _fx, _torch_knobs, _torch_trace
from framefuse._backends import BUILT_IN, MODES, resolve_backend
from framefuse._c_callables import CCallable, has_python_code
from framefuse._config import config
from framefuse._module import CompiledModule, make_compiled_module
from framefuse._suspended import marked

F = TypeVar("F", bound=Callable[..., Any])
BackendArgument = str | Callable[..., Any]
Mode = Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]


@overload
def compile(
    model: F,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: BackendArgument = ...,
    mode: Mode | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
    recompile_limit: int | None = ...,
    name: str | None = ...,
    tell_libraries: bool | None = ...,
) -> F: ...
@overload
def compile(
    model: None = ...,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: BackendArgument = ...,
    mode: Mode | None = ...,
    options: dict[str, Any] | None = ...,
    disable: bool = ...,
    recompile_limit: int | None = ...,
    name: str | None = ...,
    tell_libraries: bool | None = ...,
) -> Callable[[F], F]: ...
def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: BackendArgument = "fuse",
    mode: Mode | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    name: str | None = None,
    tell_libraries: bool | None = None,
) -> Callable[..., Any]:
    """Compile a function, method, lambda or `nn.Module`; usable as a decorator with or without arguments.

    The first call with new kinds of arguments captures the Python code into graphs and compiles them; later calls whose
    guards hold run the compiled graphs. Results, gradients, side effects and exceptions are those of the Python code.

    Args:
        model: what to compile. An `nn.Module` gives an `nn.Module` that shares the original's state: parameters, attributes,
            `state_dict` keys, train/eval mode.
        fullgraph: raise `Unsupported`, naming the line, where a graph would break.
        dynamic: which sizes of tensors are symbolic, so that one capture serves many of them (docs/dynamic_shapes.md). None:
            those that were other ones in a later call. True: all, but for parameters and buffers. False: none.
        backend: a name from `list_backends()`, or a callable that takes an `fx.GraphModule` and example inputs and returns
            a callable.
        mode: "default", "reduce-overhead" (graphs on a GPU are recorded as CUDA graphs from their second run on; takes memory for
            them), "max-autotune" or "max-autotune-no-cudagraphs"; excludes `options`.
        options: settings for the backend; an FX backend gets them as its keyword argument `options`.
        disable: return the model as it is.
        recompile_limit: how many entries this object may have at a place, 0 or more. None: as `config.recompile_limit` says at
            each call.
        name: what logs and warnings call this object.
        tell_libraries: whether `torch.compiler.is_compiling()` is True in the code of installed packages, too. None: as
            `config.tell_libraries` says now.

    Returns:
        The compiled callable; without `model`, a decorator.

    Raises:
        TypeError, ValueError: an argument is none that can be; the message lists those that can. The arguments are those of
        `torch.compile`, which see, but for `tell_libraries`.
    """
    _check_flag("fullgraph", fullgraph)
    _check_flag("disable", disable)
    _check_dynamic(dynamic)
    told = config.tell_libraries if tell_libraries is None else tell_libraries
    _check_flag("tell_libraries", told)
    _check_limit_and_name(recompile_limit, name)
    _check_mode_and_options(mode, options)
    resolved = resolve_backend(backend)
    if resolved.fx is None and options:
        raise ValueError(f"backend '{backend}' takes no options, got: {', '.join(map(str, options))}")
    settings = dict(
        fullgraph=fullgraph,
        dynamic=dynamic,
        backend=backend,
        mode=mode,
        options=options,
        disable=disable,
        recompile_limit=recompile_limit,
        name=name,
        tell_libraries=told,
    )
    if model is None:
        return functools.partial(_compile_one, settings=settings)
    return _compile_one(model, settings)


def compile_options(settings) -> "_C.CompileOptions":
    """The C++ options that the (checked) keyword arguments of `compile` mean."""
    backend = resolve_backend(settings["backend"])
    mode = settings["mode"] or "default"
    options = settings["options"] or {}
    told = config.tell_libraries if settings["tell_libraries"] is None else settings["tell_libraries"]
    common = dict(
        fullgraph=settings["fullgraph"],
        dynamic=settings["dynamic"],
        takes_sizes=backend.is_dynamic,
        tell_libraries=told,
        backend=backend.name,
        mode=mode,
        recompile_limit=-1 if settings["recompile_limit"] is None else settings["recompile_limit"],
        name=settings["name"] or "",
    )
    if backend.fx is None:
        return _C.CompileOptions(**common)
    keywords = {}
    if mode != "default":
        keywords["mode"] = mode
    if options:
        keywords["options"] = dict(options)
    return _C.CompileOptions(
        **common,
        options=sorted((str(name), repr(value)) for name, value in options.items()),
        fx_backend=_fx.FxBackend(backend, keywords),
        fx_backend_identity=backend.fx,
    )


def _compile_one(model, settings):
    if isinstance(model, type):
        raise TypeError(f"compile() takes an instance, not the class {model.__name__}; decorate its forward, or compile {model.__name__}(…)")
    if not callable(model):
        raise TypeError(f"compile() takes a function, a method or an nn.Module, not {type(model).__name__}")
    if settings["disable"]:
        return model
    if isinstance(model, torch.jit.ScriptModule):
        _tell_once("a torch.jit.ScriptModule is compiled already: compile() returns it as it is")
        return model
    if isinstance(model, CompiledModule):
        if not _C.is_compiled_function(model.__call__):
            return model  # a disabled module stays disabled
        model = model._orig_mod
    elif _C.is_compiled_function(model):
        model = model.__wrapped__
    _torch_knobs.tell_of_ignored()
    _torch_trace.follow()
    options = compile_options(settings)
    again = functools.partial(compile_again, settings=settings)
    if isinstance(model, torch.nn.Module):
        return make_compiled_module(model, options, again)
    if not has_python_code(model):
        model = CCallable(model)
    return marked(_C.make_compiled_function(model, options, again))


def compile_again(model, settings):
    """What makes a compiled function or module anew, of a copy or in another process."""
    return compile(model, **settings)


def _check_flag(name, value):
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")


def _check_dynamic(dynamic):
    if dynamic is not None and not isinstance(dynamic, bool):
        raise TypeError(f"dynamic must be None, True or False, not {dynamic!r}")


def _check_limit_and_name(recompile_limit, name):
    if recompile_limit is not None and type(recompile_limit) is not int:
        raise TypeError(f"recompile_limit must be None or an int, not {recompile_limit!r}")
    if recompile_limit is not None and recompile_limit < 0:
        raise ValueError(f"recompile_limit must be 0 or more, not {recompile_limit}")
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be None or a str, not {name!r}")


_WITHOUT_EFFECT = ("max-autotune", "max-autotune-no-cudagraphs")
_told: "set[str]" = set()


def _tell_once(text):
    if text not in _told:
        _told.add(text)
        _C.write_log("bugs", text)


def _check_mode_and_options(mode, options):
    if mode is not None and mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}; the modes are: {', '.join(MODES)}")
    if options is not None and not isinstance(options, dict):
        raise TypeError(f"options must be a dict or None, not {type(options).__name__}")
    if mode is not None and options is not None:
        raise ValueError("give mode or options, not both")
    if mode in _WITHOUT_EFFECT:
        _tell_once(f"mode={mode!r} has no effect yet: what is compiled runs as in the default mode")


__all__ = ["BUILT_IN", "compile", "compile_options"]
