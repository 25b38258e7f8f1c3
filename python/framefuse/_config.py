"""framefuse.config: the tunables of common/config.def as attributes."""

import contextlib
import difflib
import os
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from framefuse import _C


def _with_suggestion(message, name, names):
    close = difflib.get_close_matches(name, names, n=1)
    return f"{message} (did you mean '{close[0]}'?)" if close else message


class Config:
    """Process-wide settings: read and written as attributes, listed by `dir(config)` and `print(config)`.

    `with config.patch(recompile_limit=2): …` sets values for a block and restores them after it. The environment
    variable FRAMEFUSE_CONFIG="recompile_limit=2,verbose=1" sets values when framefuse is imported.

    Raises `AttributeError` for a name that there is not, `TypeError` for a value of another type, and `ValueError` for one that
    is out of range.
    """

    # For type checkers; common/config.def is what there is.
    recompile_limit: int
    accumulated_recompile_limit: int
    fail_on_recompile_limit_hit: bool
    raise_on_bug: bool
    capture_on: bool
    compile_under_trace: bool
    tell_libraries: bool
    guard_values: bool
    suppress_errors: bool
    error_on_recompile: bool
    specialize_int: bool
    background: bool
    verbose: bool
    break_at: int
    check_fakes_dead: bool
    verify_metadata: bool
    verify_fx: bool
    cache: bool
    cache_dir: str
    cache_megabytes: int
    trace_dir: str
    cuda_ptx: bool
    rewrite_for_device: bool
    rewrite_always: bool

    if not TYPE_CHECKING:  # which else would take any name
        __slots__ = ()

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return _C.get_config(name)

        def __setattr__(self, name, value):
            settings = {setting: initial for setting, _, initial in _C.config_settings()}
            if name not in settings:
                message = f"unknown setting '{name}'; the settings are: {', '.join(settings)}"
                raise AttributeError(_with_suggestion(message, name, settings))
            # Exact types: 1 is no bool, and True is no number of recompilations.
            if type(value) is not type(settings[name]):
                raise TypeError(
                    f"setting '{name}' takes {type(settings[name]).__name__}, not {type(value).__name__} ({value!r})"
                )
            _C.set_config(name, value)
            if name == "trace_dir":
                _C.follow_trace_folder()

    def __dir__(self):
        return [name for name, _, _ in _C.config_settings()] + ["patch"]

    @contextlib.contextmanager
    def patch(self, **values: Any) -> "Iterator[Config]":
        """Set several settings for a `with` block."""
        before = {name: getattr(self, name) for name in values}
        try:
            for name, value in values.items():
                setattr(self, name, value)
            yield self
        finally:
            for name, value in before.items():
                setattr(self, name, value)

    def __repr__(self):
        lines = [f"{name} = {getattr(self, name)!r}  # {text}" for name, text, _ in _C.config_settings()]
        return "\n".join(lines)


config = Config()


# What the environment may say; others that begin so are typing errors.
_VARIABLES = ("CONFIG", "LOGS", "LOGS_FORMAT", "LOGS_DIRECT", "CACHE_DIR", "AS_TORCH_COMPILE", "CPU_VECTOR_BITS", "TRACE", "ACCURACY")


def _warn_of_unknown_variables():
    names = [f"FRAMEFUSE_{name}" for name in _VARIABLES]
    for name in os.environ:
        if name.startswith("FRAMEFUSE_") and name not in names:
            message = f"framefuse: the environment variable {name} means nothing"
            warnings.warn(_with_suggestion(message, name, names), stacklevel=2)


def read_environment():
    _warn_of_unknown_variables()
    text = os.environ.get("FRAMEFUSE_CONFIG")
    if text:
        try:
            _C.set_config_from_text(text)
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"FRAMEFUSE_CONFIG: {error}") from None
