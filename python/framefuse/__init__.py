"""framefuse: torch.compile done again in C++.

    import framefuse

    @framefuse.compile
    def f(x, y):
        return torch.sin(x) + torch.cos(y)

A decorated function or module is captured from its bytecode into tensor graphs when it is first called; later calls run
the compiled graphs. What cannot be captured ends a graph at that place, runs in Python, and capture goes on after it.
`explain(f)(*args)` says where that happened and why; `set_logs(graph_breaks=True)` says it while it happens.
"""

import atexit

import torch  # noqa: F401  (loads the libraries that _C is linked against)

from framefuse import _torch_version  # noqa: F401, I001  (before _C, which does not load beside another torch)
from framefuse import _C
from framefuse._backends import list_backends, register_backend
from framefuse._cache import CacheFile, load_cache, save_cache
from framefuse._compile import compile
from framefuse._config import config
from framefuse._control import (
    allow_in_graph,
    cond,
    disable,
    error_on_graph_break,
    graph_break,
    is_compiling,
    mark_dynamic,
    reset,
    set_stance,
    statistics,
)
from framefuse._drop_in import as_torch_compile
from framefuse._errors import BackendError, InternalError, Unsupported
from framefuse._explain import BreakReason, EagerFallback, ExplainOutput, explain
from framefuse._export import Exported, export
from framefuse._logs import capture_logs, list_logs, set_logs
from framefuse._module import CompiledModule
from framefuse._package import LoadedPackage, load
from framefuse._torch_backend import torch_backend

__version__ = "0.1.0"

__all__ = [
    "BackendError",
    "BreakReason",
    "CacheFile",
    "CompiledModule",
    "EagerFallback",
    "ExplainOutput",
    "Exported",
    "InternalError",
    "LoadedPackage",
    "Unsupported",
    "allow_in_graph",
    "as_torch_compile",
    "capture_logs",
    "compile",
    "cond",
    "config",
    "disable",
    "error_on_graph_break",
    "explain",
    "export",
    "graph_break",
    "is_compiling",
    "list_backends",
    "list_logs",
    "load",
    "load_cache",
    "mark_dynamic",
    "register_backend",
    "reset",
    "save_cache",
    "set_logs",
    "set_stance",
    "statistics",
    "torch_backend",
]


def _start():
    from framefuse import _accuracy, _compat, _config, _copies, _cuda_graphs, _drop_in, _logs, _suspended, _trace

    _C.initialize(Unsupported, BackendError, InternalError)
    _C.set_copying(_copies.deep_copy, _copies.reduce)
    _suspended.install()
    atexit.register(_C.stop_background)
    _C.set_graph_recorder(_cuda_graphs.begin, _cuda_graphs.carries)
    _C.set_recording_probe(_cuda_graphs.is_recorded)
    _config.read_environment()
    _logs.install()
    _logs.read_environment()
    _trace.install(__version__)
    _compat.install()
    _accuracy.read_environment()
    _drop_in.read_environment()


_start()
