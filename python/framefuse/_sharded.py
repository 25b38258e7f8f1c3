"""DTensors in captured code: how one from outside comes into a graph of local tensors, and what C++ knows of torch's own.

Imported when torch.distributed.tensor is (symbolic/capture/sharded_values.h). A graph gets an alias of the local tensor.
Invariant: the alias hands its gradient on to the DTensor as a DTensor of the placements that eager's gradient has.
"""

import copy

import torch
import torch.fx.passes.shape_prop  # a DTensorSpec imports it late
from torch.distributed import _functional_collectives as collectives
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._sharding_prop import ShardingPropagator

# Values: nothing of them changes, and C++ compares them.
PLACEMENTS = (Shard, Replicate, Partial)
MESH = DeviceMesh
# They run as they are, on fakes.
FUNCTIONS = (DTensor.from_local, DTensor.to_local, DTensor.redistribute, DTensor.full_tensor)
# It runs outside of the capture: it asks fakes of torch's own for what follows from the sizes of tensors.
OUTSIDE = ShardingPropagator.propagate_op_sharding_non_cached
# What a collective gives is waited for at once; the graph waits later.
WRAPS = collectives._maybe_wrap_tensor
WAITS = torch.ops._c10d_functional.wait_tensor.default


class _Enter(torch.autograd.Function):
    """When an entry runs: from the DTensor to its local tensor."""

    @staticmethod
    def forward(ctx, tensor, entrance):
        ctx.entrance = entrance
        ctx.set_materialize_grads(False)
        local = tensor._local_tensor
        return local.view_as(local)

    @staticmethod
    def backward(ctx, gradient):
        spec = ctx.entrance.spec
        if gradient is None:
            return None, None
        if spec is None:
            raise AssertionError("a gradient for a DTensor that got none when the graph was captured")
        if torch.is_grad_enabled():
            whole = DTensor.from_local(
                gradient, spec.mesh, spec.placements, run_check=False, shape=spec.shape, stride=spec.stride
            )
        else:
            whole = DTensor(gradient, spec, requires_grad=False)
        return whole, None


class _Inside(torch.autograd.Function):
    """In an attempt: from the fake of the local tensor to a DTensor."""

    @staticmethod
    def forward(ctx, local, spec, entrance):
        ctx.entrance = entrance
        ctx.set_materialize_grads(False)
        return DTensor(local.view_as(local), spec, requires_grad=local.requires_grad)

    @staticmethod
    def backward(ctx, gradient):
        if gradient is None:
            return None, None, None
        ctx.entrance.note(gradient._spec)
        return gradient._local_tensor, None, None


class Entrance:
    """Where one DTensor comes into a graph. `spec` is that of its gradient."""

    __slots__ = ("spec",)

    def __init__(self):
        self.spec = None

    def __call__(self, tensor):
        local = tensor._local_tensor
        if not tensor.requires_grad:
            with torch.no_grad():
                return local.view_as(local)
        with torch.enable_grad():
            return _Enter.apply(tensor, self)

    def inside(self, local, tensor):
        with torch.enable_grad():
            made = _Inside.apply(local, copy.copy(tensor._spec), self)
        if hasattr(tensor, "_is_param"):
            made._is_param = tensor._is_param
        return made

    def note(self, spec):
        if self.spec is not None and self.spec != spec:
            raise RuntimeError("passes that bring gradients of different placements to a DTensor")
        self.spec = spec
