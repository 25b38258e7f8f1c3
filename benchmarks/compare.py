"""Results against eager's, both measured against fp64: what a generated kernel may differ by."""

import torch


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in tensors_of(v)] if isinstance(value, (tuple, list)) else []


def widened(value):
    if isinstance(value, torch.Tensor):
        return value.detach().double() if value.is_floating_point() else value.detach()
    return value


def largest_error(got, exact):
    """The largest difference from fp64, relative where numbers are above 1."""
    differences = [((g.double() - x).abs() / (1 + x.abs())).max().item() for g, x in zip(got, exact) if x.numel()]
    return max(differences, default=0.0)


def mismatch(got, eager, exact, roundings=0):
    """Empty, or how `got` is worse than eager's result allows, both against fp64.

    `roundings`: of the largest element, for sums of many terms and what cancels.
    """
    if got.shape != eager.shape or got.dtype != eager.dtype:
        return f"{got.dtype}{list(got.shape)} for {eager.dtype}{list(eager.shape)}"
    if not got.is_floating_point():
        return "" if torch.equal(got, eager) else "integers differ"
    g, e, x = got.double(), eager.double(), exact.double()
    finite = torch.isfinite(e) & torch.isfinite(x)
    # What overflows in one order of rounding need not in another.
    huge = x.abs() > 0.5 * torch.finfo(got.dtype).max
    if not torch.equal(torch.isnan(g) & ~huge, torch.isnan(e) & ~huge):
        return f"NaN at {int((torch.isnan(g) != torch.isnan(e)).sum())} places that eager has not, or has"
    inf = torch.isinf(e) & ~huge
    if not torch.equal(g[inf], e[inf]):
        return "infinities differ"
    g, e, x = g[finite & ~huge], e[finite & ~huge], x[finite & ~huge]
    if g.numel() == 0:
        return ""
    if not torch.isfinite(g).all():
        return "not finite where eager is"
    eps = torch.finfo(got.dtype).eps
    largest = x.abs().max().item()
    allowed = 4 * (e - x).abs() + 4 * eps * x.abs() + 8 * eps * min(1.0, largest) + roundings * eps * largest
    error = (g - x).abs()
    worst = (error - allowed).argmax()
    if error[worst] > allowed[worst]:
        return f"{g[worst].item():.9g} for {x[worst].item():.9g}, eager {e[worst].item():.9g}"
    return ""
