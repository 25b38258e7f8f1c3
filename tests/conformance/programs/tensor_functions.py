"""Functions of torch's namespace: factories, shapes, reductions, gather, scatter, sorting, linear algebra."""

import torch
from torch.nn import functional

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


@program
def factories():
    def f(x):
        return (
            torch.zeros(2) + x[:2],
            torch.ones_like(x),
            torch.arange(1, 4),
            torch.full((2,), 3.5),
            torch.eye(2),
            torch.linspace(0, 1, 3),
            x.new_zeros(2),
            x.new_tensor([1.0, 2.0]),
            torch.empty(0),
            torch.tril(torch.ones(2, 2)),
        )

    return Case(f, vector())


@program
def shape_manipulation():
    def f(m):
        return (
            m.reshape(3, 2),
            m.permute(1, 0),
            m.transpose(0, 1).contiguous(),
            m.flatten(),
            torch.stack([m, m]),
            torch.cat([m, m], 1),
            m.split(1),
            m.chunk(3, dim=1),
            m.repeat(1, 2),
            m.roll(1, 0),
            m.flip(1),
            m.squeeze(),
            torch.broadcast_tensors(m, m[0])[1],
            m.movedim(0, 1),
            m.unfold(1, 2, 1),
            m.diagonal(),
        )

    return Case(f, matrix())


@program
def reductions():
    def f(m):
        return (
            m.sum(0),
            m.mean(1, keepdim=True),
            m.max(),
            m.min(1),
            m.argmax(),
            m.var(),
            m.std(0),
            m.prod(),
            m.cumsum(1),
            m.norm(),
            m.amax((0, 1)),
            m.logsumexp(1),
            m.any(),
            m.all(1),
            m.median(),
            m.count_nonzero(),
        )

    return Case(f, matrix(3, 3), forward_only=True)


@program
def gather_scatter_and_index():
    def f(m, i):
        return (
            m.gather(1, i),
            m.scatter(1, i, 9.0),
            m.index_select(0, i[0]),
            torch.where(m > 0.5, m, -m),
            m.take_along_dim(i, 1),
            m.scatter_add(0, i, m),
            m.masked_fill(m > 1, 0),
            torch.einsum("ij,kj->ik", m, m),
        )

    return Case(f, matrix(2, 3), torch.tensor([[0, 1, 1], [1, 0, 0]]))


@program
def sorting_and_topk():
    def f(m):
        values, order = m.sort(dim=1, descending=True)
        return values, order, m.argsort(0), m.topk(2).indices, torch.searchsorted(m[0], m[1]), m.kthvalue(1)

    return Case(f, matrix(2, 3), forward_only=True)


@program
def dtype_conversions():
    def f(x):
        return (
            x.double(),
            x.int(),
            x.to(torch.float16),
            x.bool(),
            x.type(torch.int8),
            x.to("cpu"),
            x.to(x),
            x.float() is x,
            x.view(torch.int32),
        )

    return Case(f, vector(), forward_only=True)


@program
def complex_and_real_views():
    def f(x):
        c = torch.complex(x, x * 2)
        return (
            c.real,
            c.imag,
            c.conj(),
            c.abs(),
            torch.view_as_real(c),
            c.conj().imag,
            torch.view_as_complex(torch.ones(2, 2)),
        )

    return Case(f, vector(), forward_only=True)


@program
def memory_formats():
    def f(x):
        y = x.to(memory_format=torch.channels_last)
        return y, y.stride(), (y * 2).stride(), y.contiguous(), y.is_contiguous(memory_format=torch.channels_last)

    return Case(f, torch.arange(16, dtype=torch.float32).reshape(1, 2, 2, 4))


@program
def linear_algebra():
    def f(m):
        s = m @ m.T + torch.eye(2)
        return (
            torch.linalg.inv(s),
            torch.linalg.det(s),
            torch.linalg.cholesky(s),
            torch.trace(s),
            torch.outer(m[0], m[1]),
            torch.bmm(m[None], m.T[None]),
        )

    return Case(f, matrix())


@program
def static_functions_and_methods_by_class():
    def f(x):
        return (
            torch.Tensor.add(x, 1),
            torch.sum(x, dim=0),
            torch._C._nn.gelu(x),
            torch.ops.aten.mul.Tensor(x, x),
            getattr(x, "neg")(),
        )

    return Case(f, vector())


@program(graphs=1)
def one_hot_with_a_number_of_classes():
    def f(classes, weight):
        return functional.one_hot(classes, 4) * weight, functional.one_hot(classes[:0], 4).shape

    return Case(f, torch.tensor([[0, 3], [1, 1]]), vector(4), then=[lambda: Args(torch.tensor([2]), vector(4))])


@program
def one_hot_with_a_class_out_of_range():
    def f(classes):
        try:
            return functional.one_hot(classes, 3) + 1
        except RuntimeError as error:
            return str(error)

    return Case(f, torch.tensor([0, 2]), then=[lambda: Args(torch.tensor([0, 3])), lambda: Args(torch.tensor([-1, 0]))])


@program(graphs=1)
def index_by_lists():
    def f(m, rows):
        return m[[0, 1]], m[rows], m[:, [2, 0]], m[[0, 1], [1, 2]]

    rows = [1, 0]
    return Case(f, matrix(), rows, then=[lambda: rows.append(1), lambda: rows.reverse()])


@program
def conjugates_and_negatives_that_wait():
    def f(x):
        c = torch.complex(x, x * 2)
        lazy = c.conj()
        negative = lazy.imag
        facts = lazy.is_conj(), lazy[0].is_conj(), lazy.clone().is_conj(), negative.is_neg(), negative.resolve_neg().is_neg()
        return lazy, lazy.real + 1, negative, negative * 2, negative.exp(), negative.resolve_neg(), lazy.resolve_conj(), facts

    return Case(f, vector())


@program
def copies_of_conjugates_and_negatives_that_wait():
    """A copy of what waits for a sign has it changed, and is not left out where nothing else would need a copy."""

    def f(x):
        c = torch.tensor([1.0 + 2.0j, 3.0 - 4.0j, 5.0j]).conj()
        lazy = torch.complex(x, x * 2).conj()
        parts = [torch.view_as_real(t.resolve_conj()) * 2 for t in (c, lazy)]
        copies = [torch.view_as_real(t.clone()) * 2 for t in (c, lazy)]
        negative = torch._neg_view(x * 2).resolve_neg() + 1, torch._neg_view(torch.tensor([1.0, 2.0, 3.0])) + x
        return *parts, *copies, *negative, lazy.imag * x, lazy.is_conj(), lazy.imag.is_neg()

    return Case(f, vector())


@program
def transforms_of_fourier():
    def f(m):
        y = torch.fft.rfftn(m)
        back = torch.fft.irfftn(y * y.conj(), s=m.shape)
        return y, y.stride(), y.is_contiguous(), back, back.stride(), torch.fft.fft(m[0]).abs()

    return Case(f, matrix(4, 6))


@program
def operators_without_meta_kernels():
    def f(x, m):
        mish = torch.nn.functional.mish(x).sum()
        margin = torch.nn.functional.multi_margin_loss(m, torch.tensor([0, 2]))
        bag = torch.nn.functional.embedding_bag(torch.tensor([1, 0, 1]), m, torch.tensor([0, 2]), mode="sum")
        return mish, margin, bag, torch.logcumsumexp(x, 0), torch.geqrf(m.detach())

    return Case(f, vector(), matrix(2, 3))


@program
def tensors_made_like_another():
    def f(x):
        whole = torch.ones(2, dtype=torch.int64)
        return x.new_tensor([1, 2]), whole.new_tensor([1.5, 2.5]), x.new_tensor(3, dtype=torch.float64), x.repeat(2, 3)

    return Case(f, vector())


@program
def complex_functions():
    """Their gradients write into what they made, and read it through conjugate views."""
    make = lambda: torch.complex(matrix() * 0.1, matrix().flip(0) * 0.2).requires_grad_()
    return Case(lambda z: (torch.fft.hfft(z), torch.atanh(z).abs(), z.abs().pow(3)), make())


@program
def norms_to_odd_powers():
    return Case(lambda m: (torch.norm(m, p=3), torch.dist(m, m + 1, p=1.5), torch.nn.functional.normalize(m, p=3)), matrix().requires_grad_())
