"""copy.deepcopy of tensors, which copies storages: once each, and whole."""

import copy

import torch
from torch import nn

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


@program
def copies_of_results():
    def f(x):
        made = {"a": [x + 1, x * 2], "b": (x - 1).sum()}
        copied = copy.deepcopy(made)
        copied["a"][0].add_(5)
        return made, copied, copied["a"][1]._version

    return Case(f, vector())


@program
def copy_of_an_argument():
    def f(x):
        copied = copy.deepcopy(x)
        copied.mul_(3)
        return copied, x, copied is x

    return Case(f, matrix(), versions=True)


@program
def one_tensor_twice_is_copied_once():
    def f(x):
        y = x.exp()
        first, second, third = copy.deepcopy([y, y, x])
        first.add_(1)
        return first is second, first, second, third

    return Case(f, vector())


# The copies share memory: one storage is copied once.
@program(whole=False)
def copies_of_two_tensors_in_one_storage():
    def f(x):
        y = x + 1
        first, second = copy.deepcopy([y, y.detach()])
        first.add_(1)
        return first, second

    return Case(f, vector())


@program(whole=False)
def copy_of_a_part_of_a_storage():
    def f(x):
        y = (x + 1)[1:]
        copied = copy.deepcopy(y)
        return copied, copied.untyped_storage().nbytes()

    return Case(f, vector())


@program(whole=False)
def argument_whose_storage_is_another_size():
    whole = [vector(), vector(6)[:3], vector(5)[2:5], vector()]

    def f(x):
        return copy.deepcopy(x) * 2

    def run(i):
        return f(whole[i]), copy.deepcopy(whole[i]).untyped_storage().nbytes()

    return Case(lambda x: (f(x), x + run(0)[0]), vector(), then=[lambda: whole.reverse()])


@program(whole=False)
def arguments_with_other_storages():
    tensors = [vector(), vector(6)[:3], vector(5)[2:5]]

    def f(x):
        copied = copy.deepcopy(tensors[0])
        return x + copied, copied.untyped_storage().nbytes()

    return Case(f, vector(), then=[lambda: tensors.append(tensors.pop(0)), lambda: tensors.append(tensors.pop(0))])


@program(whole=False)
def copies_of_leaves_parameters_and_results_with_a_history():
    model = nn.Linear(3, 2)

    def f(x, w):
        copied = copy.deepcopy([w, model.bias])
        try:
            copy.deepcopy(w * 2)
        except RuntimeError as error:
            text = str(error)[:40]
        return copied[0].requires_grad, type(copied[1]).__name__, text, (x * copied[0].detach()).sum()

    return Case(f, vector(), leaf(), forward_only=True)


@program(whole=False)
def copy_of_a_tensor_with_attributes():
    noted = vector()

    def f(x):
        copied = copy.deepcopy(noted)
        return x + copied, getattr(copied, "note", None)

    return Case(f, vector(), then=[lambda: setattr(noted, "note", [1])])


@program
def steps_on_a_copy_of_a_list_of_tensors():
    history = [vector(), vector(3, 2.0)]

    def f(x):
        kept = copy.deepcopy([x, [x * 2, {"k": x.sum()}]])
        kept[1][0] += 1
        return kept, history[0] + x

    return Case(f, vector(), then=[lambda: history.reverse()])


@program
def copy_of_an_argument_beside_a_part_that_is_read_beyond():
    whole = torch.arange(8.0)
    parts = [whole[:3]]

    def f(x):
        copied = copy.deepcopy(x)
        beyond = torch.as_strided(parts[0], (2,), (1,), 1) * 2
        parts[0].mul_(2)
        return copied + parts[0], beyond

    def of_its_own():
        parts[0] = torch.arange(3.0)

    return Case(f, vector(), then=[lambda: None, of_its_own, lambda: Args(torch.arange(5.0)[:3])], observe=whole)
