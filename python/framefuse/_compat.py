"""What code written for torch.compile calls keeps its meaning in code that framefuse captures.

*Substitutes*: in captured code a call of torch's function is a call of ours; C++ knows the functions by identity. *Followers*:
functions that set state from outside captured code (reset, set_stance, allow_in_graph, explain) do torch's part, then ours.
torch._dynamo is slow to import (a second or more), so nothing here imports it: what lives there is registered when somebody
else imports it.

Functions that `torch.compiler.disable` made, and those that `torch.compile` made, need no entry: C++ knows the first by their
attribute `_torchdynamo_disable`, and looks through the others by `_torchdynamo_orig_callable`.
"""

import bisect
import collections
import copyreg
import functools
import importlib.abc
import importlib.machinery
import logging
import pickle
import sys
import types
import typing

import torch
import torch.utils.checkpoint

from framefuse import _C, _array_functions, _control, _explain, _interpolate, _log_calls, _module, _number_arguments, _number_calls, _sized_calls, _torch_knobs, _warning_calls


def _mark_step():
    """A recorded graph's outputs are not overwritten while somebody holds them: there is no step to mark."""


# Attribute of torch.compiler / torch._dynamo / torch → what it means in captured code.
_COMPILER_SUBSTITUTES = {
    "is_compiling": _control.is_compiling,
    "is_dynamo_compiling": _control.is_compiling,
    "disable": _control.disable,
    "allow_in_graph": _control.allow_in_graph,
    "reset": _control.reset,
    "set_stance": _control.set_stance,
    "cudagraph_mark_step_begin": _mark_step,
}


def _mark_static(tensor, index=None, guard=True):
    """Sizes are static here, and no address is taken for granted: in captured code there is nothing to mark."""


_DYNAMO_SUBSTITUTES = {
    "graph_break": _control.graph_break,
    "disable": _control.disable,
    "allow_in_graph": _control.allow_in_graph,
    "mark_dynamic": _control.mark_dynamic,
    "mark_static_address": _mark_static,
    "mark_static": _mark_static,
    "reset": _control.reset,
    "set_stance": _control.set_stance,
    "is_compiling": _control.is_compiling,
}


def install():
    """Register what torch has now, and torch._dynamo's functions as soon as somebody imports it."""
    _register(torch.compiler, _COMPILER_SUBSTITUTES)
    _register(torch, {"cond": _control.cond})
    _register(torch.utils.checkpoint, {"checkpoint": _checkpoint})
    _register(object, {"__reduce_ex__": _reduced})
    _register(typing, {"get_type_hints": _type_hints})
    _register(pickle, {"dumps": _dumped})
    _register(bisect, {"bisect_right": _bisect_right, "bisect_left": _bisect_left})
    _register(logging.Logger, {"_log": _log_calls.log})
    _register(torch.inference_mode, {"__enter__": _enter_inference_mode, "__exit__": _leave_inference_mode})
    _register(torch._utils, {"is_compiling": _control.is_compiling})
    _register(torch._C._nn, {"one_hot": _one_hot})
    _register(torch.nn.functional, {"interpolate": _interpolate.interpolate})
    _register(torch.Tensor, {"new_tensor": _new_tensor, "new": _new, "__deepcopy__": _deep_copied})
    _register(torch.Tensor, {"addcdiv": _with_tensor_value(torch.Tensor.addcdiv, False)})
    _register(torch.Tensor, {"addcdiv_": _with_tensor_value(torch.Tensor.addcdiv_, True)})
    for original, replacement in _number_arguments.SUBSTITUTES:
        _C.register_substitute(original, replacement)
    _C.set_warning_function(_warning_calls.say)
    for name in ("_foreach_addcdiv", "_foreach_addcdiv_"):
        original = getattr(torch, name)
        _C.register_substitute(original, _with_tensor_values(original), of_torch_only=True)
    _C.register_substitute(torch.full_like, _full_like, of_torch_only=True)
    _C.register_substitute(torch._foreach_mul_, _foreach_mul_by_numbers, of_torch_only=True)
    _register(sys.modules["torch.optim.optimizer"], {"_get_value": _number_of})
    _sized_calls.install()
    _number_calls.install()
    _C.register_mark(_control.mark_dynamic)
    if "torch._dynamo" in sys.modules:
        _on_dynamo_imported(sys.modules["torch._dynamo"])
    else:
        sys.meta_path.insert(0, _DynamoFinder())


def when_dynamo_is_there(call):
    """Call `call(torch._dynamo)` now, or when somebody has imported it."""
    if _dynamo is not None:
        call(_dynamo)
    else:
        _waiting.append(call)


def _checkpoint(
    function,
    *args,
    use_reentrant=None,
    context_fn=torch.utils.checkpoint.noop_context_fn,
    determinism_check="default",
    debug=False,
    early_stop=True,
    preserve_rng_state=True,
    **kwargs,
):
    """torch.utils.checkpoint.checkpoint: an operator of the graph whose backward computes `function` again."""
    plain = context_fn is torch.utils.checkpoint.noop_context_fn and determinism_check in ("default", "none")
    if use_reentrant is not False or debug is not False or preserve_rng_state is not True or not plain:
        return _C.checkpoint(None)
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    return _C.checkpoint(lambda: function(*args, **kwargs))


def _reduced(cls, state, self):
    """What object.__reduce_ex__ gives of an object with this state, in words that are captured. C++ has asked for the state."""
    pairs = iter(self.items()) if isinstance(self, dict) else None
    if isinstance(self, collections.OrderedDict):
        return cls, (), state, None, pairs
    return copyreg.__newobj__, (cls,), state, iter(self) if isinstance(self, list) else None, pairs


_PICKLED = {type(empty): pickle.dumps(empty) for empty in ({}, [], ())}


def _dumped(obj, protocol=None, **settings):
    """pickle.dumps of what is empty. What else it gives depends on which objects are one."""
    if type(obj) in _PICKLED and not obj and protocol is None and not settings:
        return _PICKLED[type(obj)]
    return pickle.dumps(obj, protocol, **settings)


def _one_hot(tensor, num_classes=-1):
    """torch.nn.functional.one_hot without a look at the values: a class out of range fails where it is written."""
    if num_classes == -1 and tensor.dtype == torch.int64 and tensor.numel() > 0 and tensor.min().item() >= 0:
        num_classes = tensor.max().item() + 1
    if num_classes <= 0 or tensor.dtype != torch.int64:
        return torch._C._nn.one_hot.__call__(tensor, num_classes)
    zeros = torch.zeros((*tensor.shape, num_classes), dtype=tensor.dtype, device=tensor.device)
    return zeros.scatter_(-1, tensor.unsqueeze(-1), 1)


def _new_tensor(self, data, *, dtype=None, device=None, **others):
    """Tensor.new_tensor, which takes the dispatch key of a traced tensor for a device's."""
    return torch.tensor(data, dtype=dtype or self.dtype, device=device or self.device, **others)


def _new(self, *args, **others):
    """Tensor.new of sizes or of numbers, for the same reason."""
    first = args[0] if args else None
    if others or isinstance(first, torch.Tensor):
        return torch.Tensor.new(self, *args, **others)
    if len(args) == 1 and isinstance(first, (list, tuple)) and not isinstance(first, torch.Size):
        return torch.tensor(first, dtype=self.dtype, device=self.device)
    return torch.empty(*(args or (0,)), dtype=self.dtype, device=self.device)


def _bisect_right(a, x, lo=0, hi=None, *, key=None):
    """bisect.bisect_right: what C code compares with is looked at, and a number that changes from call to call need not be."""
    if lo < 0:
        raise ValueError("lo must be non-negative")
    hi = len(a) if hi is None else hi
    while lo < hi:
        middle = (lo + hi) // 2
        if x < (a[middle] if key is None else key(a[middle])):
            hi = middle
        else:
            lo = middle + 1
    return lo


def _bisect_left(a, x, lo=0, hi=None, *, key=None):
    """bisect.bisect_left, likewise."""
    if lo < 0:
        raise ValueError("lo must be non-negative")
    hi = len(a) if hi is None else hi
    while lo < hi:
        middle = (lo + hi) // 2
        if (a[middle] if key is None else key(a[middle])) < x:
            lo = middle + 1
        else:
            hi = middle
    return lo


def _enter_inference_mode(self):
    _C.inference_mode(self.mode)


def _leave_inference_mode(self, exc_type, exc_value, traceback):
    _C.inference_mode()


def _type_hints(obj, globalns=None, localns=None, include_extras=False):
    """typing.get_type_hints of a function that is annotated with classes alone: no name is looked up."""
    if type(obj) is types.FunctionType and globalns is None and localns is None:
        hints = obj.__annotations__
        if not hasattr(obj, "__no_type_check__") and all(type(hint) is type for hint in hints.values()):
            return dict(hints)
    return typing.get_type_hints(obj, globalns, localns, include_extras)


def _deep_copied(self, memo):
    """Tensor.__deepcopy__ of a tensor that is all there is in its storage."""
    if id(self) in memo:
        return memo[id(self)]
    _C.check_deep_copy(self)
    copied = torch.empty_like(self).copy_(self)
    memo[id(self)] = copied
    return copied


def _number_of(x):
    """torch.optim's _get_value: in eager it is a Python number, which is as exact as a double."""
    return x.double() if isinstance(x, torch.Tensor) and x.dtype == torch.float32 and x.dim() == 0 else x


def _is_exact_number(x):
    return isinstance(x, torch.Tensor) and x.dtype == torch.float64 and x.dim() == 0


def _with_tensor_value(original, in_place):
    """Tensor.addcdiv or addcdiv_, which would take the number out of a `value` that is a tensor."""

    def stand_in(self, tensor1, tensor2, *, value=1):
        if not isinstance(value, torch.Tensor) or not _is_computed_alike(self, tensor1, tensor2, value):
            return original(self, tensor1, tensor2, value=value)
        value = value.to(self.dtype)
        # In the order of torch's kernels.
        term = value * (tensor1 / tensor2) if self.is_cuda else value * tensor1 / tensor2
        return self.add_(term) if in_place else self + term

    return stand_in


def _with_tensor_values(original):
    """torch._foreach_addcdiv or _foreach_addcdiv_ where torch.optim gives tensors for the numbers that it has in eager."""
    each = torch.Tensor.addcdiv_ if original.__name__.endswith("_") else torch.Tensor.addcdiv

    def stand_in(self, tensors1, tensors2, *values, **named):
        if not values and list(named) == ["value"] and isinstance(named["value"], torch.Tensor):
            values, named = ([named["value"]] * len(self),), {}
        if named or len(values) != 1:
            return original(self, tensors1, tensors2, *values, **named)
        values = values[0]
        stacked = isinstance(values, torch.Tensor) and values.dim() == 1 and values.is_floating_point()
        listed = isinstance(values, (list, tuple)) and any(isinstance(value, torch.Tensor) for value in values)
        if not (stacked or listed) or not len(self) == len(tensors1) == len(tensors2) == len(values):
            return original(self, tensors1, tensors2, values)
        values = values.unbind() if stacked else values
        results = [each(t, a, b, value=v) for t, a, b, v in zip(self, tensors1, tensors2, values)]
        return self if each is torch.Tensor.addcdiv_ else tuple(results)

    return stand_in


def _full_like(input, fill_value, **settings):
    """torch.full_like, which would take the number out of a tensor: torch.optim gives a rate that is one."""
    if settings or not isinstance(fill_value, torch.Tensor) or torch._C._len_torch_function_stack() > 0:
        return torch.full_like(input, fill_value, **settings)
    alike = fill_value.dtype == input.dtype and fill_value.device == input.device and input.is_floating_point()
    if fill_value.dim() != 0 or fill_value.requires_grad or not alike:
        return torch.full_like(input, fill_value)
    return torch.empty_like(input).copy_(fill_value)


def _foreach_mul_by_numbers(self, other, **named):
    """torch._foreach_mul_ where torch.optim gives doubles without dimensions for the numbers that it has in eager."""
    if isinstance(other, (list, tuple)) and len(self) == len(other) and not named:
        other = [v.to(t.dtype) if _is_exact_number(v) and t.is_floating_point() else v for t, v in zip(self, other)]
    return torch._foreach_mul_(self, other, **named)


def _is_computed_alike(self, tensor1, tensor2, value):
    """Whether plain operators give what addcdiv gives, without gradients that would round in another order."""
    if torch._C._len_torch_function_stack() > 0 or value.dim() != 0 or value.requires_grad or not value.is_floating_point():
        return False
    if self.dtype not in (torch.float32, torch.float64) or self.shape != tensor1.shape or self.shape != tensor2.shape:
        return False
    tensors = (self, tensor1, tensor2)
    if any(t.dtype != self.dtype or t.device != self.device for t in tensors):
        return False
    return not torch.is_grad_enabled() or not any(t.requires_grad for t in tensors)


def _register(module, substitutes):
    for name, replacement in substitutes.items():
        original = getattr(module, name, None)
        if original is not None and original is not replacement:
            _C.register_substitute(original, replacement)


_dynamo = None
_waiting = []


def _on_dynamo_imported(dynamo):
    global _dynamo
    _dynamo = dynamo
    _register(dynamo, _DYNAMO_SUBSTITUTES)
    # It notes which modules a program makes while it runs. Those that it does not keep end with the notes.
    _C.register_deferred(dynamo.mutation_guard.GenerationTracker.tag.__func__)
    # torch.compiler's functions look these up in torch._dynamo when they are called.
    _replace(dynamo, "reset", _then(dynamo.reset, _control.reset), _control.reset)
    allow_in_graph = dynamo.allow_in_graph
    _replace(dynamo, "allow_in_graph", lambda fn: (allow_in_graph(fn), _control.allow_in_graph(fn))[0], _control.allow_in_graph)
    torch_explain = dynamo.explain
    dynamo.explain = lambda f, *args, **kwargs: (explain_ours if _is_ours(f) else torch_explain)(f, *args, **kwargs)
    _follow_stance(dynamo.decorators)
    _follow_substitutes(dynamo)
    # Dynamo's own settings for a block of captured code (dont_skip_tracing and its like) are none here.
    _register(dynamo.decorators.DynamoConfigPatchProxy, {"__enter__": _enter_nothing, "__exit__": _leave_nothing})
    regions = sys.modules.get("torch._higher_order_ops.invoke_subgraph")
    if regions is not None:  # torch.compiler.nested_compile_region: a region is captured as any call
        _register(regions, {"invoke_subgraph_placeholder": _call_region})
    _torch_knobs.follow_compilations(dynamo)
    while _waiting:
        _waiting.pop(0)(dynamo)


def _replace(module, name, both, ours):
    """Put `both` (torch's part, then ours) in the place of torch's function; in captured code it is ours alone."""
    functools.update_wrapper(both, getattr(module, name))
    _C.register_substitute(both, ours)
    setattr(module, name, both)


def _then(theirs, ours):
    def both():
        theirs()
        ours()

    return both


def _is_ours(f):
    return isinstance(f, _module.CompiledModule) or _C.is_compiled_function(f)


def explain_ours(f, *args, **kwargs):
    """torch._dynamo.explain of a function that framefuse compiles: with arguments in its second call, or at once as it was."""
    explained = _explain.explain(f)
    return explained(*args, **kwargs) if args or kwargs else explained


def _enter_nothing(self):
    return None


def _leave_nothing(self, exc_type, exc_value, traceback):
    return None


def _call_region(func, *args, **kwargs):
    return func(*args, **kwargs)


def _follow_substitutes(dynamo):
    # torch.compiler.substitute_in_graph looks it up here. What torch itself registered before is for its own evaluator.
    theirs = dynamo.substitute_in_graph

    @functools.wraps(theirs)
    def substitute_in_graph(original_fn, **settings):
        decorate = theirs(original_fn, **settings)

        def both(traceable_fn):
            result = decorate(traceable_fn)
            _C.register_substitute(original_fn, traceable_fn)
            return result

        return both

    dynamo.substitute_in_graph = substitute_in_graph


def _follow_stance(decorators):
    # Every change of Dynamo's stance, also at a `with` block's end, goes through this one function.
    theirs = decorators._set_stance

    @functools.wraps(theirs)
    def both(stance):
        before = theirs(stance)
        _warn_of_stance(stance)
        # The first call through torch's own graphs would only tell a compiler what is kept for the backward.
        name = stance.stance.removeprefix("aot_") if stance.stance == "aot_eager_then_compile" else stance.stance
        _C.set_stance(_C.Stance.__members__.get(name, _C.Stance.default))
        return before

    decorators._set_stance = both


def _warn_of_stance(stance):
    if stance.stance not in _C.Stance.__members__ and stance.stance != "aot_eager_then_compile":
        _torch_knobs.warn_once(f"the stance {stance.stance!r}", "compiled functions do as under 'default'")
    if stance.skip_guard_eval_unsafe:
        _torch_knobs.warn_once("set_stance(skip_guard_eval_unsafe=True)", "framefuse checks all of its guards")
    if stance.backend is not None:
        _torch_knobs.warn_once("set_stance(force_backend=…)", "give compile() the backend")


class _DynamoFinder(importlib.abc.MetaPathFinder):
    """Finds torch._dynamo as Python would, and has our functions registered when it has been executed."""

    def find_spec(self, name, path, target=None):
        if name != "torch._dynamo":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                _on_dynamo_imported(module)

            spec.loader.exec_module = exec_module
        return spec
