"""Numpy's arrays from outside with other numbers in each call, read by numpy's functions: as observations and images are."""

import numpy as np
import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


def array(seed, *sizes):
    return np.random.default_rng(seed).standard_normal(sizes)


def calls(make):
    return [lambda k=k: make(k) for k in range(1, 4)]


def observed(*sizes):
    return calls(lambda k: Args(vector(3), array(k, *sizes)))


@program
def results_as_arrays():
    def f(x, a):
        return x * 2, np.maximum(a, 0), np.clip(a, -1, 1)[:, ::2].sum(axis=1)

    return Case(f, vector(3), array(0, 4, 3), then=observed(4, 3))


@program(whole=False)
def operators_and_views():
    def f(x, a):
        b = (a - 0.5) / 2.0
        return x + a.shape[0], b.T, a[1:], -a, a > 0, a.reshape(-1)

    return Case(f, vector(3), array(0, 4, 3), then=observed(4, 3))


@program(whole=False)
def views_are_of_the_array():
    kept = [array(0, 4, 3)]

    def f(x):
        part = kept[0][1:, :2]
        return x * 2, part, part.base is kept[0], np.asarray(kept[0]) is kept[0]

    def another():
        kept[0] = array(1, 4, 3)

    def written():
        kept[0][1] = 5.0

    return Case(f, vector(3), observe=kept, then=[another, written, written, another])


@program(whole=False)
def of_another_type_or_shape():
    def f(x, a):
        return x * 2, np.maximum(a, 1), a.ravel()

    others = [array(1, 4, 3), array(2, 4, 3).astype(np.float32), array(3, 2, 3), array(4, 3, 4).T, array(5, 8, 3)[::2]]
    return Case(f, vector(3), array(0, 4, 3), then=[lambda o=o: Args(vector(3), o) for o in others])


@program(whole=False)
def a_tensor_of_a_view():
    def f(x, image):
        pixels = torch.from_numpy(image.transpose(2, 0, 1))
        return pixels * x[0], torch.as_tensor(image).sum()

    return Case(f, vector(3), array(0, 4, 5, 3), then=observed(4, 5, 3))


@program
def large_arrays():
    def f(x, image):
        scaled = np.clip(image * 2.0, 0, 1)
        return x * image.shape[0], scaled

    return Case(f, vector(3), array(0, 64, 64, 3), then=observed(64, 64, 3))


@program(whole=False)
def a_tensor_with_its_memory_is_written():
    kept = [array(0, 3)]
    shared = [torch.from_numpy(kept[0])]

    def f(x):
        before = np.maximum(kept[0], 0)
        shared[0].add_(x)
        return before, np.maximum(kept[0], 0)

    def another():
        kept[0] = array(1, 3)
        shared[0] = torch.from_numpy(kept[0])

    return Case(f, vector(3).double(), observe=kept, then=[another, lambda: None, another])


@program
def lists_of_arrays():
    def f(x, rows):
        return x * 2, np.stack(rows), np.concatenate([rows[0], rows[1]])

    return Case(
        f, vector(3), [array(0, 3), array(1, 3)], then=calls(lambda k: Args(vector(3), [array(k, 3), array(k + 9, 3)]))
    )


@program
def numbers_of_an_array():
    def f(x, a):
        return x * float(a.max()) + a[0], len(a)

    return Case(f, vector(3), array(0, 3), then=observed(3))


@program(whole=False)
def written_by_the_program():
    def f(x, a):
        low = np.minimum(a, 0)
        a += 1.0
        return x * 2, low, np.minimum(a, 0)

    return Case(f, vector(3), array(0, 3), then=observed(3))


@program
def warnings_of_numpy():
    def f(x, a):
        return x * 2, np.log(a)

    return Case(f, vector(3), np.array([1.0, 2.0]), then=[lambda: Args(vector(3), np.array([2.0, -k])) for k in (1, 0, 2)])
