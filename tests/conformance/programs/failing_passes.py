"""Backward passes that fail where a hook raises: what leaves have got by then, who was called, what is used up."""

import torch

from conformance.program import Case, program
from conformance.sample import leaf, matrix


# Torch's engine keeps what was ready when a pass failed, until the thread's next one: of a graph there is less.
_keeps_more_in_eager = program(whole=False, not_ways=("leaks",))


class _Fails(Exception):
    pass


class _Calls:
    """What hooks were called, with what; the one at place `failing` raises."""

    def __init__(self, failing):
        self.failing = failing
        self.seen = []

    def hook(self, name):
        def called(t):
            self.seen.append((name, [round(v, 4) for v in t.tolist()]))
            if len(self.seen) - 1 == self.failing:
                raise _Fails(name)

        return called


def _after(run, leaves, calls):
    """How the pass ended, and what leaves have by then."""
    try:
        found = run()
        end = None if found is None else [g.tolist() for g in found]
    except _Fails as error:
        end = str(error)
    except RuntimeError as error:
        end = "second time" in str(error)
    return end, [None if t.grad is None else t.grad.tolist() for t in leaves], list(calls.seen)


def _results_with_hooks(failing, run):
    """`run` of the sum of three results, of which the first made have hooks, and the leaves."""
    calls = _Calls(failing)

    def f(x, w, v):
        results = x * 2, (x * w).tanh(), v.sin() * 3
        torch._dynamo.graph_break()
        for i in (0, 1):
            results[i].register_hook(calls.hook(f"result {i}"))
        total = results[0].sum() + results[1].sum() + results[2].sum()
        first = _after(lambda: run(total, (x, w, v)), (x, w, v), calls)
        return first, _after(lambda: run(total, (x, w, v)), (x, w, v), calls)

    return Case(f, leaf(), leaf(3, 2.0), leaf(3, 0.5), forward_only=True)


def _backward(total, leaves):
    total.backward()


@_keeps_more_in_eager
def hook_of_a_result_fails_after_leaves_of_a_later_one():
    return _results_with_hooks(0, _backward)


@_keeps_more_in_eager
def hook_of_the_first_result_fails_last():
    return _results_with_hooks(1, _backward)


@_keeps_more_in_eager
def asked_gradients_where_a_hook_of_a_result_fails():
    return _results_with_hooks(1, torch.autograd.grad)


@program(whole=False)
def history_is_kept_where_a_hook_of_a_result_fails():
    return _results_with_hooks(1, lambda total, leaves: total.backward(retain_graph=True))


@program(whole=False)
def gradients_with_a_history_where_a_hook_of_a_result_fails():
    def run(total, leaves):
        return [g.detach() for g in torch.autograd.grad(total, leaves, create_graph=True)]

    return _results_with_hooks(1, run)


def _leaves_with_hooks(failing, run):
    calls = _Calls(failing)

    def f(x, w, v):
        results = (x.exp() * w).tanh() * v, x * v
        torch._dynamo.graph_break()
        handles = [t.register_hook(calls.hook(f"leaf {i}")) for i, t in enumerate((x, w, v))]
        results[0].register_hook(calls.hook("result"))
        total = results[0].sum() + results[1].sum()
        first = _after(lambda: run(total, (x, w, v)), (x, w, v), calls)
        for handle in handles:
            handle.remove()
        return first, _after(lambda: run(total, (x, w, v)), (x, w, v), calls)

    return Case(f, leaf(), leaf(3, 2.0), leaf(3, 0.5), forward_only=True)


@_keeps_more_in_eager
def hook_of_the_first_leaf_fails():
    return _leaves_with_hooks(1, _backward)


@_keeps_more_in_eager
def hook_of_the_second_leaf_fails():
    return _leaves_with_hooks(2, _backward)


@_keeps_more_in_eager
def hook_of_the_last_leaf_fails():
    return _leaves_with_hooks(3, _backward)


@_keeps_more_in_eager
def hook_of_a_leaf_that_is_asked_for_fails():
    return _leaves_with_hooks(2, torch.autograd.grad)


@program(whole=False)
def one_leaf_of_a_graph_with_a_hook_that_fails():
    calls = _Calls(0)

    def f(x):
        y = x.exp() * 2
        torch._dynamo.graph_break()
        handle = x.register_hook(calls.hook("leaf"))
        first = _after(lambda: y.sum().backward(), (x,), calls)
        handle.remove()
        return first, _after(lambda: y.sum().backward(), (x,), calls)

    return Case(f, leaf(), forward_only=True)


@_keeps_more_in_eager
def kept_gradient_of_a_result_that_a_failing_pass_does_not_come_to():
    calls = _Calls(None)

    def f(x, w):
        first = x * 2
        second = (w * w).sin()
        torch._dynamo.graph_break()
        first.retain_grad()
        second.sum().backward()
        end = _after(lambda: (first.sum() + second.sum()).backward(), (x, w), calls)
        return end, first.grad

    return Case(f, leaf(), leaf(3, 2.0), forward_only=True)


@program(whole=False)
def hook_of_a_result_sees_the_gradient_of_a_leaf():
    seen = []

    def f(x, w):
        first, second = x * 2, w.sin()
        torch._dynamo.graph_break()
        first.register_hook(lambda g: seen.append(None if w.grad is None else w.grad.tolist()))
        (first + second).sum().backward()
        return x.grad, w.grad

    return Case(f, leaf(), leaf(3, 2.0), observe=seen, forward_only=True)


@program(whole=False)
def pass_with_a_history_of_its_own_uses_up_what_it_ran():
    calls = _Calls(None)

    def f(x):
        first, second = x.sin(), x.exp()
        torch._dynamo.graph_break()
        torch.autograd.grad(first.sum(), x, create_graph=True, retain_graph=False)
        rest = _after(lambda: second.sum().backward(), (x,), calls)
        return rest, _after(lambda: first.sum().backward(), (x,), calls)

    return Case(f, leaf(), forward_only=True)


@program(whole=False)
def node_that_ran_for_one_input_is_used_up_for_the_other():
    calls = _Calls(None)

    def f(x, w):
        y = x * w
        torch._dynamo.graph_break()
        first = _after(lambda: torch.autograd.grad(y.sum(), x), (x, w), calls)
        return first, _after(lambda: torch.autograd.grad(y.sum(), w), (x, w), calls)

    return Case(f, leaf(), leaf(3, 2.0), forward_only=True)


@_keeps_more_in_eager
def leaf_gets_nothing_where_a_node_ran_for_another_input():
    calls = _Calls(None)

    def f(x, w):
        first = x.exp()
        second = torch.nn.functional.linear(w.softmax(-1), w, x)
        torch._dynamo.graph_break()
        for inputs in ((x,), (w, x)):
            end = _after(lambda inputs=inputs: torch.autograd.grad(second.sum(), inputs), (x, w), calls)
        return end, _after(lambda: (first.sum() + second.sum()).backward(), (x, w), calls)

    return Case(f, leaf(), matrix(3, 3).requires_grad_(), forward_only=True)


@program(whole=False)
def written_value_that_only_another_input_needs():
    calls = _Calls(None)

    def f(x, w):
        y = x * w
        torch._dynamo.graph_break()
        with torch.no_grad():
            x.mul_(2)
        return _after(lambda: torch.autograd.grad(y.sum(), x), (x, w), calls)

    return Case(f, leaf(), leaf(3, 2.0), forward_only=True)


@program(whole=False)
def pass_with_a_history_for_one_input_uses_up_no_other():
    calls = _Calls(None)

    def f(x, w):
        y = x.exp() - w.sin()
        torch._dynamo.graph_break()
        torch.autograd.grad(y.sum(), x, create_graph=True, retain_graph=False)
        first = _after(lambda: torch.autograd.grad(y.sum(), w), (x, w), calls)
        return first, _after(lambda: torch.autograd.grad(y.sum(), x), (x, w), calls)

    return Case(f, leaf(), leaf(3, 2.0), forward_only=True)


@_keeps_more_in_eager
def leaf_before_a_used_up_part_that_leads_to_a_hook():
    calls = _Calls(None)

    def f(v, w, x):
        first = w - x.tanh()
        second = (first * 0.25).exp()
        third = (second + v).tanh()
        torch._dynamo.graph_break()
        first.register_hook(calls.hook("first"))
        v.register_hook(calls.hook("leaf"))
        second.sum().backward()
        return _after(lambda: (second.sum() + third.sum()).backward(), (v, w, x), calls)

    return Case(f, leaf(), leaf(3, 2.0), leaf(3, 0.5), forward_only=True)


def fails_each_time(multiply):
    """A product of which one factor is written before two backward passes; `multiply` has it on the left or the right."""

    def f(x, w):
        factor = w * 1
        y = multiply(x, factor)
        torch._dynamo.graph_break()
        factor.mul_(2)
        ends = []
        for _ in range(2):
            try:
                y.sum().backward()
            except RuntimeError as error:
                ends.append("modified by an inplace operation" in str(error))
        return ends, x.grad, w.grad

    return Case(f, leaf(), leaf(3, 2.0), forward_only=True)


@program(whole=False)
def written_value_fails_each_time():
    """Of the node that fails nothing is used up: the error is the same one again."""
    return fails_each_time(lambda x, factor: factor * x)


@program(whole=False)
def written_second_factor_fails_each_time():
    """So too where the node has read another value before the one that fails."""
    return fails_each_time(lambda x, factor: x * factor)
