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
