"""Hooks that a program puts on leaves and outputs: eager's gradients, in eager's order."""

import random

import framefuse
import pytest
import torch
from gradient_facts import aten, numbers, same

N = 4


def leaves(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(N, N, generator=generator).requires_grad_() for _ in range(count)]


def see_all(tensors, seen, name):
    """What a hook can see when a gradient comes to one of the leaves: it, and which others have theirs already."""
    for i, t in enumerate(tensors):
        t.register_hook(
            lambda g, i=i: seen.append((name, "hook", i, numbers(g), [numbers(o.grad) for o in tensors if o.is_leaf]))
        )
        if t.is_leaf:
            t.register_post_accumulate_grad_hook(lambda p, i=i: seen.append((name, "accumulated", i, numbers(p.grad))))
            node = t.view_as(t).grad_fn.next_functions[0][0]
            node.register_prehook(lambda g, i=i: seen.append((name, "node", i)))
            node.register_hook(lambda a, b, i=i: seen.append((name, "node done", i)))
            t.node = node


def chain(a, b, c):
    return (a @ b).sin() @ c


def chain_backwards(a, b, c):
    return (c @ b).sin() @ a


def used_twice(a, b, c):
    return (a @ b) * a + c * b


def last_used_first(a, b, c):
    return a + (b * (c.exp() * a).sin())


def in_place(a, b, c):
    y = a * 1
    y.mul_(b)
    y.add_(c)
    return y


def one_without_gradient(a, b, c):
    return (b * a.detach()).sin() * a + c.detach()


def linear(a, b, c):
    return torch.nn.functional.linear(torch.nn.functional.linear(a, b).relu(), c)


ONE_RESULT = [chain, chain_backwards, used_twice, last_used_first, in_place, one_without_gradient, linear]


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("f", ONE_RESULT)
def test_hooks_on_several_leaves_run_in_eagers_order(f, before):
    def run(f):
        tensors, seen = leaves(3), []
        if before:
            see_all(tensors, seen, "leaf")
        out = f(*tensors)
        if not before:
            see_all(tensors, seen, "leaf")
        out.sum().backward()
        return seen, [numbers(t.grad) for t in tensors]

    assert same(run(aten(f)), run(f))


@pytest.mark.parametrize("count", range(2, 9))
def test_leaves_of_one_operator_come_as_a_heap_holds_them(count):
    def f(*tensors):
        return torch.cat(tensors).sin() * tensors[0].sum()

    def run(f):
        tensors, seen = leaves(count), []
        for i, t in enumerate(tensors):
            t.register_hook(lambda g, i=i: seen.append(i))
        f(*tensors).sum().backward()
        return seen

    assert run(aten(f)) == run(f)


def test_a_leaf_that_older_operators_use_too_comes_when_they_have_run():
    def outer(f):
        tensors, seen = leaves(3), []
        a, b, c = tensors
        early = a * b  # eager's, older than the graph: a and b are ready after it
        out = f(a, early, c)
        for i, t in enumerate(tensors):
            t.register_hook(lambda g, i=i: seen.append(i))
        out.sum().backward()
        (a * b * c).sum().backward()
        return seen

    def f(a, early, c):
        return (early * c).sin() * a

    assert outer(aten(f)) == outer(f)


def test_a_failed_pass_leaves_no_order_behind():
    def run(f):
        tensors, seen = leaves(3), []
        out = f(*tensors)
        node = [t.view_as(t).grad_fn.next_functions[0][0] for t in tensors]
        handle = tensors[1].register_hook(lambda g: [][0])
        with pytest.raises(IndexError):
            out.sum().backward(retain_graph=True)
        handle.remove()
        for i, t in enumerate(tensors):
            t.register_hook(lambda g, i=i: seen.append(i))
        torch.cat(tensors).sum().backward()
        out.sum().backward()
        return seen, len(node)

    assert run(aten(chain_backwards)) == run(chain_backwards)


def random_program(seed):
    """A function of several leaves with several results, some computed with others."""
    choose = random.Random(seed)
    count = choose.randint(2, 5)
    steps = []
    for k in range(choose.randint(3, 9)):
        op = choose.choice(["mul", "add", "matmul", "sin", "cat", "addmm"])
        steps.append((op, [choose.randrange(count + k) for _ in range(3)]))
    results = choose.sample(range(count, count + len(steps)), choose.randint(1, min(3, len(steps))))

    def f(*tensors):
        values = list(tensors)
        for op, (i, j, k) in steps:
            x, y, z = values[i], values[j], values[k]
            if op == "mul":
                values.append(x * y)
            elif op == "add":
                values.append(x + y)
            elif op == "matmul":
                values.append(x @ y)
            elif op == "sin":
                values.append(x.sin())
            elif op == "cat":
                values.append(torch.cat([x, y, z]).reshape(3, N, N).sum(0))
            else:
                values.append(torch.addmm(x, y, z))
        return tuple(values[r] for r in results)

    return f, count, len(results), choose


def run_random(f, count, of, choose, on_results):
    """Passes from some of the results, one after another; what hooks on leaves saw, and gradients of results too."""
    tensors, seen = leaves(count), []
    outs = f(*tensors)
    for i, t in enumerate(tensors):
        t.register_hook(lambda g, i=i: seen.append((i, numbers(g))))
    if on_results:
        for i, t in enumerate(outs):
            t.register_hook(lambda g, i=i: seen.append(("result", i, numbers(g))))
            t.retain_grad()
    for k in range(3):
        chosen = [o for i, o in enumerate(outs) if choose.random() < 0.6] or [outs[0]]
        torch.autograd.backward([o.sum() for o in chosen], retain_graph=True)
        seen.append("pass")
    return seen, [numbers(t.grad) for t in tensors], [numbers(o.grad) for o in outs] if on_results else None


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_see_eagers_order_on_leaves(seed):
    framefuse.reset()
    f, *facts = random_program(seed)
    expected = run_random(f, *facts[:2], random.Random(seed), on_results=False)
    assert same(run_random(aten(f), *facts[:2], random.Random(seed), on_results=False), expected)


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_give_results_their_gradients(seed):
    """Hooks and retain_grad() on results that others were computed with."""
    framefuse.reset()
    f, *facts = random_program(seed)

    def run(f):
        seen, of_leaves, of_results = run_random(f, *facts[:2], random.Random(seed), on_results=True)
        of_each = {}
        for fact in seen:
            of_each.setdefault(fact[:2] if fact[0] == "result" else fact[0], []).append(fact)
        return sorted(of_each.items(), key=str), of_leaves, of_results

    assert same(run(aten(f)), run(f))


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs torch.distributed with gloo")
def test_hooks_that_cpp_puts_on_a_leafs_node_after_the_forward_run_only_where_it_is_reached(tmp_path):
    """DistributedDataParallel's reducer counts them, and takes them off by their address at its end."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)

    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.a(x), self.b(x)

    def f(x, a, b):
        return torch.nn.functional.linear(x, a), torch.nn.functional.linear(x, b)

    def run(f):
        torch.manual_seed(0)
        model, x = Two(), torch.ones(2, 3)
        first, second = f(x, model.a.weight, model.b.weight)
        parallel = torch.nn.parallel.DistributedDataParallel(model)
        sum(out.sum() for out in parallel(x)).backward()
        parallel(x)
        first.sum().backward()
        with pytest.raises(RuntimeError, match="Expected to have finished reduction"):
            parallel(x)
        seen = [numbers(model.a.weight.grad), numbers(model.b.weight.grad)]
        second.sum().backward()
        return seen, [numbers(model.a.weight.grad), numbers(model.b.weight.grad)]

    try:
        assert same(run(aten(f)), run(f))
    finally:
        torch.distributed.destroy_process_group()
