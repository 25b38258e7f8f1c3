"""Leaves that several graphs lead to, and backward passes that come to them through some of the graphs only, or fail."""

import threading

import torch

from conformance.program import Case, program
from conformance.sample import leaf


def _passes(results, leaves, run):
    """Runs a pass from each result in this order, the failing ones too; what each left on the leaves."""
    seen = []
    for i in (0, 0, 1, 1):
        try:
            seen.append(run(results[i].sum()))
        except RuntimeError as error:
            seen.append("second time" in str(error))
        seen.append([None if t.grad is None else t.grad.tolist() for t in leaves])
    return seen


def _in_two_graphs(w, early):
    first, product = (w * w).sum() + early.sum(), (w * 2).tanh()
    torch._dynamo.graph_break()
    return first, product + early


@program(whole=False)
def leaf_that_does_not_wait_for_a_graph_that_fails():
    # The first graph has an edge to `early` that the pass from its second result does not take.
    def f(w, early):
        return _passes(_in_two_graphs(w, early), (w, early), lambda loss: loss.backward())

    return Case(f, leaf(), leaf(3, 2.0), forward_only=True)


@program(whole=False)
def leaf_that_other_nodes_reach_in_a_pass_that_fails():
    seen = []

    def f(w, early):
        node = early.view_as(early).grad_fn.next_functions[0][0]
        node.register_hook(lambda inputs, outputs: seen.append(outputs[0].tolist()))
        results = (w * w).sum() + early.sum(), (w * 3).tanh() + early
        torch._dynamo.graph_break()
        return _passes(results, (w, early), lambda loss: (loss + (early * 2).sum()).backward())

    return Case(f, leaf(), leaf(3, 2.0), observe=seen, forward_only=True)


def _exp_by_a_node_of_torchs_own(t):
    return torch._foreach_exp([t])[0]  # breaks, as its history is not an operator's


# Not in the way leaks: the engine's queue keeps the nodes that wait in a pass that fails until the next one.
@program(whole=False, not_ways=("leaks",))
def leaf_behind_a_node_of_torchs_own_that_fails():
    # The first graph has an edge to `early`, and torch's own node leads to that graph. It fails before the pass is there.
    def f(w, early):
        _, product = _in_two_graphs(w, early)
        late = _exp_by_a_node_of_torchs_own((w * 2).tanh() + early.detach() + product.detach())
        first, behind = early.sum() + (w * w).sum(), (w * 3).sin()
        torch._dynamo.graph_break()
        late = late + _exp_by_a_node_of_torchs_own(behind)
        loss = late.sum() + early.sum()
        return _passes([loss, loss + first.detach()], (w, early), lambda loss: loss.backward())

    return Case(f, leaf(), leaf(3, 2.0), forward_only=True)


@program(whole=False)
def hooks_of_leaves_beside_one_that_waits_in_vain():
    seen = []

    def f(w, early, other):
        first, behind = early.sum() + (w * w).sum(), (w * 3).sin()
        torch._dynamo.graph_break()
        late = _exp_by_a_node_of_torchs_own(behind)
        return first, late.sum() + early.sum() + (other * 2).sum()

    leaves = leaf(), leaf(3, 2.0), leaf(3, 0.5)
    for place, t in enumerate(leaves):
        t.register_hook(lambda g, place=place: seen.append((place, g if g is None else g.tolist())))
        t.register_post_accumulate_grad_hook(lambda t, place=place: seen.append((place, t.grad.tolist())))

    def run(*given):
        first, loss = f(*given)
        loss.backward(retain_graph=True)
        seen.append("ended")
        (first + loss).backward()

    return Case(run, *leaves, observe=seen, forward_only=True)


@program(whole=False)
def leaf_that_a_node_of_torchs_own_reaches_before_a_graph_fails():
    def f(w, early):
        first, product = (w * w).sum() + early.sum(), (w * 2).tanh()
        torch._dynamo.graph_break()
        results = product, first

        def run(loss):
            (loss + _exp_by_a_node_of_torchs_own(early).sum()).backward()

        return _passes(results, (w, early), run)

    return Case(f, leaf(), leaf(3, 2.0), forward_only=True)


@program(whole=False, not_ways=("leaks",))
def leaf_that_a_node_of_torchs_own_reaches_before_another_graph_fails():
    # The graph whose node fails is not the one that the leaf has nothing to wait for.
    def f(w, early):
        first, product = (w * w).sum() + early.sum(), (w * 2).sin()
        torch._dynamo.graph_break()
        behind = product.tanh()
        torch._dynamo.graph_break()

        def run(loss):
            (loss + _exp_by_a_node_of_torchs_own(early).sum()).backward()

        return _passes((behind, behind.sum() + first), (w, early), run)

    return Case(f, leaf(), leaf(3, 2.0), forward_only=True)


@program(whole=False, not_ways=("leaks",))
def leaf_that_waits_for_a_graph_and_not_for_another_that_fails():
    # The later graph brings `early` something, the first does so in passes from its second result only.
    def f(w, early):
        first, product = (w * w).sum() + early.sum(), (w * 2).sin()
        torch._dynamo.graph_break()
        behind = product.tanh()
        torch._dynamo.graph_break()
        results = (early * 3).exp().sum() + behind, (early * 4).sum() + first + behind

        def run(loss):
            (loss + (early * 2).sum()).backward()

        return _passes(results, (w, early), run)

    return Case(f, leaf(), leaf(3, 2.0), forward_only=True)


@program(whole=False, not_ways=("leaks",))
def hook_that_raises_before_the_graphs_that_a_leaf_waits_for():
    def refuse(gradient):
        raise RuntimeError("refused")

    def f(w, early):
        first, product = (w * w).sum() + early.sum(), (w * 2).sin()
        more, other = (w * 5).sum() + (early * 7).sum(), w.cos()
        torch._dynamo.graph_break()
        behind = (product + other).tanh()
        behind.register_hook(refuse)
        torch._dynamo.graph_break()
        loss = behind.sum() + (early * 3).sum()
        return _passes((loss, loss + first + more), (w, early), lambda loss: loss.backward())

    return Case(f, leaf(), leaf(3, 2.0), forward_only=True)


@program(whole=False)
def hooks_between_that_see_what_a_leaf_has_got():
    seen = []

    def f(w, early):
        first, product = (w * w).sum() + early.sum(), (w * 2).sin()
        torch._dynamo.graph_break()
        behind = product.tanh()
        torch._dynamo.graph_break()
        product.register_hook(lambda g: seen.append(("product", early.grad.tolist())))
        early.register_hook(lambda g: seen.append(("early", g.tolist())))
        early.register_post_accumulate_grad_hook(lambda t: seen.append(("accumulated", t.grad.tolist())))
        loss = behind.sum() + (early * 3).sum() + _exp_by_a_node_of_torchs_own(early).sum()
        loss.backward(retain_graph=True)
        seen.append("ended")
        loss.backward(inputs=[early, w], retain_graph=True)
        seen.append("ended")
        (loss + first).backward()
        return w.grad, early.grad

    return Case(f, leaf(), leaf(3, 2.0), observe=seen, forward_only=True)


@program(whole=False)
def gradients_of_leaves_that_do_not_wait_with_a_graph_of_their_own():
    def f(w, early):
        first, product = (w * w).sum() + early.sin().sum(), (w * 2).sin()
        torch._dynamo.graph_break()
        behind = product.tanh()
        torch._dynamo.graph_break()
        loss = behind.sum() + (early * 3).tanh().sum() + (early * w).sum()
        gradients = torch.autograd.grad(loss, (w, early), create_graph=True)
        sum(g.sum() for g in gradients).backward(retain_graph=True)
        results = w.grad.clone(), early.grad.clone()
        (loss + first).backward()
        return results, w.grad, early.grad

    return Case(f, leaf(), leaf(3, 2.0), forward_only=True)


@torch._dynamo.disable
def _passes_of_torchs_own(make_late, w, early):
    seen = []
    for _ in range(2):
        try:
            (make_late() + early.exp().sum()).backward()
        except RuntimeError as error:
            seen.append("second time" in str(error))
        seen.append((w.grad.tolist(), early.grad.tolist()))
    return seen


@program(whole=False, not_ways=("leaks",))
def leaf_that_has_its_gradient_before_the_first_graph_runs_and_fails():
    def f(w, early):
        first, product = (w * w).sum() + early.sum(), (w * 2).tanh()
        return _passes_of_torchs_own(lambda: product.sum(), w, early), first

    return Case(f, leaf(), leaf(3, 2.0), forward_only=True)


@program(whole=False, not_ways=("leaks",))
def leaf_that_nodes_of_torchs_own_alone_reach_in_a_pass_that_fails():
    def f(w, early):
        first, product = (w * w).sum() + early.sum(), (w * 2).tanh()
        late = _exp_by_a_node_of_torchs_own(product)
        return _passes_of_torchs_own(lambda: late.sum(), w, early), first

    return Case(f, leaf(), leaf(3, 2.0), forward_only=True)


@program(whole=False)
def failing_passes_that_end_before_the_leaves():
    def f(w, early):
        def gradients(loss):
            return [g.tolist() for g in torch.autograd.grad(loss, (w, early))]

        return _passes(_in_two_graphs(w, early), (w, early), gradients)

    return Case(f, leaf(), leaf(3, 2.0), forward_only=True)


@program(whole=False)
def failing_passes_for_one_of_the_leaves():
    def f(w, early):
        return _passes(_in_two_graphs(w, early), (w, early), lambda loss: loss.backward(inputs=[early]))

    return Case(f, leaf(), leaf(3, 2.0), forward_only=True)


@program(whole=False)
def hook_after_accumulation_that_is_put_on_later():
    seen = []

    def f(w, early):
        results = w * 2, early * 3, w * early
        torch._dynamo.graph_break()
        early.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad if t.grad is None else t.grad.tolist()))
        for result in (results[0], results[1], results[0] * 2, results[2]):
            result.sum().backward(retain_graph=True)
            seen.append("ended")
        (results[0].sum() + (early * 5).sum()).backward()
        return w.grad, early.grad

    return Case(f, leaf(), leaf(3, 2.0), observe=seen, forward_only=True)


@program(whole=False)
def hook_after_accumulation_that_is_taken_off_in_a_pass():
    seen = []

    def f(w, early):
        results = w * 2, early * 3
        torch._dynamo.graph_break()
        handle = early.register_post_accumulate_grad_hook(lambda t: seen.append("early"))
        w.register_post_accumulate_grad_hook(lambda t: handle.remove())
        results[0].sum().backward(retain_graph=True)
        results[1].sum().backward()
        return w.grad, early.grad

    return Case(f, leaf(), leaf(3, 2.0), observe=seen, forward_only=True)


@program(whole=False)
def gradient_of_a_leaf_through_what_was_made_before():
    def f(w, other):
        behind = w.exp()
        torch._dynamo.graph_break()
        loss = (behind * other * w).sum()
        found = [*torch.autograd.grad(loss, (w,), retain_graph=True)]
        found += torch.autograd.grad(loss, (behind, other, w), retain_graph=True)
        loss.backward(inputs=[w])
        return found, w.grad, other.grad

    return Case(f, leaf(), leaf(3, 2.0), forward_only=True)


@program(whole=False)
def gradient_of_a_leaf_that_only_what_was_made_before_leads_to():
    def f(w, other):
        behind = w.exp()
        torch._dynamo.graph_break()
        loss = (behind * other).sum()
        unused = torch.autograd.grad(loss, (w,), allow_unused=True, retain_graph=True)
        made = torch.ones(3, requires_grad=True)
        of_made = torch.autograd.grad((behind * made).sum(), (made,), retain_graph=True)
        of_behind = torch.autograd.grad(loss, (behind,))
        return unused, of_made, of_behind

    return Case(f, leaf(), leaf(3, 2.0), forward_only=True)


@program(whole=False)
def nodes_that_passes_for_some_inputs_run():
    seen = []

    def f(w, early, other):
        middle = other * 3
        torch._dynamo.graph_break()
        first, behind, second = (w * w).sum() + early.sum() + middle.sum(), (w * 3).sin(), middle * w
        torch._dynamo.graph_break()
        late = _exp_by_a_node_of_torchs_own(behind)
        late.grad_fn.register_hook(lambda inputs, outputs: seen.append("late"))
        loss = late.sum() + first + second.sum()
        asked = ([early], [w], [middle], [other], [late], [early, middle], [late, early], [behind], [second, early])
        for inputs in asked:
            seen.append([g.tolist() for g in torch.autograd.grad(loss, inputs, retain_graph=True)])
            seen.append("asked")
        for inputs in asked:
            loss.backward(inputs=inputs, retain_graph=True)
            seen.append([t.grad.tolist() for t in inputs])
        (late.sum() + early.sum()).backward(inputs=[early])
        loss.backward(inputs=[early, w])
        return early.grad, w.grad

    return Case(f, leaf(), leaf(3, 2.0), leaf(3, 0.5), observe=seen, forward_only=True)


@program(whole=False)
def hooks_of_leaves_that_different_results_reach():
    seen = []

    def f(w, early, other):
        results = early * other, (w * other).sin(), (w * early).tanh(), w * 3
        torch._dynamo.graph_break()
        for name, t in (("w", w), ("early", early), ("other", other)):
            t.register_hook(lambda g, name=name: seen.append((name, g.tolist())))
        for chosen in (results, results[:2], results[1:], results[::2], results[::-1]):
            loss = sum(t.sum() for t in chosen)
            torch.autograd.grad(loss, (early, other, w), retain_graph=True, allow_unused=True)
            seen.append("ended")
            torch.autograd.grad(loss, (early, w), create_graph=True, allow_unused=True)
            seen.append("ended")
            loss.backward(retain_graph=True)
            seen.append("ended")
        return w.grad, early.grad, other.grad

    return Case(f, leaf(), leaf(3, 2.0), leaf(3, 0.5), observe=seen, forward_only=True)


@torch._dynamo.disable
def _passes_with_what_a_thread_makes(first, second):
    made = []
    thread = threading.Thread(target=lambda: made.append((second * 2).sum()))
    thread.start()
    thread.join()
    loss = made[0] + first.sum()
    loss.backward(retain_graph=True)
    loss.backward()


@program(whole=False)
def results_that_another_thread_computes_with():
    # Each thread numbers its nodes, and the engine runs the highest first. The thread's run after some of the graph's.
    def f(w, early, other):
        shared = (w * w).exp()
        first, second = (shared * early).tanh(), (shared * other).sin()
        _passes_with_what_a_thread_makes(first, second)
        return w.grad, early.grad, other.grad

    return Case(f, leaf(), leaf(3, 2.0), leaf(3, 0.5), forward_only=True)
