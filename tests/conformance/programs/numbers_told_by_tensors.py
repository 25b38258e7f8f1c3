"""Functions of torch that read their arguments' memory in C++: places, lengths, classes, and checks of what came in."""

import torch
from torch.nn import functional

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


@program
def places_to_split_at():
    def f(x, places, count):
        a = torch.tensor_split(x, places)
        b = x.tensor_split(count, dim=1)
        c = torch.tensor_split(x, tensor_indices_or_sections=places, dim=1)
        return [t * 2 for t in a], [t + 1 for t in b], c[0].sum()

    start = matrix(4, 5), torch.tensor([1, 3]), torch.tensor(2)
    return Case(f, *start, then=[lambda: None, lambda: Args(matrix(4, 5), torch.tensor([0, 2]), torch.tensor(3))])


@program(whole=False)
def places_that_are_refused():
    def f(x, places):
        try:
            return torch.tensor_split(x, places)
        except (RuntimeError, IndexError) as error:
            return x * 2, type(error).__name__

    return Case(f, vector(4), torch.tensor([[1, 3]]), then=[lambda: Args(vector(4), torch.tensor([1], dtype=torch.int32))])


@program
def the_largest_in_windows():
    def f(x, y):
        with torch.no_grad():
            a = functional.max_pool1d(x, 2)
        return a, functional.max_pool1d(y, 3, stride=1, padding=1), torch.max_pool1d(y.transpose(1, 2), 2, ceil_mode=True)

    y = torch.tensor([[[1.0, -2.0, 3.0, float("nan")], [4.0, 0.0, -0.0, -5.0]]])
    return Case(f, leaf(6).detach().reshape(1, 1, 6), y, then=[lambda: None])


@program
def windows_of_what_learns():
    return Case(lambda x: functional.max_pool1d(x[None], 2) * 2, leaf(6), then=[lambda: None])


@program
def lengths_of_labels():
    def f(x, labels, ins, outs):
        return functional.ctc_loss(x.log_softmax(2), labels, ins, outs)

    x = torch.arange(24.0).reshape(4, 2, 3).sin().requires_grad_()
    labels = torch.tensor([[1, 2], [2, 1]])
    return Case(f, x, labels, torch.tensor([4, 4]), torch.tensor([2, 1]), then=[lambda: None])


@program
def as_many_classes_as_there_are():
    def f(x):
        return functional.one_hot(x), functional.one_hot(x.abs(), -1).sum(0)

    return Case(f, torch.tensor([0, 2, 1]), then=[lambda: None, lambda: Args(torch.tensor([3, 0]))])


@program(whole=False)
def classes_below_zero():
    def f(x):
        try:
            return functional.one_hot(x)
        except RuntimeError as error:
            return str(error)

    return Case(f, torch.tensor([0, -2]), then=[lambda: Args(torch.tensor([1, 0]))])


@program
def a_loss_that_looks_at_variances():
    def f(x, y, variance):
        return functional.gaussian_nll_loss(x, y, variance, reduction="sum")

    return Case(f, leaf(3), vector(3), vector(3, 0.5), then=[lambda: None, lambda: Args(leaf(3), vector(3), vector(1))])


@program(whole=False)
def a_loss_of_variances_that_are_refused():
    def f(x, y, variance):
        try:
            return functional.gaussian_nll_loss(x, y, variance)
        except ValueError as error:
            return str(error)

    return Case(f, vector(3), vector(3), vector(3, 0.5), then=[lambda: Args(vector(3), vector(3), vector(3, -1.0)), lambda: None])


@program
def different_rows():
    def f(x):
        rows = torch.unique(x, dim=0)
        columns, places, counts = torch.unique(x, dim=1, return_inverse=True, return_counts=True)
        runs, counted = torch.unique_consecutive(x, dim=-2, return_counts=True)
        return rows * 2, columns + 1, places, counts, runs.sum(), counted

    def rows(*order):
        return torch.tensor([[1.0, 1, 2], [3, 3, 4], [1, 1, 2], [5, 5, 5]])[list(order)]

    return Case(f, rows(0, 1, 2, 3), then=[lambda: Args(rows(0, 0, 2, 2)), lambda: Args(rows(3, 1, 1, 0))])


@program
def places_in_a_single_number():
    def f(x):
        i = (x > 1.5).nonzero()
        return i, torch.argwhere(x.sin()), torch.unique(x)

    return Case(f, torch.tensor(1.25), then=[lambda: Args(torch.tensor(2.0)), lambda: Args(torch.tensor(0.0))])


@program
def places_in_nothing():
    return Case(lambda x: (x.nonzero() + 1, torch.unique(x * 2)), torch.ones(2, 0, 3), then=[lambda: None])


@program
def products_along_complex_numbers():
    def f(x):
        return torch.cumprod(x, 0).abs()

    return Case(f, torch.tensor([1 + 2j, 0.5 - 1j, 2j, 3]).requires_grad_(), then=[lambda: Args(torch.tensor([1 + 2j, 0, 2j, 0]).requires_grad_())])


@program
def parts_with_histories_of_their_own():
    def f(x):
        a, b = torch.unsafe_split(x, 2)
        c = torch.unsafe_chunk(x, 2)
        return a, b * 2, c[1]

    return Case(f, leaf(4), then=[lambda: None])


@program
def parts_of_what_does_not_learn():
    return Case(lambda x: torch.unsafe_split(x, 2), vector(4), then=[lambda: None])


@program(whole=False)
def parts_that_are_written():
    def f(x):
        y = x * 1
        a, b = torch.unsafe_split(y, 2)
        a.mul_(3)
        return a, b

    return Case(f, leaf(4), then=[lambda: None])


@program
def parts_that_are_written_by_the_caller():
    def f(x):
        return torch.unsafe_split(x, 2)

    x = leaf(4)

    def write():
        with torch.no_grad():
            x.add_(1)

    return Case(f, x, then=[write, write], versions=True)


@program(whole=False)
def statistics_into_given_tensors():
    def f(x, w, b, mean, var, out):
        torch.native_batch_norm(x, w, b, mean, var, False, 0.1, 1e-5, out=out)
        return out[0] * 2

    def given():
        return torch.ones(3, 2), torch.ones(0), torch.ones(0)

    return Case(f, matrix(3, 2), vector(2), vector(2), vector(2), vector(2), given(), then=[lambda: None])


@program(break_step=24)
def a_gradient_scaler_that_meets_an_infinity():
    torch.manual_seed(3)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3)

    def f(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach(), scaler.get_scale()

    factors = (1.0, 0.5, float("inf"), 0.25, float("nan"), 1.0)
    return Case(f, vector(), then=[lambda k=k: Args(vector() * k) for k in factors], forward_only=True)


@program
def the_largest_in_windows_of_any_number():
    def f(x, w):
        return functional.max_pool1d(x, 2) * w, torch.max_pool1d(w * x, 3, stride=1, padding=1), functional.max_pool1d(x, 2, return_indices=True)[1]

    def given(n):
        return torch.arange(2.0 * n).cos().reshape(1, 2, n), torch.tensor([0.5]).requires_grad_()

    return Case(f, *given(6), then=[lambda: Args(*given(8)), lambda: Args(*given(5))])


class Listening(torch.Tensor):
    heard = []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.heard.append(getattr(function, "__name__", ""))
        return super().__torch_function__(function, types, args, kwargs or {})


@program(whole=False)
def windows_of_a_class_that_hears_of_calls():
    def f(x):
        return functional.max_pool1d(x, 2).as_subclass(torch.Tensor) * 2

    Listening.heard.clear()
    return Case(f, torch.arange(6.0).reshape(1, 1, 6).as_subclass(Listening), then=[lambda: None], look=lambda: list(Listening.heard))
