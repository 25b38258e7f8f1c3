"""What Python may ask of a tensor beside its shape and dtype, and what changes from call to call while shape and dtype stay."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, vector


def changing(f, *tensors):
    """Calls f with each of the tensors that these functions make, and with the first again."""
    first, *others = tensors
    return Case(f, first(), then=[lambda make=make: Args(make()) for make in (*others, first)], forward_only=True)


def part_of_a_matrix():
    return torch.ones(2, 3)[1]


def result():
    return leaf() * 2


def kept_result():
    y = leaf() * 2
    y.retain_grad()
    return y


def hooked_result():
    y = leaf() * 2
    y.register_hook(lambda g: g * 2)
    return y


def hooked_leaf():
    x = leaf()
    x.register_post_accumulate_grad_hook(lambda p: None)
    return x


@program(whole=False)
def base_of_an_input():
    return changing(lambda t: (t + 1, t._base is None), vector, part_of_a_matrix)


@program(whole=False)
def base_of_a_view_of_an_input():
    def f(t):
        view = t.view(-1)
        return view + 1, view._base is t

    return changing(f, vector, part_of_a_matrix)


@program(whole=False)
def whether_an_input_is_a_view():
    return changing(lambda t: (t + 1, t._is_view()), vector, part_of_a_matrix)


@program
def whether_a_result_is_a_view():
    def f(t):
        whole = t * 2
        part, copy, alias = whole[1:], whole[1:].clone(), t.detach()
        return part + 1, part._is_view(), whole._is_view(), copy._is_view(), alias._is_view(), part._base is whole

    return changing(f, vector, part_of_a_matrix)


@program(whole=False)
def storage_offset_of_an_input():
    return changing(lambda t: (t + 1, t.storage_offset(), t[1:].storage_offset()), vector, part_of_a_matrix)


@program(whole=False)
def kind_of_grad_fn():
    def f(t):
        return t + 1, type(t.grad_fn).__name__, t.grad_fn is None

    return changing(f, result, lambda: leaf().exp(), leaf)


@program
def grad_fn_of_a_leaf():
    return changing(lambda t: (t + 1, t.grad_fn is None, t.is_leaf), leaf, vector)


@program(whole=False)
def number_of_an_output():
    def unbound(i):
        return leaf(2).reshape(2, 1).expand(2, 3).unbind(0)[i]

    return changing(lambda t: (t + 1, t.output_nr), lambda: unbound(0), lambda: unbound(1))


@program(whole=False)
def retained_gradients():
    return changing(lambda t: (t + 1, t.retains_grad), result, kept_result)


@program(whole=False)
def hooks_of_an_input():
    return changing(lambda t: (t + 1, t._backward_hooks is None), result, hooked_result)


@program(whole=False)
def hooks_after_accumulation():
    return changing(lambda t: (t + 1, t._post_accumulate_grad_hooks is None), leaf, hooked_leaf)


@program(whole=False)
def shared_memory():
    return changing(lambda t: (t + 1, t.is_shared()), vector, lambda: vector().share_memory_())


@program(graphs=1)
def texts_of_results():
    kept = []

    def f(x):
        y = x * 2
        made = [y.sum(), y.abs(), y.square(), *y.neg().unbind()[:2], y.view(-1), y.detach(), torch.cat([y, x]), (y + x).mul_(3)]
        kept[:] = made
        return made

    return Case(f, leaf(), then=[lambda: Args(vector()), lambda: Args(leaf() * 2)], look=lambda: [str(kept.pop()) for _ in range(len(kept))])


@program(graphs=1)
def texts_of_written_inputs():
    made = [leaf() * 2 for _ in range(5)]
    views = [(leaf(6) * 2)[2:5], vector(4).view(2, 2)]

    def f(x):
        made[0].clamp_(0, 3)
        made[1].fill_(2).add_(x)
        made[2][1].mul_(2)
        made[3].zero_()
        made[4].copy_(x)
        views[0].mul_(x)
        views[1].add_(x.sum())
        return x + 1

    return Case(f, leaf(), then=[lambda: Args(vector())], observe=[made, views], look=lambda: [str(t) for t in made + views])


@program(graphs=1)
def texts_of_views_of_what_was_written():
    def f(x, y, view):
        before, other, pieces = x[1:], y[:1], y.unbind()
        x.detach().add_(1)
        made = [before, x[1:], other, other * 1, y[1:], x.view(6)]
        y[1:].mul_(2)
        view.detach().add_(1)
        return x, y, *made, y[:1], other.t(), len(pieces)

    def given():
        return [leaf(6).reshape(2, 3) * 1, leaf(6).reshape(2, 3) * 1, (leaf(6) * 1)[2:]]

    return Case(f, *given(), then=[lambda: Args(*given()), lambda: Args(*(t.detach() for t in given()))])


@program(graphs=1)
def text_of_a_view_with_gaps_that_was_written():
    def f(x, view):
        view.detach().mul_(2)
        return x + 1, view.t()

    return Case(f, vector(), leaf().repeat(2)[::2], then=[lambda: Args(vector(), leaf(6).reshape(2, 3).mul(1).t()[0])])


@program(whole=False)
def length_of_the_text_of_a_result():
    kept = [vector()]

    def f(x):
        length = len(str(kept[0]))
        kept[0] = (x * length).sum()
        return x + length

    return Case(f, leaf(), then=[lambda: None, lambda: Args(vector())])


@program
def a_second_pass_through_products_with_numbers():
    outputs = []

    def f(x):
        return x * 3, x / 2, x + 3, x.mean(), 2 - x, (x * 3).mean()

    def later():
        # Only what a pass ran is used up: a number is one of the tensors that a product saves.
        raised = []
        for t in outputs.pop() if outputs else ():
            for _ in range(2):
                try:
                    t.sum().backward(retain_graph=False) if t.dim() == 0 else t.backward(torch.ones(3))
                    raised.append(None)
                except RuntimeError as error:
                    raised.append("second time" in str(error))
        return raised

    def keep(x):
        outputs.append(f(x))
        return outputs[-1][0].detach()

    return Case(keep, leaf(), look=later, forward_only=True)
