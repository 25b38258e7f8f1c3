"""What a backward has saved of `x.data`: the memory of x, with versions of its own.

A counted write of x is no reason for eager to raise: its backward takes what is there then. A counted write of an
`x.data` that was handed out is one.
"""

import torch

from conformance.program import Case, program
from conformance.sample import matrix


def _count_up(t):
    with torch.no_grad():
        t.mul_(1.5)


def _gradients_after(write, *functions, twice=False):
    """Of functions of three tensors, with a write between a break and the backward; or what it raises."""
    leaves = [((matrix(3, 3) + i) * 0.5).requires_grad_() for i in range(3)]

    def run():
        found = []
        for f in functions:
            a, b, c = [t * 0.5 for t in leaves]
            torch._dynamo.graph_break()
            results = f(a, b, c)
            torch._dynamo.graph_break()
            write(a, *results)
            torch._dynamo.graph_break()
            total = results[0].sum()
            try:
                first = torch.autograd.grad(total, leaves, create_graph=twice, allow_unused=True)
                if twice:
                    length = sum((g * g).sum() for g in first if g is not None)
                    first += torch.autograd.grad(length, leaves, allow_unused=True)
                found.append([g if g is None else g.detach() for g in first])
            except RuntimeError as error:
                found.append("modified by an inplace operation" in str(error))
        return found

    return Case(run, observe=leaves, forward_only=True)


_OF_INPUTS = (
    lambda a, b, c: (a.data * b,),
    lambda a, b, c: (a.data.t() @ b,),
    lambda a, b, c: (a.t().data @ b + a[0].data * b[1],),
    lambda a, b, c: (a.detach().data * b + a.data.detach().reshape(9)[:3] * c,),
    lambda a, b, c: (torch.stack([a.data, b]).prod(0) * c.sin(),),
)


@program(whole=False)
def of_an_input_that_is_written():
    return _gradients_after(lambda a, *_: _count_up(a), *_OF_INPUTS)


@program(whole=False)
def of_an_input_that_is_written_uncounted():
    return _gradients_after(lambda a, *_: a.data.mul_(3), *_OF_INPUTS)


@program(whole=False)
def of_an_input_that_gets_a_history():
    return _gradients_after(lambda a, r, *_: a.mul_(a.detach() + 1), *_OF_INPUTS)


# Eager's engine keeps what is left of a pass that failed until the next one.
_FAILS_HALFWAY = {"whole": False, "not_ways": ("leaks",)}


@program(**_FAILS_HALFWAY)
def in_a_second_derivative():
    return _gradients_after(lambda a, *_: _count_up(a), *_OF_INPUTS, lambda a, b, c: (a.data * b * b + a * c,), twice=True)


@program(**_FAILS_HALFWAY)
def what_a_second_derivative_comes_to():
    """It goes through the nodes that saved the copy, where a first one has read something else."""
    return _gradients_after(
        lambda a, *t: _count_up(t[-1] if len(t) > 1 else a),
        lambda a, b, c: ((a.data * b).square(),),
        lambda a, b, c: ((a.data.t() @ b).sin() * c,),
        lambda a, b, c: ((a.t().data @ b).square(),),
        lambda a, b, c: (lambda y: ((y.data * b).square(), y))(a * 2),
        twice=True,
    )


@program(whole=False)
def written_in_the_same_graph():
    leaves = [((matrix(2, 2) + i) * 0.5).requires_grad_() for i in range(2)]

    def of_an_input(a, b):
        v = b.data * b
        b.mul_(2)
        return v * v

    def of_a_value(a, b):
        y = a * 2
        w = y.data * b
        y.mul_(3)
        return w * w * y

    def before_it_is_read(a, b):
        z = a.data
        z.mul_(2)
        return z * b

    def run():
        found = []
        for f in (of_an_input, of_a_value, before_it_is_read):
            y = f(*[t * 1 for t in leaves])
            torch._dynamo.graph_break()
            first = torch.autograd.grad(y.square().sum(), leaves, create_graph=True, allow_unused=True)
            length = sum((g * g).sum() for g in first if g is not None)
            found += [*first, *torch.autograd.grad(length, leaves, allow_unused=True)]
        return [g if g is None else g.detach() for g in found]

    return Case(run, observe=leaves, forward_only=True)


def _written_behind(read):
    def with_a_history(a, b, c):
        v = read(a) * b
        a.mul_(2)
        return (v * v,)

    def by_another(a, b, c):
        v = read(a) * b
        a.mul_(c)
        return (v * v * a,)

    def without_a_history(a, b, c):
        v = read(a) * b
        _count_up(a)
        return (v.sin() * v,)

    def twice(a, b, c):
        v = read(a) * b
        _count_up(a)
        w = read(a) * c
        _count_up(a)
        return (v * w * w,)

    def of_a_constant(a, b, c):
        t = a.detach() * 1
        torch._dynamo.graph_break()
        v = read(t) * b
        t.mul_(2)
        return v * v, t

    return with_a_history, by_another, without_a_history, twice, of_a_constant


@program(**_FAILS_HALFWAY)
def of_an_argument_that_is_written_behind_it():
    """A second derivative reads what counted writes in the same graph left there, and what came to it since."""
    functions = _written_behind(lambda t: t.data)
    return _gradients_after(lambda *_: None, *functions, twice=True)


@program(**_FAILS_HALFWAY)
def of_an_argument_that_is_written_behind_it_and_later():
    functions = _written_behind(lambda t: t.data.view(3, 3))
    return _gradients_after(lambda a, *_: a.data.mul_(3), *functions, twice=True)


@program(whole=False)
def beside_a_read_that_counts():
    """Each of the two raises where eager's node of its own does."""

    def both(a, b, c):
        return a.data * b + a * c, a

    def only_the_copy(a, b, c):
        return a.data * b, a * c

    return _gradients_after(lambda a, *_: _count_up(a), both, only_the_copy, lambda a, b, c: (a * c, a.data * b))


@program(**_FAILS_HALFWAY)
def detached_tensors_count_with_theirs():
    """`x.detach()` is no `x.data`: eager raises."""
    return _gradients_after(
        lambda a, *_: _count_up(a),
        lambda a, b, c: (a.detach() * b,),
        lambda a, b, c: (a.detach().t() @ b,),
        lambda a, b, c: (a.detach() * b + a.data * c,),
    )


@program(whole=False)
def of_a_copy_that_is_handed_out():
    """It is the copy that is written: eager raises, for its versions are those that go with what was saved."""

    def beside_a_view(a, b, c):
        z = a.data
        return z.t() @ b, z

    def beside_the_input(a, b, c):
        z = a.data
        return z * b + a, a.detach(), z

    return _gradients_after(
        lambda *t: _count_up(t[-1]),
        lambda a, b, c: (lambda z: (z * b, z))(a.data),
        beside_a_view,
        beside_the_input,
        lambda a, b, c: (lambda y, z: (z * b, y, z))(y := a * c, y.data),
    )


@program(whole=False)
def of_an_input_whose_copy_is_handed_out():
    return _gradients_after(
        lambda a, *_: _count_up(a),
        lambda a, b, c: (lambda z: (z * b, z))(a.data),
        lambda a, b, c: (lambda z: (z.t() @ b, z, a.t()))(a.data),
    )


@program(whole=False)
def of_a_result_that_is_written():
    return _gradients_after(
        lambda *t: _count_up(t[-1]),
        lambda a, b, c: (lambda y: (y.data * b, y))(a * c),
        lambda a, b, c: (lambda y: (y.data.t() @ b, y.t()))(a * c),
        lambda a, b, c: (lambda y: (y.data * b, (y * 2).sin(), y))(a * c),
    )


@program(whole=False)
def by_an_autograd_function():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(weight.data)
            return x * weight

        @staticmethod
        def backward(ctx, gradient):
            (weight,) = ctx.saved_tensors
            return gradient * weight, None

    return _gradients_after(lambda a, *_: _count_up(a), lambda a, b, c: (Scaled.apply(b, a.detach()),))


@program(whole=False)
def of_views_of_a_copy_that_are_handed_out():
    """Both count together: the write of one is seen by what has saved the other."""

    def with_the_copy(a, b, c):
        z = a.data
        return z.t(), z

    def before_it(a, b, c):
        z = a.data
        return z, z[1:]

    def without_it(a, b, c):
        z = a.data
        return z[0], z.t()

    def in_parts(a, b, c):
        return a.data.chunk(3)

    def of_a_result(a, b, c):
        y = a * c
        z = y.data
        return z.t(), y, z.detach(), z

    def of_an_unseen_result(a, b, c):
        z = (a * c).data
        return z.t(), z.detach()[0], z

    def used_after(f):
        def use(a, b, c):
            copies = f(a, b, c)
            torch._dynamo.graph_break()
            return copies[0] * b.sum(), copies[-1]

        return use

    parts = (with_the_copy, before_it, without_it, in_parts, of_a_result, of_an_unseen_result)
    return _gradients_after(lambda *t: _count_up(t[-1]), *map(used_after, parts))


@program(whole=False)
def of_an_input_whose_copy_is_handed_out_by_its_views():
    """It is the input that is written: eager does not raise."""

    def before_the_copy(a, b, c):
        z = a.data
        return z * b, z.t(), z

    def without_it(a, b, c):
        z = a.data
        return z @ b, z[0], z.t()

    return _gradients_after(lambda a, *_: _count_up(a), before_the_copy, without_it)


@program(whole=False)
def versions_of_views_of_a_copy():
    def f(x):
        y = x * 2
        z = x.data
        copy = y.data
        views = z.t(), z[0], copy[0], copy, y, copy.t()
        copy.mul_(2)
        return views

    def of_pieces(x):
        first, second = x.data.chunk(2)
        second.mul_(2)
        return first, second, x.data

    leaves = [matrix(2, 3).requires_grad_() for _ in range(2)]

    def run(x, y):
        views = f(x)
        pieces = of_pieces(y)
        torch._dynamo.graph_break()
        for t in (views[0], views[3], *pieces):
            t.mul_(3)
        return views, pieces

    return Case(run, *leaves, versions=True, forward_only=True)
