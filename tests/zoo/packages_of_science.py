"""Programs over packages of science and of tools: images, volumes, graphs, flows, metrics, optimizers, attributions."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from zoo.package_programs import Program, images, program, random

# ---- images and volumes


@program("kornia")
def guided_filters():
    import kornia

    def run(self, x):
        y = self.conv(x)
        return kornia.filters.guided_blur(y, y, 3, 0.1), kornia.filters.motion_blur(y, 5, 35.0, 0.5), kornia.filters.blur_pool2d(y, 3)

    return Program(run, conv=nn.Conv2d(3, 3, 1)), images()


@program("kornia")
def edges_and_shapes():
    import kornia

    def run(self, x):
        y = self.conv(x).sigmoid()
        return kornia.filters.canny(y)[0], kornia.morphology.dilation(y, torch.ones(3, 3)), kornia.feature.harris_response(y)

    return Program(run, conv=nn.Conv2d(3, 3, 1)), images()


@program("kornia")
def losses_of_segments():
    import kornia

    def run(self, x):
        scores, target = self.conv(x), (x[:, 0] * 3).long().clamp(0, 2)
        return kornia.losses.dice_loss(scores, target), kornia.losses.focal_loss(scores, target, 0.5, 2.0, "mean")

    return Program(run, conv=nn.Conv2d(3, 3, 1)), images()


@program("kornia")
def local_descriptors():
    import kornia

    return Program(lambda self, x: self.net(x.mean(1, keepdim=True)), net=kornia.feature.HardNet(False)), images(3, 32)


def _volumes(batch):
    return (images(1, 64)(batch)[0].unflatten(2, (8, 8))[..., :8],)


@program("monai")
def network_of_residual_units():
    from monai.networks.nets import UNet

    return UNet(3, 1, 2, channels=(4, 8), strides=(2,), num_res_units=1), _volumes


@program("monai")
def losses_of_volumes():
    from monai.losses import DiceCELoss, FocalLoss, TverskyLoss

    losses = DiceCELoss(to_onehot_y=True, softmax=True), FocalLoss(to_onehot_y=True), TverskyLoss(to_onehot_y=True, softmax=True)

    def run(self, x):
        scores, target = self.conv(x), (x * 3).long().clamp(0, 2)
        return [loss(scores, target) for loss in losses]

    return Program(run, conv=nn.Conv3d(1, 3, 1)), _volumes


@program("segmentation_models_pytorch")
def pyramid_of_features():
    import segmentation_models_pytorch as smp

    return smp.FPN("resnet18", encoder_weights=None, classes=2), images(3, 64)


# ---- graphs


def _ring(nodes):
    return torch.stack([torch.arange(nodes), torch.arange(nodes).roll(1)])


@program("torch_geometric")
def attention_of_graphs():
    from torch_geometric.nn import GATv2Conv, TransformerConv

    def run(self, x):
        nodes = x.flatten(0, 1)
        return self.second(self.first(nodes, _ring(len(nodes))).relu(), _ring(len(nodes)))

    return Program(run, first=GATv2Conv(3, 4, heads=2), second=TransformerConv(8, 4)), random(4, 3)


@program("torch_geometric")
def network_of_layers():
    from torch_geometric.nn import GraphSAGE, global_max_pool

    def run(self, x):
        nodes = x.flatten(0, 1)
        return global_max_pool(self.net(nodes, _ring(len(nodes))), torch.arange(len(x)).repeat_interleave(x.shape[1]))

    return Program(run, net=GraphSAGE(3, 8, 2, 4, norm="batch")), random(4, 3)


@program("e3nn")
def tensor_product():
    from e3nn import o3

    product = o3.FullyConnectedTensorProduct("2x0e+1x1o", "1x0e+1x1o", "2x0e+2x1o")
    return Program(lambda self, x: self.product(x[:, :5], x[:, 5:]), product=product), random(9)


# ---- flows and equations


class Flow(nn.Module):
    def __init__(self, flow):
        super().__init__()
        self.flow = flow

    def forward(self, x):
        return self.flow().log_prob(x)


@program("zuko")
def autoregressive_flow():
    import zuko

    return Flow(zuko.flows.MAF(4, transforms=2, hidden_features=(8,))), random(4)


@program("zuko")
def spline_flow():
    import zuko

    return Flow(zuko.flows.NSF(4, transforms=2, hidden_features=(8,))), random(4)


@program("zuko")
def integrated_flow():
    import zuko

    return Flow(zuko.flows.UNAF(4, transforms=1, hidden_features=(8,))), random(4)


@program("nflows")
def rational_quadratic_flow():
    from nflows.distributions.normal import StandardNormal
    from nflows.flows.base import Flow as Whole
    from nflows.transforms import MaskedPiecewiseRationalQuadraticAutoregressiveTransform as Splines

    flow = Whole(Splines(4, 8, tails="linear", tail_bound=3.0), StandardNormal([4]))
    return Program(lambda self, x: self.flow.log_prob(x), flow=flow), random(4)


@program("torchdiffeq")
def adjoint_of_fixed_steps():
    from torchdiffeq import odeint_adjoint

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))

        def forward(self, t, y):
            return self.net(y)

    times = torch.linspace(0, 1, 3)
    return Program(lambda self, x: odeint_adjoint(self.field, x, times, method="rk4"), field=Field()), random(3)


@program("linear_operator")
def solved_with_operators():
    from linear_operator.operators import DenseLinearOperator

    def run(self, x):
        y = self.layer(x)
        operator = DenseLinearOperator(y @ y.mT + torch.eye(4))
        return operator.solve(x), operator.logdet()

    return Program(run, layer=nn.Linear(4, 4)), random(4, 4)


# ---- metrics, losses, shapes


@program("torchmetrics")
def metrics_that_are_kept():
    from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score
    from torchmetrics.regression import MeanSquaredError

    def run(self, x):
        scores = self.layer(x)
        for n in range(2):
            self.accuracy.update(scores * (n + 1), x.argmax(1))
            self.score.update(scores, x.argmax(1))
        values = scores, self.accuracy.compute(), self.score.compute(), self.error(scores, x)
        self.accuracy.reset(), self.score.reset(), self.error.reset()
        return values

    metrics = {"accuracy": MulticlassAccuracy(3), "score": MulticlassF1Score(3), "error": MeanSquaredError()}
    return Program(run, layer=nn.Linear(3, 3), **metrics), random(3)


@program("pytorch_metric_learning")
def angles_between_classes():
    from pytorch_metric_learning import losses

    def run(self, x):
        return self.loss(self.layer(x), torch.arange(len(x)) % 2)

    return Program(run, layer=nn.Linear(4, 4), loss=losses.NormalizedSoftmaxLoss(2, 4)), random(4)


@program("jaxtyping", "beartype")
def checked_shapes():
    from beartype import beartype
    from jaxtyping import Float, jaxtyped

    @jaxtyped(typechecker=beartype)
    def product(x: Float[torch.Tensor, "b d"], y: Float[torch.Tensor, "b d"]) -> Float[torch.Tensor, "b d"]:
        return x * y

    return Program(lambda self, x: product(self.layer(x), x), layer=nn.Linear(4, 4)), random(4)


@program("opacus")
def recurrent_layer_with_private_gradients():
    from opacus.layers import DPLSTM

    return DPLSTM(4, 8, batch_first=True), random(5, 4)


@program("captum")
def attributed_in_the_program():
    from captum.attr import InputXGradient

    def run(self, x):
        with torch.enable_grad():
            return InputXGradient(self.net).attribute(x.detach().requires_grad_(), target=1), F.relu(self.net(x))

    return Program(run, net=nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))), random(6)
