"""torch's knobs while `as_torch_compile` is on: what `torch._dynamo.config` and torch's environment variables mean for framefuse.

A knob is honoured, or a warning says once, by its name, that it has no effect and what to use instead. docs/migration.md has the table.
Invariant: `leave` puts framefuse's settings back to what they were before `follow`.
"""

import os
import sys
import threading
import warnings

from framefuse import _C
from framefuse._config import config

# Setting of torch._dynamo.config → (torch's default, framefuse's setting, its value of torch's).
_HONOURED = {
    "recompile_limit": (8, "recompile_limit", int),
    "cache_size_limit": (8, "recompile_limit", int),
    "accumulated_recompile_limit": (256, "accumulated_recompile_limit", int),
    "accumulated_cache_size_limit": (256, "accumulated_recompile_limit", int),
    "fail_on_recompile_limit_hit": (False, "fail_on_recompile_limit_hit", bool),
    "fail_on_cache_limit_hit": (False, "fail_on_recompile_limit_hit", bool),
    "suppress_errors": (False, "suppress_errors", bool),
    "error_on_recompile": (False, "error_on_recompile", bool),
    "specialize_int": (False, "specialize_int", bool),
    "disable": (False, "capture_on", lambda value: not value),
}
# Read when something is compiled: see dynamic_of.
_OF_SIZES = {"automatic_dynamic_shapes": True, "assume_static_by_default": True, "dynamic_shapes": True}
# Setting → (torch's default, what to know instead).
_WITHOUT_EFFECT = {
    "capture_scalar_outputs": (False, "numbers read out of tensors stay in one graph by themselves; dynamic=False makes them break it"),
    "capture_dynamic_output_shape_ops": (False, "sizes that depend on values stay in one graph by themselves; dynamic=False makes them break it"),
    "force_parameter_static_shapes": (True, "sizes of parameters are always static"),
    "force_nn_module_property_static_shapes": (True, "numbers in modules become symbolic when they change"),
    "specialize_float": (False, "specialize_int holds for floats, too"),
    "allow_rnn": (False, "recurrent layers are captured by themselves"),
    "caching_precompile": (False, "framefuse.save_cache(path) and load_cache(path) keep what was compiled"),
    "capture_autograd_function": (True, "autograd.Function is always captured"),
    "capture_func_transforms": (True, "torch.func is always captured"),
    "compiled_autograd": (False, "a backward inside of a compiled function is in its graph; others run in torch's engine"),
    "guard_nn_modules": (True, "what is read of modules is always guarded"),
    "ignore_logging_functions": (set(), "calls of logging stay in one graph by themselves"),
    "nested_graph_breaks": (False, "after a break in a function that is called, that function goes on compiled by itself"),
    "optimize_ddp": (True, "graphs are not split at DDP's buckets: a gradient goes to its leaf as soon as it is made"),
    "reorderable_logging_functions": (set(), "print outside of the compiled function, or where torch.compiler.is_compiling() is false"),
    "repro_after": (None, "python -m framefuse.doctor --minify script.py writes a program that shows the fault"),
    "skip_nnmodule_hook_guards": (True, "hooks of modules are always guarded"),
    "verbose": (False, "FRAMEFUSE_LOGS=+graph_breaks has whole stacks"),
}
_MEANS_NOTHING = "docs/migration.md has the settings that do"
# Variable → (setting, value that it gives), where torch._dynamo is not imported yet.
_ENVIRONMENT = {
    "TORCH_COMPILE_DISABLE": ("disable", lambda text: text == "1"),
    "TORCHDYNAMO_SUPPRESS_ERRORS": ("suppress_errors", bool),
    "TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS": ("capture_scalar_outputs", lambda text: text == "1"),
}
# Modules of settings of which none has a meaning here: (name, whose they are).
_OF_OTHERS = {
    "torch._inductor.config": "it is Inductor's, and framefuse's backend has nothing like it",
    "torch._functorch.config": "it is AOTAutograd's, and framefuse makes its backward graphs itself",
    "torch.compiler.config": "it is for torch's own compiler",
}
_OURS = ("recompile_limit", "accumulated_recompile_limit", "fail_on_recompile_limit_hit", "suppress_errors", "error_on_recompile", "specialize_int", "capture_on")

_CUDA_GRAPHS = ("torch._inductor.config", "triton.cudagraphs")

_told: "set[str]" = set()
_before: "dict[str, object] | None" = None  # framefuse's settings, while torch's are followed
_watched = None  # (class of torch._dynamo.config, its own __setattr__ or None)


def warn_once(knob: str, instead: str) -> None:
    """Warn, once a process and knob, that a knob of torch's has no effect here."""
    if knob not in _told:
        _told.add(knob)
        warnings.warn(f"{knob} has no effect in framefuse: {instead}", UserWarning, stacklevel=_level_of_user())


def _level_of_user():
    """Of warnings.warn: the first caller that is neither ours nor torch's machinery of settings."""
    level, frame = 2, sys._getframe(2)
    while frame is not None and (_is_of_settings(frame) or frame.f_globals.get("__name__", "").split(".")[0] in ("framefuse", "contextlib")):
        level, frame = level + 1, frame.f_back
    return level


def follow(when_dynamo_is_there) -> None:
    """Take over what torch's settings are now, and from now on each change of them.

    `when_dynamo_is_there`: calls what it is given with `torch._dynamo`, once somebody has imported that.
    """
    global _before
    _before = {name: getattr(config, name) for name in _OURS}
    for variable, (name, value_of) in _ENVIRONMENT.items():
        text = os.environ.get(variable)
        if text is not None and "torch._dynamo" not in sys.modules:
            _apply(name, value_of(text))
    when_dynamo_is_there(_watch)


def leave() -> None:
    """Stop following, and put framefuse's settings back."""
    global _before, _watched
    if _watched is not None:
        cls, own = _watched
        if own is None:
            del cls.__setattr__
        else:
            cls.__setattr__ = own
        _watched = None
    for name, value in (_before or {}).items():
        setattr(config, name, value)
    _before = None


def tell_of_ignored() -> None:
    """Warn of knobs of torch's that were turned, where nobody follows them: `compile` calls it."""
    if _before is not None:
        return
    for variable in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"):
        if os.environ.get(variable) == "1":
            warn_once(f"{variable}=1", "FRAMEFUSE_CONFIG=capture_on=0 does that; as_torch_compile() follows torch's knobs")
    settings = sys.modules.get("torch._dynamo.config")
    if settings is None:
        return
    for name, (default, ours, _) in _HONOURED.items():
        value = getattr(settings, name, default)
        if value != default:
            warn_once(f"torch._dynamo.config.{name} = {value!r}", f"framefuse.config.{ours} does that; as_torch_compile() follows torch's knobs")
    for name, default in _OF_SIZES.items():
        if getattr(settings, name, default) != default:
            warn_once(f"torch._dynamo.config.{name} = {not default!r}", "compile(dynamic=…) does that; as_torch_compile() follows torch's knobs")
    for name, (default, instead) in _WITHOUT_EFFECT.items():
        value = getattr(settings, name, default)
        if value != default:
            warn_once(f"torch._dynamo.config.{name} = {value!r}", instead)
    for name in settings._config:
        if _is_changed(settings, name) and not (name in _HONOURED or name in _OF_SIZES or name in _WITHOUT_EFFECT):
            warn_once(f"torch._dynamo.config.{name}", _MEANS_NOTHING)


def _is_changed(settings, name) -> bool:
    """To torch a setting is no default any more when torch.export has turned it and back."""
    return not settings._is_default(name) and getattr(settings, name) != settings._config[name].default


def tell_of_others() -> None:
    """Warn of settings of Inductor's, AOTAutograd's and torch.compiler's that were turned: `torch.compile` calls it."""
    for module, instead in _OF_OTHERS.items():
        settings = sys.modules.get(module)
        for name in getattr(settings, "_config", ()):
            if _is_changed(settings, name) and not (module, name) == _CUDA_GRAPHS:
                warn_once(f"{module}.{name}", instead)


def records_cuda_graphs() -> bool:
    """Whether Inductor's setting asks for CUDA graphs everywhere."""
    settings = sys.modules.get(_CUDA_GRAPHS[0])
    return settings is not None and not settings._is_default(_CUDA_GRAPHS[1]) and bool(settings.triton.cudagraphs)


def follow_compilations(dynamo) -> None:
    """Take over what says that a break is an error, and have torch._dynamo.callback's functions hear of our compilations."""
    if hasattr(dynamo.utils, "_error_on_graph_break"):
        _C.register_breaks_as_errors(vars(dynamo.utils), "_error_on_graph_break")
    under_way = threading.local()

    def before(compile_id):
        telling = dynamo.callback.callback_handler.install_callbacks(dynamo.callback.CallbackTrigger.DYNAMO, compile_id)
        telling.__enter__()
        vars(under_way).setdefault("told", []).append(telling)

    def after(compile_id):
        told = vars(under_way).get("told")
        if told:  # else torch._dynamo was imported by what this compilation ran
            told.pop().__exit__(None, None, None)

    _C.set_compile_callbacks(before, after)


def dynamic_of(dynamic: "bool | None") -> "bool | None":
    """compile()'s `dynamic`, where torch's settings say what None means."""
    settings = sys.modules.get("torch._dynamo.config")
    if settings is None or dynamic is not None:
        return dynamic
    if not settings.assume_static_by_default:
        return True
    return None if settings.automatic_dynamic_shapes and settings.dynamic_shapes else False


def _watch(dynamo):
    global _watched
    if _before is None or _watched is not None:
        return
    settings = dynamo.config
    for name, (default, *_) in {**_HONOURED, **_WITHOUT_EFFECT}.items():
        value = getattr(settings, name, default)
        if value != default:
            _apply(name, value)
    cls = type(settings)  # torch makes one for each module of settings
    _watched = cls, cls.__dict__.get("__setattr__")
    theirs = cls.__setattr__

    def set_both(self, name, value):
        changes = getattr(self, name, value) != value
        theirs(self, name, value)
        if changes:
            _apply(name, value, by_user=not _is_set_by_torch())

    cls.__setattr__ = set_both


def _apply(name, value, by_user=True):
    if name in _HONOURED:
        _, ours, meaning = _HONOURED[name]
        setattr(config, ours, meaning(value))
    elif name in _WITHOUT_EFFECT:
        default, instead = _WITHOUT_EFFECT[name]
        if value != default:
            warn_once(f"torch._dynamo.config.{name} = {value!r}", instead)
    elif by_user and name not in _OF_SIZES:
        warn_once(f"torch._dynamo.config.{name}", _MEANS_NOTHING)


def _is_set_by_torch():
    frame = sys._getframe(2)
    while frame is not None and (_is_of_settings(frame) or frame.f_globals.get("__name__", "").split(".")[0] in ("contextlib", "unittest")):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "torch"


def _is_of_settings(frame):
    return frame.f_globals.get("__name__") in (__name__, "torch.utils._config_module")


__all__ = ["dynamic_of", "follow", "follow_compilations", "leave", "records_cuda_graphs", "tell_of_ignored", "tell_of_others", "warn_once"]
