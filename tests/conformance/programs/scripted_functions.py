"""torch.jit.script's functions inside of a compiled function.

Torch optimises a script once it has run, and its gradients then round otherwise: eager is no one thing. So gradients are
compared where every number is exact.
"""

from typing import Dict, List, NamedTuple

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


@torch.jit.script
def helper(x, n: int):
    return x * n


@torch.jit.script
def attracted(x, alpha: float = 300, gamma: int = 2):
    if x.size(0) > 3:
        x = helper(x, gamma)
    total = torch.zeros([1])
    for i in range(gamma):
        total = total + float(i)
    return x.div(1 + alpha * x.pow(gamma)), total


@torch.jit.script
def weighed(x, w, n: int = 2):
    return torch.relu(x * w * n) + (x * x).sum()


@torch.jit.script
def of_numbers(x, n: int):
    parts = [x, x + 1]
    parts[0] = x * 2**n
    return torch.stack(parts), n // 2, n / 2, round(n / 2)


@torch.jit.script
def in_place(x):
    x.add_(1)
    x[0] = 5.0
    return x


@torch.jit.script
def by_value(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


@torch.jit.script
def loud(x):
    print("loud", x.size(0))
    return x * 2


@torch.jit.script
def refuses(x, n: int):
    if n > 2:
        raise ValueError("too many")
    return x * n


@torch.jit.script
def projected(x, n: int):
    return helper(x @ torch.ones([n, n]), n)


@torch.jit.script
def made_of_numbers(x, scale: int):
    root = torch.sqrt(torch.tensor(x.size(-1) * scale, dtype=torch.float))
    for i in range(scale):
        root += torch.tensor(i)
    counts = torch.tensor(scale).reshape(1).repeat(3)
    counts[0] = 7
    return x / root, counts, torch.tensor(True)


@torch.jit.script
def made_of_a_list(x, scale: int):
    counts = torch.tensor([1, 2, scale])
    counts[0] = 7
    return x * counts


@torch.jit.script
def draws(x):
    return torch.nn.functional.dropout(x, 0.5, True) + torch.rand_like(x)


@program
def values_and_gradients():
    weight = leaf(3)

    def f(x):
        return weighed(x, weight).sum() * 2, weighed(weight, x, n=4)

    return Case(f, vector(), then=[lambda: None, lambda: Args(leaf(3))], observe=[weight], named=False)


@program
def branches_on_sizes():
    def f(x):
        return attracted(x, 2.5)

    return Case(f, vector(3), then=[lambda: Args(vector(5)), lambda: Args(vector(2))])


@program
def numbers_come_back_as_the_script_has_them():
    def f(x, n):
        stacked, half, ratio, rounded = of_numbers(x, n)
        return stacked * half, half, ratio, rounded, type(rounded).__name__

    return Case(f, vector(), 4, then=[lambda: Args(vector(), 7)])


@program
def an_argument_is_written():
    def f(x):
        y = in_place(x)
        return y * 2, y is x

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def a_branch_on_a_value():
    def f(x):
        return by_value(x) + 1

    return Case(f, vector(), then=[lambda: Args(-vector())])


@program(whole=False)
def one_that_prints():
    def f(x):
        return loud(x) + 1

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def one_that_raises():
    def f(x, n):
        try:
            return refuses(x, n)
        except torch.jit.Error as error:
            return x - 1, "too many" in str(error)

    return Case(f, vector(), 2, then=[lambda: Args(vector(), 3)])


@program(whole=False)
def one_that_raises_to_the_caller():
    def f(x, n):
        return refuses(x, n) + 1

    return Case(f, vector(), 2, then=[lambda: Args(vector(), 3)])


@program(whole=False)
def one_whose_operator_raises():
    def f(x, n):
        return projected(x, n)

    return Case(f, vector(), 3, then=[lambda: Args(vector(), 4), lambda: Args(vector(), 3)])


@program
def one_that_torch_has_run_before():
    weight = leaf(3)
    for x in (vector(), leaf(), vector(), leaf()):
        weighed(x, weight).sum().backward()
        attracted(x)
    weight.grad = None

    def f(x):
        return weighed(x, weight), attracted(x.detach(), gamma=3)

    return Case(f, vector(), then=[lambda: Args(leaf())], observe=[weight], named=False)


@program(whole=False)
def arguments_that_do_not_fit():
    def f(x):
        seen = []
        for call in (lambda: attracted(), lambda: attracted(x, 1, 2, 3), lambda: attracted(x, beta=1), lambda: attracted(x, "a")):
            try:
                call()
            except (RuntimeError, TypeError) as error:
                seen.append(type(error).__name__)
        return x + 1, seen

    return Case(f, vector())


@program(not_ways=("leaks",))  # TorchScript's executor keeps a tensor of its first runs
def tensors_made_of_numbers():
    kept = []

    def f(x, scale):
        y, counts, truth = made_of_numbers(x, scale)
        kept.append(counts)
        counts.add_(1)
        return y * counts, truth

    return Case(f, vector(), 2, then=[lambda: None, lambda: Args(leaf(), 3)], observe=kept)


@program(whole=False)
def a_tensor_made_of_a_list():
    def f(x, scale):
        return made_of_a_list(x, scale) + 1

    return Case(f, vector(), 2, then=[lambda: None, lambda: Args(leaf(), 3)])


@program
def random_numbers():
    return Case(lambda x: draws(x) - draws(x), vector(), then=[lambda: None])


@program
def another_function_of_the_name():
    box = {"f": helper}

    def f(x):
        return box["f"](x, 3)

    def change():
        box["f"] = refuses

    return Case(f, vector(), then=[lambda: None, change])


@torch.jit.script
def multiplied(x, y):
    return torch.mm(x, y) + x.sum()


@program(whole=False)
def one_under_autocast():
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = multiplied(x, x)
        return a, multiplied(x, x), a.dtype

    return Case(f, matrix(3, 3), then=[lambda: None, lambda: Args(matrix(3, 3).requires_grad_())])


@program
def one_without_gradients():
    weight = matrix(3, 3).requires_grad_()

    def f(x):
        with torch.no_grad():
            a = multiplied(x, weight)
        return a, multiplied(x, weight.detach()), multiplied(x, weight)

    return Case(f, matrix(3, 3), then=[lambda: None])


class Both(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


@torch.jit.script
def named(x):
    return Both(x, x + 1)


@torch.jit.script
def with_lists(parts: List[torch.Tensor], names: Dict[str, int]):
    parts.append(parts[0] * 2)
    return torch.stack(parts), [p + 1 for p in parts], names["a"]


@program(whole=False)
def named_tuples_come_back():
    def f(x):
        both = named(x)
        return both.first * both.second, both[1], type(both).__name__, isinstance(both, tuple)

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def lists_and_dicts_go_in():
    def f(x, parts):
        stacked, others, n = with_lists(parts, {"a": 2})
        return stacked * x, others, n, len(parts)

    return Case(f, vector(), [vector(), leaf()], then=[lambda: None])


@program(not_ways=["sizes"])  # its errors name the judge's line that had it traced
def traced_function():
    traced = torch.jit.trace(lambda x: torch.relu(x) * 2 + torch.ones(3), (vector(),))

    def f(x):
        return traced(x) + 1

    return Case(f, vector(), then=[lambda: Args(leaf())])


@torch.jit.script
def asked_to_require(x):
    return x.requires_grad_(True) * 2


@torch.jit.script
def that_retains(x):
    y = x * 2
    y.retain_grad()
    return y


@program(whole=False)
def one_that_asks_an_argument_for_gradients():
    def f(x):
        y = asked_to_require(x)
        return y, x.requires_grad

    x = vector()
    return Case(f, x, observe=x, then=[lambda: Args(vector())])


@program(whole=False)
def one_that_retains_a_gradient():
    def f(x):
        y = that_retains(x)
        return y, y.retains_grad

    return Case(f, leaf(), then=[lambda: None])
