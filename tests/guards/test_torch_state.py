"""Tensor metadata, overlap of storages and torch's global state."""

import contextlib

import numpy
import pytest
import torch
from description import Guards
from torch.utils._python_dispatch import TorchDispatchMode


def target(x, y=None):
    pass


class Sub(torch.Tensor):
    pass


TENSORS = {
    "plain": lambda: torch.zeros(2, 3),
    "other size": lambda: torch.zeros(2, 4),
    "other rank": lambda: torch.zeros(6),
    "scalar": lambda: torch.tensor(1.0),
    "transposed": lambda: torch.zeros(3, 2).T,
    "expanded": lambda: torch.zeros(1, 3).expand(2, 3),
    "six dimensions": lambda: torch.zeros(1, 1, 1, 1, 2, 3),
    "six dimensions, other strides": lambda: torch.zeros(1, 1, 1, 1, 3, 2).transpose(4, 5),
    "empty": lambda: torch.zeros(0, 3),
    "double": lambda: torch.zeros(2, 3, dtype=torch.float64),
    "int": lambda: torch.zeros(2, 3, dtype=torch.int64),
    "meta": lambda: torch.zeros(2, 3, device="meta"),
    "grad": lambda: torch.zeros(2, 3, requires_grad=True),
    "not a leaf": lambda: torch.zeros(2, 3, requires_grad=True) * 1,
    "parameter": lambda: torch.nn.Parameter(torch.zeros(2, 3)),
    "frozen parameter": lambda: torch.nn.Parameter(torch.zeros(2, 3), requires_grad=False),
    "subclass": lambda: torch.zeros(2, 3).as_subclass(Sub),
    "sparse": lambda: torch.zeros(2, 3).to_sparse(),
    "complex": lambda: torch.zeros(2, 3, dtype=torch.complex64),
    "conjugate": lambda: torch.zeros(2, 3, dtype=torch.complex64).conj(),
    "negative": lambda: torch._neg_view(torch.zeros(2, 3)),
    "inference": lambda: torch.inference_mode()(lambda: torch.zeros(2, 3))(),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensor_metadata(name):
    recorded = TENSORS[name]()
    g = Guards(target, "x")
    g.tensor(g.local(0), recorded, leaf=True)
    program = g.build()
    assert program.check(target, (recorded,))[0] and program.check(target, (TENSORS[name](),))[0]
    for other in TENSORS:
        if other == name or {other, name} == {"frozen parameter", "buffer"}:
            continue
        value = TENSORS[other]()
        assert not program.check(target, (value,))[0], other
        text = program.explain(target, (value,))
        assert text.startswith("tensor 'L['x']' ") and "mismatch" in text
    assert not program.check(target, (5,))[0]


def test_a_leaf_where_nobody_asks():
    """The guard lets in both, and still no tensor that doesn't require grad."""
    leaf, made, neither = TENSORS["grad"](), TENSORS["not a leaf"](), TENSORS["plain"]()
    for recorded in (leaf, made, neither):
        g = Guards(target, "x")
        g.tensor(g.local(0), recorded)
        program = g.build()
        lets_in = [program.check(target, (other,))[0] for other in (leaf, made, neither)]
        assert lets_in == ([False, False, True] if recorded is neither else [True, True, False])


def test_metadata_changes_in_place():
    p = torch.nn.Parameter(torch.zeros(2, 3))
    g = Guards(target, "x")
    g.tensor(g.local(0), p)
    program = g.build()

    def holds():
        result = program.check(target, (p,))[0]
        assert result == (program.explain(target, (p,)) == "")
        return result

    assert holds()
    p.requires_grad_(False)
    assert not holds()
    p.requires_grad_(True)
    assert holds()
    p.data = torch.zeros(3, 2).T
    assert not holds()
    p.data = torch.zeros(2, 3)
    assert holds()
    p.data = torch.zeros(2, 3, dtype=torch.float64)
    assert not holds()
    p.data = torch.zeros(2, 3)
    with torch.no_grad():
        p.fill_(1)
    p.grad = torch.ones(2, 3)
    assert holds()
    p.__class__ = Sub
    assert not holds()


def test_a_view_has_the_history_of_its_base():
    """Without being asked for it, as `requires_grad` or `grad_fn` would."""

    def view(of_what_requires_grad, with_gradients=True):
        base = torch.zeros(3, 3, requires_grad=of_what_requires_grad and not with_gradients)
        with torch.set_grad_enabled(with_gradients):
            made = base[1:]
        if of_what_requires_grad and with_gradients:
            base.add_(torch.ones(3, 3, requires_grad=True))
        return made

    kinds = {"none": lambda: view(False), "written": lambda: view(True), "without gradients": lambda: view(True, False)}
    for name, recorded in kinds.items():
        g = Guards(target, "x")
        g.tensor(g.local(0), recorded(), leaf=True)
        program = g.build()
        assert {other: program.check(target, (made(),))[0] for other, made in kinds.items()} == {k: k == name for k in kinds}
        assert program.check(target, (torch.zeros(3, 3)[1:],))[0] == (name == "none")
        assert program.check(target, (torch.zeros(2, 3, requires_grad=True) * 1,))[0] == (name == "written")
    assert view(True).requires_grad and not view(True).is_leaf and view(True, False).is_leaf


def overlap_program(*tensors):
    g = Guards(target, "x", "y", "z")
    g.overlap(*[(g.local(i), t) for i, t in enumerate(tensors)])
    return g.build()


def test_overlap():
    base = torch.zeros(10)
    a, b = torch.zeros(4), torch.zeros(4)
    apart = overlap_program(a, b)
    views = overlap_program(base[:4], base[2:6])
    same = overlap_program(a, a)

    def outcome(*tensors):
        return [p.check(target, tensors)[0] for p in (apart, views, same)]

    for _ in range(2):
        assert outcome(a, b) == [True, False, False]
        assert outcome(base[:4], base[2:6]) == [False, True, False]
        assert outcome(base[1:5], base[3:7]) == [False, True, False]
        assert outcome(base[2:6], base[:4]) == [False, False, False]
        assert outcome(b, b) == [False, False, True]
        assert outcome(base[:4], torch.zeros(4)) == [True, False, False]
    assert "share memory" in apart.explain(target, (a, a))
    assert "share no memory" in same.explain(target, (a, b))
    assert "bytes after" in views.explain(target, (base[:4], base[3:7]))


def test_overlap_of_two_storages_over_one_buffer():
    array = numpy.zeros(8, dtype=numpy.float32)
    apart = overlap_program(torch.zeros(8), torch.zeros(8))
    first, second = torch.from_numpy(array), torch.from_numpy(array[4:])
    assert not apart.check(target, (first, second))[0]
    assert apart.check(target, (torch.from_numpy(array[:4]), torch.from_numpy(array[4:])))[0]


def test_many_tensors_move_between_checks():
    tensors = [torch.zeros(4) for _ in range(40)]
    g = Guards(target, *[f"t{i}" for i in range(40)])
    g.overlap(*[(g.local(i), t) for i, t in enumerate(tensors)])
    program = g.build()
    for step in range(200):
        i, j = (step * 7) % 40, (step * 13 + 1) % 40
        if step % 3 == 0:
            tensors[i] = torch.zeros(4)
        elif step % 3 == 1:
            tensors[i], tensors[j] = tensors[j], tensors[i]
        else:
            kept = tensors[i]
            tensors[i] = tensors[j] if i != j else kept
            assert program.check(target, tuple(tensors))[0] == (i == j)
            tensors[i] = kept
        assert program.check(target, tuple(tensors))[0]


@contextlib.contextmanager
def setting(get, set_, value):
    old = get()
    set_(value)
    try:
        yield
    finally:
        set_(old)


class FunctionMode(torch.overrides.TorchFunctionMode):
    pass


class DispatchMode(TorchDispatchMode):
    pass


@contextlib.contextmanager
def deterministic(warn_only):
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


STATES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast cpu": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "autocast cpu half": lambda: torch.autocast("cpu", dtype=torch.float16),
    "autocast without cache": lambda: torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False),
    "default dtype": lambda: setting(torch.get_default_dtype, torch.set_default_dtype, torch.float64),
    "default device": lambda: torch.device("meta"),
    "function mode": FunctionMode,
    "dispatch mode": DispatchMode,
    "torch function off": torch._C.DisableTorchFunctionSubclass,
    "deterministic": lambda: deterministic(False),
    "deterministic, warnings only": lambda: deterministic(True),
    "mkldnn off": lambda: setting(torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled, False),
    "mkldnn deterministic": lambda: setting(torch._C._get_mkldnn_deterministic, torch._C._set_mkldnn_deterministic, True),
    "16-bit sums in cublas": lambda: setting(
        torch._C._get_cublas_allow_fp16_accumulation, torch._C._set_cublas_allow_fp16_accumulation, True
    ),
    "tf32 set in two ways": lambda: setting(
        lambda: torch._C._get_fp32_precision_getter("cuda", "matmul"),
        lambda precision: torch._C._set_fp32_precision_setter("cuda", "matmul", precision),
        "tf32",
    ),
    "cudnn benchmark": lambda: torch.backends.cudnn.flags(enabled=True, benchmark=True),
    "cudnn off": lambda: torch.backends.cudnn.flags(enabled=False),
    "forward AD": torch.autograd.forward_ad.dual_level,
    "math attention": lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
    "math attention first": lambda: setting(torch._C._get_sdp_priority_order, torch._C._set_sdp_priority_order, [0, 1, 2, 3, 4]),
    "overrideable attention off": lambda: setting(torch._C._get_overrideable_sdp_enabled, torch._C._set_sdp_use_overrideable, False),
    "FA3 attention": lambda: setting(torch._C._get_fa3_sdp_enabled, torch._C._set_sdp_use_fa3, True),
    "16-bit sums": lambda: setting(
        torch._C._get_math_sdp_allow_fp16_bf16_reduction, torch._C._set_math_sdp_allow_fp16_bf16_reduction, True
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_global_state(name):
    def make():
        g = Guards(target, "x")
        return g.global_state().build()

    outside = make()
    context = STATES[name]()
    with context:
        inside = make()
        assert inside.check(target, (1,))[0]
        assert not outside.check(target, (1,))[0]
        assert outside.explain(target, (1,)) != ""
    assert outside.check(target, (1,))[0]
    assert not inside.check(target, (1,))[0]
    assert inside.explain(target, (1,)) != ""


def test_global_state_inside_a_transform():
    g = Guards(target, "x")
    program = g.global_state().build()
    seen = []

    def f(x):
        seen.append(program.check(target, (1,))[0])
        return x.sum()

    torch.func.grad(f)(torch.ones(2))
    torch.func.vmap(f)(torch.ones(2, 2))
    assert seen == [False, False]
    assert program.check(target, (1,))[0]
