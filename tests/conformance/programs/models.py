"""Whole models, small: convolutional, residual, densely connected, transformers; forward and, by the judge, backward."""

import pathlib
import sys

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix

sys.path.append(str(pathlib.Path(__file__).parents[3] / "benchmarks"))
import models  # noqa: E402  (the models that the benchmarks measure, in other sizes)

def _tokens():
    return torch.arange(12).reshape(2, 6) * 7 % 50


def _images(size, batch=2):
    return torch.linspace(-1, 1, batch * 3 * size * size).sin().reshape(batch, 3, size, size)


@program(graphs=1, runs=models)
def two_lines():
    x = torch.linspace(-1, 1, 6, requires_grad=True)
    return Case(models.two_lines, x, x.detach() + 1, then=[lambda: Args(x.detach(), x)])


@program(graphs=1, runs=models)
def convnet_in_training_and_evaluation():
    model = models.ConvNet()
    return Case(model, _images(8), then=[lambda: Args(_images(8, 3)), lambda: model.eval() and None])


@program(graphs=1, runs=models)
def gpt():
    return Case(models.GPT(layers=1, width=8, vocabulary=50), _tokens(), then=[lambda: Args(_tokens()[:, :4])])


@program(graphs=1, runs=models)
def llama():
    return Case(models.Llama(layers=1, width=8, vocabulary=50), _tokens(), then=[lambda: Args(_tokens()[:, :4])])


@program(graphs=1, runs=models)
def transformer_encoder_in_training_and_evaluation():
    model = models.Encoder(layers=1, width=8)
    return Case(model, torch.linspace(-1, 1, 96).reshape(2, 6, 8), then=[lambda: model.eval() and None])


@program(graphs=1, runs=models, break_step=11)
def resnet18_in_training_and_evaluation():
    model = models.ResNet18(classes=5, width=4)
    return Case(model, _images(32), then=[lambda: model.eval() and None])


@program(graphs=1, runs=models, break_step=3)
def densenet_in_training_and_evaluation():
    model = models.DenseNet121(growth=2, layers=(1, 2, 1, 1), classes=5)
    return Case(model, _images(32), then=[lambda: model.eval() and None])


@program
def lstm_in_training():
    layer = torch.nn.LSTM(3, 4)

    def f(x):
        output, (hidden, _) = layer(x)
        (output.sum() + hidden.sum()).backward()
        return output.detach()

    return Case(f, matrix(2, 3), then=[lambda: Args(matrix(2, 3) + 1)], observe=[layer])
