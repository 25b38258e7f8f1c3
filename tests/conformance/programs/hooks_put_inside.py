"""Tensor.register_hook on what the function computes: the backward pass that comes later calls it."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


@program
def one_that_changes_a_gradient():
    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * 3)
        return (y * y).sum()

    return Case(f, leaf(3), then=[lambda: Args(leaf(5))])


@program
def one_that_notes_what_comes():
    seen = []

    def f(x, scale):
        y = torch.sin(x) * scale
        before = y * 2
        y.register_hook(lambda g: seen.append((g.clone(), scale)))
        return before + y, y + 1

    return Case(f, leaf(3), 2, observe=seen, then=[lambda: Args(leaf(3), 3)])


@program
def two_on_one_and_one_on_another():
    seen = []

    def note(name, factor):
        def hook(g):
            seen.append(name)
            return g * factor

        return hook

    def f(x):
        y = x.exp()
        y.register_hook(note("first", 2))
        z = y.tanh()
        z.register_hook(note("of another", 5))
        y.register_hook(note("second", 3))
        return z + y * y

    return Case(f, leaf(4), observe=seen)


@program
def on_a_result_and_its_parts():
    def f(x):
        y = x * x
        y.register_hook(lambda g: g.clamp(max=0.5))
        return y, y[0] * 2, y.detach()

    return Case(f, leaf(4))


@program(whole=False)
def the_handle_is_used():
    def f(x):
        y, z = x * 2, x * 3
        y.register_hook(lambda g: g * 7).remove()
        handle = z.register_hook(lambda g: g * 5)
        return y + z, handle.id > 0

    return Case(f, leaf(3))


@program
def the_handle_is_kept():
    kept = []
    torch.utils.hooks.RemovableHandle.next_id = 0

    def f(x):
        y, z = x * 2, x * 3
        kept.append(y.register_hook(lambda g: g * 7))
        z.register_hook(lambda g: g * 2)
        handle = z.register_hook(lambda g: g + 5)
        known = isinstance(handle, torch.utils.hooks.RemovableHandle), handle is kept[-1]
        return y + z * z, known, len(kept)

    def remove():
        kept.pop().remove()

    return Case(f, leaf(3), then=[remove, kept.clear])


@program(whole=False)
def a_write_comes_after_it():
    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * 7)
        y.mul_(3)
        return y * y

    return Case(f, leaf(3))


@program(whole=False)
def a_pass_in_the_function():
    seen = []

    def f(x):
        y = x * 2
        y.register_hook(seen.append)
        (g,) = torch.autograd.grad((y * y).sum(), x, retain_graph=True)
        return y * g

    return Case(f, leaf(3), observe=seen)


@program(whole=False)
def of_a_view():
    def f(x):
        y = x.view(-1)
        y.register_hook(lambda g: g * 2)
        z = (x * 2)[1:]
        z.register_hook(lambda g: g * 3)
        return y.sum() + z.sum()

    return Case(f, leaf(3))


@program
def where_nothing_needs_a_gradient():
    def f(x):
        y = x * 2
        try:
            y.register_hook(lambda g: g * 2)
        except RuntimeError as error:
            return y + 1, str(error)
        return y

    return Case(f, vector())


@program
def the_hook_removes_itself():
    seen = []
    torch.utils.hooks.RemovableHandle.next_id = 0

    def f(x):
        y = x * 2

        def once(g):
            seen.append(len(seen))
            handle.remove()
            return g * 3

        handle = y.register_hook(once)
        return y * y, y + 1

    return Case(f, leaf(3), observe=seen)


@program
def beside_an_equal_value():
    def f(x):
        y, z, same = x * 2, x * 2, x * 2 * 1
        y.register_hook(lambda g: g * 3)
        return y.sum() + z.sum() * 5 + same.sum()

    return Case(f, leaf(3))


@program(whole=False)
def of_an_argument_that_is_written_then():
    seen = []

    def inner(y):
        y.register_hook(seen.append)
        y.mul_(3)
        return y * 1

    def f(x):
        y = x * 2
        torch._dynamo.graph_break()
        z = inner(y)
        torch._dynamo.graph_break()
        return torch.autograd.grad(z.sum(), x), list(seen)

    return Case(f, leaf(3), forward_only=True)


@program(whole=False)
def of_a_view_that_is_written_then():
    """Its history is its base's then, and the hook is gone: in a graph, and in one that finds the hook."""
    seen = []

    def f(x):
        y, z = (x * 2)[1:], (x * 3)[1:]
        z.register_hook(lambda g: seen.append(g.clone()))
        torch._dynamo.graph_break()
        y.register_hook(lambda g: seen.append(g.clone()))
        y.mul_(3)
        z.mul_(3)
        return y * 1, z * 1

    return Case(f, leaf(3), observe=seen)


@program(whole=False)
def on_the_way_from_a_view_that_is_written():
    """The write leads past it, whether the hook is on a tensor or on a node; what was computed before comes there."""
    x = matrix(3, 3).requires_grad_()

    def tensor(row, part, see):
        row.register_hook(see)

    def node(row, part, see):
        row.grad_fn.register_hook(lambda given, come: see(come[0]))

    def node_of_the_part(row, part, see):
        part.grad_fn.register_prehook(lambda come: see(come[0]))

    def kept(row, part, see):
        row.retain_grad()

    def write(part):
        before = part * 3
        part.mul_(2)
        return before

    def run():
        found = []
        for watch in (None, tensor, node, node_of_the_part, kept):
            row = (x * 2)[1]
            part = row[:2]
            torch._dynamo.graph_break()
            seen = []
            if watch is not None:
                watch(row, part, lambda g: seen.append(g.clone()))
            torch._dynamo.graph_break()
            before = write(part)
            torch._dynamo.graph_break()
            found += torch.autograd.grad(row.sin().sum() + part.cos().sum() + before.sum(), x)
            found += [seen, row.grad if row.retains_grad else None]
        return found

    return Case(run, forward_only=True)
