"""as_torch_compile: code that calls `torch.compile` runs through framefuse's own capture.

While it is on, `torch.compile` (so `@torch.compile`, `torch.compiler.compile` and `module.compile()`, too) and, once it is imported,
`torch._dynamo.optimize` are framefuse's, with torch's arguments. A `torch.compile` that somebody imported by name before ends in
`torch._dynamo.optimize`, and so with us. What torch's own code compiles for itself stays torch's. Knobs: _torch_knobs.py.
"""

import contextlib
import functools
import os
import sys
from typing import Any

import torch

from framefuse import _C, _compat, _compile, _torch_knobs
from framefuse._backends import BUILT_IN
from framefuse._torch_knobs import warn_once

_ENVIRONMENT = "FRAMEFUSE_AS_TORCH_COMPILE"
# Modules of torch that compile what their caller gives them.
_PASS_ON = ("torch", "torch.compiler", "torch.nn.modules.module")
_undo: "list[Any]" = []
_depth = 0


class as_torch_compile:
    """Let `torch.compile` mean `framefuse.compile`, from this call on or, as a context manager, for a block.

    `with framefuse.as_torch_compile(): …`; the environment variable FRAMEFUSE_AS_TORCH_COMPILE=1 says it for a whole
    program, which need not import framefuse. Backend "inductor" and none at all mean framefuse's own; other names of torch's registry and callables get the FX
    graphs of framefuse's capture. `torch._dynamo.config` is followed (docs/migration.md says which settings); what has no
    meaning here is warned about once, by name. What was compiled stays framefuse's after the block. It holds for all threads.
    Blocks nest. `torch.compile` then raises what `framefuse.compile` does.
    """

    def __init__(self):
        global _depth
        _depth += 1
        self._open = True
        if _depth == 1:
            _switch_on()

    def __enter__(self) -> "as_torch_compile":
        return self

    def __exit__(self, *exc_info: object) -> None:
        global _depth
        if self._open:
            self._open = False
            _depth -= 1
            if _depth == 0:
                _switch_off()


def read_environment():
    value = os.environ.get(_ENVIRONMENT, "0")
    if value not in ("0", "1", ""):
        raise ValueError(f"{_ENVIRONMENT} is 0 or 1, not {value!r}")
    if value == "1":
        as_torch_compile()


def _switch_on():
    theirs = torch.compile
    ours = _replacement(theirs)
    torch.compile = ours
    _undo.append(lambda: setattr(torch, "compile", theirs))
    _torch_knobs.follow(_compat.when_dynamo_is_there)
    _undo.append(_torch_knobs.leave)
    _compat.when_dynamo_is_there(_take_optimize)
    _follow_logs()


def _follow_logs():
    # torch says what is wrong with a name; of the right ones some mean nothing here.
    for name in os.environ.get("TORCH_LOGS", "").split(","):
        with contextlib.suppress(AttributeError):
            _C.enable_logs_from_text(name)


def _switch_off():
    while _undo:
        _undo.pop()()


def _replacement(theirs):
    @functools.wraps(theirs)
    def compile(model=None, **settings):
        if _is_torchs_own(sys._getframe(1)):
            return theirs(model, **settings)
        return compile_as_torch(model, **settings)

    # In captured code it is what it is given: captured it is already.
    _C.register_substitute(compile, _in_captured_code)
    return compile


def _in_captured_code(model=None, **settings):
    return _same if model is None else model


def _same(model):
    return model


def _is_torchs_own(frame):
    name = frame.f_globals.get("__name__", "")
    if name in _PASS_ON:  # who called that?
        frame = frame.f_back
        name = frame.f_globals.get("__name__", "") if frame is not None else ""
    return name.startswith("torch.") and name not in _PASS_ON


def _take_optimize(dynamo):
    if _depth == 0:  # it was switched off before anybody imported torch._dynamo
        return
    theirs = dynamo.optimize

    @functools.wraps(theirs)
    def optimize(backend="inductor", *, nopython=False, **settings):
        if _is_torchs_own(sys._getframe(1)):
            return theirs(backend, nopython=nopython, **settings)
        return compile_as_torch(None, backend=backend, fullgraph=nopython, **settings)

    dynamo.optimize = optimize
    _undo.append(lambda: setattr(dynamo, "optimize", theirs))
    explain = dynamo.explain
    dynamo.explain = functools.wraps(explain)(_compat.explain_ours)
    _undo.append(lambda: setattr(dynamo, "explain", explain))


def compile_as_torch(
    model=None,
    *,
    fullgraph=False,
    dynamic=None,
    backend=None,
    mode=None,
    options=None,
    name=None,
    disable=False,
    recompile_limit=None,
    **others,
):
    """What `torch.compile(model, …)` means here; `torch._dynamo.optimize`'s further arguments are taken, too.

    Raises what `framefuse.compile` raises for wrong arguments, and `RuntimeError` for a mode with options and for options that
    torch does not know, as torch does.
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    for argument, value in others.items():
        if value not in (None, False):
            warn_once(f"torch.compile({argument}=…)", _WITHOUT_MEANING.get(argument, "framefuse has nothing like it"))
    _torch_knobs.tell_of_others()
    backend, mode, options = _backend(backend, mode, options)
    compiled = _compile.compile(
        fullgraph=fullgraph,
        dynamic=_torch_knobs.dynamic_of(dynamic),
        backend=backend,
        mode=mode,
        options=options,
        name=name,
        disable=disable or os.environ.get("TORCHDYNAMO_DISABLE") == "1",
        recompile_limit=recompile_limit,
    )
    return _of_anything(compiled) if model is None else _of_anything(compiled)(model)


def _of_anything(compiled):
    """torch.compile takes classes, too, whose instances are compiled then, and what it has compiled already."""

    def decorate(model):
        if isinstance(model, type):
            name = "_call_impl" if issubclass(model, torch.nn.Module) else "__call__"
            setattr(model, name, compiled(getattr(model, name)))
            return model
        theirs = getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", None)
        if theirs is not None and isinstance(model, theirs):
            model = model._orig_mod
        return compiled(getattr(model, "_torchdynamo_orig_callable", model))

    return decorate


_WITHOUT_MEANING = {
    "isolate_recompiles": "limits of framefuse count for each compiled object already",
    "shapes_spec": "sizes that change become symbolic by themselves; framefuse.mark_dynamic says it beforehand",
    "guard_filter_fn": "framefuse checks all of its guards",
    "error_on_graph_break": "use framefuse.error_on_graph_break(True) around the calls, or fullgraph=True",
}


# ---------------------------------------------------------------- backends


def _backend(backend, mode, options):
    """(backend, mode, options) of framefuse.compile."""
    if backend is None:
        backend = _default_backend()
    if type(backend).__name__ == "_TorchCompileWrapper" and hasattr(backend, "compiler_fn"):
        # A torch.compile that was imported by name has wrapped it.
        keywords = getattr(backend, "kwargs", {})
        return _backend(backend.compiler_fn, keywords.get("mode"), keywords.get("options"))
    if type(backend).__name__.startswith("_TorchCompile") and hasattr(backend, "config"):
        return "fuse", *_inductor_settings(None, backend.config)
    if backend == "inductor" or backend is _loaded("torch._inductor.compile_fx", "compile_fx"):
        if mode is None and not options and _torch_knobs.records_cuda_graphs():
            mode = "reduce-overhead"
        return "fuse", *_inductor_settings(mode, options)
    if backend in ("framefuse", *BUILT_IN) or backend is _loaded("framefuse._torch_backend", "torch_backend"):
        settings = dict(options or {})
        own = settings.pop("backend", backend if backend in BUILT_IN else "fuse")
        return own, settings.pop("mode", mode), settings or None
    if options and "guard_filter_fn" in options:
        options = {key: value for key, value in options.items() if key != "guard_filter_fn"}
        warn_once("torch.compile(options={'guard_filter_fn': …})", _WITHOUT_MEANING["guard_filter_fn"])
    return backend, mode, options or None


def _default_backend():
    registry = sys.modules.get("torch._dynamo.backends.registry")
    default = getattr(registry, "get_default_backend", None)  # torch 2.11 has none
    return default() if default is not None else "inductor"


def _loaded(module, name):
    return getattr(sys.modules.get(module), name, object())


def _inductor_settings(mode, options):
    """(mode, None): what Inductor's options mean for framefuse's own backend, which takes none."""
    for key, value in (options or {}).items():
        name = key.replace("-", "_")
        if name == "triton.cudagraphs":
            mode = "reduce-overhead" if value else mode
        elif name == "guard_filter_fn":
            warn_once("torch.compile(options={'guard_filter_fn': …})", _WITHOUT_MEANING[name])
        else:
            _check_inductor_option(key, name)
            warn_once(f"torch.compile(options={{{key!r}: …}})", "it is Inductor's, and framefuse's backend has nothing like it")
    return mode, None


def _check_inductor_option(key, name):
    import torch._inductor.config as inductor

    known = inductor.get_config_copy()
    if name not in known and name != "use_aoti":
        raise RuntimeError(f"Unexpected optimization option {key}, known options are {list(known)}")
