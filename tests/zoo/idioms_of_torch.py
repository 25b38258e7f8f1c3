"""Idioms: functions of torch that are not arithmetic on dense tensors."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from zoo.idioms import idiom


@idiom
def histogram(self, x):
    return torch.histc(x, bins=4)


@idiom
def buckets(self, x):
    return torch.bucketize(x, torch.tensor([0.0, 1.0])), torch.searchsorted(torch.tensor([0.0, 1.0, 2.0]), x)


@idiom
def bags_of_embeddings(self, x):
    return F.embedding_bag(torch.tensor([1, 2, 3, 4]), self.layer.weight, torch.tensor([0, 2]))


@idiom
def sampled_by_a_grid(self, x):
    return F.grid_sample(x.unsqueeze(1), torch.zeros(len(x), 3, 3, 2), align_corners=False)


@idiom
def folded_patches(self, x):
    return F.fold(F.unfold(x.unsqueeze(1), 2), (4, 8), 2)


@idiom
def multinomial(self, x):
    return torch.multinomial(x[0].abs() + 0.1, 2)


@idiom
def order_statistics(self, x):
    return x.topk(3).values, x.sort(dim=-1).indices, x.kthvalue(2).values, x.median(-1).values, x.mode(-1).values


@idiom
def fourier(self, x):
    return torch.fft.rfft(x).abs(), torch.fft.fftshift(torch.fft.fftfreq(8))


@idiom
def complex_numbers(self, x):
    return torch.view_as_real(torch.polar(x.abs(), x)), torch.complex(x, x).angle()


@idiom
def ctc_loss(self, x):
    return F.ctc_loss(x[0].log_softmax(-1).unsqueeze(1), torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2]))


@idiom
def packed_sequence(self, x):
    lengths = [4, 2, 1][: len(x)]
    p = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
    return nn.utils.rnn.pad_packed_sequence(p, batch_first=True)


@idiom
def recurrent_over_a_packed_sequence(self, x):
    lengths = [4, 2, 1][: len(x)]
    p = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
    o, _ = self.recurrent(p)
    return nn.utils.rnn.pad_packed_sequence(o, batch_first=True)[0]


@idiom
def sparse_product(self, x):
    return torch.sparse.mm(torch.eye(4).to_sparse(), x[0])


@idiom
def compressed_product(self, x):
    return torch.eye(4).to_sparse_csr() @ x[0]


@idiom
def nested_tensors(self, x):
    return torch.nested.to_padded_tensor(torch.nested.nested_tensor([x[0][:2], x[0][:1]]), 0.0)


@idiom
def jagged_tensors(self, x):
    n = torch.nested.nested_tensor_from_jagged(x[0], torch.tensor([0, 2, 4]))
    return (n * 2).to_padded_tensor(0.0)


@idiom
def divergence_of_distributions(self, x):
    p = torch.distributions.Normal(x, 1.0)
    q = torch.distributions.Normal(0.0, 1.0)
    return torch.distributions.kl_divergence(p, q).sum() + p.rsample()


@idiom
def categorical(self, x):
    d = torch.distributions.Categorical(logits=x)
    a = d.sample()
    return d.log_prob(a) + d.entropy()


@idiom
def multivariate_normal(self, x):
    d = torch.distributions.MultivariateNormal(torch.zeros(8), torch.eye(8))
    return d.log_prob(x)


@idiom
def mixture(self, x):
    parts = torch.distributions.Normal(x[0, 0], 1.0)
    m = torch.distributions.MixtureSameFamily(torch.distributions.Categorical(torch.ones(8)), parts)
    return m.log_prob(x[:, 0, :1])


@idiom
def transformed_distribution(self, x):
    transforms = [torch.distributions.transforms.TanhTransform()]
    d = torch.distributions.TransformedDistribution(torch.distributions.Normal(0.0, 1.0), transforms)
    return d.log_prob(x.tanh() * 0.9)


@idiom
def beta(self, x):
    return torch.distributions.Beta(x.abs() + 1, x.abs() + 1).rsample()


@idiom
def gumbel_softmax(self, x):
    return F.gumbel_softmax(x, hard=True)


@idiom
def through_a_list(self, x):
    return torch.tensor(x.tolist()) + 1


@idiom
def through_dlpack(self, x):
    return torch.from_dlpack(x.detach()) + 1


@idiom
def indices_of_where(self, x):
    return x[torch.where(x > 0)]


@idiom
def set_by_a_mask(self, x):
    y = x.clone()
    y[y > 0] = 0
    return y


@idiom
def count_of_positive(self, x):
    return torch.argwhere(x > 0).shape[0] * x


@idiom
def running_values(self, x):
    return torch.cummax(x, 1).values, torch.logcumsumexp(x, 1), x.cumprod(1), torch.diff(x), torch.trapezoid(x)


@idiom
def interpolated(self, x):
    return F.interpolate(x.unsqueeze(1), scale_factor=2, mode="bicubic", antialias=True)


@idiom
def padded_and_shuffled(self, x):
    return F.pad(x.unsqueeze(1), (1, 1, 1, 1), mode="reflect"), F.pixel_shuffle(x.unflatten(2, (2, 4)), 2)


@idiom
def properties_of_a_tensor(self, x):
    return x[0].T, x.mT, x.real, x[0].H, x.nbytes, x.itemsize, x.is_contiguous(), x.ndim, x.grad_fn is None, x.data_ptr() > 0


@idiom
def limits_of_types(self, x):
    return x.clamp(min=torch.finfo(x.dtype).min), torch.iinfo(torch.int32).max


@idiom
def promoted_types(self, x):
    return torch.promote_types(torch.float16, x.dtype) == torch.float32, torch.can_cast(torch.int, x.dtype), torch.result_type(x, 1)


@idiom
def combinations(self, x):
    a, b = x[0, 0], x[0, 1]
    return torch.vander(a), torch.combinations(a, 2), torch.cartesian_prod(a, b), torch.meshgrid(a, b, indexing="ij")


@idiom
def linear_algebra(self, x):
    a = x @ x.mT + torch.eye(4) * 5
    inverses = torch.linalg.inv(a), torch.linalg.pinv(a), torch.linalg.solve(a, x), torch.linalg.lstsq(a, x).solution
    parts = torch.linalg.cholesky(a), torch.linalg.eigh(a)[0], torch.linalg.svd(a)[1], torch.linalg.qr(a)[1]
    return *inverses, *parts, torch.linalg.det(a), torch.linalg.matrix_exp(a * 0.01), torch.linalg.slogdet(a)[1]
