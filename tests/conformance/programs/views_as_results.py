"""A result that is a view is one for autograd, too, also where nobody sees what it is a view of.

A write of it later gives it the history of its base: the one that it has had is gone, with its hooks. And torch refuses
to write some views.
"""

import torch

from conformance.program import Case, program
from conformance.sample import leaf, matrix

VIEWS = {
    "transposed": lambda t: t.t(),
    "a row": lambda t: t[0],
    "flat": lambda t: t.view(-1),
    "a piece": lambda t: t.split(1)[0],
    "expanded": lambda t: t.expand(2, 2, 3),
    "a diagonal": lambda t: t.diagonal(),
    "strided": lambda t: t.as_strided((2,), (1,), 1),
    "of a view": lambda t: t.t()[1:].unsqueeze(0),
    "detached": lambda t: t.detach(),
}
WRITES = {
    "none": lambda t: None,
    "counted": lambda t: t.mul_(2),
    "of a part": lambda t: t[0].mul_(2),
    "without gradients": lambda t: torch.no_grad()(t.mul_)(2),
    "its base": lambda t: t._base.mul_(2),
    "detached in place": lambda t: t.detach_(),
    "another shape": lambda t: t.unsqueeze_(0),
}


def _written_later(view, watch):
    """A graph's result, which is watched, written and differentiated outside of the graph, in all ways."""
    x, w = [(matrix(2, 3) * (n + 1) / 4).requires_grad_() for n in range(2)]

    def run():
        found = []
        for write in WRITES.values():
            torch._dynamo.graph_break()
            y = view(x.tanh() * w)
            torch._dynamo.graph_break()
            calls = []
            if y.requires_grad:
                watch(y, calls)
            torch._dynamo.graph_break()
            try:
                write(y)
            except RuntimeError as error:
                found.append(str(error)[:60])
                continue
            name = y.grad_fn and y.grad_fn.name()
            found.append([name, y._is_view(), y._version, y._base is None or y._base._version, y.requires_grad])
            if y.requires_grad:
                gradients = torch.autograd.grad(y.sin().sum(), (x, w))
                found.append([*(g.contiguous() for g in gradients), *calls, y.grad if y.retains_grad else None])
        return found

    return Case(run, forward_only=True)


def _hooked(y, calls):
    y.register_hook(calls.append)


def _kept(y, calls):
    y.retain_grad()


@program(whole=False)
def transposed_and_hooked():
    return _written_later(VIEWS["transposed"], _hooked)


@program(whole=False)
def a_row_and_hooked():
    return _written_later(VIEWS["a row"], _hooked)


@program(whole=False)
def flat_and_kept():
    return _written_later(VIEWS["flat"], _kept)


@program(whole=False)
def a_piece_and_hooked():
    return _written_later(VIEWS["a piece"], _hooked)


@program(whole=False)
def expanded_and_hooked():
    return _written_later(VIEWS["expanded"], _hooked)


@program(whole=False)
def a_diagonal_and_kept():
    return _written_later(VIEWS["a diagonal"], _kept)


@program(whole=False)
def strided_and_hooked():
    return _written_later(VIEWS["strided"], _hooked)


@program(whole=False)
def of_a_view_and_hooked():
    return _written_later(VIEWS["of a view"], _hooked)


@program(whole=False)
def detached_and_written():
    return _written_later(VIEWS["detached"], _hooked)


@program(whole=False)
def without_a_history_before_the_write():
    """Torch refuses to give some of them one."""
    w = leaf(start=2.0)

    def run():
        found = []
        for view in VIEWS.values():
            for grad in (True, False):
                torch._dynamo.graph_break()
                with torch.set_grad_enabled(grad):
                    y = view(matrix(2, 3) * 2)
                torch._dynamo.graph_break()
                found.append([y._is_view(), y._base is None or y._base._version])
                try:
                    y.mul_(w[0])
                    found.append([y.grad_fn.name(), *torch.autograd.grad(y.sum(), w)])
                except RuntimeError as error:
                    found.append(str(error)[:60])
        return found

    return Case(run, forward_only=True)


@program(whole=False)
def written_in_the_graph_before():
    def run():
        x = matrix(2, 3).requires_grad_()
        torch._dynamo.graph_break()
        y = x * 2
        first = y.t()
        y.mul_(x)
        second = (x * 3)[1]
        second.add_(1)
        torch._dynamo.graph_break()
        names = [(t.grad_fn.name(), t._is_view(), t._version, t._base._version) for t in (first, second)]
        first.add_(1)
        second.mul_(2)
        return names, first.grad_fn.name(), torch.autograd.grad((first.sum() * second.sum()), x)

    return Case(run, forward_only=True)


@program(whole=False)
def its_base_is_hooked():
    def run(x):
        torch._dynamo.graph_break()
        y = x.exp().t()
        torch._dynamo.graph_break()
        calls = []
        y._base.register_hook(calls.append)
        (gradient,) = torch.autograd.grad(y.square().sum(), x)
        return calls, gradient

    return Case(run, matrix(2, 3).requires_grad_(), forward_only=True)


@program
def of_a_layer():
    """A linear layer's result of three dimensions is a view of that of two."""
    layer = torch.nn.Linear(3, 2)
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(torch.arange(p.numel()).reshape(p.shape) / 5)
    return Case(lambda x: layer(x), matrix(2, 3)[None], then=[lambda: None], look=lambda: [p.grad for p in layer.parameters()])


@program
def whose_history_is_used_up():
    """By a backward pass in the graph."""

    def f(x, w):
        y = (x * w).exp().view(-1)
        y.sum().backward()
        return y, w.grad.clone()

    return Case(f, matrix(2, 3), matrix(2, 3).requires_grad_())


@program(whole=False)
def beside_a_pass_in_the_graph():
    """And may be written later with what has a history."""

    def f(x, w):
        y = (x * 2).t()
        (x * w).exp().sum().backward()
        return y, w.grad.clone()

    w = leaf(start=2.0)

    def written():
        y, _ = f(matrix(2, 3), matrix(2, 3).requires_grad_())
        torch._dynamo.graph_break()
        y.mul_(w[0])
        return y.grad_fn.name(), torch.autograd.grad(y.sum(), w)

    return Case(written, forward_only=True)


@program
def of_other_shapes_in_place():
    """They are no views."""

    def f(x):
        y, z = x.sin(), x.cos()
        y.unsqueeze_(0)
        torch.ops.aten.t_(z)
        return y, z, y + 1

    return Case(f, matrix(2, 3).requires_grad_())


@program(whole=False)
def gradients_that_are_conjugated():
    """Memory knows of no conjugation."""

    def run(x):
        torch._dynamo.graph_break()
        y = torch.complex(x, x * 2)
        torch._dynamo.graph_break()
        first = torch.autograd.grad(y.conj().abs().sum(), x, create_graph=True)
        second = torch.autograd.grad(first[0].square().sum(), x)
        return first[0].detach(), second

    return Case(run, matrix(2, 3).requires_grad_(), forward_only=True)


@program
def rows_of_products():
    """matmul() folds its operands, and gives the memory of the folded product another shape that is no view."""

    def f(x, w):
        rows = torch.nn.functional.linear(x, w)[0], torch.matmul(x, x.transpose(1, 2))[:, 0], (x @ w)[1]
        return *rows, x.transpose(0, 1).reshape(3, 8)[0]

    return Case(f, torch.arange(24.0).reshape(2, 3, 4).requires_grad_(), torch.eye(4).requires_grad_())


@program
def products_and_their_rows():
    def f(x, w):
        y = x @ w
        return y, y[0], torch.bmm(x, x.transpose(1, 2))[0]

    return Case(f, torch.arange(24.0).reshape(2, 3, 4).requires_grad_(), torch.eye(4).requires_grad_())


@program
def a_product_over_memory_of_its_operator():
    def f(x, w):
        y = torch.bmm(x, w)
        z = torch.ops.aten._unsafe_view(y, [6, 4])
        return y, z, z[0]

    return Case(f, torch.arange(24.0).reshape(2, 3, 4), torch.eye(4).expand(2, 4, 4))


@program(whole=False)
def rows_of_products_that_are_written():
    def f(x, w):
        return (x @ w)[0]

    def g(x, w):
        row = f(x, w)
        torch._dynamo.graph_break()
        row.mul_(2)
        return row

    return Case(g, torch.arange(24.0).reshape(2, 3, 4).requires_grad_(), torch.eye(4).requires_grad_())


def _order_of_hooks(results_of):
    """What a pass that comes to all of them calls, and what leaves have by then."""

    def run(x, w):
        seen = []
        results = results_of(x, w)
        torch._dynamo.graph_break()
        for name, leaf_ in (("x", x), ("w", w)):
            leaf_.register_post_accumulate_grad_hook(lambda t, name=name: seen.append((name, t.grad.tolist())))
        for i, t in enumerate(results):
            t.register_hook(lambda g, i=i: seen.append((i, x.grad is not None, w.grad is not None)))
        sum(t.sum() for t in results).backward()
        return seen

    return Case(run, matrix(2, 2).requires_grad_(), matrix(2, 2).requires_grad_(), forward_only=True)


@program(whole=False)
def leaves_before_a_lone_view():
    return _order_of_hooks(lambda x, w: (torch.cat([w, w])[1:3], torch.cat([x, x])[1:3] * x))


@program(whole=False)
def leaves_behind_a_lone_view():
    return _order_of_hooks(lambda x, w: (x.sin().t(), torch.cat([w, w])[1:3], x.cos(), (w * 2).exp()))


@program(whole=False)
def views_of_leaves_in_their_turn():
    return _order_of_hooks(lambda x, w: (x.t(), w.sin(), w.view(-1), x.exp()))


@program(whole=False)
def one_result_beside_a_view_of_a_leaf():
    return _order_of_hooks(lambda x, w: (x.t(), (x * w).sin()))


@program
def writes_of_what_was_detached_are_counted():
    def f(x):
        detached = (x + 1).detach()
        view = detached.view(-1)
        view.tanh_()
        return detached, view, detached._version, view._version

    return Case(f, matrix(2, 2))


@program
def leaves_that_meet_a_view_behind_it():
    """A leaf that is multiplied with the view gets its gradient before the view's hook is called."""
    a, b, c = [((torch.arange(3) + n) * 0.5).requires_grad_() for n in (1.0, 2.0, 3.0)]
    kept, seen = [], []

    def f(x):
        v = (b * 2 * a)[1:]
        kept[:] = v, (v * c[1:])[1:]
        return x + 1

    def look():
        v, u = kept
        v.register_hook(lambda g: seen.append(None if c.grad is None else c.grad.clone()))
        u.sum().backward()
        return list(seen)

    return Case(f, torch.ones(3), look=look, forward_only=True)


@program
def leaves_between_a_view_and_what_it_is_of():
    """The view's node runs last before the hook of what it is a view of: leaves have their gradients by then."""
    a, b = [((torch.arange(3) + n) * 0.5).requires_grad_() for n in (1.0, 2.0)]
    kept, seen = [], []

    def f(x):
        y = b * 2
        kept[:] = y, y[1:], y * a
        return x + 1

    def look():
        y, v, z = kept
        y.register_hook(lambda g: seen.append(None if a.grad is None else a.grad.clone()))
        (v.sum() + z.sum()).backward()
        return list(seen)

    return Case(f, torch.ones(3), look=look, forward_only=True)
