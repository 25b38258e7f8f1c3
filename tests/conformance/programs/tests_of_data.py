"""Branches on whether all or any of the data pass a test, and on the few numbers that an object keeps.

Both outcomes may be captured: a compiler that does not look again is seen here, and one that looks at other data than the
program does: written before, of another call, changed in a loop.
"""

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


def of_rows(f, *firsts):
    """Calls f with matrices whose first row is filled with each of the numbers, twice around."""

    def filled(first):
        x = matrix(3, 4)
        with torch.no_grad():
            x[0] = first
        return x

    return Case(f, filled(firsts[0]), then=[lambda n=n: Args(filled(n)) for n in (*firsts[1:], *firsts)])


@program
def padding_that_is_found_in_the_data():
    def f(x):
        mask = (x.sum(-1) != 0).float()
        if mask.bool().all():
            return x * 2
        return torch.where(mask[:, None] > 0, x, 1.0), mask

    return of_rows(f, 1.0, 0.0)


@program
def a_repair_of_what_is_no_number():
    def f(x):
        if x.isnan().any():
            x = x.nan_to_num(7.0)
        if not torch.isfinite(x).all():
            x = x.clamp(-3.0, 3.0)
        return x * 2

    return of_rows(f, 1.0, float("nan"), float("inf"))


@program
def one_place_for_two_tensors():
    def positive(x):
        return x * 2 if (x > 0).all() else x - 1

    def f(x):
        return positive(x[0]), positive(x[1]), positive(x[2])

    return of_rows(f, 1.0, 0.0, -1.0)


@program(whole=False)
def a_loop_that_changes_what_it_tests():
    def f(x):
        turns = 0
        while (x.abs() > 1).any():
            x = x / 2
            turns += 1
        return x, turns

    return of_rows(f, 0.5, 3.0, 100.0, 9.0)


@program
def data_that_is_written_first():
    def f(x):
        y = x.clone()
        y[0] = -1.0
        return x * 2 if (y > -2).all() else x - 1

    return of_rows(f, 1.0, -3.0)


@program(whole=False)
def an_argument_that_is_written_first():
    def f(x, y):
        y.mul_(0.5)
        return x * 2 if (y > 1).all() else x - 1

    return Case(f, vector(), torch.full((3,), 3.0), then=[lambda: Args(vector(), torch.ones(3))], forward_only=True)


def _settles(x, y):
    return torch.allclose(x, y, atol=0.25)


@program
def whether_two_tensors_are_equal():
    def f(x):
        y = x.clamp(min=0.0)
        return (x * 2, torch.equal(x, y)) if torch.equal(y, x.abs()) else (x - 1, x.equal(y))

    return of_rows(f, 1.0, -1.0)


@program
def whether_two_tensors_are_close():
    def f(x):
        near, strict = _settles(x, x.round()), torch.allclose(x, x.round(), rtol=0, atol=0)
        return x * 2 if near else x - 1, near, strict, torch.allclose(x, x + 0.0, equal_nan=True), torch.allclose(x, x + 0.0)

    def filled(first):
        x = torch.full((3, 4), 2.0)
        x[0] = first
        return x

    numbers = (2.0, 2.2, 1.5, float("nan"), 2.2, 2.0)
    return Case(f, filled(2.0), then=[lambda n=n: Args(filled(n)) for n in numbers])


@program
def equal_at_one_place_for_two_pairs():
    def settled(x, y):
        return x * 2 if torch.equal(x, y) else x - y

    def f(x, y):
        return settled(x[0], y[0]), settled(x[1], y[1])

    return Case(f, matrix(2, 4), matrix(2, 4), then=[lambda: Args(matrix(2, 4), -matrix(2, 4)), lambda: Args(matrix(2, 4), matrix(2, 4))])


@program
def a_type_that_is_no_match():
    def f(x):
        try:
            return x * 2, torch.equal(x, x.double())
        except RuntimeError as error:
            return x - 1, type(error)

    return Case(f, matrix(2, 3))


@program(whole=False)
def a_loop_until_nothing_changes():
    def f(x):
        turns, before = 0, x + 9
        while not _settles(x, before) and turns < 40:
            before, x = x, x / 2
            turns += 1
        return x, turns

    return of_rows(f, 0.5, 3.0, 100.0, 9.0)


@program(whole=False)
def a_number_of_the_data():
    def f(x):
        return x * 2 if x.sum() > 0 else x - 1

    return of_rows(f, 50.0, -50.0)


class Ranges(torch.nn.Module):
    """Keeps the least and the greatest number seen, and a chance for each layer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("least", torch.zeros(1))
        self.register_buffer("greatest", torch.zeros(1))
        self.register_buffer("chances", torch.tensor([1.0, 0.0, 0.5]))

    def forward(self, x):
        if self.least.min() > -1e-5 and self.greatest.max() < 1e-5:
            self.least, self.greatest = self.least + x.min(), self.greatest + x.max()
        else:
            self.least, self.greatest = torch.min(self.least, x.min()), torch.max(self.greatest, x.max())
        for n in range(3):
            if self.chances[n] > 0:
                x = x * self.chances[n]
        return x + self.greatest - self.least


@program
def numbers_that_a_module_keeps():
    module = Ranges()

    def change():
        module.chances[1] = 1.0 - module.chances[1]

    with torch.no_grad():
        return Case(module, vector(), forward_only=True, then=[lambda: None, change, lambda: Args(vector(5)), change])


class Router(torch.nn.Module):
    """Moves its classifier to the type that it has, as mixtures of experts do."""

    def __init__(self):
        super().__init__()
        self.classifier = torch.nn.Linear(4, 2)

    def forward(self, x):
        self.classifier = self.classifier.to(torch.float32)
        self.classifier.weight.data = self.classifier.weight
        return self.classifier(x)


@program
def a_module_that_is_moved_to_where_it_is():
    router = Router()
    return Case(router, matrix(3, 4), then=[lambda: None], look=lambda: router.classifier.weight._version)
