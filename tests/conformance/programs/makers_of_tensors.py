"""Makers of tensors from before there were dtypes: torch.LongTensor, Tensor.new, torch.autograd.Variable."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, vector


@program
def typed_tensors():
    def f(x, n):
        longs = torch.LongTensor([1, n, 3])
        return x + longs, longs, torch.FloatTensor([[1, 2.5]]), torch.BoolTensor([True, False]), torch.DoubleTensor((n,))

    return Case(f, vector(), 2, then=[lambda: Args(vector(), 5)])


@program
def typed_tensors_of_sizes():
    def f(x):
        return x + torch.FloatTensor(3).fill_(2), torch.LongTensor(2, 0), torch.IntTensor().shape

    return Case(f, vector())


@program
def new_ones_of_another():
    def f(x, items):
        ints = x.to(torch.int32)
        made = x.new(items), x.new((1, 2)), x.new(2, 3).zero_(), ints.new([1, 2]), x.new(x.shape).fill_(1), x.new()
        return x + x.new([1, 2, 3]), made

    return Case(f, vector(), [1.0, 2], then=[lambda: Args(vector(), [3])])


@program
def a_variable_of_a_tensor():
    def f(x):
        v = torch.autograd.Variable(x)
        return v * 2, v.requires_grad, isinstance(v, torch.autograd.Variable), isinstance(v, torch.Tensor)

    return Case(f, leaf())


@program(whole=False)
def a_variable_with_a_gradient():
    def f(x):
        v = torch.autograd.Variable(x.clone(), requires_grad=True)
        (v * v).sum().backward()
        return v.grad

    return Case(f, vector())


@program
def asarray_of_numbers():
    def f(x, n):
        made = torch.asarray([1, n]), torch.asarray(2.5, dtype=torch.float64), torch.asarray([[True], [False]]), torch.asarray(n)
        return x * torch.asarray([1.0, n, 3.0]), made

    return Case(f, vector(), 2, then=[lambda: Args(vector(), 5)])


@program(whole=False)
def asarray_of_memory():
    memory = bytearray(b"abc")

    def f(x):
        own = torch.asarray(x)
        own.add_(1)
        seen = torch.asarray(memory, dtype=torch.uint8)
        seen[0] = 7
        return x * 2, seen + 0

    return Case(f, vector(), observe=memory)
