"""Idioms: arrays of numpy in the middle of tensor code."""

from __future__ import annotations

import numpy as np
import torch

from zoo.idioms import idiom


def _array(x):
    return (x.detach() * 2).numpy()


@idiom
def concatenated(self, x):
    return np.concatenate([_array(x), (x.detach() + 1).numpy()])


@idiom
def mean(self, x):
    return np.mean(_array(x))


@idiom
def mean_of_an_axis(self, x):
    return np.mean(_array(x), axis=0)


@idiom
def chosen_by_a_condition(self, x):
    return np.where(_array(x) > 0, _array(x), 0.0)


@idiom
def functions_of_elements(self, x):
    return np.sin(_array(x)), np.exp(_array(x)), np.abs(_array(x)), np.clip(_array(x), -1, 1)


@idiom
def largest_place(self, x):
    return np.argmax(_array(x))


@idiom
def largest_places(self, x):
    return _array(x).argmax(axis=1), np.max(_array(x), axis=1)


@idiom
def constants(self, x):
    return torch.from_numpy(np.linspace(0, 1, 8)) + x, torch.from_numpy(np.zeros((4, 8), dtype=np.float32)) + x


@idiom
def stacked(self, x):
    return np.stack([_array(x), _array(x)])


@idiom
def compared(self, x):
    return _array(x) > 0


@idiom
def picked_by_a_list(self, x):
    return _array(x)[[0, 1]]


@idiom
def picked_by_a_mask(self, x):
    array = _array(x)
    return array[array > 0]


@idiom
def other_shapes(self, x):
    return _array(x).reshape(-1, 4), _array(x).flatten(), _array(x).ravel(), _array(x).T


@idiom
def other_types(self, x):
    return _array(x).astype(np.int64), torch.from_numpy(_array(x).astype(np.float64)) + 1


@idiom
def norm(self, x):
    return np.linalg.norm(_array(x))


@idiom
def products(self, x):
    return np.dot(_array(x)[0], _array(x)[0].T), _array(x)[0] @ _array(x)[0].T


@idiom
def running_sum(self, x):
    return np.cumsum(_array(x))


@idiom
def arithmetic(self, x):
    return _array(x) + 1, _array(x) * _array(x), -(_array(x) - 2.5), np.sqrt(np.abs(_array(x))) / (1 + np.abs(_array(x)))


@idiom
def sum_as_a_number(self, x):
    return _array(x).sum()


@idiom
def sum_as_an_item(self, x):
    return _array(x).sum().item()


@idiom
def slices(self, x):
    return _array(x)[1:, ::2], _array(x)[0]


@idiom
def back_to_a_tensor(self, x):
    return torch.from_numpy(np.maximum(_array(x), 0)) + 1


@idiom
def copied(self, x):
    return _array(x).copy()
