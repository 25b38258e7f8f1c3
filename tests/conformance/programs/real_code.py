"""What the code of public libraries does beside its tensors: checks with texts, unions as annotations, groups of rows."""

import math

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


def experts(requires_grad=False):
    return (torch.arange(3 * 4 * 8, dtype=torch.float32).reshape(3, 4, 8) * 0.01).requires_grad_(requires_grad)


@program
def groups_of_rows():
    weight = experts()

    def f(x, choice):
        order = choice.argsort(stable=True)
        ends = torch.bincount(choice, minlength=3).cumsum(0).to(torch.int32)
        y = torch.nn.functional.grouped_mm(x[order], weight, offs=ends)
        return y.stride(), y.tanh()[order.argsort()]

    choice = torch.tensor([2, 0, 1, 0, 2, 2])
    return Case(f, matrix(6, 4), choice, then=[lambda: Args(matrix(6, 4), torch.tensor([1, 1, 1, 1, 0, 0]))])


@program
def groups_of_rows_with_gradients():
    weight = experts(True)

    def f(x, choice):
        ends = (choice.unsqueeze(0) == torch.arange(3).unsqueeze(1)).sum(1).cumsum(0).to(torch.int32)
        y = torch.nn.functional.grouped_mm(x * 2, weight, offs=ends)
        return y.sin().sum()

    x = matrix(6, 4).requires_grad_()
    choice = torch.tensor([0, 0, 1, 2, 2, 2])
    return Case(f, x, choice, then=[lambda: Args(matrix(6, 4).requires_grad_(), torch.tensor([0, 1, 1, 1, 1, 2]))])


@program
def groups_of_odd_columns():
    weight = torch.arange(2 * 4 * 5, dtype=torch.float32).reshape(2, 5, 4) * 0.1

    def f(x, choice):
        ends = (choice.unsqueeze(0) == torch.arange(2).unsqueeze(1)).sum(1).cumsum(0).to(torch.int32)
        y = torch.nn.functional.grouped_mm(x + 1, weight.transpose(1, 2), offs=ends)
        return y.stride(), y * 2

    choice = torch.tensor([0, 0, 1, 1, 1, 1])
    return Case(f, matrix(6, 4), choice, then=[lambda: Args(matrix(6, 4), torch.tensor([0, 0, 0, 0, 0, 1]))])


@program(whole=False)
def groups_with_refused_strides():
    weight = torch.ones(2, 3, 5)

    def f(x, lengths):
        ends = lengths.cumsum(0).to(torch.int32)
        try:
            return torch.nn.functional.grouped_mm(x, weight, offs=ends)
        except RuntimeError as error:
            return x + 1, "strides" in str(error)

    return Case(f, matrix(6, 3), torch.tensor([2, 4]))


def check(cond, message):
    if not callable(message):

        def text():
            return message
    else:
        text = message
    if isinstance(cond, torch.Tensor):
        torch._check_tensor_all_with(ValueError, cond, text)
    else:
        torch._check_with(ValueError, cond, text)


@program
def checked_tensor():
    def f(x):
        y = x.exp()
        check(y > 0, "never")
        check(y.sum() > 0, lambda: f"the sum is {y.sum()}")
        check(y.shape[0] > 1, "two of them")
        return y * 2

    return Case(f, vector(), then=[lambda: Args(vector(5))])


@program
def checked_tensor_that_raises():
    def f(x):
        y = x - 1
        torch._check_tensor_all(y >= 0, lambda: "below one")
        return y.sqrt()

    return Case(f, vector(), then=[lambda: Args(vector(start=-2.0)), lambda: Args(vector(start=2.0))])


@program(whole=False)
def checked_tensor_with_a_handler():
    def f(x):
        y = x - 1
        try:
            check(y >= 0, "below one")
        except ValueError as error:
            return x, str(error)
        return y.sqrt()

    low = vector(start=-2.0)
    return Case(f, vector(), then=[lambda: Args(low), lambda: Args(low + 1), lambda: Args(vector())])


@program
def count_in_a_text():
    def f(ids, features):
        mask = ids == 7
        count = mask.sum()
        check(count * 2 == features.numel(), f"tokens: {count}, {count:>4}, features: {features.shape[0]}")
        return features * count, f"{count}"

    ids = torch.tensor([7, 1, 7, 2])
    return Case(f, ids, matrix(2, 2), then=[lambda: Args(torch.tensor([7, 7, 7]), matrix(3, 2))])


@program(whole=False)
def tensors_in_a_text():
    def f(x, n):
        return x + 1, f"{n}", f"{x.sum()}", f"{n!r}", f"{n[None]}", f"{n!s}"

    return Case(f, vector(), torch.tensor(3), then=[lambda: Args(vector(), torch.tensor(4))])


@program(whole=False)
def number_that_requires_grad_in_a_text():
    def f(x):
        return x * 2, f"{x.sum():.2f}"

    return Case(f, leaf())


@program
def annotations_that_are_unions():
    import types
    import typing

    class Config:
        size: int | None = 3
        scale: int | float = 2
        name: str | list[str] = "n"

    def check_type(name, value, expected):
        if typing.get_origin(expected) is types.UnionType:
            return any(check_type(name, value, one) for one in typing.get_args(expected))
        if expected is types.NoneType:
            return value is None
        if typing.get_origin(expected) is list:
            return isinstance(value, list)
        return isinstance(value, expected)

    def f(x, config):
        for name, expected in Config.__annotations__.items():
            if not check_type(name, getattr(config, name), expected):
                raise TypeError(name)
        return x * config.scale + (config.size or 0), isinstance(config.size, int | None)

    config = Config()

    def change():
        config.size = None

    def annotate():
        Config.__annotations__["scale"] = int | str

    def none(function):
        return lambda: function() and None

    return Case(f, vector(), config, then=[none(change), none(annotate)])


@program
def markers_that_are_plain_objects():
    missing, other = object(), object()
    table = {"a": 1, "none": missing}

    def f(x, key):
        found = table.get(key, missing)
        if found is missing:
            return x - 1, missing in [other, missing], [other].count(missing), bool(other)
        return x * found if missing and object() else x

    return Case(f, vector(), "a", then=[lambda: Args(vector(), "b"), lambda: Args(vector(), "none")])


@program
def tables_by_functions_of_c_code():
    table = {torch.sin: 2, math.floor: 3, len: 4, "name": 5}

    def f(x, function):
        return function(x) * table[function] + table[len], table.get(torch.cos, 0), list(table)[1] is math.floor

    def swap():
        table[torch.sin], table[len] = table[len], table[torch.sin]

    return Case(f, vector(), torch.sin, then=[swap, lambda: table.update({torch.cos: 7}), lambda: Args(vector(), torch.cos)])
