"""Global state that a program can change: torch's modes and Python's, and the random states.

Each is read by itself, so that a difference names what differs, and written back after a run. Invariant: `protected`
leaves everything here as it was, whatever ran inside.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils import deterministic
from torch.utils.hooks import RemovableHandle


class Mode(NamedTuple):
    """How a mode is read, and how it is written; None if it ends with the call that has it."""

    read: Callable[[], Any]
    write: Callable[[Any], Any] | None = None


def _set_determinism(mode: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(mode[0], warn_only=mode[1])


def _flushes_denormals() -> bool:
    return torch.full((1,), 1e-38, dtype=torch.float32, device="cpu").mul(1e-3).item() == 0


MODES = {
    "grad": Mode(torch.is_grad_enabled, torch._C._set_grad_enabled),
    "inference": Mode(torch.is_inference_mode_enabled),
    "autocast": Mode(lambda: torch.is_autocast_enabled("cpu"), lambda on: torch.set_autocast_enabled("cpu", on)),
    "autocast_dtype": Mode(
        lambda: torch.get_autocast_dtype("cpu"), lambda dtype: torch.set_autocast_dtype("cpu", dtype)
    ),
    "autocast_cache": Mode(torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    "default_dtype": Mode(torch.get_default_dtype, torch.set_default_dtype),
    "determinism": Mode(
        lambda: (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        _set_determinism,
    ),
    "filling": Mode(
        lambda: deterministic.fill_uninitialized_memory,
        lambda fills: setattr(deterministic, "fill_uninitialized_memory", fills),
    ),
    "threads": Mode(torch.get_num_threads, torch.set_num_threads),
    "forward_grad": Mode(torch._C._is_fwd_grad_enabled, torch._C._set_fwd_grad_enabled),
    "view_replay": Mode(torch._C._is_view_replay_enabled, torch._C._set_view_replay_enabled),
    "autocast_cuda": Mode(lambda: torch.is_autocast_enabled("cuda"), lambda on: torch.set_autocast_enabled("cuda", on)),
    "autocast_cuda_dtype": Mode(
        lambda: torch.get_autocast_dtype("cuda"), lambda dtype: torch.set_autocast_dtype("cuda", dtype)
    ),
    "cudnn": Mode(torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled),
    "cudnn_benchmark": Mode(torch._C._get_cudnn_benchmark, torch._C._set_cudnn_benchmark),
    "cudnn_determinism": Mode(torch._C._get_cudnn_deterministic, torch._C._set_cudnn_deterministic),
    "cudnn_tf32": Mode(torch._C._get_cudnn_allow_tf32, torch._C._set_cudnn_allow_tf32),
    "nnpack": Mode(torch._C._get_nnpack_enabled, torch._C._set_nnpack_enabled),
    "mkldnn": Mode(torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled),
    "flash_attention": Mode(torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
    "lean_attention": Mode(torch.backends.cuda.mem_efficient_sdp_enabled, torch.backends.cuda.enable_mem_efficient_sdp),
    "math_attention": Mode(torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
    "cudnn_attention": Mode(torch.backends.cuda.cudnn_sdp_enabled, torch.backends.cuda.enable_cudnn_sdp),
    "fa3_attention": Mode(torch._C._get_fa3_sdp_enabled, torch._C._set_sdp_use_fa3),
    "overrideable_attention": Mode(torch._C._get_overrideable_sdp_enabled, torch._C._set_sdp_use_overrideable),
    "attention_order": Mode(torch._C._get_sdp_priority_order, torch._C._set_sdp_priority_order),
    "attention_sums": Mode(
        torch._C._get_math_sdp_allow_fp16_bf16_reduction, torch._C._set_math_sdp_allow_fp16_bf16_reduction
    ),
    "matmul_precision": Mode(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "fp16_accumulation": Mode(
        torch._C._get_cublas_allow_fp16_accumulation, torch._C._set_cublas_allow_fp16_accumulation
    ),
    "mkldnn_determinism": Mode(torch._C._get_mkldnn_deterministic, torch._C._set_mkldnn_deterministic),
    "denormals": Mode(_flushes_denormals, torch.set_flush_denormal),
    "anomalies": Mode(torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    "backward_threads": Mode(torch.autograd.is_multithreading_enabled, torch._C._set_multithreading_enabled),
    # A default device is a mode of this stack, too.
    "function_modes": Mode(torch._C._len_torch_function_stack, lambda count: torch.set_default_device(None)),
    "dispatch_modes": Mode(torch._C._len_torch_dispatch_stack),
    "saved_tensors_hooks": Mode(lambda: torch._C._autograd._top_saved_tensors_default_hooks(True) is None),
    "numpy_errors": Mode(np.geterr, lambda kinds: np.seterr(**kinds)),
    "trace": Mode(lambda: sys.gettrace() is None),
    "profile": Mode(lambda: sys.getprofile() is None),
    "recursion": Mode(sys.getrecursionlimit, sys.setrecursionlimit),
    "handled": Mode(lambda: sys.exc_info()[0]),
}


def modes() -> dict[str, Any]:
    return {name: mode.read() for name, mode in MODES.items()}


def _numpy_state() -> bytes:
    state = np.random.get_state(legacy=False)
    number = (state["state"]["pos"], state["has_gauss"], state["gauss"])
    return state["state"]["key"].tobytes() + repr(number).encode()


RANDOM_STATES: dict[str, Callable[[], bytes]] = {
    "torch": lambda: torch.get_rng_state().numpy().tobytes(),
    "python": lambda: repr(random.getstate()).encode(),
    "numpy": _numpy_state,
}


def random_states() -> dict[str, str]:
    """A digest of each."""
    return {name: hashlib.sha1(read()).hexdigest() for name, read in RANDOM_STATES.items()}


@contextlib.contextmanager
def protected() -> Iterator[None]:
    """A block in which random states start with 1, and after which global state is what it was.

    What torch says once a process it says each time there: else the first of two runs would hear it and the other not.
    """
    before = modes()
    warned_always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    path, environment = list(sys.path), dict(os.environ)
    hook_number, RemovableHandle.next_id = RemovableHandle.next_id, 0
    torch.default_generator.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    try:
        with warnings.catch_warnings():
            yield
    finally:
        RemovableHandle.next_id = hook_number
        torch.set_warn_always(warned_always)
        torch.clear_autocast_cache()
        for name, now in modes().items():
            write = MODES[name].write
            if write is not None and now != before[name]:
                write(before[name])
        sys.path[:] = path
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)
