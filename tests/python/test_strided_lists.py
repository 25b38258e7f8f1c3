"""Tensors of one size and several strides whose equal kernels are one: each is read with its own stride."""

import framefuse
import pytest
import torch


def steps(v, w):
    return v[1:16:3] * 2, w[12:22:2] * 2


def columns(v, w):
    return v[:60].view(6, 10)[:, 2].sin(), w[:48].view(6, 8)[:, 1].sin()


def lists(v, w):
    return torch._foreach_mul([v[1:16:3], w[12:22].view(5, 2)[:, 0], v[:5]], 2.0)


def written(v, w):
    v, w = v * 1, w * 1
    torch._foreach_add_([v[1:16:3], w[12:22:2]], 1.5)
    return v, w


def of_several_sizes(v, w):
    return v[0:32:2] * 2, w[0:30:2] * 2, v[1:40:3] * 2, w[1:40:3] * 2, v[2:20:3] * 2


@pytest.mark.parametrize("program", [steps, columns, lists, written, of_several_sizes])
@pytest.mark.parametrize("dynamic", [False, True])
def test_each_is_read_with_its_own_stride(program, dynamic):
    framefuse.reset()
    v, w = torch.arange(64.0) / 4, torch.arange(64.0).neg()
    for result, expected in zip(framefuse.compile(program, dynamic=dynamic)(v, w), program(v, w)):
        torch.testing.assert_close(result, expected)
