"""Operators that check what they found (a decomposition, an inverse) behind branches that only raise."""

import torch
from conformance.program import Args, Case, program


def positive(scale=2.0):
    return torch.eye(3) * scale + 0.25


@program
def factor_behind_a_check():
    def f(a):
        if (a.diagonal() <= 0).any():
            raise ValueError("not positive")
        return torch.linalg.cholesky(a)

    return Case(f, positive(), then=[lambda: Args(positive(5.0)), lambda: Args(-positive()), lambda: Args(positive())])


@program
def check_behind_a_factor():
    def f(a):
        factor = torch.linalg.cholesky(a)
        if not torch.isfinite(factor).all():
            raise ValueError("not finite")
        return torch.linalg.inv(factor) @ a

    far = positive()
    far[0, 0] = float("inf")
    return Case(f, positive(), then=[lambda: Args(far), lambda: Args(-positive()), lambda: Args(positive(3.0))])


@program
def factor_that_does_not_exist():
    def f(a):
        if a.isnan().any():
            raise ValueError("not a number")
        try:
            return torch.linalg.cholesky(a)
        except torch.linalg.LinAlgError as error:
            return a + 1, str(error)

    return Case(f, positive(), then=[lambda: Args(-positive()), lambda: Args(positive())])


def densities(**settings):
    def f(mean, covariance):
        normal = torch.distributions.MultivariateNormal(mean, covariance_matrix=covariance, **settings)
        return normal.log_prob(mean + 1), normal.entropy()

    not_definite = torch.tensor([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    then = [lambda: Args(torch.ones(3), positive(4.0)), lambda: Args(torch.ones(3), not_definite)]
    return Case(f, torch.zeros(3), positive(), then=then)


@program
def densities_that_are_not_checked():
    return densities(validate_args=False)


@program(whole=False)
def densities_that_are_checked():
    """Whether a matrix is symmetric decides how the check goes on."""
    return densities()


@program
def solved():
    def f(a, b):
        if (a == 0).all():
            raise ZeroDivisionError("nothing")
        return torch.linalg.solve(a, b), torch.linalg.eigvalsh(a), torch.linalg.det(a)

    b = torch.ones(3, 1)
    singular = torch.ones(3, 3)
    return Case(f, positive(), b, then=[lambda: Args(singular, b), lambda: Args(torch.zeros(3, 3), b)])
