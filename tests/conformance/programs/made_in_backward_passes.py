"""Backward functions of torch.autograd.Function that fill lists and dicts and make objects, as libraries of operators do."""

import torch
from torch.autograd import Function

from conformance.program import Args, Case, program
from conformance.sample import vector


class Sum:
    def __init__(self, first):
        self.first = first
        self.parts = []

    def add(self, part):
        self.parts.append(part)
        self.count = len(self.parts)
        return self

    def total(self):
        return self.first + sum(self.parts) * self.count


def applied(function, *more):
    """A program that calls a Function twice, the second time with another scale."""

    def f(x, scale):
        return function.apply(x, *more) * scale

    leaf = vector().requires_grad_()
    return Case(f, leaf, 2.0, then=[lambda: None, lambda: Args(vector(7).requires_grad_(), 3.0)])


@program
def a_list_and_a_dict():
    class Exponential(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            parts, named = [], {}
            for i in range(3):
                parts.append(x * i)
                named[i] = gradient
            parts += [x]
            parts[0] = x.sin()
            named.update(last=x)
            del named[1]
            return sum(parts) * named[0] + named["last"]

    return applied(Exponential)


@program
def an_object_with_attributes():
    class Exponential(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            made = Sum(x).add(x * 2).add(x.cos())
            made.extra = gradient
            del made.first
            made.first = x
            return made.total() * made.extra

    return applied(Exponential)


@program
def containers_by_their_types():
    class Exponential(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            pairs = dict(zip(("a", "b"), (x, gradient), strict=True))
            pairs["c"] = x.exp()
            kept = list(pairs.values())
            kept.insert(0, x)
            seen = {1}
            seen.add(2)
            return kept[0] * kept[2] * len(seen) + kept.pop() * gradient

    return applied(Exponential)


def passed_twice(make, change):
    """What the forward made is written by each pass over one history."""

    class Counted(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.made = make()
            return x.exp()

        @staticmethod
        def backward(ctx, gradient):
            change(ctx.made)
            return gradient * ctx.saved_tensors[0] * len(ctx.made)

    x, kept = vector().requires_grad_(), []

    def f():
        kept.append(Counted.apply(x))

    def look():
        return [torch.autograd.grad(kept[-1].sum(), x, retain_graph=True) for _ in range(2)]

    return Case(f, look=look, then=[lambda: None])


@program(whole=False)
def a_list_that_the_forward_made():
    return passed_twice(list, lambda made: made.append(1))


@program(whole=False)
def a_key_deleted_of_what_the_forward_made():
    def change(made):
        del made[len(made)]

    return passed_twice(lambda: {n: n for n in range(1, 5)}, change)


@program(whole=False)
def an_attribute_of_what_the_forward_made():
    class Many(list):
        pass

    def change(made):
        made.count = getattr(made, "count_of_passes", 0)
        made.count_of_passes = made.count + 1
        made += [1] * made.count_of_passes

    return passed_twice(Many, change)


@program(whole=False)
def a_list_from_outside():
    many = []

    class Counted(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(ctx, gradient):
            made = [1]
            made.append(2)
            many.append(made)
            return gradient * ctx.saved_tensors[0] * len(many)

    def f(x, scale):
        return Counted.apply(x) * scale

    leaf = vector().requires_grad_()
    return Case(f, leaf, 2.0, then=[lambda: None], observe=many)
