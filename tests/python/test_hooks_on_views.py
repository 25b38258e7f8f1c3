"""Results that are views, and arguments written in place, that other results were computed with: what a program sees of
the gradients that come to them."""

import random

import framefuse
import pytest
import torch
from gradient_facts import aten, numbers, same

N = 4


def view_of_an_input(x, w):
    h = x.view(2, 8)
    return h, h.sin()


def view_of_a_parameter(x, w):
    t = w.t()
    return x @ t, t


def view_of_a_result(x, w):
    y = x * 2
    v = y.view(-1)
    return y, v, v.cos()


def view_of_a_view(x, w):
    v = x.view(2, 8)
    return v, v.t()


def view_of_a_view_that_comes_first(x, w):
    v = x.view(2, 8)
    return v.t(), v, v.exp()


def two_views_and_what_they_give(x, w):
    v = x.view(2, 8)
    z = v.sin()
    t = v.t()
    return v, z, t, t.cos()


def pieces(x, w):
    a, b, c, d = x.unbind()
    return a, b, a * c, (b * d).sin() * a


def pieces_of_a_hidden_base(x, w):
    base = x * 2
    a, b = base[0], base[1]
    return a, b, a * b


def one_view_twice(x, w):
    v = x.view(-1)
    return v, v, v * 3


def view_and_its_base(x, w):
    v = x.view(-1)
    return v, v * x.flatten(), x.sin()


def written_argument(x, w):
    x.mul_(w)
    return x.sin()


def written_argument_and_a_view_of_it(x, w):
    x.mul_(w)
    v = x.view(-1)
    return v, v.sin(), x.cos()


def written_through_a_view(x, w):
    v = x[0]
    v.mul_(3)
    return v, v.sin() + x[1].cos()


def two_written(x, w):
    w.add_(x)
    x.mul_(w)
    return w.exp() * x


def only_a_view_is_used_on(x, w):
    v = x.view(2, 8)
    return (v.sin() @ v.t()).exp()[0], v


PROGRAMS = [
    view_of_an_input,
    view_of_a_parameter,
    view_of_a_result,
    view_of_a_view,
    view_of_a_view_that_comes_first,
    two_views_and_what_they_give,
    pieces,
    pieces_of_a_hidden_base,
    one_view_twice,
    view_and_its_base,
    written_argument,
    written_argument_and_a_view_of_it,
    written_through_a_view,
    two_written,
    only_a_view_is_used_on,
]
WRITING = {written_argument, written_argument_and_a_view_of_it, written_through_a_view, two_written}


def start(is_leaf):
    generator = torch.Generator().manual_seed(3)
    leaves = [torch.rand(N, N, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(2)]
    return leaves, leaves if is_leaf else [t * 0.5 for t in leaves]


def run(f, is_leaf, observe):
    leaves, arguments = start(is_leaf)
    outs = f(*arguments)
    outs = list(outs) if isinstance(outs, tuple) else [outs]
    places = outs + ([] if is_leaf else arguments)
    return observe(leaves, outs, places)


CASES = [
    pytest.param(f, is_leaf, id=f"{f.__name__}-{'leaf' if is_leaf else 'result'}")
    for f in PROGRAMS
    for is_leaf in (False, True)
    if not (is_leaf and f in WRITING)
]


def hooks(leaves, outs, places):
    """The pieces of one unbind share a node in eager: hooks on one are told, with None, of passes to another."""
    seen = [[] for _ in places]
    for i, t in enumerate(places):
        t.register_hook(lambda g, i=i: None if g is None else seen[i].append(numbers(g)))
    for o in outs:
        for facts in seen:
            facts.append("pass")
        o.sum().backward(retain_graph=True)
    return seen, [numbers(t.grad) for t in leaves]


def hooks_that_change_the_gradient(leaves, outs, places):
    for i, t in enumerate(places):
        t.register_hook(lambda g, i=i: None if g is None else g * (i + 2))
    sum((o * o).sum() for o in outs).backward()
    return [numbers(t.grad) for t in leaves]


def retained(leaves, outs, places):
    for t in places:
        t.retain_grad()
    sum(o.exp().sum() for o in outs).backward()
    return [numbers(t.grad) for t in [*leaves, *places]]


def asked_for(leaves, outs, places):
    result = []
    for o in outs:
        for p in places:
            (g,) = torch.autograd.grad(o.sum(), p, retain_graph=True, allow_unused=True)
            result.append(numbers(g))
    return result


def asked_for_all_at_once(leaves, outs, places):
    gradients = torch.autograd.grad(sum(o.sin().sum() for o in outs), [*places, *leaves], allow_unused=True)
    return [numbers(g) for g in gradients]


def differentiated_twice(leaves, outs, places):
    total = sum((o**3).sum() for o in outs)
    gradients = torch.autograd.grad(total, places, create_graph=True, allow_unused=True)
    sum(g.sin().sum() for g in gradients if g is not None).backward()
    return [numbers(g) for g in gradients], [numbers(t.grad) for t in leaves]


def nobody_looks(leaves, outs, places):
    sum((o * o).sum() for o in outs).backward()
    return [numbers(t.grad) for t in leaves]


@pytest.mark.parametrize(
    "observe",
    [hooks, hooks_that_change_the_gradient, retained, asked_for, asked_for_all_at_once, differentiated_twice, nobody_looks],
)
@pytest.mark.parametrize("f,is_leaf", CASES)
def test_what_comes_to_a_result_is_eagers(f, is_leaf, observe):
    framefuse.reset()
    compiled = aten(f)
    expected = run(f, is_leaf, observe)
    assert same(run(compiled, is_leaf, observe), expected)
    assert same(run(compiled, is_leaf, observe), expected)


def random_program(seed):
    """Results of which some are views of arguments, of each other or of other results."""
    choose = random.Random(seed)
    steps = []
    for k in range(choose.randint(3, 8)):
        op = choose.choice(["mul", "sin", "matmul", "t", "view", "rows", "view", "t", "add"])
        steps.append((op, choose.randrange(2 + k), choose.randrange(2 + k)))
    results = choose.sample(range(2, 2 + len(steps)), choose.randint(2, min(4, len(steps))))

    def f(x, w):
        values = [x, w]
        for op, i, j in steps:
            a, b = values[i], values[j]
            if op == "mul":
                values.append(a * b)
            elif op == "matmul":
                values.append(a @ b)
            elif op == "sin":
                values.append(a.sin())
            elif op == "t":
                values.append(a.t())
            elif op == "view":
                values.append(a.reshape(2, 2 * N).view(N, N) if a.is_contiguous() else a.unsqueeze(0)[0])
            elif op == "rows":
                values.append(torch.cat([a[2:], a[:2]]))
            else:
                values.append(a + b)
        return tuple(values[r] for r in results)

    return f


@pytest.mark.parametrize("seed", range(80))
def test_random_programs_of_views(seed):
    framefuse.reset()
    f = random_program(seed)
    compiled = aten(f)
    for is_leaf in (False, True):
        for observe in (hooks, hooks_that_change_the_gradient, retained, asked_for):
            assert same(run(compiled, is_leaf, observe), run(f, is_leaf, observe)), (is_leaf, observe)


def test_a_pass_is_cut_for_all_groups_of_results():
    """`w` is reached by one result only: the graph has a node for each group of results that reach the same inputs."""

    def f(x, w):
        y = x * x
        return y @ w, y.sin(), y

    def run(f):
        (x, w), seen = start(is_leaf=True)[0], []
        product, sine, y = f(x * 1, w * 1)
        y.register_hook(lambda g: seen.append(numbers(g)))
        product.sum().backward(retain_graph=True)
        (product.sum() + sine.sum()).backward(retain_graph=True)
        (product.sum() + sine.sum() + y.sum()).backward()
        return seen, [numbers(x.grad), numbers(w.grad)]

    assert same(run(aten(f)), run(f))
