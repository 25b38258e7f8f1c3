"""Programs over packages of probability, dynamics, graphs, geometry, metrics and optimizers."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from zoo.package_programs import Program, program, random

# ---- probability


@program("gpytorch")
def gaussian_process():
    import gpytorch

    class Process(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=3))

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Process(torch.randn(8, 3), torch.randn(8), likelihood)

    def run(self, x):
        prior = self.model.forward(x.flatten(0, 1))
        return prior.mean, prior.covariance_matrix, likelihood(prior).variance

    return Program(run, model=model), random(4, 3)


@program("gpytorch")
def kernels():
    import gpytorch

    kernel = gpytorch.kernels.MaternKernel(nu=1.5) + gpytorch.kernels.PeriodicKernel() * gpytorch.kernels.LinearKernel()
    return Program(lambda self, x: self.kernel(x).to_dense(), kernel=kernel), random(4, 3)


@program("linear_operator")
def operators_of_matrices():
    from linear_operator.operators import DiagLinearOperator, LowRankRootLinearOperator

    def run(self, x):
        operator = LowRankRootLinearOperator(self.layer(x)) + DiagLinearOperator(torch.ones(x.shape[:-1]))
        return operator.to_dense(), operator @ x, operator.diagonal(dim1=-1, dim2=-2)

    return Program(run, layer=nn.Linear(3, 2)), random(4, 3)


@program("pyro")
def transformed_distribution():
    import pyro.distributions as dist
    from pyro.distributions.transforms import affine_coupling

    def run(self, x):
        normal = dist.Normal(torch.zeros(4), torch.ones(4)).to_event(1)
        return dist.TransformedDistribution(normal, [self.coupling]).log_prob(x)

    return Program(run, coupling=affine_coupling(4, [8])), random(4)


@program("nflows")
def masked_flow():
    from nflows.distributions.normal import StandardNormal
    from nflows.flows.base import Flow
    from nflows.transforms import CompositeTransform, MaskedAffineAutoregressiveTransform, ReversePermutation

    parts = [MaskedAffineAutoregressiveTransform(features=4, hidden_features=8), ReversePermutation(features=4)]
    flow = Flow(CompositeTransform(parts), StandardNormal([4]))
    return Program(lambda self, x: self.flow.log_prob(x), flow=flow), random(4)


@program("normflows")
def real_valued_flow():
    import normflows as nf

    flows = [nf.flows.AffineCouplingBlock(nf.nets.MLP([2, 8, 4], init_zeros=True)), nf.flows.Permute(4, mode="swap")]
    model = nf.NormalizingFlow(nf.distributions.base.DiagGaussian(4), flows)
    return Program(lambda self, x: (self.model.log_prob(x), self.model.forward_kld(x)), model=model), random(4)


# ---- dynamics


def _field() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))


@program("torchdiffeq")
def fixed_steps():
    from torchdiffeq import odeint

    times = torch.linspace(0, 1, 4)
    return Program(lambda self, x: odeint(lambda t, y: self.field(y), x, times, method="rk4"), field=_field()), random(3)


@program("torchdiffeq")
def steps_chosen_by_errors():
    from torchdiffeq import odeint

    times = torch.linspace(0, 1, 2)

    def run(self, x):
        return odeint(lambda t, y: self.field(y) * 0.1, x, times.to(x), method="dopri5", rtol=1e-2, atol=1e-2)

    return Program(run, field=_field()), random(3)


# ---- graphs and geometry


def _graph() -> torch.Tensor:
    return torch.tensor([[0, 1, 2, 3, 0, 2], [1, 2, 3, 0, 2, 0]])


@program("torch_geometric")
def convolutions_of_graphs():
    from torch_geometric.nn import GATConv, GCNConv, global_mean_pool

    def run(self, x):
        y = self.second(F.relu(self.first(x.flatten(0, 1), _graph())), _graph())
        return global_mean_pool(y, torch.arange(len(x)).repeat_interleave(x.shape[1]))

    return Program(run, first=GCNConv(3, 8), second=GATConv(8, 4, heads=2)), random(4, 3)


@program("torch_geometric")
def messages():
    from torch_geometric.nn import GINConv, SAGEConv

    def run(self, x):
        return self.second(self.first(x.flatten(0, 1), _graph()).relu(), _graph())

    return Program(run, first=SAGEConv(3, 8), second=GINConv(nn.Linear(8, 4))), random(4, 3)


@program("e3nn")
def spherical_harmonics():
    from e3nn import o3

    def run(self, x):
        return self.linear(o3.spherical_harmonics([0, 1, 2], x, normalize=True))

    return Program(run, linear=nn.Linear(9, 4)), random(5, 3)


@program("geotorch")
def orthogonal_layer():
    import geotorch

    layer = nn.Linear(4, 4)
    geotorch.orthogonal(layer, "weight")
    return Program(lambda self, x: self.layer(x), layer=layer), random(4)


# ---- metrics, losses and optimizers


@program("torchmetrics")
def metrics_of_a_batch():
    from torchmetrics.functional import accuracy, mean_squared_error, r2_score

    def run(self, x):
        scores = self.layer(x)
        target = x.argmax(1)
        return scores, accuracy(scores, target, "multiclass", num_classes=3), mean_squared_error(scores, x), r2_score(scores[:, 0], x[:, 0])

    return Program(run, layer=nn.Linear(3, 3)), random(3)


@program("pytorch_metric_learning")
def contrasted_pairs():
    from pytorch_metric_learning import losses

    loss = losses.NTXentLoss(temperature=0.5)
    labels = torch.tensor([0, 0, 1, 1])
    return Program(lambda self, x: loss(self.layer(x.flatten(0, 1))[:4], labels), layer=nn.Linear(4, 3)), random(3, 4)


@program("tensordict")
def named_tensors():
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule, TensorDictSequential

    hidden = TensorDictModule(nn.Linear(4, 8), in_keys=["x"], out_keys=["h"])
    out = TensorDictModule(nn.Linear(8, 3), in_keys=["h"], out_keys=["y"])

    def run(self, x):
        result = self.net(TensorDict({"x": x}, batch_size=[len(x)]))
        return result["y"], result["h"]

    return Program(run, net=TensorDictSequential(hidden, out)), random(4)


@program("botorch")
def expected_improvement():
    from botorch.acquisition import LogExpectedImprovement
    from botorch.models import SingleTaskGP

    x = torch.rand(6, 2, dtype=torch.float64)
    model = SingleTaskGP(x, (x.sum(1, keepdim=True)).sin())
    improvement = LogExpectedImprovement(model, best_f=0.5)
    return Program(lambda self, x: self.improvement(x.double().sigmoid()), improvement=improvement), random(1, 2)


@program("opt_einsum_fx")
def contracted():
    from opt_einsum_fx import optimize_einsums_full

    def contract(a, b, c):
        return torch.einsum("bij,jk,kl->bil", a, b, c)

    fast = optimize_einsums_full(contract, (torch.randn(2, 4, 4), torch.randn(4, 4), torch.randn(4, 4)))
    return Program(lambda self, x: fast(x, self.layer.weight, self.layer.weight), layer=nn.Linear(4, 4)), random(4, 4)
