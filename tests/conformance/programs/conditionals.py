"""cond() on a tensor: both branches in one graph, and what a branch may not do there."""

import functools

import torch

import framefuse
from conformance.program import Args, Case, program
from conformance.sample import leaf, vector


def _both_signs(f, *others, **facts):
    # The first argument chooses: positive, negative, positive again.
    return Case(f, leaf(), *others, then=[lambda: Args(leaf(start=-3.0), *others), lambda: Args(leaf(), *others)], **facts)


@program(graphs=1)
def cond_with_gradients():
    w = leaf(3, 2.0)
    return _both_signs(lambda x: framefuse.cond(x.sum() > 0, lambda x: (x * w).sin(), lambda x: x.exp() - w, (x,)), observe=w)


@program(graphs=1)
def cond_between_other_operators():
    def f(x):
        y = x * 2
        y = framefuse.cond(y.mean() > 0, lambda y: y.tanh() * x, lambda y: y.cos() + x, (y,))
        return y.sum() * y

    return _both_signs(f)


@program(graphs=1)
def cond_over_modules():
    torch.manual_seed(3)
    first, second = torch.nn.Linear(3, 4), torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU())

    def f(x):
        hidden = framefuse.cond(x.sum() > 0, first, second, (x,))
        return hidden.relu()

    # A module that is not run has gradients of zeros where eager's has none.
    return _both_signs(f, forward_only=True)


@program(graphs=1)
def cond_returns_a_structure():
    def f(x):
        def yes(x, y):
            return {"a": x + y, "b": (x * y, [x.sin(), 3])}

        def no(x, y):
            return {"a": x - y, "b": (x / 2, [x.cos() * y, 3])}

        result = framefuse.cond(x.sum() > 0, yes, no, [x, x + 1])
        return result["a"] * result["b"][1][1], result["b"]

    return _both_signs(f)


@program(graphs=1)
def cond_inside_cond():
    def f(x):
        def inner(x):
            return framefuse.cond(x.max() > 2, lambda x: x * 3, lambda x: x * x, (x,))

        return framefuse.cond(x.sum() > 0, inner, lambda x: -x.exp(), (x,))

    return Case(f, leaf(), then=[lambda: Args(leaf(start=-3.0)), lambda: Args(leaf(start=-0.1)), lambda: Args(leaf(start=9.0))])


@program(graphs=1)
def cond_in_a_loop():
    def f(x):
        for step in range(4):
            x = framefuse.cond(x.sum() > 1, lambda x: x * 0.5 - step, lambda x: x * 1.5 + step, (x,))  # noqa: B023
        return x

    return _both_signs(f)


@program(graphs=1)
def cond_does_not_spoil_gradients_of_the_branch_taken():
    # The root's gradient at 0 and below is infinite or nan: where() would let it in.
    def f(x):
        return framefuse.cond(x.min() > 0, lambda x: x.sqrt(), lambda x: x * 2, (x,))

    def zeros():
        return Args(torch.zeros(3, requires_grad=True))

    return Case(f, leaf(), then=[zeros, lambda: Args(leaf(start=-3.0))])


@program(graphs=1)
def cond_on_numbers():
    def f(x, n):
        a = framefuse.cond(n, lambda x: x + 1, lambda x: x * 2, (x,))
        b = framefuse.cond(x.sum(), lambda: a.sin(), lambda: a.cos(), ())
        return framefuse.cond(x[:1], lambda b: b * a, lambda b: b - a, (b,))

    return Case(f, vector(3), torch.tensor(2), then=[lambda: Args(torch.zeros(3), torch.tensor(0)), lambda: Args(vector(3), torch.tensor([0]))])


@program(graphs=1)
def cond_on_a_bool_takes_one_branch():
    def f(x, flag):
        return framefuse.cond(flag, lambda x: x + 1, lambda x: x * 2, (x,))

    return Case(f, leaf(), True, then=[lambda: Args(leaf(), True)])


@program(graphs=1)
def cond_without_gradients():
    w = leaf(3, 2.0)

    def f(x):
        with torch.no_grad():
            y = framefuse.cond(x.sum() > 0, lambda x: x * w, lambda x: x - w, (x,))
        return y, x * 2

    return _both_signs(f)


@program(graphs=1)
def cond_on_views_and_layouts():
    def f(x):
        y = x.reshape(2, 3).t()
        return framefuse.cond(y[0, 0] > 0, lambda y: (y[:, 1] * y[1:, :1].sum()).exp(), lambda y: y[:, 0] * y.sum(1), (y,))

    return Case(f, leaf(6), then=[lambda: Args(leaf(6, -9.0))])


@program(graphs=1)
def cond_beside_writes_of_its_operands():
    def f(x):
        y = x * 2
        y.add_(1)
        z = framefuse.cond(y.sum() > 0, lambda y: y + x, lambda y: y - x, (y,))
        z.mul_(3)
        return z, y

    return _both_signs(f)


@program(graphs=1)
def cond_writes_what_it_made():
    def f(x):
        def yes(x):
            y = x.sin()
            y.mul_(2)
            y[0] = 1.0
            return y

        return framefuse.cond(x.sum() > 0, yes, lambda x: x.clone().add_(1), (x,))

    return _both_signs(f)


@program(graphs=1)
def cond_with_integers_and_bools():
    def f(x):
        def yes(x):
            return x.argmax(), x > 0, x * 2

        def no(x):
            return x.argmin(), x < 0, x * 3

        return framefuse.cond(x.sum() > 0, yes, no, (x,))

    return _both_signs(f)


@program(graphs=1)
def cond_without_a_gradient_of_its_own():
    def f(x):
        mask = framefuse.cond(x.sum() > 0, lambda x: x.detach() > 1.2, lambda x: x < 2, (x,))
        return x * mask

    return _both_signs(f)


@program(whole=False)
def cond_is_differentiated_twice():
    def f(x):
        y = framefuse.cond(x.sum() > 0, lambda x: x.sin() * x, lambda x: x.exp(), (x,))
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return first * x

    return _both_signs(f)


@program(graphs=1)
def cond_draws_random_numbers():
    def f(x):
        def yes(x):
            return torch.nn.functional.dropout(x, 0.5) + torch.rand(3)

        return framefuse.cond(x.sum() > 0, yes, lambda x: x + 1, (x,)), torch.rand(2)

    return Case(f, vector(3), then=[lambda: Args(-vector(3)), lambda: Args(vector(3))])


@program(graphs=1)
def cond_draws_random_numbers_beside_gradients():
    def f(x):
        def yes(x):
            return torch.nn.functional.dropout(x.sin(), 0.5) * torch.rand(3)

        y = framefuse.cond(x.sum() > 0, yes, lambda x: torch.nn.functional.dropout(x, 0.3) + 1, (x,))
        return torch.nn.functional.dropout(y, 0.2), y

    return _both_signs(f)


class _Scaled:
    def __init__(self):
        self.factor = torch.full((3,), 2.0)

    def up(self, x, by=3.0):
        return x * self.factor * by

    def down(self, x, by=3.0):
        return x / self.factor / by


@program(graphs=1)
def cond_of_methods_and_partials():
    scaled = _Scaled()
    return _both_signs(lambda x: framefuse.cond(x.sum() > 0, scaled.up, functools.partial(scaled.down, by=4.0), (x,)))


@program(whole=False)
def cond_branch_writes_a_list_from_outside():
    seen = []

    def f(x):
        return framefuse.cond(x.sum() > 0, lambda x: (seen.append(1), x + 1)[1], lambda x: (seen.append(2), x * 2)[1], (x,))

    return _both_signs(f, observe=seen)


@program(whole=False)
def cond_branch_writes_a_list_of_the_frame():
    def f(x):
        seen = []
        y = framefuse.cond(x.sum() > 0, lambda x: (seen.append(1), x + 1)[1], lambda x: (seen.append(2), x * 2)[1], (x,))
        return y * seen[0], seen

    return _both_signs(f)


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

    return _both_signs(f)


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

    return _both_signs(f)


@program(whole=False)
def cond_branch_writes_an_object():
    scaled = _Scaled()

    def f(x):
        mine = _Scaled()

        def yes(x):
            mine.count = 1
            scaled.count = 5
            return x + 1

        def no(x):
            mine.count = 2
            return x * 2

        return framefuse.cond(x.sum() > 0, yes, no, (x,)), mine.count

    return _both_signs(f, observe=scaled)


@program(whole=False)
def cond_branch_takes_from_an_iterator():
    def f(x):
        numbers = iter([1, 2, 3])
        y = framefuse.cond(x.sum() > 0, lambda x: x + next(numbers), lambda x: x * next(numbers), (x,))
        return y, list(numbers)

    return _both_signs(f)


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

    return _both_signs(f, observe=buffer, versions=True)


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

    return _both_signs(f)


@program(whole=False)
def cond_branch_raises():
    def f(x):
        def no(x):
            raise ValueError("negative")

        try:
            return framefuse.cond(x.sum() > 0, lambda x: x + 1, no, (x,))
        except ValueError as error:
            return x * 2, str(error)

    return _both_signs(f)


@program(whole=False)
def cond_branch_prints():
    def f(x):
        def yes(x):
            print("positive")
            return x + 1

        return framefuse.cond(x.sum() > 0, yes, lambda x: x * 2, (x,)) * 2

    return _both_signs(f)


@program(whole=False)
def cond_branches_of_different_shapes():
    return _both_signs(lambda x: framefuse.cond(x.sum() > 0, lambda x: x.sum(), lambda x: x * 2, (x,)) + 1)


@program(whole=False)
def cond_branches_of_different_constants():
    def f(x):
        y, n = framefuse.cond(x.sum() > 0, lambda x: (x + 1, 3), lambda x: (x * 2, 4), (x,))
        z, zero = framefuse.cond(x.sum() > 0, lambda x: (x + 1, 0.0), lambda x: (x * 2, -0.0), (x,))
        return y * n, z, str(zero)

    return _both_signs(f)


@program(whole=False)
def cond_on_several_values():
    def f(x):
        try:
            return framefuse.cond(x > 0, lambda x: x + 1, lambda x: x * 2, (x,))
        except RuntimeError as error:
            return x, str(error)

    return _both_signs(f)


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

    return _both_signs(f)


@program(whole=False)
def cond_on_a_tensor_with_a_hook():
    seen = []

    def f(x):
        y = x * 2
        y.register_hook(lambda g: seen.append(g.sum()))
        return framefuse.cond(x.sum() > 0, lambda y: y * y, lambda y: y.sin(), (y,))

    return _both_signs(f, observe=seen)


@program(whole=False)
def cond_branch_makes_its_operand_require_grad():
    def f(x):
        y = x.detach() * 2

        def yes(x):
            y.requires_grad_()
            return x + 1

        z = framefuse.cond(x.sum() > 0, yes, lambda x: x * 2, (x,))
        return z, y.requires_grad

    return _both_signs(f)


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

    return _both_signs(f, observe=_ROOMS)
