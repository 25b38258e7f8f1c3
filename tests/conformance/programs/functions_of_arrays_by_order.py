"""Functions of numpy that sort, pick, pad and combine arrays that a graph's tensors are the memory of."""

import numpy as np
import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix


def calls(make):
    return [lambda k=k: Args(make() - k * 0.75) for k in range(3)]


def of_a_matrix(f):
    return Case(f, matrix(3, 4), then=calls(lambda: matrix(3, 4)))


@program
def sorted_places():
    def f(x):
        array = (x * -2).sin().numpy()
        return np.argsort(array), np.argsort(array, axis=0), array.argsort(), np.partition(array, 1)

    return of_a_matrix(f)


@program
def picked_by_known_places():
    def f(x):
        array = (x * 2).numpy()
        return np.take(array, [0, 2], axis=1), array.take([1, 1]), np.repeat(array, 2, axis=0), array.repeat(2)

    return of_a_matrix(f)


@program
def places_that_are_not_there():
    def f(x, place):
        array = (x * 2).numpy()
        try:
            return np.take(array, [0, place], axis=1)
        except IndexError as error:
            return str(error), np.delete(array, 0, axis=1)

    return Case(f, matrix(3, 4), 1, then=[lambda: Args(matrix(3, 4), 9), lambda: Args(matrix(3, 4) + 1, 2)])


@program
def put_beside():
    def f(x):
        array = (x * 2).numpy()
        longer = np.append(array, np.ones((1, 4), dtype=np.float32), axis=0)
        return longer, np.append(array, array), np.insert(array, 1, 0.5, axis=1), np.delete(longer, [0, 2], axis=0)

    return of_a_matrix(f)


@program
def products_by_name():
    def f(x):
        array = (x * 2).numpy()
        return np.einsum("ij,kj->ik", array, array), np.tensordot(array, array, axes=([1], [1]))

    return of_a_matrix(f)


@program
def places_among_borders():
    def f(x):
        array = (x * 2).numpy()
        borders = np.array([0.5, 1.5])
        return np.digitize(array, borders), np.searchsorted(borders, array), np.interp(array[0], [0.0, 2.0], [1.0, 5.0])

    return of_a_matrix(f)


@program
def replaced_where_there_is_no_number():
    def f(x):
        array = (x.sqrt() - 1).log().numpy()
        return np.nan_to_num(array), np.full_like(array, 2), np.convolve(array[1], [1.0, 2.0])

    return Case(f, matrix(3, 4), then=calls(lambda: matrix(3, 4)))


@program
def arrays_of_known_numbers():
    def f(x):
        array = (x * 2).numpy()
        return array + np.array([1, 2, 3, 4], dtype=np.float32), np.array(array), np.eye(3, dtype=np.float32) @ array

    return of_a_matrix(f)


@program(whole=False)
def a_copy_lives_on():
    def f(x):
        y = x * 2
        array = np.array(y.numpy())
        laid_out = np.ascontiguousarray(y.numpy().T)
        y.add_(1)
        return array, laid_out, y

    return of_a_matrix(f)


@program(whole=False)
def another_type_of_number():
    def f(x):
        array = (x * 1e30).numpy()
        return np.array(array, dtype=np.float16), np.array([array[0], array[1]])

    return of_a_matrix(f)


@program
def tensors_again():
    def f(x):
        array = np.array((x * 2).numpy())
        return torch.from_numpy(np.array([1.0, 2.0])) + x[:2, 0], array

    return of_a_matrix(f)
