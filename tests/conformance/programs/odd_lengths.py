"""Tensors of odd lengths that lie in a buffer between canaries: what is read and written must end where the tensor does.

The canaries are 1e30, so that one that is read makes a sum wrong, and the whole buffer is compared, so that one that is
written is seen. Lengths lie beside the widths of vector registers and of blocks.
"""

import torch
from torch.nn import functional

from conformance.program import Args, Case, program

CANARY = 1e30

# A recompile for each length meets the limit of eight: so two programs for some kinds of work.
FEW, MORE = (1, 3, 7, 9, 17, 33, 129), (5, 13, 15, 31, 63, 127, 1023)


class Buffer:
    """One storage with canaries, out of which tensors are cut; each lies at an odd place."""

    def __init__(self, dtype=torch.float32, size=6000):
        self.canary = CANARY if dtype.is_floating_point and dtype is not torch.float16 else 77
        self.storage = torch.full((size,), self.canary, dtype=torch.float64).to(dtype)
        self.used = 3
        self.parts = []

    def canaries(self):
        """The storage without what was cut out of it."""
        rest = self.storage.clone()
        for part in self.parts:
            rest[part] = 0
        return rest

    def cut(self, *shape):
        """A contiguous tensor of small numbers."""
        length = torch.Size(shape).numel()
        self.parts.append(slice(self.used, self.used + length))
        part = self.storage[self.parts[-1]]
        part.copy_(torch.arange(length) % 7 - 2)
        self.used += length + 5
        return part.view(shape)

    def cut_rows(self, rows, columns, gap=3):
        """A matrix with a gap of canaries behind each row."""
        block = self.storage[self.used : self.used + rows * (columns + gap)].view(rows, columns + gap)
        self.used += rows * (columns + gap) + 5
        block[:, :columns] = (torch.arange(rows * columns) % 5 - 1).reshape(rows, columns).to(block.dtype)
        return block[:, :columns]


def over_lengths(f, make, lengths, only_canaries=False):
    """Calls f with tensors of each of the lengths in turn; `make(n)` gives the buffer and the arguments.

    Gradients that lie in the buffers are compared as gradients are, so of these buffers only the canaries.
    """
    buffers = [make(n) for n in lengths]
    (_, args), *rest = buffers
    then = [lambda a=a: Args(*a) for _, a in rest]
    if only_canaries:
        return Case(f, *args, look=lambda: [buffer.canaries() for buffer, _ in buffers], then=then)
    return Case(f, *args, observe=[buffer.storage for buffer, _ in buffers], then=then)


def two_vectors(dtype=torch.float32):
    def make(n):
        buffer = Buffer(dtype)
        return buffer, (buffer.cut(n), buffer.cut(n))

    return make


@program
def element_by_element():
    return over_lengths(lambda x, y: (x * 2 + y, (x - y).exp(), x.maximum(y)), two_vectors(), FEW)


@program
def element_by_element_of_other_lengths():
    return over_lengths(lambda x, y: (x * 2 + y, x.sigmoid() * y, x < y), two_vectors(), MORE)


def write_in_place(x, y):
    x.add_(y).mul_(3)
    y.sub_(1)
    x[1:] = 4
    y.relu_()
    return x.sum()


@program
def written_in_place():
    return over_lengths(write_in_place, two_vectors(), FEW)


@program
def written_in_place_in_other_lengths():
    return over_lengths(write_in_place, two_vectors(), MORE)


@program
def written_by_fills_and_copies():
    def f(x, y):
        x.copy_(y)
        y.fill_(2)
        x[::2].zero_()
        y[-1:] += 1
        return x + y

    return over_lengths(f, two_vectors(), FEW)


def reduce(x, y):
    return x.sum(), y.mean(), x.max(), y.min(), x.prod(), (x * y).sum(), x.argmax(), x.norm(), x.cumsum(0), x.softmax(0)


@program
def reduced():
    return over_lengths(reduce, two_vectors(), FEW)


@program
def reduced_in_other_lengths():
    return over_lengths(reduce, two_vectors(), MORE)


@program
def of_doubles():
    return over_lengths(lambda x, y: (x * y + 1, x.sum(), x.add_(1)), two_vectors(torch.float64), FEW)


@program
def of_halves():
    return over_lengths(lambda x, y: (x * y + 1, x.sum(), x.add_(1)), two_vectors(torch.float16), FEW)


@program
def of_brain_halves():
    return over_lengths(lambda x, y: (x * y + 1, x.sum(), x.add_(1)), two_vectors(torch.bfloat16), FEW)


@program
def of_integers():
    return over_lengths(lambda x, y: (x * y + 1, x.sum(), x.add_(1), x > y), two_vectors(torch.int64), FEW)


@program
def of_bytes():
    return over_lengths(lambda x, y: (x * y + 1, x.sum(), x.add_(1), x > y), two_vectors(torch.int8), FEW)


def rows(n):
    buffer = Buffer()
    return buffer, (buffer.cut_rows(3, n), buffer.cut(n))


@program
def rows_with_gaps():
    def f(m, v):
        m.mul_(2)
        return m + v, m.sum(), m.sum(1), m.amax(0), m.softmax(1)

    return over_lengths(f, rows, FEW)


@program
def rows_with_gaps_written_by_columns():
    def f(m, v):
        m[:, -1] = 9
        m[:, :1] += 1
        m.t()[0].zero_()
        m[1].copy_(v)
        return m @ v

    return over_lengths(f, rows, FEW)


@program
def matrices_multiplied():
    def make(n):
        buffer = Buffer()
        return buffer, (buffer.cut_rows(3, n), buffer.cut(n, 5), buffer.cut(5))

    return over_lengths(lambda a, b, c: (torch.addmm(c, a, b).relu(), a @ b), make, FEW)


@program
def normalised_rows():
    def make(n):
        buffer = Buffer()
        return buffer, (buffer.cut_rows(3, n), buffer.cut(n), buffer.cut(n))

    def f(m, weight, bias):
        return functional.layer_norm(m, m.shape[1:], weight, bias), m.log_softmax(-1), functional.rms_norm(m, m.shape[1:])

    return over_lengths(f, make, FEW[1:])


@program
def pieces_gathered():
    def f(x, y):
        return torch.cat([x, y]), torch.stack([x, y]), functional.pad(x, (1, 2)), x.flip(0), x.roll(1), x.repeat(3)

    return over_lengths(f, two_vectors(), FEW)


@program
def results_written_into_buffers():
    def f(x, y):
        torch.add(x, 1, out=y)
        torch.mul(x, y, out=x)
        return x.sum()

    return over_lengths(f, two_vectors(), FEW)


@program
def gradients_of_odd_lengths():
    def make(n):
        buffer = Buffer()
        x, y = buffer.cut(n).requires_grad_(), buffer.cut(n).requires_grad_()
        x.grad, y.grad = buffer.cut(n), buffer.cut(n)
        return buffer, (x, y)

    return over_lengths(lambda x, y: ((x * y).relu(), (x.exp() * 0.1).sum(), (x + y).tanh()), make, FEW, only_canaries=True)


@program
def columns_beyond_a_panel():
    def make(n):
        buffer = Buffer()
        return buffer, (buffer.cut_rows(3, 2 * n + 255),)

    return over_lengths(lambda m: ((m * 2).sum(0), (m + 1).amax(0)), make, FEW[:5])


@program
def columns_of_two_batch_dimensions():
    def f(x, weight):
        turned = x.transpose(0, 1)
        return (turned * 2).sum(2), turned.exp().amax(-2), (turned * weight).sum(-2)

    x = torch.arange(7200.0).reshape(2, 3, 4, 300) % 64 / 64
    return Case(f, x, torch.arange(300.0), then=[lambda: None])


@program
def rows_without_elements():
    def f(x):
        return (x * 2).sum(1) + 3, (x + 1).prod(1), (x > 0).all(1)

    return Case(f, torch.ones(5, 0), then=[lambda: None])
