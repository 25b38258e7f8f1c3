"""Statements that run in a changed state of torch, of which each part is one that a guard must see.

MANNER names how a block runs, and a change names another: what was compiled in one state then starts in another one.
Invariant: a block leaves the state as it was; what a change alone sets is among the judge's modes (global_state.py).
"""

from conformance.fuzz.vocabulary import Topic

SUPPORT = {
    "MANNER": '''
class Manner:
    """In what way blocks run: a function of no argument that makes a context manager, and a transform of functions."""

    make = contextlib.nullcontext

    @staticmethod
    def through(f):
        return f


MANNER = Manner()
''',
    "Unchanged": '''
class Unchanged(torch.utils._python_dispatch.TorchDispatchMode):
    """Sees each operation and changes none."""

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        return f(*args, **(kwargs or {}))


class Heard(torch.overrides.TorchFunctionMode):
    """Sees each function and changes none."""

    def __torch_function__(self, f, types, args=(), kwargs=None):
        return f(*args, **(kwargs or {}))


HEARD = Heard()
''',
    "outspoken": '''
def outspoken(r):
    """Breaks, so that what is behind is compiled by itself, in the state that it is called in."""
    print("here")
    return r.sin() + torch.ones(1)
''',
    "HOOKED": "\nHOOKED = types.SimpleNamespace(t=leaf(4))\n",
}

# Each makes a context manager.
_MANNERS = (
    "contextlib.nullcontext",
    "torch.no_grad",
    "torch.enable_grad",
    "torch.inference_mode",
    "torch.autograd.forward_ad.dual_level",
    "Unchanged",
    "Heard",
    "lambda: HEARD",
    "lambda: torch.device('cpu')",
    "lambda: torch.autocast('cpu', enabled=False)",
    "lambda: torch.autocast('cpu', cache_enabled=False)",
    "lambda: torch.autocast('cuda', dtype=torch.bfloat16, enabled=False)",
    "torch._C.DisableTorchFunction",
    "torch._C.DisableTorchFunctionSubclass",
    "torch._C._AutoDispatchBelowAutograd",
    "lambda: torch._C._IncludeDispatchKeyGuard(torch._C.DispatchKey.Conjugate)",
    "lambda: torch._C._IncludeDispatchKeyGuard(torch._C.DispatchKey.Negative)",
    "lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)",
    "lambda: torch.autograd.forward_ad._set_fwd_grad_enabled(False)",
    "lambda: torch.autograd._force_original_view_tracking(True)",
    "lambda: torch.backends.cudnn.flags(enabled=False)",
    "lambda: torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=True)",
    "lambda: torch.backends.mkldnn.flags(enabled=False)",
    "lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)",
    "lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION)",
)
# Each of a part of the state alone, by a switch that stays.
_SWITCHES = (
    "torch._C._set_fwd_grad_enabled({on})",
    "torch._C._set_view_replay_enabled({on})",
    "torch.set_autocast_enabled('cuda', {on})",
    "torch.set_autocast_dtype('cuda', torch.bfloat16 if {on} else torch.float16)",
    "torch.set_autocast_cache_enabled({on})",
    "torch.use_deterministic_algorithms({on}, warn_only=True)",
    "torch.use_deterministic_algorithms(True, warn_only={on})",
    "torch.utils.deterministic.fill_uninitialized_memory = {on}",
    "torch.backends.cudnn.enabled = {on}",
    "torch.backends.cudnn.benchmark = {on}",
    "torch.backends.cudnn.deterministic = {on}",
    "torch._C._set_nnpack_enabled({on})",
    "torch._C._set_mkldnn_enabled({on})",
    "torch._C._set_mkldnn_deterministic({on})",
    "torch._C._set_cublas_allow_fp16_accumulation({on})",
    "torch.backends.cuda.enable_flash_sdp({on})",
    "torch.backends.cuda.enable_mem_efficient_sdp({on})",
    "torch.backends.cuda.enable_math_sdp({on})",
    "torch.backends.cuda.enable_cudnn_sdp({on})",
    "torch._C._set_sdp_use_fa3({on})",
    "torch._C._set_sdp_use_overrideable({on})",
    "torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp({on})",
    "torch._C._set_sdp_priority_order([1, 2, 0, 3, 4] if {on} else [0, 1, 2, 3, 4])",
    "torch.set_float32_matmul_precision('high' if {on} else 'highest')",
)
# Called by C code, a function is compiled by itself from its beginning.
_RUN = "contextvars.copy_context().run"
# Called in two states, one after the other.
_ENTERED = [
    [f"r = {_RUN}(outspoken, r)", f"with ({manner})():", f"    r = {_RUN}(outspoken, r)"] for manner in _MANNERS[1:]
]
_SKIPS = "torch._C._set_skip_next_torch_function"
_SET = [line.format(on=on) for line in _SWITCHES for on in (True, False)]

TOPICS = {
    "manners": Topic(
        [
            ["with MANNER.make():", "    print('in')", "    r = r.sin() * 2"],
            ["with MANNER.make():", "    r = outspoken(r)"],
            ["with MANNER.make():", "    r = r + 1", "    r = outspoken(r).cos()", "r = r + 2"],
            ["with MANNER.make(), torch.no_grad():", "    r = outspoken(r) + vector()"],
            ["with torch.no_grad(), MANNER.make():", "    print('in')", "    r = r.sum() + matrix(2, 3)"],
            ["with torch.no_grad(), MANNER.make():", "    r = outspoken(r)"],
            ["with MANNER.make():", "    x = vector().requires_grad_() * 2", "    print(x.requires_grad)", "r = r + x.sum()"],
            ["with MANNER.make():", "    q = r.reshape(-1)[:1]", "    print('view')", "    r = r + q"],
            ["with MANNER.make():", "    print('in')", "    r = r.clone()", "    r.reshape(-1).mul_(2)"],
            ["r = MANNER.through(outspoken)(r)"],
            ["r = MANNER.through(lambda x: outspoken(x) * 2)(r)"],
            [f"r = {_RUN}(outspoken, r)"],
            [f"r = {_RUN}(MANNER.through(outspoken), r)"],
            ["with MANNER.make():", f"    r = {_RUN}(outspoken, r)"],
        ],
        [
            *(f"MANNER.make = {manner}" for manner in _MANNERS),
            *(f"MANNER.make = {manner}" for manner in ("torch.no_grad", "torch.inference_mode", "Unchanged", "lambda: HEARD")),
            *(f"MANNER.through = {how}" for how in ("torch.func.vmap", "lambda f: f", "lambda f: torch.func.functionalize(f)")),
        ],
        weight=9,
    ),
    "entered states": Topic(
        [
            *_ENTERED,
            *([*lines[:2], "    print('in')", lines[2]] for lines in _ENTERED),
            [f"r = {_RUN}(outspoken, r)", f"r = {_RUN}(torch.func.vmap(outspoken), r) if r.dim() else r"],
            [f"r = {_RUN}(outspoken, r)", f"r = {_RUN}(torch.func.functionalize(outspoken), r)"],
            [f"r = {_RUN}(outspoken, r)", f"{_SKIPS}(True)", f"r = {_RUN}(outspoken, r)", f"{_SKIPS}(False)"],
        ],
        weight=4,
    ),
    "switches": Topic(
        [
            ["r = r + nn.functional.scaled_dot_product_attention(*[matrix(2, 3)[None]] * 3).sum()"],
            ["r = r + torch.empty(3).numel()"],
            ["r = r + torch.ones(2, 3).mm(matrix(3, 2)).sum()"],
            ["r = outspoken(r)"],
            [f"{_SKIPS}({{k}} > 1)", "r = outspoken(r)", f"{_SKIPS}(False)"],
            *([line, "r = r + 1"] for line in _SET),
            *([line, "r = outspoken(r)"] for line in _SET),
        ],
        _SET,
        weight=6,
    ),
    "settings that are read": Topic(
        [
            ["r = r * len(torch.get_float32_matmul_precision())"],
            ["r = r + len(torch._C._get_fp32_precision_getter('cuda', 'matmul'))", "r = outspoken(r)"],
            ["r = r + torch._C._get_nnpack_enabled() + torch.backends.cudnn.allow_tf32"],
            ["try:", "    r = r + torch._C._get_fp32_precision_getter(r, 'all')", "except TypeError:", "    r = r + {k}"],
        ],
        [line for line in _SET if "nnpack" in line or "float32_matmul" in line],
        weight=3,
    ),
    "hooks of leaves": Topic(
        [
            ["HOOKED.t.grad = None", "(HOOKED.t * {k}).sum().backward()", "r = r + HOOKED.t.grad.sum()"],
            ["(HOOKED.t.sin() + {k}).sum().backward()", "r = r + HOOKED.t.grad[0]"],
            ["r = r + (HOOKED.t * 2).sum()"],
            ["g, = torch.autograd.grad((HOOKED.t * HOOKED.t).sum(), HOOKED.t)", "r = r + g.sum()"],
            ["with torch.no_grad():", "    HOOKED.t.add_(1)", "r = r + HOOKED.t.sum()"],
        ],
        [
            "holder.hook = HOOKED.t.register_hook(lambda g: g * 2)",
            "holder.hook = HOOKED.t.register_post_accumulate_grad_hook(lambda t: t.grad.mul_(3))",
            "holder.hook.remove()",
            "HOOKED.t.grad = None",
            "HOOKED.t.requires_grad_({k} > 1)",
            "HOOKED.t = leaf(4)",
            "HOOKED.t = leaf(4) * 2",
        ],
        weight=4,
    ),
}
