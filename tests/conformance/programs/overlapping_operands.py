"""Operands of one operator that lie in one memory: what eager refuses, and what it computes one after the other.

A compiler whose tensors have no memory while it traces must know from offsets, sizes and strides what torch asks the
memory. And it must know it for later calls with other sizes.
"""

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, vector


def _ends(memory, operations):
    """How each operation on two views of this memory ends; all write, and the memory is seen after each."""
    seen = []
    for operate in operations:
        fresh = memory * 1
        try:
            operate(fresh)
            seen.append("well")
        except RuntimeError as error:
            seen.append(str(error))
        seen.append(fresh)
    return seen


def _views(then=(9, 5, 12)):
    return [lambda size=size: Args(vector(size)) for size in then]


@program(whole=False)
def one_element_seen_with_two_strides():
    def f(v):
        a, b = v[0:1:2], v[:1]
        return _ends(v, [lambda t: t[0:1:2].mul_(t[:1])]), a.add(b)

    return Case(f, vector(9), then=_views())


@program(whole=False)
def in_place_operators_on_shifted_parts():
    def parts(t):
        return t[:4], t[1:5]

    def apply(name, *further):
        return lambda t: getattr(parts(t)[0], name)(parts(t)[1], *further)

    def f(v):
        one_by_one = [apply("add_"), apply("mul_"), apply("pow_"), apply("atan2_"), apply("lerp_", 0.5), apply("copy_")]
        more = [
            lambda t: t[:4].addcmul_(t[4:8], t[2:6]),
            lambda t: t[:4].add_(t[4:8]),
            lambda t: t[:4].add_(t[:4]),
            lambda t: t[:8:2].mul_(t[1:8:2]),
            lambda t: t[:4].masked_fill_(t[1:5] > 0, 2.0),
            lambda t: t[:4].copy_(t[:1]),
        ]
        return _ends(v, one_by_one + more)

    return Case(f, vector(9), then=[lambda: Args(vector(12))])


@program(whole=False)
def results_given_that_are_operands():
    def f(v):
        return _ends(
            v,
            [
                lambda t: torch.add(t[1:5], 1, out=t[:4]),
                lambda t: torch.sin(t[:4], out=t[:4]),
                lambda t: torch.mul(t[:1], t[4:5], out=t[0:1:2]),
                lambda t: torch.cat([t[:2], t[5:7]], out=t[1:5]),
                lambda t: torch.sum(t[:4].view(2, 2), 0, out=t[1:3]),
                lambda t: torch.where(t[:4] > 1, t[1:5], t[:4], out=t[4:8]),
                lambda t: torch.clamp(t[:4], 0.5, 1, out=t[2:6]),
                lambda t: torch.sort(t[:4], out=(t[1:5], torch.empty(4, dtype=torch.long))),
            ],
        )

    return Case(f, vector(9), then=[lambda: Args(vector(12))])


@program(whole=False)
def products_of_matrices_into_their_operands():
    def f(m, v):
        return (
            _ends(m, [lambda t: t.addmm_(t, t), lambda t: torch.mm(t, t, out=t[:]), lambda t: t.addmm_(t.t(), torch.ones(2, 2))]),
            _ends(v, [lambda t: t[:4].view(2, 2).addmv_(torch.ones(2, 2), t[:2])]),
        )

    def g(m, v):  # how a product reads what it has written is its kernel's affair, but for what torch refuses
        ends = f(m, v)
        return [e for part in ends for e in part if isinstance(e, str)], m + 1

    return Case(g, torch.ones(2, 2), vector(6))


@program(whole=False)
def lists_of_tensors_that_share_memory():
    def f(v):
        return _ends(
            v,
            [
                lambda t: torch._foreach_mul_([t[:4], t[2:6]], 2.0),
                lambda t: torch._foreach_add_([t, t], [t.detach().clone(), torch.ones_like(t)]),
                lambda t: torch._foreach_add_([t[:4], t[4:8]], [t[4:8], t[:4]]),
                lambda t: torch._foreach_mul_([t[:4], t[4:8]], [t[:4], t[4:8]]),
                lambda t: torch._foreach_copy_([t[:4]], [t[1:5]]),
                lambda t: torch._foreach_zero_([t[:2], t[1:3]]),
                lambda t: torch._foreach_mul_([t[:2], t[2:4]], t[3]),
                lambda t: torch._foreach_addcmul_([t[:1]], [t[0:1:2]], [t[4:5]]),
            ],
        )

    return Case(f, vector(9), then=[lambda: Args(vector(12))])


@program(whole=False)
def writes_by_indices_of_their_own_memory():
    def f(v):
        first = torch.tensor([0])
        return _ends(
            v,
            [
                lambda t: t.index_put_((first,), t[:1]),
                lambda t: t[:4].index_put_((torch.arange(4),), t[1:5]),
                lambda t: t[:4].index_add_(0, torch.arange(4), t[1:5]),
                lambda t: t[:4].index_copy_(0, torch.arange(4), t[2:6]),
                lambda t: t[:4].scatter_(0, torch.arange(4), t[1:5]),
                lambda t: t[:4].masked_scatter_(torch.ones(4, dtype=torch.bool), t[1:5]),
                lambda t: t[:4].put_(torch.arange(4), t[1:5]),
                lambda t: t.__setitem__(slice(0, 4), t[1:5]),
                lambda t: t.__setitem__(torch.arange(4), t[1:5]),
                lambda t: t.__setitem__(slice(0, 1), t[0:1:2]),
            ],
        )

    return Case(f, vector(9), then=[lambda: Args(vector(12))])


@program(whole=False)
def targets_that_repeat_an_element():
    def f(v):
        return _ends(
            v,
            [
                lambda t: t[:1].expand(4).add_(1),
                lambda t: t[:1].expand(4).copy_(t[4:8]),
                lambda t: t[:4].expand(2, 4).mul_(2),
                lambda t: torch.add(t[:4], 1, out=t[4:5].expand(4)),
                lambda t: torch._foreach_add_([t[:1].expand(4)], 1.0),
                lambda t: t[:1].expand(4).fill_(3),
                lambda t: t[:1].expand(1).add_(1),
                lambda t: t[:4].as_strided((4,), (0,)).zero_(),
                lambda t: t[:1].expand(4).index_put_((torch.tensor([0]),), t[4:5]),
            ],
        )

    return Case(f, vector(9), then=[lambda: Args(vector(12))])


@program(whole=False)
def bounds_that_come_with_the_call():
    def f(v, i, j, n):
        fresh = v * 1
        try:
            fresh[i : i + n].add_(fresh[j : j + n])
            return fresh, "well"
        except RuntimeError as error:
            return fresh, str(error)

    given = [(0, 4, 4), (0, 5, 4), (0, 3, 4), (2, 2, 4), (0, 1, 1), (1, 0, 1), (1, 0, 2), (3, 8, 5), (4, 8, 5), (5, 0, 5)]
    return Case(f, vector(16), 0, 6, 4, then=[lambda g=g: Args(vector(16), *g) for g in given])


@program(whole=False)
def steps_and_repetitions_that_come_with_the_call():
    def f(v, step, times):
        seen = []
        fresh = v * 1
        for operate in (lambda: fresh[:1].expand(times).add_(1), lambda: fresh[: 2 * step : step].add_(fresh[1 : 1 + step : step].sum())):
            try:
                operate()
                seen.append("well")
            except RuntimeError as error:
                seen.append(str(error))
        return fresh, seen

    given = [(2, 3), (3, 1), (1, 2), (4, 1), (2, 5)]
    return Case(f, vector(16), 2, 4, then=[lambda g=g: Args(vector(16), *g) for g in given])


@program(whole=False)
def sizes_of_parts_that_follow_from_the_tensor():
    def f(v):
        half = v.shape[0] // 2
        fresh = v * 1
        try:
            fresh[:half].mul_(fresh[4 : 4 + half])
            return fresh, "well"
        except RuntimeError as error:
            return fresh, str(error)

    return Case(f, vector(8), then=[lambda n=n: Args(vector(n)) for n in (6, 7, 9, 10, 12, 8, 4)])


@program
def one_element_that_meets_many_in_a_written_tensor():
    # The size of the part is 1 by what was asked of it before its step was.
    def f(v, j, k, step):
        w = v * 1
        w[:5].mul_(w[j : j + k * step : step])
        w[:4].addcmul_(w[j : j + k * step : step], w[j : j + k * step : step])
        return w + 0

    given = [(9, 8, 5, 3), (9, 7, 1, 2), (12, 11, 5, 3), (9, 6, 1, 2)]
    return Case(f, vector(9), 8, 5, 2, then=[lambda g=g: Args(vector(g[0]), *g[1:]) for g in given])


@program
def a_bound_of_one_element_and_of_many():
    # The operator's kernel is asked with examples: they do not tell whether the bound is stretched.
    def f(v, j, k):
        half = v[: v.shape[0] // 2] * 1
        bound = v[j : j + k]
        return torch.clamp(half, max=bound), half.clamp_(max=bound)

    given = [(9, 8, 4), (9, 5, 4), (9, 8, 3), (12, 6, 6), (12, 11, 1)]
    return Case(f, vector(9), 8, 5, then=[lambda g=g: Args(vector(g[0]), *g[1:]) for g in given])


@program
def parts_with_steps_that_are_computed_alike():
    def f(v, w):
        return v[1:16:3] * 2, w[12:22:2] * 2, torch._foreach_sin([v[:5], w[12:22].view(5, 2)[:, 0]])

    return Case(f, vector(24), vector(24) * 3, then=[lambda: Args(vector(30), vector(28))])


@program(whole=False)
def elements_of_two_sizes():
    def f(v):
        return _ends(
            v,
            [
                lambda t: t[:2].copy_(t.view(torch.int16)[1:3]),
                lambda t: t.view(torch.int16)[:2].copy_(t[1:3]),
                lambda t: t[:1].add_(t.view(torch.int16)[1:2]),
                lambda t: t[:1].add_(t.view(torch.int16)[2:3]),
            ],
        )

    return Case(f, vector(8))


@program(whole=False)
def results_given_that_are_resized():
    def f(v):
        seen = []
        for given in (torch.empty(0), v[0:0]):
            seen.append(torch.ops.aten.relu.out(v[:4].view(2, 2), out=given))
        return seen, v + 1

    return Case(f, vector(9), then=[lambda: Args(vector(12))])


@program(whole=False)
def gradients_of_what_torch_writes_over():
    # Torch's own vander saves a view that it writes later: no gradient comes of it, and its history is a ring.
    def f(x):
        try:
            torch.vander(x).sum().backward()
        except RuntimeError as error:
            return str(error)[:60], x.grad
        return x.grad

    return Case(f, leaf(), forward_only=True)
