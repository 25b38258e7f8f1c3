"""A graph has an autograd node for each set of inputs that the same outputs reach: what a program sees of them."""

import random
import threading
import weakref

import framefuse
import pytest
import torch
from torch.autograd.graph import GradientEdge

N = 3


def aten(f):
    return framefuse.compile(f, backend="aten")


def leaves(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(N, N, generator=generator).mul(0.5).requires_grad_() for _ in range(count)]


def numbers(t):
    return None if t is None else [round(v, 4) for v in t.flatten().tolist()]


def same(left, right):
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right))
    if isinstance(left, float):
        return left == pytest.approx(right, rel=2e-3, abs=2e-3, nan_ok=True)
    return left == right


OPERATORS = {
    "mul": lambda x, y, z: x * y,
    "add": lambda x, y, z: x + y,
    "sin": lambda x, y, z: x.sin(),
    "tanh": lambda x, y, z: (x * y).tanh(),
    "cat": lambda x, y, z: torch.cat([x, y, z]).reshape(3, N, N).sum(0),
}


def random_graph(choose, count):
    """A function of `count` tensors with one to four results, and how many."""
    steps = []
    for k in range(choose.randint(2, 7)):
        steps.append((OPERATORS[choose.choice([*OPERATORS])], [choose.randrange(count + k) for _ in range(3)]))
    results = choose.sample(range(count, count + len(steps)), choose.randint(1, min(4, len(steps))))

    def f(*tensors):
        values = list(tensors)
        for op, places in steps:
            values.append(op(*(values[i] for i in places)))
        return tuple(values[r] for r in results)

    return f, len(results)


def run_two_graphs(seed, compiler):
    """Passes from some of the results of two graphs, the second of which may take the leaves, too; what hooks saw."""
    choose = random.Random(seed)
    count = choose.randint(2, 4)
    again = choose.random() < 0.5
    f, results = random_graph(choose, count)
    g, _ = random_graph(choose, results + (count if again else 0))
    tensors, seen = leaves(count, seed), []
    first = compiler(f)(*tensors)
    made = [*first, *compiler(g)(*first, *(tensors if again else ()))]
    for i, t in enumerate(tensors):
        t.register_hook(lambda g, i=i: seen.append((i, numbers(g))))
        t.register_post_accumulate_grad_hook(lambda t, i=i: seen.append(("accumulated", i, numbers(t.grad))))
    for _ in range(4):
        chosen = [t for t in made if choose.random() < 0.4] or [choose.choice(made)]
        loss = sum(t.sum() for t in chosen) + sum((t * 2).sin().sum() for t in tensors if choose.random() < 0.2)
        inputs = [t for t in tensors if choose.random() < 0.5] or tensors[:1]
        if choose.random() < 0.3:
            seen.append([numbers(g) for g in torch.autograd.grad(loss, inputs, allow_unused=True, retain_graph=True)])
        else:
            loss.backward(retain_graph=True, inputs=inputs if choose.random() < 0.3 else None)
        seen.append([numbers(t.grad) for t in tensors])
    return seen


@pytest.mark.parametrize("seed", [*range(40), 135, 197, 217, 271, 291, 325, 349, 514])
def test_fuzzed_passes_through_two_graphs_see_eagers_order(seed):
    framefuse.reset()
    assert same(run_two_graphs(seed, aten), run_two_graphs(seed, lambda f: f))


def history(t):
    """Not a leaf, and a weak reference to what its history keeps."""

    class Kept:
        pass

    class Keeping(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            ctx.kept = Kept()
            Keeping.last = weakref.ref(ctx.kept)
            return t * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return Keeping.apply(t), Keeping.last


def two_histories(a, b, w):
    shared = w @ w
    return shared @ a, shared @ b


def test_what_results_with_different_histories_share_is_differentiated_once():
    def products(f):
        a, b, w = leaves(3)
        results = f(a * 2, b * 2, w)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            sum(r.sum() for r in results).backward()
        return sum(e.name == "aten::mm" for e in profile.events()), [t.grad for t in (a, b, w)]

    (eager, expected), (compiled, found) = products(two_histories), products(framefuse.compile(two_histories))
    assert compiled == eager == 6
    torch.testing.assert_close(found, expected)


def test_a_result_keeps_no_history_that_only_another_reaches():
    a, b, w = leaves(3)
    (left, of_left), (right, of_right) = history(a), history(b)
    first, second = framefuse.compile(lambda a, b, w: (a + w, b + w))(left, right, w)
    del left, right
    assert of_left() is not None and of_right() is not None
    del first
    assert of_left() is None and of_right() is not None
    second.sum().backward()
    assert a.grad is None and b.grad is not None and w.grad is not None


def in_a_thread(f):
    result = []
    thread = threading.Thread(target=lambda: result.append(f()))
    thread.start()
    thread.join()
    return result[0]


def test_results_that_another_thread_computes_with():
    """Nodes of the engine have numbers by thread: these run later than the graph's, which then are not all ready."""

    def gradients(f):
        for _ in range(100):
            torch.ones(1, requires_grad=True) * 2  # numbers of this thread
        tensors = leaves(3)
        seen = []
        for i, t in enumerate(tensors):
            t.register_hook(lambda g, i=i: seen.append(i))
        first, second = f(*(t * 2 for t in tensors))
        loss = in_a_thread(lambda: (second * 2).sin().sum()) + first.sum()
        loss.backward(retain_graph=True)
        loss.backward()
        return [t.grad for t in tensors], sorted(seen)

    expected, of_expected = gradients(two_histories)
    found, of_found = gradients(framefuse.compile(two_histories))
    assert of_found == of_expected
    torch.testing.assert_close(found, expected)


def test_a_pass_that_starts_behind_a_result():
    def f(a, w):
        return (a * w).sin(), w * 3

    a, w = leaves(2)
    expected = torch.autograd.grad(f(a, w)[0], (a, w), torch.ones(N, N))
    result = framefuse.compile(f)(a, w)[0]
    for (node, place), t, gradient in zip(result.grad_fn.next_functions, (a, w), expected):
        start = GradientEdge(node, place)
        (found,) = torch.autograd.grad(start, (t,), torch.ones(N, N), retain_graph=True)
        torch.testing.assert_close(found, gradient)
    torch.testing.assert_close(torch.autograd.grad(result, (a, w), torch.ones(N, N)), expected)


def test_hooks_on_a_results_node_are_given_its_gradient():
    def f(a, w):
        return (a * w).sin(), w * 3

    a, w = leaves(2)
    results, seen = framefuse.compile(f)(a, w), []
    results[0].grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs, outputs)))
    results[0].backward(torch.ones(N, N) * 2)
    ((inputs, outputs),) = seen
    assert all(torch.equal(g, torch.full((N, N), 2.0)) for g in (*inputs, *outputs))
    assert len(inputs) == len(results[0].grad_fn.next_functions)


@pytest.mark.parametrize("then", [0, 1])
def test_a_pass_that_a_hook_ends_leaves_nothing_to_the_next(then):
    def f(a, b):
        shared = a * a
        return shared + b, shared * 2

    def run(f):
        tensors, seen = leaves(2), []
        results = f(*tensors)

        def refuse(g):
            raise ValueError("refused")

        handle = results[0].register_hook(refuse)  # when the other result has its gradient
        with pytest.raises(ValueError, match="refused"):
            (results[0].sum() + results[1].sum()).backward(retain_graph=True)
        handle.remove()
        for i, t in enumerate(tensors):
            t.register_hook(lambda g, i=i: seen.append(i))
        results[then].sum().backward(retain_graph=True)
        (results[0].sum() + results[1].sum()).backward()
        return seen, [numbers(t.grad) for t in tensors]

    assert run(framefuse.compile(f)) == run(f)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a second device")
def test_results_on_two_devices_have_nodes_that_compute_alone():
    def f(a, b, other):
        shared = (a * b).sin()
        return shared * 2, other * 3, shared + b

    def run(f):
        a, b = leaves(2)
        other = torch.ones(N, N, device="cuda", requires_grad=True)
        results = f(a, b, other)
        (results[0] + results[2]).sum().backward(retain_graph=True)
        assert other.grad is None
        torch.autograd.backward(results, [torch.ones_like(r) for r in results])
        return [t.grad for t in (a, b, other)]

    torch.testing.assert_close(run(framefuse.compile(f)), run(f))


def test_nodes_may_be_called_without_a_pass():
    def f(a, b):
        return (a * b).sin(), b * 3

    a, b = leaves(2)
    expected = torch.autograd.grad(f(a, b)[0], (a, b), torch.ones(N, N))
    result = framefuse.compile(f)(a, b)[0]
    (of_a, _), (of_b, _) = result.grad_fn.next_functions
    given = result.grad_fn(torch.ones(N, N))
    torch.testing.assert_close((of_a(given[0]), of_b(given[1], None)), expected)
