"""Steps of optimizers that update all parameters at once (foreach=True), whole, with the state that eager has."""

import torch
from conformance.program import Args, Case, program
from conformance.programs.tensors_as_keys import training
from conformance.sample import vector


@program(break_step=97)
def adam():
    return training(lambda p: torch.optim.Adam(p, lr=0.1, foreach=True))


@program(break_step=97)
def adam_with_all_its_settings():
    def slower(optimizer):
        optimizer.param_groups[0]["lr"] = 0.01

    return training(
        lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.1, amsgrad=True, maximize=True, foreach=True),
        [slower, lambda o: None],
    )


@program(break_step=97)
def adamw():
    return training(lambda p: torch.optim.AdamW(p, lr=0.1, betas=(0.8, 0.99), foreach=True))


@program(break_step=97)
def nadam():
    return training(lambda p: torch.optim.NAdam(p, lr=0.1, weight_decay=0.1, foreach=True))


@program(break_step=97)
def adamax():
    return training(lambda p: torch.optim.Adamax(p, lr=0.1, foreach=True))


@program(break_step=97)
def adamax_that_maximizes():
    return training(lambda p: torch.optim.Adamax(p, lr=0.1, weight_decay=0.1, maximize=True, foreach=True))


@program(break_step=97)
def rmsprop():
    return training(lambda p: torch.optim.RMSprop(p, lr=0.1, momentum=0.5, centered=True, foreach=True))


@program(break_step=97)
def adagrad():
    return training(lambda p: torch.optim.Adagrad(p, lr=0.1, foreach=True))


@program
def numbers_for_all():
    def f(x, a, b):
        ys = [x.clone(), x + 1]
        torch._foreach_addcdiv_(ys, [a, a], [b, b], [0.5, -0.25])
        return ys, torch._foreach_addcmul(ys, [a, b], [b, a], value=0.5)

    return Case(f, vector(), vector(3, 2.0), vector(3, -3.25))


@program(whole=False)
def tensors_for_numbers():
    """The program's own call raises, as it does in eager."""

    def f(x, a, b, v):
        ys = [x.clone(), x + 1]
        try:
            torch._foreach_addcdiv_(ys, [a, a], [b, b], [v, v])
        except TypeError as error:
            return ys, type(error).__name__
        return ys, None

    return Case(f, vector(), vector(3, 2.0), vector(3, -3.25), torch.tensor(0.5))


@program(whole=False)
def tensor_of_numbers():
    def f(x, a, b, v):
        ys = [x.clone(), x + 1]
        torch._foreach_addcdiv_(ys, [a, a], [b, b], v)
        return ys

    two = torch.tensor([0.5, 0.25])
    return Case(f, vector(), vector(3, 2.0), vector(3, -3.25), two, then=[lambda: Args(vector(), vector(), vector(3, 4.0), two + 1)])


@program(break_step=97)
def rmsprop_without_momentum():
    return training(lambda p: torch.optim.RMSprop(p, lr=0.1, foreach=True))


@program(break_step=97)
def rmsprop_with_a_tensor_as_rate():
    return training(lambda p: torch.optim.RMSprop(p, lr=torch.tensor(0.1), foreach=True))
