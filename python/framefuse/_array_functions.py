"""Functions of numpy where an argument is `tensor.numpy()` of a tensor that captured code made: as torch's operators.

They make views. What makes new arrays, which own their memory as none of a tensor does, is left to numpy and breaks the graph, and
so are arguments that numpy refuses.
"""

import torch

from framefuse import _C

try:
    import numpy as np
except ImportError:  # torch works without, too
    np = None


def install():
    for owner, functions in _FUNCTIONS:
        for name, replacement in functions.items():
            _C.register_sized_substitute(getattr(owner, name), replacement)


def _is_axis(axis, ndim):
    return type(axis) is int and -ndim <= axis < ndim


def _is_order(axes, ndim):
    return isinstance(axes, (list, tuple)) and len(axes) == ndim and all(_is_axis(a, ndim) for a in axes) and len({a % ndim for a in axes}) == ndim


def _transpose(a, axes=None):
    if type(a) is not np.ndarray or not (axes is None or _is_order(axes, a.ndim)):
        return np.transpose(a, axes)
    order = range(a.ndim - 1, -1, -1) if axes is None else axes
    return torch.from_numpy(a).permute(*order).numpy()


def _transpose_method(a, *axes):
    order = axes[0] if len(axes) == 1 and isinstance(axes[0], (list, tuple)) else axes
    if len(axes) > 0 and not _is_order(order, a.ndim):
        return a.transpose(*axes)
    return _transpose(a, order if len(axes) > 0 else None)


def _swapaxes(a, first, second):
    if type(a) is not np.ndarray or not _is_axis(first, a.ndim) or not _is_axis(second, a.ndim):
        return np.swapaxes(a, first, second)
    return torch.from_numpy(a).transpose(first, second).numpy()


def _expand_dims(a, axis):
    if type(a) is not np.ndarray or not _is_axis(axis, a.ndim + 1):
        return np.expand_dims(a, axis)
    return torch.from_numpy(a).unsqueeze(axis).numpy()


def _squeeze(a, axis=None):
    if type(a) is not np.ndarray or axis is not None and (not _is_axis(axis, a.ndim) or a.shape[axis] != 1):
        return np.squeeze(a, axis)
    t = torch.from_numpy(a)
    return (t.squeeze() if axis is None else t.squeeze(axis)).numpy()


def _asarray(a, *others, **settings):
    return a if type(a) is np.ndarray and not others and not settings else np.asarray(a, *others, **settings)


_FUNCTIONS = (
    ()
    if np is None
    else (
        (np, {"transpose": _transpose, "swapaxes": _swapaxes, "expand_dims": _expand_dims, "squeeze": _squeeze, "asarray": _asarray}),
        (np.ndarray, {"transpose": _transpose_method, "swapaxes": _swapaxes, "squeeze": _squeeze}),
    )
)
