"""Functions of numpy on arrays that a graph's tensors are the memory of."""

import numpy as np
import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


def calls(make):
    return [lambda k=k: Args(make() + k) for k in range(2)]


@program
def moved():
    def f(image):
        pixels = (image.clamp(0, 1) * 255).byte()
        return pixels.numpy().transpose(1, 2, 0), np.transpose((image * 2).numpy()), (image + 1).numpy().swapaxes(0, 1)

    return Case(f, torch.rand(3, 4, 5), then=calls(lambda: torch.rand(3, 4, 5)))


@program
def views_have_the_same_memory():
    def f(x):
        array = (x * 2).numpy()
        turned = np.transpose(array)
        return array, turned, np.expand_dims(array, 0)

    return Case(f, matrix(3, 4), then=calls(lambda: matrix(3, 4)))


@program
def sizes_of_an_array():
    def f(x):
        array = (x * 2).numpy()
        same = np.asarray(array)
        return x * array.shape[1] + array.ndim + array.size, array.dtype == np.float32, same is array

    return Case(f, matrix(3, 4), then=calls(lambda: matrix(3, 4)))


@program
def back_to_a_tensor():
    def f(x):
        array = np.squeeze((x * 2).unsqueeze(0).numpy(), 0)
        return torch.from_numpy(array.transpose()).sum(0)

    return Case(f, matrix(3, 4), then=calls(lambda: matrix(3, 4)))


@program
def refused_by_numpy():
    def f(x, axis):
        array = (x * 2).numpy()
        try:
            return np.squeeze(array, axis)
        except ValueError as error:
            return str(error)

    return Case(f, matrix(1, 4), 0, then=[lambda: Args(matrix(3, 3), 1), lambda: Args(matrix(1, 4), 5)])


@program(whole=False)
def joined_by_numpy():
    def f(x):
        array = (x * 2).numpy()
        rows = np.concatenate([array, np.arange(4.0)]), np.stack([array, array])
        return rows, np.copy(array), array.mean(), np.where(array > 2, array, 0), array[0] + 1

    return Case(f, vector(4), then=calls(lambda: vector(4)))
