"""Eager, a rounding off: with other parameters, or with each operation rounded otherwise.

Parameters that are a rounding off move what two results have in common. Where a model compares two results that lie one
rounding apart, only operations that round otherwise tell: any right kernel may. Invariant: no result is moved by more
than one step of single precision, and what only copies, compares or picks is left as it is.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from zoo.zoo_model import Built

# Those that compute with more than one rounding, so that two right kernels may differ in the last bit.
_COMPUTES = frozenset(
    (
        "mm addmm bmm baddbmm addmv mv dot convolution native_batch_norm cudnn_batch_norm _native_batch_norm_legit "
        "_native_batch_norm_legit_no_training native_layer_norm native_group_norm _softmax _log_softmax logsumexp exp "
        "log log1p sigmoid tanh gelu silu softplus erf pow sqrt rsqrt sin cos sum mean var var_mean linalg_vector_norm "
        "cumsum div addcmul addcdiv lerp _scaled_dot_product_flash_attention_for_cpu native_layer_norm_backward "
        "convolution_backward native_batch_norm_backward _softmax_backward_data _log_softmax_backward_data "
        "sigmoid_backward tanh_backward gelu_backward silu_backward"
    ).split()
)


def with_other_parameters(built: Built, number: int = 0) -> Built:
    model = copy.deepcopy(built.model)
    random = torch.Generator().manual_seed(number)
    with torch.no_grad():
        for p in model.parameters():
            if p.dtype == torch.float32:
                p.mul_(1 + 2e-7 * torch.randn(p.shape, generator=random).to(p.device))
    return dataclasses.replace(built, model=model)


class RoundedOtherwise(TorchDispatchMode):
    """A third of each operation's results are a step of single precision higher or lower: those that a hash picks.

    Equal results stay equal, and each call of a model is rounded alike, as it is by a kernel.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if function.overloadpacket.__name__ not in _COMPUTES or function._schema.is_mutable:
            return result
        with _disable_current_modes(), torch.no_grad():
            return torch.utils._pytree.tree_map_only(torch.Tensor, self._moved, result)

    def _moved(self, value: torch.Tensor) -> torch.Tensor:
        if value.dtype != torch.float32 or value.layout != torch.strided or not value.numel():
            return value
        bits = value.contiguous().view(torch.int32).long() * 2654435761 + self._number * 40503
        pick = ((bits ^ (bits >> 15)) >> 7) % 6
        limit = torch.where(pick == 0, torch.inf, -torch.inf)
        moves = (pick < 2) & (value != 0) & torch.isfinite(value)
        return value.copy_(torch.where(moves, torch.nextafter(value, limit), value))
