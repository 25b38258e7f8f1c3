"""The forms of torch's operators: function, method, operator, in-place, out=, with backward passes, and calls that must fail.

Invariant: which forms an operator has is what its OpInfo says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from samples.observation import copied
from samples.trial import Call, Form, seed
from zoo import device

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.complex64)


def entries() -> list[Any]:
    from torch.testing._internal import common_methods_invocations as samples

    samples.wrapper_set_seed = _without_seed
    return list(samples.op_db)


def _without_seed(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Stands for the wrapper of op_db that seeds before each random operator: a trial does that outside of what is compiled."""
    return function(*args, **kwargs)


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def has(op: Any, dtype: torch.dtype) -> bool:
    return dtype in op.supported_dtypes(device.name)


def forms(op: Any, dtype: torch.dtype) -> Iterator[Form]:
    differentiable = dtype.is_floating_point or dtype.is_complex
    trained = differentiable and op.supports_autograd and dtype in op.supported_backward_dtypes(device.name)
    yield _form(op, dtype, "function", op.get_op())
    if trained:
        yield _form(op, dtype, "function backward", op.get_op(), train=True)
    for name, function in (("method", op.get_method()), ("operator", op.get_operator())):
        if function is not None:
            yield _form(op, dtype, name, function)
    for name, function in (("in-place", op.get_inplace()), ("in-place operator", op.get_inplace_operator())):
        if function is not None:
            yield _form(op, dtype, name, function)
    if op.get_inplace() is not None and trained and op.supports_inplace_autograd:
        yield _form(op, dtype, "in-place backward", _on_a_copy(op.get_inplace()), train=True)
    if op.supports_out:
        yield Form("out=", lambda: _with_out(op, dtype))
    if op.error_inputs_func is not None and dtype == next((d for d in DTYPES if has(op, d)), None):
        yield Form("errors", lambda: _errors(op))


def _samples(op: Any, dtype: torch.dtype, train: bool = False) -> Iterator[Any]:
    seed()
    return iter(op.sample_inputs(device.name, dtype, requires_grad=train, set_seed=False))


def _form(op: Any, dtype: torch.dtype, name: str, function: Callable[..., Any], train: bool = False) -> Form:
    def trials() -> Iterator[Call]:
        for sample in _samples(op, dtype, train):
            yield _call(function, sample, sample.output_process_fn_grad if train else None)

    return Form(name, trials)


def _call(function: Callable[..., Any], sample: Any, process: Callable[[Any], Any] | None = None) -> Call:
    def called(*args, **kwargs):
        return function(*args, **kwargs)

    return Call(called, (sample.input, *sample.args), dict(sample.kwargs), process)


def _on_a_copy(function: Callable[..., Any]) -> Callable[..., Any]:
    """A leaf that requires grad cannot be written to."""

    def called(first, *args, **kwargs):
        return function(first.clone(), *args, **kwargs)

    return called


def _with_out(op: Any, dtype: torch.dtype) -> Iterator[Call]:
    for sample in _samples(op, dtype):
        call = _call(op.get_op(), sample)
        args, kwargs = copied((call.args, call.kwargs))
        seed()
        try:
            with torch.no_grad():
                result = op.get_op()(*args, **kwargs)
        except Exception:
            continue
        if all(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(result)):
            leaves = [torch.ones_like(t, memory_format=torch.preserve_format) for t in pytree.tree_leaves(result)]
            call.kwargs["out"] = leaves[0] if isinstance(result, torch.Tensor) else tuple(leaves)
            yield call


def _errors(op: Any) -> Iterator[Call]:
    seed()
    for error in op.error_inputs(device.name):
        yield _call(op.get_op(), error.sample_input)
