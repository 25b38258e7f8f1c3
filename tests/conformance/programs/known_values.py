"""Tensors made of numbers, and what a program reads of them while it is captured."""

import framefuse
import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


@program
def of_what_is_made_of_numbers():
    sizes = [1, 2, 3]

    def f(x, n):
        scale = torch.tensor(3.5).item()
        total = int(torch.tensor(sizes).sum()) + torch.arange(n).prod().item()
        rates = [r.item() for r in torch.linspace(0, 0.1, n)]
        table = torch.eye(2, dtype=torch.int64).tolist()
        if (torch.ones(2) > 0.5).all() and not torch.zeros(1):
            x = x + 1
        pairs = torch.stack([torch.arange(2), torch.arange(2).flip(0)]).t().tolist()
        first = sizes[torch.tensor(1)]
        made = torch.full((2, 2), True).tolist(), torch.tensor(1 + 2j).item(), torch.scalar_tensor(2).item()
        deep = torch.cat([torch.arange(2), torch.tensor([5])]).reshape(3, 1).tolist()
        return x * scale * total, rates, table, pairs, first, made, deep, f"{torch.tensor(2).item():03d}"

    return Case(
        f,
        vector(),
        3,
        then=[
            lambda: Args(vector(), 4),
            lambda: sizes.append(4),
            lambda: torch.set_default_dtype(torch.float64),
            lambda: torch.set_default_dtype(torch.float32),
        ],
    )


@program
def that_are_tensors_of_the_graph_too():
    def f(x):
        spans = torch.tensor([1, 2])
        parts = x.split(spans.tolist())
        moved = spans * 2
        moved += 1
        return parts[0].sum() + parts[1].sum(), spans, moved, spans.max().item()

    return Case(f, vector())


@program(whole=False)
def that_were_written():
    def f(x):
        a = torch.tensor([1, 2])
        view = a[1:]
        view.add_(5)
        b = torch.zeros(2)
        b[0] = 3
        c = torch.tensor(1.0)
        c += x.sum()
        return a.tolist(), b.tolist(), c.item(), a.sum().item()

    return Case(f, vector(), then=[lambda: Args(vector(3, 2.0))])


@program(whole=False)
def that_depend_on_more_than_numbers():
    def f(x):
        drawn = torch.rand(2).tolist()
        shape = torch.empty(2).shape
        masked = torch.where(x > 0, x, 0).sum().item()
        kept = x.new_ones(2).tolist()
        like = torch.ones_like(x).sum().item()
        return drawn, shape, masked, kept, like, (x * 0).tolist(), torch.arange(2).tolist()

    return Case(f, vector(), then=[lambda: Args(vector(3, -2.0))])


@program(whole=False)
def whose_operators_raise():
    def f(x):
        y = x + 1
        try:
            z = torch.tensor([1, 2]) // torch.tensor([1, 0])
            where = "read"
            read = z.tolist()
        except Exception as e:
            return y, type(e).__name__, "where" in dir()
        return y, where, read

    return Case(f, vector())


@program
def in_a_branch():
    def f(x, n):
        def scaled(t):
            return t * torch.arange(n).sum().item()

        return framefuse.cond(x.sum() > 0, scaled, lambda t: t * torch.tensor(2.0).item(), (x,))

    return Case(f, vector(), 3, then=[lambda: Args(vector(), 4), lambda: Args(vector(3, -9.0), 4)], forward_only=True)


@program
def of_memory_that_the_program_wrote():
    """Sizes of levels, as detectors note them: every element is set before it is read."""

    def f(x, *sides):
        shapes = torch.empty((len(sides), 2), dtype=torch.long)
        for level, side in enumerate(sides):
            shapes[level, 0] = side
            shapes[level, 1] = side + 1
        total = (shapes[:, 0] * shapes[:, 1]).sum()
        if total != sum(side * (side + 1) for side in sides):
            x = -x
        starts = torch.cat([shapes.new_zeros(1), shapes.prod(1).cumsum(0)[:-1]])
        flags = torch.zeros(2, dtype=torch.bool)
        flags[1] = True
        spans = torch.tensor([1, 2])
        spans[1:].mul_(4)
        return x * starts[-1].item(), shapes, flags.tolist(), spans.tolist(), spans

    return Case(f, vector(), 2, 3, then=[lambda: None, lambda: Args(vector(), 4, 1, 2)])


@program(whole=False)
def of_memory_that_is_read_before_and_after():
    def f(x):
        kept = torch.zeros(3)
        first = kept[1] + 1
        view = kept[1:]
        view.add_(5)
        before = (first.item(), kept.tolist())
        kept.copy_(torch.arange(3))
        other = view.clone()
        kept[2] = 9
        return x * first.item(), before, view.tolist(), other.tolist()

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def of_an_input_that_was_written():
    def f(x, ids):
        ids[0] += 1
        copy = ids.clone()
        copy[1] = 7
        return x * copy.sum().item(), ids.tolist()

    return Case(f, vector(), torch.tensor([1, 2, 3]), then=[lambda: None])


@program(whole=False)
def of_memory_that_nobody_set():
    """What is not set decides nothing here: the element that is read is."""

    def f(x):
        room = torch.empty(4)
        room[0] = 3.0
        if room[0] > 2:
            x = x + 1
        room.zero_()
        return x * room.sum().item()

    return Case(f, vector(), then=[lambda: None])
