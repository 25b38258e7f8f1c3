"""cond() on a tensor whose branches do what no branch in a graph may: the graph breaks, and Python takes one of them."""

import torch

import framefuse
from conformance.program import Args, Case, program
from conformance.programs.conditionals import Scaled, both_signs
from conformance.sample import leaf


@program(whole=False)
def cond_branch_writes_a_list_from_outside():
    seen = []

    def f(x):
        return framefuse.cond(x.sum() > 0, lambda x: (seen.append(1), x + 1)[1], lambda x: (seen.append(2), x * 2)[1], (x,))

    return both_signs(f, observe=seen)


@program(whole=False)
def cond_branch_writes_a_list_of_the_frame():
    def f(x):
        seen = []
        y = framefuse.cond(x.sum() > 0, lambda x: (seen.append(1), x + 1)[1], lambda x: (seen.append(2), x * 2)[1], (x,))
        return y * seen[0], seen

    return both_signs(f)


@program(whole=False)
def cond_branch_keeps_a_tensor():
    def f(x):
        kept = {}

        def yes(x):
            kept["y"] = x.sin()
            return kept["y"] + 1

        def no(x):
            kept["y"] = x.cos()
            return kept["y"] + 2

        return framefuse.cond(x.sum() > 0, yes, no, (x,)) * kept["y"]

    return both_signs(f)


@program(whole=False)
def cond_branch_rebinds_a_variable():
    def f(x):
        count = 0

        def yes(x):
            nonlocal count
            count += 1
            return x + 1

        def no(x):
            nonlocal count
            count -= 1
            return x * 2

        return framefuse.cond(x.sum() > 0, yes, no, (x,)) + count, count

    return both_signs(f)


@program(whole=False)
def cond_branch_writes_an_object():
    scaled = Scaled()

    def f(x):
        mine = Scaled()

        def yes(x):
            mine.count = 1
            scaled.count = 5
            return x + 1

        def no(x):
            mine.count = 2
            return x * 2

        return framefuse.cond(x.sum() > 0, yes, no, (x,)), mine.count

    return both_signs(f, observe=scaled)


@program(whole=False)
def cond_branch_takes_from_an_iterator():
    def f(x):
        numbers = iter([1, 2, 3])
        y = framefuse.cond(x.sum() > 0, lambda x: x + next(numbers), lambda x: x * next(numbers), (x,))
        return y, list(numbers)

    return both_signs(f)


@program(whole=False)
def cond_branch_writes_a_tensor_from_outside():
    buffer = torch.zeros(3)

    def f(x):
        mine = x.detach() * 2

        def yes(x):
            buffer.add_(1)
            return x + 1

        def no(x):
            mine.mul_(2)
            return x * 2

        return framefuse.cond(x.sum() > 0, yes, no, (x,)), mine

    return both_signs(f, observe=buffer, versions=True)


@program(whole=False)
def cond_branch_with_a_batch_norm():
    torch.manual_seed(5)
    norm = torch.nn.BatchNorm1d(3)

    def f(x):
        x = x.reshape(2, 3)
        return framefuse.cond(x.sum() > 0, norm, lambda x: x * 2, (x,))

    return Case(f, leaf(6), then=[lambda: Args(leaf(6, -9.0))], observe=norm, forward_only=True)


@program(whole=False)
def cond_branch_returns_its_operand():
    def f(x):
        y = framefuse.cond(x.sum() > 0, lambda x: x, lambda x: x + 1, (x,))
        z = framefuse.cond(x.sum() > 0, lambda x: x * 2, lambda x: x[:], (x,))
        return y, z, y is x

    return both_signs(f)


@program(whole=False)
def cond_branch_raises():
    def f(x):
        def no(x):
            raise ValueError("negative")

        try:
            return framefuse.cond(x.sum() > 0, lambda x: x + 1, no, (x,))
        except ValueError as error:
            return x * 2, str(error)

    return both_signs(f)


@program(whole=False)
def cond_branch_prints():
    def f(x):
        def yes(x):
            print("positive")
            return x + 1

        return framefuse.cond(x.sum() > 0, yes, lambda x: x * 2, (x,)) * 2

    return both_signs(f)


@program(whole=False)
def cond_branches_of_different_shapes():
    return both_signs(lambda x: framefuse.cond(x.sum() > 0, lambda x: x.sum(), lambda x: x * 2, (x,)) + 1)


@program(whole=False)
def cond_branches_of_different_constants():
    def f(x):
        y, n = framefuse.cond(x.sum() > 0, lambda x: (x + 1, 3), lambda x: (x * 2, 4), (x,))
        z, zero = framefuse.cond(x.sum() > 0, lambda x: (x + 1, 0.0), lambda x: (x * 2, -0.0), (x,))
        return y * n, z, str(zero)

    return both_signs(f)


@program(whole=False)
def cond_on_several_values():
    def f(x):
        try:
            return framefuse.cond(x > 0, lambda x: x + 1, lambda x: x * 2, (x,))
        except RuntimeError as error:
            return x, str(error)

    return both_signs(f)


@program(whole=False)
def cond_branch_sets_the_grad_mode():
    def f(x):
        def yes(x):
            torch.set_grad_enabled(False)
            return x + 1

        y = framefuse.cond(x.sum() > 0, yes, lambda x: x * 2, (x,))
        z = y * 2
        torch.set_grad_enabled(True)
        return y, z

    return both_signs(f)


@program(whole=False)
def cond_on_a_tensor_with_a_hook():
    seen = []

    def f(x):
        y = x * 2
        y.register_hook(lambda g: seen.append(g.sum()))
        return framefuse.cond(x.sum() > 0, lambda y: y * y, lambda y: y.sin(), (y,))

    return both_signs(f, observe=seen, named=False)


@program(whole=False)
def cond_branch_makes_its_operand_require_grad():
    def f(x):
        y = x.detach() * 2

        def yes(x):
            y.requires_grad_()
            return x + 1

        z = framefuse.cond(x.sum() > 0, yes, lambda x: x * 2, (x,))
        return z, y.requires_grad

    return both_signs(f)


@program(whole=False)
def cond_branch_clears_a_gradient():
    torch.manual_seed(1)
    linear, other = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def f(x):
        def yes(x):
            linear.weight.grad = None
            return x + 1

        y = other.weight[0] * 0
        return framefuse.cond(x.sum() > 0, yes, lambda x: x * 2, (x,)) + y

    def gradients_appear():
        for p in (*linear.parameters(), *other.parameters()):
            p.grad = torch.ones_like(p)
        return Args(leaf(start=-3.0))

    return Case(f, leaf(), then=[gradients_appear, gradients_appear], observe=(linear, other), forward_only=True)


@program(whole=False)
def cond_branch_runs_a_backward_pass():
    torch.manual_seed(1)
    linear = torch.nn.Linear(3, 3)

    def f(x):
        def yes(x):
            linear(x).sum().backward()
            return x.detach() + 1

        return framefuse.cond(x.sum() > 0, yes, lambda x: x.detach() * 2, (x,))

    return Case(f, leaf(), then=[lambda: Args(leaf(start=-3.0)), lambda: None], observe=linear, forward_only=True)


_ROOMS: list = []


@program(whole=False)
def cond_branch_writes_what_the_frame_put_into_a_global():
    _ROOMS.clear()

    def f(x):
        _ROOMS.append([])
        y = framefuse.cond(x.sum() > 0, lambda x: (_ROOMS[-1].append(1), x + 1)[1], lambda x: x * 2, (x,))
        return y, len(_ROOMS[-1])

    return both_signs(f, observe=_ROOMS)


@program(whole=False)
def cond_branch_calls_a_method_bound_to_a_list_of_the_frame():
    def f(x):
        seen = []
        add = seen.append
        y = framefuse.cond(x.sum() > 0, lambda x: (add(1), x + 1)[1], lambda x: x * 2, (x,))
        return y, seen

    return both_signs(f)
