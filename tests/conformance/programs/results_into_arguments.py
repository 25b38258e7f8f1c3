"""`out=` of functions that give an operator empty tensors of their own, to be resized, beside the program's."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


def well(n):
    return torch.eye(n) * 3 + matrix(n, n) * 0.1


@program
def inverse_into():
    def f(x, out):
        y = torch.linalg.inv(x * 2, out=out)
        return y is out, y @ x

    return Case(f, well(3), torch.ones(3, 3), versions=True, then=[lambda: Args(well(3), torch.ones(3, 3).t())])


@program
def solution_and_factors_into():
    def f(x, b, out, lu, pivots):
        solved = torch.linalg.solve(x, b, out=out)
        torch.linalg.lu_factor(x, out=(lu, pivots))
        return solved + 1, lu.sum(), pivots.sum()

    return Case(f, well(3), matrix(3, 2), torch.zeros(3, 2), torch.zeros(3, 3), torch.zeros(3, dtype=torch.int32))


@program
def determinants_into():
    def f(x, out, sign, log):
        torch.linalg.det(x, out=out)
        torch.linalg.slogdet(x, out=(sign, log))
        torch.linalg.cholesky(x @ x.t(), out=x)
        return out * sign

    return Case(f, well(3), torch.zeros(()), torch.zeros(()), torch.zeros(()))


@program
def sorted_into():
    def f(x, out):
        y = out.view(-1)
        torch.msort(x, out=out)
        return y * 2

    return Case(f, matrix(3, 4), torch.zeros(3, 4))


@program
def into_a_part_of_a_tensor():
    def f(x, table):
        torch.linalg.inv(x, out=table[1])
        return table.sum(0)

    return Case(f, well(3), torch.zeros(2, 3, 3))


@program
def loss_that_is_resized():
    def f(x, y):
        return torch.nn.functional.soft_margin_loss(x, y) * 2

    return Case(f, matrix(), matrix().sign())


@program(whole=False)
def into_a_tensor_of_another_size():
    def f(x, out):
        return torch.linalg.inv(x, out=out) + 1

    return Case(f, well(3), torch.zeros(0))


@program(whole=False)
def into_a_tensor_of_another_type():
    def f(x, out):
        try:
            return torch.linalg.inv(x, out=out) + 1
        except RuntimeError as error:
            return x, str(error)

    return Case(f, well(3), torch.zeros(3, 3, dtype=torch.int64))


@program
def spaced_between_tensors():
    def f(a, b, out):
        torch.linspace(a, b, 5, out=out)
        return torch.linspace(a, 3, 4), torch.logspace(0, b, 3, base=2), out * a

    return Case(f, torch.tensor(0.5), torch.tensor(2.0), torch.zeros(5), then=[lambda: Args(torch.tensor(1.5), torch.tensor(-2.0), torch.zeros(5))])


@program
def nothing_gathered_by_an_index_of_another_type():
    def f(x):
        return torch.gather(x, 0, torch.tensor([], dtype=torch.uint8)) + 1

    return Case(f, vector())


@program
def derivative_in_place():
    def f(x):
        y = x * 2
        y.polygamma_(1)
        return y

    return Case(f, vector().abs().add(1).requires_grad_())


@program
def conjugated_in_place():
    def f(x):
        y = torch.complex(x, x * 2)
        y.conj_physical_()
        return y * 1j, torch.view_as_real(y)

    return Case(f, vector(), versions=True)


@program(whole=False)
def pairs_of_results_that_are_resized():
    def f(x, values, places):
        first = torch.topk(x, 2, out=(values, places))
        shapes = values.shape, places.shape
        second = torch.sort(x, out=(values, places))
        y = values * 2
        torch.cummax(x[:1], 1, out=(values, places))
        return first[0].shape, shapes, second[1].shape, y, values + 1, places

    def fresh(rows):
        return Args(matrix(rows, 3), torch.empty(0), torch.empty(0, dtype=torch.int64))

    return Case(f, *fresh(2).args, then=[lambda: fresh(3), lambda: fresh(2)])
