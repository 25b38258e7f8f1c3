"""Checks of the judge for torch's and Python's modes: a run that leaves one as it was not differs from one that does not."""

import ctypes
import sys
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.checks import check
from conformance.checks_of_runs import doing
from conformance.program import Case


class DispatchMode(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def enter(make):
    """Enters a manager for good; `leave` leaves it."""

    def start():
        _entered.append(make())
        _entered[-1].__enter__()

    return start


def leave():
    _entered.pop().__exit__(None, None, None)


_entered: list[Any] = []


def set_handled(error):
    ctypes.pythonapi.PyErr_SetHandledException(ctypes.py_object(error))


# How each mode is left as it was not, and what ends that where the harness does not put it back.
LEFT = {
    "grad": (lambda: torch._C._set_grad_enabled(False), None),
    "autocast": (lambda: torch.set_autocast_enabled("cpu", True), None),
    "autocast_dtype": (lambda: torch.set_autocast_dtype("cpu", torch.float16), None),
    "autocast_cache": (lambda: torch.set_autocast_cache_enabled(False), None),
    "default_dtype": (lambda: torch.set_default_dtype(torch.float64), None),
    "determinism": (lambda: torch.use_deterministic_algorithms(True, warn_only=True), None),
    "filling": (lambda: setattr(torch.utils.deterministic, "fill_uninitialized_memory", False), None),
    "threads": (lambda: torch.set_num_threads(torch.get_num_threads() + 1), None),
    "forward_grad": (lambda: torch._C._set_fwd_grad_enabled(False), None),
    "view_replay": (lambda: torch._C._set_view_replay_enabled(True), None),
    "autocast_cuda": (lambda: torch.set_autocast_enabled("cuda", True), None),
    "autocast_cuda_dtype": (lambda: torch.set_autocast_dtype("cuda", torch.bfloat16), None),
    "cudnn": (lambda: torch._C._set_cudnn_enabled(False), None),
    "cudnn_benchmark": (lambda: torch._C._set_cudnn_benchmark(True), None),
    "cudnn_determinism": (lambda: torch._C._set_cudnn_deterministic(True), None),
    "cudnn_tf32": (lambda: torch._C._set_cudnn_allow_tf32(not torch._C._get_cudnn_allow_tf32()), None),
    "nnpack": (lambda: torch._C._set_nnpack_enabled(not torch._C._get_nnpack_enabled()), None),
    "mkldnn": (lambda: torch._C._set_mkldnn_enabled(False), None),
    "flash_attention": (lambda: torch.backends.cuda.enable_flash_sdp(False), None),
    "lean_attention": (lambda: torch.backends.cuda.enable_mem_efficient_sdp(False), None),
    "math_attention": (lambda: torch.backends.cuda.enable_math_sdp(False), None),
    "cudnn_attention": (lambda: torch.backends.cuda.enable_cudnn_sdp(False), None),
    "fa3_attention": (lambda: torch._C._set_sdp_use_fa3(True), None),
    "overrideable_attention": (lambda: torch._C._set_sdp_use_overrideable(False), None),
    "attention_order": (lambda: torch._C._set_sdp_priority_order([0, 1, 2, 3, 4]), None),
    "attention_sums": (lambda: torch._C._set_math_sdp_allow_fp16_bf16_reduction(True), None),
    "matmul_precision": (lambda: torch.set_float32_matmul_precision("medium"), None),
    "fp16_accumulation": (lambda: torch._C._set_cublas_allow_fp16_accumulation(True), None),
    "mkldnn_determinism": (lambda: torch._C._set_mkldnn_deterministic(True), None),
    "denormals": (lambda: torch.set_flush_denormal(True), None),
    "anomalies": (lambda: torch.autograd.set_detect_anomaly(True), None),
    "backward_threads": (lambda: torch._C._set_multithreading_enabled(False), None),
    "function_modes": (lambda: torch.set_default_device("cpu"), None),
    "numpy_errors": (lambda: np.seterr(all="raise"), None),
    "recursion": (lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 1), None),
    "inference": (enter(torch.inference_mode), leave),
    "dispatch_modes": (enter(DispatchMode), leave),
    "saved_tensors_hooks": (enter(lambda: torch.autograd.graph.saved_tensors_hooks(abs, abs)), leave),
    "trace": (lambda: sys.settrace(lambda *a: None), lambda: sys.settrace(None)),
    "profile": (lambda: sys.setprofile(lambda *a: None), lambda: sys.setprofile(None)),
    "handled": (lambda: set_handled(ValueError("left")), lambda: set_handled(None)),
}


def left(name):
    start, end = LEFT[name]

    def build(differs):
        def f():
            if differs:
                start()

        def look():  # read after the call's modes are
            if differs and end is not None:
                end()

        return Case(f, look=look, forward_only=True)

    build.__name__ = f"mode: {name}"
    check(build)


for _name in LEFT:
    left(_name)


@check
def mode_inference_alone(differs):
    """Inference mode turns gradients and threads of the backward off, too: here they are off in both forms."""

    def f():
        for name in ("grad", "forward_grad", "backward_threads", *["inference"] * differs):
            LEFT[name][0]()

    return Case(f, look=lambda: leave() if differs else None, forward_only=True)


doing(
    "mode: determinism that warns",
    lambda: torch.use_deterministic_algorithms(True),
    lambda: torch.use_deterministic_algorithms(True, warn_only=True),
)
