"""Torch's settings that a function reads, changed between calls: each is a fact of its own."""

import torch

from conformance.program import Case, program
from conformance.sample import vector


def changed(f, *changes):
    return Case(f, vector(), then=[*changes, lambda: None])


@program
def tf32_of_matrix_products():
    def f(x):
        return x * (2 if torch.backends.cuda.matmul.allow_tf32 else 3)

    def allow(on):
        torch.backends.cuda.matmul.allow_tf32 = on

    return changed(f, lambda: allow(True), lambda: allow(False))


@program
def sums_in_half_precision():
    def f(x):
        return x * (2 if torch.backends.cuda.matmul.allow_fp16_accumulation else 3)

    def allow(on):
        torch.backends.cuda.matmul.allow_fp16_accumulation = on

    return changed(f, lambda: allow(True), lambda: allow(False))


@program
def determinism_that_only_warns():
    def f(x):
        warns = torch.is_deterministic_algorithms_warn_only_enabled()
        return x * (2 if warns else 3), torch.get_deterministic_debug_mode()

    def use(mode):
        torch.use_deterministic_algorithms(mode != 0, warn_only=mode == 1)

    return changed(f, lambda: use(1), lambda: use(2), lambda: use(0))


@program
def determinism_of_mkldnn():
    def f(x):
        return x * (2 if torch._C._get_mkldnn_deterministic() else 3)

    return changed(
        f, lambda: torch._C._set_mkldnn_deterministic(True), lambda: torch._C._set_mkldnn_deterministic(False)
    )


@program
def what_there_is():
    def f(x):
        there = torch.backends.mps.is_available(), torch.backends.mkldnn.is_available(), torch.is_anomaly_enabled()
        return x * sum(there), there, torch.backends.opt_einsum.is_available()

    return changed(f)


@program
def no_stream_where_there_is_no_device():
    def f(x):
        stream = torch.cuda.Stream() if torch.cuda.is_available() else None
        with torch.cuda.stream(stream):
            y = x + 1
        return y * 2, torch.mtia.is_available(), torch.accelerator.is_available() == (stream is not None)

    return changed(f)


@program
def what_few_programs_read():
    def f(x):
        precise = torch.get_float32_matmul_precision() == "highest"
        return x * (2 if precise else 3), torch.backends.cudnn.allow_tf32, torch._C._get_nnpack_enabled()

    def tf32(on):
        torch.backends.cudnn.allow_tf32 = on

    return changed(
        f,
        lambda: torch.set_float32_matmul_precision("high"),
        lambda: torch.set_float32_matmul_precision("medium"),
        lambda: torch.set_float32_matmul_precision("highest"),
        lambda: tf32(False),
        lambda: tf32(True),
        lambda: torch._C._set_nnpack_enabled(False) and None,
        lambda: torch._C._set_nnpack_enabled(True) and None,
    )


@program
def how_many_threads_there_are():
    def f(x):
        return x * torch.get_num_threads()

    return changed(f, lambda: None)


@program
def sums_of_half_precision_in_products():
    matmul = torch.backends.cuda.matmul

    def f(x):
        return x * (2 if matmul.allow_fp16_reduced_precision_reduction else 3), matmul.fp32_precision

    def allow(on):
        matmul.allow_fp16_reduced_precision_reduction = on

    return changed(f, lambda: allow(False), lambda: allow(True))
