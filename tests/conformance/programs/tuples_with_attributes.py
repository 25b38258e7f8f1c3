"""Tuples of classes whose instances have a __dict__: a NamedTuple with methods, a packed sequence."""

import collections
import typing

import torch
from torch.nn.utils import rnn

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


class Fields(typing.NamedTuple):
    scale: torch.Tensor
    steps: int


class Batch(Fields):
    kind = "a"

    def scaled(self, x):
        return x * self.scale + self.steps

    @property
    def twice(self):
        return self.steps * 2


class Pair(tuple):
    def total(self):
        return sum(self)


class Noisy(collections.namedtuple("Two", "a b")):
    def __getitem__(self, index):
        return super().__getitem__(index) + 1

    def __len__(self):
        return 7


def batch(steps=3, scale=2.0):
    return Batch(torch.full((3,), scale), steps)


@program
def fields_and_methods():
    def f(x, b):
        return x * b.scale + b.steps, b.scaled(x), b.twice, b[1]

    changes = [lambda: Args(vector(), batch(4)), lambda: Args(vector(), batch(3, 5.0))]
    return Case(f, vector(), batch(), then=changes)


@program
def unpacked_and_walked():
    def f(x, b, p):
        scale, steps = b
        return x * scale * steps, p.total(), [v * x for v in p], len(b) + len(p)

    return Case(f, vector(), batch(), Pair((1, 2, 3)), then=[lambda: Args(vector(), batch(5), Pair((1, 2)))])


@program
def made_anew_of_one():
    def f(x, b):
        c = b._replace(steps=9)
        return x * c.steps, c, b._asdict()["steps"], type(c) is type(b), b

    return Case(f, vector(), batch(), then=[lambda: Args(vector(), batch(5))])


@program
def methods_of_the_class_go_first():
    def f(x, n):
        return x * n[0] + n.b + len(n)

    return Case(f, vector(), Noisy(1, 2), then=[lambda: Args(vector(), Noisy(3, 2))])


@program
def an_attribute_comes_between_calls():
    b = batch()

    def f(x):
        return x * b.steps, getattr(b, "note", 0), b.kind

    def hides():
        b.kind = "mine"

    def notes():
        b.note = 5

    def drops():
        del b.note

    return Case(f, vector(), then=[notes, hides, drops, lambda: b.__dict__.clear()])


@program
def an_attribute_of_another_one():
    a, b = batch(), batch()
    b.note = 2

    def f(x, t):
        return x * t.steps * (t.note if hasattr(t, "note") else 1)

    return Case(f, vector(), a, then=[lambda: Args(vector(), b), lambda: Args(vector(), a), lambda: Args(vector(), b)])


@program
def an_attribute_is_written():
    b = batch()

    def f(x):
        y = x * b.steps
        b.note = y
        return y + b.note

    return Case(f, vector(), look=lambda: b.note, then=[lambda: None])


@program
def two_names_of_one_that_is_written():
    b = Pair((1, 2))

    def f(x, t, u):
        t.note = 1
        u.note = 2
        return x * t.note

    changes = [lambda: Args(vector(), b, Pair((1, 2))), lambda: Args(vector(), b, b)]
    return Case(f, vector(), Pair((1, 2)), Pair((1, 2)), then=changes)


@program
def one_is_written_and_another_is_read():
    b = Pair((1, 2))

    def f(x, t, u):
        t.note = 4
        del t.note
        t.mark = 3
        return x * getattr(u, "mark", 5), t is u, t == u

    def dropped():
        del b.mark
        return Args(vector(), Pair((1, 2)), b)

    changes = [lambda: Args(vector(), b, Pair((1, 2))), dropped, lambda: Args(vector(), b, b)]
    return Case(f, vector(), Pair((1, 2)), Pair((1, 2)), observe=b, then=changes)


@program(whole=False)
def its_end_is_code():
    ended = []

    class Ends(Pair):
        def __del__(self):
            ended.append(len(self))

    def f(x, t):
        return x * t[0]

    def another():
        return Args(vector(), Ends((2, 3)))

    return Case(f, vector(), Ends((1, 2)), look=lambda: list(ended), then=[another])


@program
def a_packed_sequence_from_outside():
    packed = rnn.pack_sequence([matrix(), matrix()[:1]])

    def f(x):
        return packed.data * 2, packed.batch_sizes, packed.sorted_indices, x + packed.data[0, 0], packed.is_cuda

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def packed_sequences_through_an_lstm():
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(4, 3)
    packed = rnn.pack_sequence([torch.randn(4, 4), torch.randn(2, 4)])

    def f(p):
        out, (h, c) = lstm(p)
        return out.data, h, c

    return Case(f, packed, then=[lambda: Args(packed)])


@program(whole=False)
def packed_and_padded_again():
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(4, 3, batch_first=True)
    x = torch.randn(3, 5, 4)

    def f(x, lengths):
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, (h, _) = lstm(packed)
        return rnn.pad_packed_sequence(out, batch_first=True), h

    return Case(f, x, torch.tensor([2, 5, 3]), then=[lambda: Args(x, torch.tensor([5, 1, 4]))])


class Backwards(tuple):
    def __iter__(self):
        return iter([self[1] * 10, self[0]])


@program
def unpacked_by_an_iter_of_its_own():
    outside = Backwards((2, 3))

    def f(x, pair):
        a, b = pair
        c, d = Backwards((a, b))
        e, *rest = outside
        return x * a + b, c, d, e, rest, [*pair]

    return Case(f, vector(), Backwards((4, 5)), then=[lambda: Args(vector(), Backwards((6, 5)))])


class Spread(typing.NamedTuple):
    first: int
    last: int


@program
def given_an_iter_later():
    pair = Spread(2, 3)
    iterated = []

    def f(x):
        a, b = pair
        c, d = Spread(a + 1, b)
        return x * a + b, c, d

    def change():
        Spread.__iter__ = lambda self: iterated.append(1) or iter((7, 8))

    def restore():
        if "__iter__" in vars(Spread):
            del Spread.__iter__

    restore()
    return Case(f, vector(), observe=iterated, then=[lambda: None, change, restore])
