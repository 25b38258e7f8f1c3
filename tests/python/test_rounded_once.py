"""Halves that several kernels compute: each is rounded from one number, whichever kernel computes it."""

import pytest
import torch
import torch.nn.functional as F

import framefuse

CHAINS = {
    "erf": torch.erf,
    "quotient": lambda x: x / (1 + x * x) - x,
    "log1p of silu": lambda x: torch.log1p(F.silu(x).abs()),
    "exp": lambda x: torch.exp(torch.tanh(x)),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", CHAINS)
def test_norm_of_one_element_is_zero(name, dtype):
    """Here a difference in the last place between an element and its mean would be seen three hundred times as large."""

    def function(x):
        made = CHAINS[name](x)
        return made + 0, F.layer_norm(made, made.shape[-1:]), made.amax([0], True)

    x = torch.randn(257, 1, generator=torch.Generator().manual_seed(0)).to(dtype)
    _, normal, _ = framefuse.compile(function, backend="fuse")(x)
    assert torch.equal(normal, torch.zeros_like(normal))
    assert torch.allclose(normal, function(x)[1], atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("function", [torch.erf, torch.sigmoid, torch.exp, torch.tanh, torch.log1p], ids=lambda f: f.__name__)
def test_one_number_beside_results_of_other_types(function, dtype):
    """A kernel that writes the half alone, and one that writes it widened, too."""
    x = torch.randn(4096, generator=torch.Generator().manual_seed(1)).abs().to(dtype)
    alone = framefuse.compile(lambda x: function(x), backend="fuse")(x)
    beside, widened = framefuse.compile(lambda x: (function(x), function(x).float() * 1), backend="fuse")(x)
    assert torch.equal(alone, beside)
    assert torch.equal(alone.float(), widened)


PROMOTING = {
    "add": lambda half, single: half + single,
    "maximum": torch.maximum,
    "where": lambda half, single: torch.where(single > 0, half, single),
    "addcmul": lambda half, single: torch.addcmul(single, half, half),
    "power": lambda half, single: single.abs() ** half,
    "truth": lambda half, single: torch.logical_and(half, single > 0),
}


@pytest.mark.parametrize("small", [1, 1e-4])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", PROMOTING)
def test_a_computed_half_is_rounded_before_it_becomes_another_type(name, dtype, small):
    """Of small f16 numbers the square is 0 then, which is a truth value."""

    def computed(x):
        return (x * small) * (x * small)

    generator = torch.Generator().manual_seed(2)
    x, single = torch.randn(4096, generator=generator).to(dtype), torch.randn(4096, generator=generator)
    half = framefuse.compile(computed, backend="fuse")(x)
    got = framefuse.compile(lambda x, single: PROMOTING[name](computed(x), single), backend="fuse")(x, single)
    expected = framefuse.compile(lambda half, single: PROMOTING[name](half, single), backend="fuse")(half, single)
    assert got.dtype == PROMOTING[name](half, single).dtype
    assert torch.equal(got, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_what_is_rounded_to_zero_is_not_above_it(dtype):
    x = torch.randn(4096, generator=torch.Generator().manual_seed(3)).to(dtype)
    half = framefuse.compile(lambda x: (x * 1e-4) * (x * 1e-4), backend="fuse")(x)
    got = framefuse.compile(lambda x: torch.ops.aten.threshold_backward(x, (x * 1e-4) * (x * 1e-4), 0), backend="fuse")(x)
    assert torch.equal(got, torch.ops.aten.threshold_backward(x, half, 0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("function", [torch.floor, torch.ceil, torch.trunc, torch.round, torch.frac], ids=lambda f: f.__name__)
def test_a_computed_half_is_rounded_where_a_function_jumps(function, dtype):
    """As eager's are, whose operators keep nothing but halves: numbers that round to whole ones, and halfway between."""
    x = torch.randn(4096, generator=torch.Generator().manual_seed(4)).to(dtype) * 3
    got = framefuse.compile(lambda x: function(x * x), backend="fuse", fullgraph=True)(x)
    assert torch.equal(got, function(x * x))
    single = x.float() * 1.01
    got = framefuse.compile(lambda x: function((x * x).to(dtype)), backend="fuse", fullgraph=True)(single)
    assert torch.equal(got, function((single * single).to(dtype)))


NARROWED = {
    "a remainder": lambda h: (h * h) % (h.abs() + 1),
    "a power": lambda h: h**2 - h * h,
    "a sum": lambda h: h.sum(),
    "a row": lambda h: torch.softmax(h * 8, -1).amax(-1),
    "a column": lambda h: h.sum(0),
}


@pytest.mark.parametrize("wide", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", NARROWED)
def test_a_cast_to_a_half_rounds_where_it_stands(name, dtype, wide):
    """What reads it computes with the half, as if it had been given. In f32 a remainder of what was not rounded is another one."""
    x = (torch.randn(64, 63, generator=torch.Generator().manual_seed(2), dtype=torch.float64) * 300).to(wide)
    cast = framefuse.compile(lambda x: NARROWED[name](x.to(dtype)), backend="fuse")(x)
    given = framefuse.compile(NARROWED[name], backend="fuse")(x.to(dtype))
    assert torch.allclose(cast, given, rtol=0, atol=0, equal_nan=True)
