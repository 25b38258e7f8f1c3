"""torch.nn.functional.interpolate in captured code: the size of the result is computed in Python, so that it may be symbolic.

torch computes it in C++, where a size is a number. The operators are the ones that torch calls, with the same arguments.
"""

import torch

_nn = torch._C._nn
# By mode, dimensions and anti-aliasing.
_NEAREST = {
    ("nearest", 1, False): _nn.upsample_nearest1d,
    ("nearest", 2, False): _nn.upsample_nearest2d,
    ("nearest", 3, False): _nn.upsample_nearest3d,
    ("nearest-exact", 1, False): _nn._upsample_nearest_exact1d,
    ("nearest-exact", 2, False): _nn._upsample_nearest_exact2d,
    ("nearest-exact", 3, False): _nn._upsample_nearest_exact3d,
}
_BETWEEN = {
    ("linear", 1, False): _nn.upsample_linear1d,
    ("bilinear", 2, False): _nn.upsample_bilinear2d,
    ("bilinear", 2, True): _nn._upsample_bilinear2d_aa,
    ("bicubic", 2, False): _nn.upsample_bicubic2d,
    ("bicubic", 2, True): _nn._upsample_bicubic2d_aa,
    ("trilinear", 3, False): _nn.upsample_trilinear3d,
}
_SCALES = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}


def _each(value, count, types):
    """A value for each dimension; None: torch itself says what is wrong with it."""
    values = list(value) if type(value) in (list, tuple, torch.Size) else [value for _ in range(count)]
    return values if len(values) == count and all(type(v) in types for v in values) else None


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False):
    plain = type(input) in (torch.Tensor, torch.nn.Parameter) and torch._C._len_torch_function_stack() == 0
    key = (mode, input.dim() - 2, antialias) if plain else None
    output = factors = None
    if key in _NEAREST and align_corners is None or key in _BETWEEN and align_corners in (None, True, False):
        if scale_factor is None and not recompute_scale_factor:
            output = _each(size, key[1], (int,))
        elif size is None:
            factors = _each(scale_factor, key[1], (int, float))
    if mode == "area" and plain and size is None and 1 <= key[1] <= 3:
        # As torch does; its own trunc() takes no symbolic number.
        factors_of_area = _each(scale_factor, key[1], (int, float))
        if factors_of_area is not None:
            size, scale_factor = [int(n * factor) for n, factor in zip(input.shape[2:], factors_of_area)], None
            recompute_scale_factor = None
    deterministic = plain and not input.is_cpu and torch.are_deterministic_algorithms_enabled()
    if deterministic or (output is None and factors is None):
        return torch.nn.functional.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    if output is None:
        output = [int(n * factor) for n, factor in zip(input.shape[2:], factors)]
    scales = [None] * key[1] if factors is None or recompute_scale_factor else [float(factor) for factor in factors]
    # By name: of one dimension torch would take the number for a list of factors, by which it computes the size itself.
    named = dict(zip(_SCALES[key[1]], scales))
    if key in _NEAREST:
        return _NEAREST[key](input, output, **named)
    return _BETWEEN[key](input, output, bool(align_corners), **named)
