"""Small typical programs of packages, for programs.py: what a package's quick start does. `CASES` maps a name to a function that makes
(program, arguments) or raises ImportError. A program is called many times with the same arguments, and seeds what it draws."""

import torch
import torch.nn.functional as F
from torch import nn

CASES = {}


def case(name):
    def keep(make):
        CASES[name] = make
        return make

    return keep


def training(model, *inputs, loss=lambda out: out.square().mean()):
    """A step of forward and backward; the optimizer would change the results from call to call."""

    def step(model, *inputs):
        model.zero_grad()
        value = loss(model(*inputs))
        value.backward()
        return value.detach(), [p.grad for p in model.parameters()]

    return step, (model, *inputs)


def perceptron(*widths):
    layers = [part for a, b in zip(widths, widths[1:]) for part in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers[:-1])


class Diffusion(nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.drift, self.spread = nn.Linear(3, 3), nn.Linear(3, 3)

    def f(self, t, y):
        return self.drift(y)

    def g(self, t, y):
        return torch.sigmoid(self.spread(y))


@case("torchsde: sdeint, milstein")
def milstein():
    import torchsde

    def run(sde, y, times):
        noise = torchsde.BrownianInterval(t0=0.0, t1=1.0, size=(8, 3), entropy=7)
        return torchsde.sdeint(sde, y, times, bm=noise, method="milstein", dt=0.1)

    return run, (Diffusion(), torch.randn(8, 3), torch.linspace(0, 1, 5))


@case("botorch: qExpectedImprovement")
def expected_improvement():
    from botorch.acquisition import qExpectedImprovement
    from botorch.models import SingleTaskGP
    from botorch.sampling import SobolQMCNormalSampler

    x = torch.rand(10, 2, dtype=torch.float64)
    y = x.sin().sum(-1, keepdim=True)
    acquisition = qExpectedImprovement(SingleTaskGP(x, y).eval(), best_f=y.max(), sampler=SobolQMCNormalSampler(torch.Size([64]), seed=1))
    return lambda acquisition, x: acquisition(x), (acquisition, torch.rand(4, 2, 2, dtype=torch.float64))


@case("captum: IntegratedGradients")
def integrated_gradients():
    from captum.attr import IntegratedGradients

    gradients = IntegratedGradients(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3)).eval())
    return lambda gradients, x: gradients.attribute(x, target=1, n_steps=20), (gradients, torch.randn(4, 10))


@case("captum: Saliency")
def saliency():
    from captum.attr import Saliency

    gradients = Saliency(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3)).eval())
    return lambda gradients, x: gradients.attribute(x, target=1), (gradients, torch.randn(4, 10))


@case("opacus: per-sample gradients")
def per_sample_gradients():
    from opacus import GradSampleModule

    model = GradSampleModule(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10)))

    def step(model, x, labels):
        model.zero_grad()
        for p in model.parameters():
            p.grad_sample = None
        loss = F.cross_entropy(model(x), labels)
        loss.backward()
        return loss.detach(), [p.grad_sample for p in model.parameters()]

    return step, (model, torch.randn(8, 1, 8, 8), torch.randint(0, 10, (8,)))


class PyramidPooling(nn.Module):
    """PSPNet's: the features' means over a few grids, spread again."""

    def __init__(self, width, grids=(1, 2, 3, 6)):
        super().__init__()
        self.grids = grids
        self.parts = nn.ModuleList(nn.Sequential(nn.Conv2d(width, width // 4, 1, bias=False), nn.BatchNorm2d(width // 4), nn.ReLU()) for _ in grids)
        self.classify = nn.Conv2d(2 * width, 3, 3, padding=1)

    def forward(self, x):
        size = x.shape[-2:]
        pooled = [part(F.adaptive_avg_pool2d(x, grid)) for grid, part in zip(self.grids, self.parts)]
        spread = [F.interpolate(p, size, mode="bilinear", align_corners=True) for p in pooled]
        return F.interpolate(self.classify(torch.cat([*spread, x], dim=1)), scale_factor=4, mode="bilinear", align_corners=True)


@case("pyramid pooling")
def pyramid_pooling():
    return torch.no_grad()(lambda model, x: model(x)), (PyramidPooling(64).eval(), torch.randn(1, 64, 16, 16))


@case("pyramid pooling, training")
def pyramid_pooling_training():
    return training(PyramidPooling(64).train(), torch.randn(2, 64, 16, 16))


@case("segmentation_models_pytorch: PSPNet")
def pspnet():
    import segmentation_models_pytorch as smp

    model = smp.PSPNet("resnet18", encoder_weights=None, classes=3).eval()
    return torch.no_grad()(lambda model, x: model(x)), (model, torch.randn(1, 3, 64, 64))


def unconstrained_flow():
    import zuko

    return zuko.flows.UNAF(3, 2, transforms=1, hidden_features=[16, 16], signal=4, network={"hidden_features": [16, 16]})


@case("zuko: UNAF")
def monotonic_flow():
    return lambda flow, x, given: flow(given).log_prob(x), (unconstrained_flow(), torch.randn(4, 3), torch.randn(4, 2))


@case("zuko: UNAF, training")
def monotonic_flow_training():
    flow, x, given = unconstrained_flow(), torch.randn(4, 3), torch.randn(4, 2)

    def step(flow, x, given):
        flow.zero_grad()
        loss = -flow(given).log_prob(x).mean()
        loss.backward()
        return loss.detach(), [p.grad for p in flow.parameters()]

    return step, (flow, x, given)


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = perceptron(2, 16, 2)

    def forward(self, t, y):
        return self.net(y)


@case("torchdiffeq: odeint, dopri5")
def odeint():
    from torchdiffeq import odeint

    return lambda field, y, times: odeint(field, y, times), (Field(), torch.randn(8, 2), torch.linspace(0, 1, 5))


@case("torchdiffeq: odeint, rk4")
def odeint_rk4():
    from torchdiffeq import odeint

    return lambda field, y, times: odeint(field, y, times, method="rk4"), (Field(), torch.randn(8, 2), torch.linspace(0, 1, 5))


@case("geomloss: Sinkhorn")
def sinkhorn():
    from geomloss import SamplesLoss

    return lambda loss, x, y: loss(x, y), (SamplesLoss("sinkhorn", p=2, blur=0.05, backend="tensorized"), torch.randn(20, 3), torch.randn(20, 3))


@case("kornia: filters and colors")
def filters():
    import kornia

    def run(x):
        hsv = kornia.color.rgb_to_hsv(kornia.filters.gaussian_blur2d(x, (5, 5), (1.0, 1.0)))
        return kornia.geometry.resize(kornia.filters.sobel(hsv), (16, 16))

    return run, (torch.rand(2, 3, 32, 32),)


@case("log mel spectrogram")
def mel():
    window, bank = torch.hann_window(400), torch.rand(201, 40)

    def run(wave):
        power = torch.stft(wave, 400, 160, 400, window, return_complex=True).abs().pow(2)
        return torch.log(power.transpose(1, 2) @ bank + 1e-6)

    return run, (torch.randn(2, 8000),)


@case("x-transformers: decoder")
def decoder():
    from x_transformers import Decoder, TransformerWrapper

    model = TransformerWrapper(num_tokens=100, max_seq_len=32, attn_layers=Decoder(dim=64, depth=2, heads=4, rotary_pos_emb=True)).eval()
    return torch.no_grad()(lambda model, x: model(x)), (model, torch.randint(0, 100, (2, 16)))


@case("vector-quantize-pytorch: VectorQuantize")
def quantize():
    from vector_quantize_pytorch import VectorQuantize

    return lambda model, x: model(x), (VectorQuantize(dim=16, codebook_size=32).eval(), torch.randn(2, 24, 16))


@case("rotary-embedding-torch")
def rotary():
    from rotary_embedding_torch import RotaryEmbedding

    def run(rotary, q, k):
        return rotary.rotate_queries_or_keys(q), rotary.rotate_queries_or_keys(k)

    return run, (RotaryEmbedding(dim=16), torch.randn(2, 4, 32, 16), torch.randn(2, 4, 32, 16))


@case("pytorch-metric-learning: NTXentLoss")
def contrastive():
    from pytorch_metric_learning import losses

    return lambda loss, x, labels: loss(x, labels), (losses.NTXentLoss(), torch.randn(16, 8), torch.arange(8).repeat(2))


@case("gpytorch: exact marginal likelihood")
def gaussian_process():
    import gpytorch

    class Model(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean, self.kernel = gpytorch.means.ConstantMean(), gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    x = torch.linspace(0, 1, 20)
    y, likelihood = torch.sin(6 * x), gpytorch.likelihoods.GaussianLikelihood()
    model = Model(x, y, likelihood).train()
    likelihood.train()

    def step(model, likelihood, x, y):
        model.zero_grad()
        loss = -likelihood(model(x), y)
        loss.backward()
        return loss.detach()

    return step, (model, gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model), x, y)


@case("einops: patches")
def patches():
    from einops import rearrange, reduce, repeat

    def run(x):
        rows = rearrange(x, "b (h p) (w q) c -> b (h w) (p q c)", p=2, q=2)
        return rows - repeat(reduce(rows, "b n c -> b c", "mean"), "b c -> b n c", n=16)

    return run, (torch.randn(2, 8, 8, 12),)
