"""Blocks of torch.inference_mode in a program that does not run in it."""

import torch
from torch import nn

from conformance.program import Case, program
from conformance.sample import leaf, matrix, vector


def _linear(rows):
    model = nn.Linear(3, rows)
    with torch.no_grad():
        model.weight.copy_(matrix(rows) - 0.5)
        model.bias.fill_(0.25)
    return model


@program
def results_of_a_block():
    def f(x):
        with torch.inference_mode():
            y = x * 2
            inside = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
        z = x + 1
        outside = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
        return y, y.is_inference(), y.requires_grad, z, z.is_inference(), z.requires_grad, inside, outside

    return Case(f, leaf(), forward_only=True)


@program
def decorated_model():
    model = _linear(2)

    @torch.inference_mode()
    def evaluate(x):
        return model(x).relu().sum()

    def f(x):
        loss = model(x).square().mean()
        score = evaluate(x)
        return loss, score, score.is_inference(), loss.requires_grad

    return Case(f, matrix(), forward_only=True)


@program
def a_gradient_beside_a_block_that_computes_the_same():
    def f(x):
        with torch.inference_mode():
            seen = (x * 2).tanh()
        y = (x * 2).tanh()
        return y.exp().sum(), seen

    def run(x):
        loss, seen = f(x)
        with torch.inference_mode():
            seen.zero_()
        loss.backward()
        return loss, x.grad, seen

    return Case(run, leaf(), forward_only=True)


@program
def modes_that_are_switched_off():
    def f(x, mode=False):
        with torch.inference_mode(mode):
            y = x * 2
        with torch.inference_mode(True):
            with torch.inference_mode(False):
                z = x * 3
            w = x * 4
        return y, z, w.is_inference(), y.is_inference(), z.is_inference()

    return Case(f, vector(), forward_only=True)


@program
def error_that_leaves_a_block():
    def f(x):
        try:
            with torch.inference_mode():
                y = x * 2
                raise ValueError("out")
        except ValueError:
            state = torch.is_inference_mode_enabled()
        return x + 1, y, y.is_inference(), state

    return Case(f, leaf(), forward_only=True)


@program(whole=False)
def break_in_a_block():
    model = _linear(2)

    def f(x):
        with torch.inference_mode():
            y = x * 2
            torch._dynamo.graph_break()
            z = model(y) + 1
            turned = x.t()
        return y, z, z.is_inference(), turned, turned.is_inference(), torch.is_inference_mode_enabled()

    return Case(f, matrix(), forward_only=True)


@program(whole=False)
def views_and_writes_in_a_block():
    def f(x):
        with torch.inference_mode():
            part = x[1:]
            y = x * 2
            row = y[0]
            x.add_(1)
        return part, part.is_inference(), row, row.is_inference(), x

    return Case(f, vector(), forward_only=True)


@program(whole=False)
def results_that_autograd_refuses():
    def f(x):
        with torch.inference_mode():
            y = x * 2
        try:
            return (x * y).sum()
        except RuntimeError as error:
            return str(error)[:50]

    return Case(f, leaf(), forward_only=True)


def _evaluate(model, x):
    return model(x).relu().t(), x.t(), x[0].is_inference()


@program
def model_called_in_inference_mode():
    model = _linear(2)

    def f(x):
        with torch.inference_mode():
            return _evaluate(model, x)[0].sum()

    return Case(f, matrix(), forward_only=True)


@program(whole=False)
def written_outside_of_a_block():
    """Torch refuses it where an alias counts versions, and the write before it stands."""
    with torch.inference_mode():
        made = torch.arange(4.0)

    def f(x):
        x.add_(1)
        y = made * 2
        try:
            made.mul_(3)
        except RuntimeError as error:
            return y + x, str(error).split(".")[0]
        return y * x

    return Case(f, vector(4), observe=made, then=[lambda: None])


@program(whole=False)
def views_that_are_written_outside_of_a_block():
    with torch.inference_mode():
        made = torch.arange(4.0)

    def f(x):
        part = made[1:]
        y = part.sin()
        part.zero_()
        return y.sum() + x

    return Case(f, vector(4), observe=made, then=[lambda: None])
