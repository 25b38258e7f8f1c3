"""DTensors in captured code: how one from outside comes into a graph of local tensors, and what C++ knows of torch's own.

Imported when torch.distributed.tensor is (symbolic/journals/sharded_values.h). A graph gets an alias of the local tensor.
Invariant: the alias hands its gradient on to the DTensor as a DTensor of the placements that eager's gradient has.
"""

import copy
import dataclasses
import types

import torch
import torch.fx.passes.shape_prop  # a DTensorSpec imports it late
from torch.distributed import _functional_collectives as collectives
from torch.distributed import device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, _random as random
from torch.distributed.tensor._dispatch import OpDispatcher
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._ops._mask_buffer import MaskBuffer
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.distributed.tensor._utils import ExplicitRedistributionContext
from torch.distributed.tensor.parallel import loss

if not hasattr(torch.Tensor, "_dtensor__new__") or isinstance(Shard.__eq__, types.FunctionType):
    raise ImportError("DTensors of this torch work in another way")

# Values: nothing of them changes, and C++ compares them.
PLACEMENTS = (Shard, Replicate, Partial)
MESH = device_mesh.DeviceMesh
SPEC_FIELDS = tuple(f.name for f in dataclasses.fields(DTensorSpec))
# They run as they are, on fakes.
FUNCTIONS = (DTensor.from_local, DTensor.to_local, DTensor.redistribute, DTensor.full_tensor)
# It runs outside of the capture: it asks fakes of torch's own for what follows from the sizes of tensors.
OUTSIDE = ShardingPropagator.propagate_op_sharding_non_cached
# What torch's C++ calls where an operator gets DTensors.
DISPATCH = frozenset(
    getattr(function, "__func__", function).__code__
    for function in (*vars(OpDispatcher).values(), *DTensor._op_dispatcher._custom_op_handlers.values())
    if isinstance(function, types.FunctionType | staticmethod)
)
# They look at what no guard compares, and at generators.
OF_MESH = type(device_mesh._mesh_resources).get_current_mesh
OF_RANDOM = random.is_rng_supported_mesh
# They leave a mask in a placement that torch keeps, and put other functions in the place of operators.
OF_MASK = MaskBuffer.materialize_mask
OF_LOSS = loss._enable_custom_loss_ops
DISPATCHER = DTensor._op_dispatcher
_HANDLERS, _HANDLED = DISPATCHER._custom_op_handlers, dict(DISPATCHER._custom_op_handlers)
# What a collective gives is waited for at once; the graph waits later.
WRAPS = collectives._maybe_wrap_tensor
WAITS = torch.ops._c10d_functional.wait_tensor.default


def why_not():
    """What in the state of DTensors no graph follows."""
    if DISPATCHER._custom_op_handlers is not _HANDLERS or _HANDLERS != _HANDLED:
        return "a DTensor where other functions stand for its operators"
    if DISPATCHER._allow_implicit_replication:
        return "a DTensor where tensors are taken for replicated ones"
    if getattr(ExplicitRedistributionContext._local, "_active", None) is not None:
        return "a DTensor where redistributions must be explicit"
    return None


def made_of(local, spec):
    return DTensor(local, copy.copy(spec), requires_grad=False)


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
            whole = DTensor.__new__(DTensor, gradient, spec, requires_grad=False)  # __init__ does nothing, slowly
        return whole, None


class _Inside(torch.autograd.Function):
    """In an attempt: from the fake of the local tensor to a DTensor."""

    @staticmethod
    def forward(ctx, local, spec, entrance):
        ctx.entrance = entrance
        ctx.shape = local.shape
        ctx.set_materialize_grads(False)
        return DTensor(local.view_as(local), spec, requires_grad=local.requires_grad)

    @staticmethod
    def backward(ctx, gradient):
        if gradient is None:
            return None, None, None
        if gradient._local_tensor.shape != ctx.shape:
            raise RuntimeError("the gradient of a DTensor has other placements than it, and another local size")
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
        if torch.is_grad_enabled():
            return _Enter.apply(tensor, self)
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
