"""CUDA graphs of plans, for mode="reduce-overhead": how C++ (python/cuda_graph_recorder.cpp) records through torch's own graphs.

Each recording has a stream, a memory pool and cuBLAS workspaces of its own, so that recordings replayed on different streams share no
memory. Functions that C++ calls return the text of an error, None if there was none: they never raise.
"""

import atexit
import functools
import threading

import torch

_one_at_a_time = threading.Lock()
_abandoned = []  # torch's allocators may still ask the graph of a recording that failed which streams are its own


class Recording:
    """One recording, from `begin` on; the calling thread's current stream is the one that is recorded until `end` or `abandon`."""

    def __init__(self, device: int):
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._context = torch.cuda.stream(self._stream)
        self._pool = torch.cuda.graph_pool_handle()
        self._graph = None

    def begin(self) -> None:
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with _Undone(self._context):
            self._graph = torch.cuda.CUDAGraph()
            torch._C._cuda_clearCublasWorkspaces()
            self._graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")

    def end(self) -> "str | None":
        try:
            self._graph.capture_end()
        except Exception as error:
            self._drop()
            return f"the recording failed: {error}"
        self._leave()
        return None

    def abandon(self) -> "str | None":
        try:
            self._graph.capture_end()
        except Exception:
            self._drop()
            return None
        self._leave()
        return None

    def replay(self) -> "str | None":
        try:
            self._graph.replay()
        except Exception as error:
            return f"a replay failed: {error}"
        return None

    def close(self) -> "str | None":
        """The graph may still be running: its memory goes when it is done."""
        try:
            if self._graph is not None and not torch.cuda.is_current_stream_capturing():
                torch.cuda.synchronize(self._device)
            self._graph = None
        except Exception as error:
            return str(error)
        return None

    def _leave(self):
        torch._C._cuda_clearCublasWorkspaces()
        self._context.__exit__(None, None, None)
        _one_at_a_time.release()

    def _drop(self):
        """What torch leaves behind where a recording does not end well: the pool in use, and its generator in the recording."""
        _abandoned.append(self._graph)
        self._graph = None
        try:
            torch._C._cuda_endAllocateToPool(self._device, self._pool)
            graph = torch.cuda.CUDAGraph()
            graph.capture_begin(capture_error_mode="thread_local")
            torch.empty(1, device=f"cuda:{self._device}").zero_()
            graph.capture_end()
        except Exception as error:
            _warn(f"after a recording that failed: {error}")
        self._leave()


class _Undone:
    """Enters a context; leaves it where what follows fails, else keeps it."""

    def __init__(self, context):
        self._context = context

    def __enter__(self):
        self._context.__enter__()

    def __exit__(self, kind, error, traceback):
        if kind is not None:
            self._context.__exit__(kind, error, traceback)


def _warn(text):
    from framefuse import _C

    _C.write_log("bugs", f"CUDA graph: {text}")


def is_recorded() -> bool:
    """Whether the calling thread's current stream is being recorded, by whomever."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def carries(group: str, device: int) -> "str | None":
    """Why collectives of the process group of that name can't be recorded on `device`; None where they can."""
    try:
        from torch.distributed import distributed_c10d as c10d

        backend = c10d._resolve_process_group(group)._get_backend(torch.device("cuda", device)).name()
        if backend != "nccl":
            return f"collectives of the backend {backend} are not work of the device alone"
        _close_before_groups_end(c10d)
    except Exception as error:
        return f"the process group {group}: {error}"
    return None


@functools.cache
def _close_before_groups_end(c10d) -> None:
    """NCCL ends a communicator when no recording with its collectives is left, and would wait for ever."""
    from framefuse import _C

    def closing_first(end):
        @functools.wraps(end)
        def closed_then_ended(*args, **kwargs):
            _C.close_recordings_of_groups()
            return end(*args, **kwargs)

        return closed_then_ended

    for owner, name in ((c10d, "_shutdown_backend"), (c10d, "_abort_process_group"), (c10d.ProcessGroup, "shutdown"), (c10d.ProcessGroup, "abort")):
        if hasattr(owner, name):
            setattr(owner, name, closing_first(getattr(owner, name)))
    atexit.register(_C.close_recordings_of_groups)


def begin(device: int) -> "Recording | str":
    """Start to record what the calling thread does on `device`; the recording, or why there is none."""
    if not _one_at_a_time.acquire(blocking=False):
        return "another thread records"
    try:
        recording = Recording(device)
        recording.begin()
    except Exception as error:
        _one_at_a_time.release()
        return f"a recording could not begin: {error}"
    return recording
