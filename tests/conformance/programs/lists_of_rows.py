"""tolist() of matrices whose numbers the graph computes, and tensors made of such lists."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix


def changing(f, *more):
    return Case(f, matrix(), *more, then=[lambda n=n: Args(matrix() * n, *more) for n in (2, 3, 2)])


@program
def a_tensor_of_rows():
    return changing(lambda x: torch.tensor(x.tolist()) + x)


@program
def rows_by_themselves():
    def f(x):
        rows = (x * 2).tolist()
        return x * rows[1][2], torch.tensor(rows[0]), len(rows)

    return changing(f)


@program
def rows_of_integers():
    def f(x):
        rows = x.long().tolist()
        return torch.tensor(rows) + 1, x * rows[0][1]

    return changing(f)


@program(whole=False)
def rows_of_integers_as_another_type():
    return changing(lambda x: torch.tensor(x.long().tolist(), dtype=torch.float64) + 1)


@program
def three_dimensions():
    return changing(lambda x: torch.tensor(x.reshape(1, 2, 3).tolist()).sum(0) * x[0, 1])


@program
def rows_that_are_returned():
    return changing(lambda x: (x.tolist(), x[:, :0].tolist(), x[:0].tolist(), (x + 1).sum()))


@program
def the_matrix_is_written_later():
    def f(x):
        y = x * 2
        rows = y.tolist()
        y.add_(1)
        return torch.tensor(rows) - y, rows

    return changing(f)


@program(whole=False)
def rows_of_other_lengths():
    def f(x):
        rows = x.tolist()
        rows[0].append(rows[1][0])
        try:
            return torch.tensor(rows)
        except ValueError as error:
            return x * 2, str(error)

    return changing(f)


@program(whole=False)
def more_numbers_than_symbols():
    return Case(lambda x: torch.tensor(x.tolist()) * 2, torch.arange(100.0).reshape(10, 10), then=[lambda: None])


@program(whole=False)
def a_number_of_a_row_is_looked_at():
    def f(x):
        rows = x.tolist()
        return x * 2 if rows[0][0] > 1 else x * 3

    return changing(f)
