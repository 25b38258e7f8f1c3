"""Eager saves tensors, not copies of them: what its backward reads of a tensor that was written is what is there then.

A write that a version counts raises, one that none counts (`x.data`) is seen. So it is of what the graph itself has
written, and a result that only a kernel would read again is read by no backward.
"""

import itertools

import torch

from conformance.program import Case, program
from conformance.sample import matrix


def _by_data(t):
    t.data.mul_(3)


def _counted(t):
    with torch.no_grad():
        t.mul_(3)


def _with_history(t):
    t.mul_(t.detach() + 1)


def _gradients(functions, writes, what):
    """Of two leaves through functions, after a write of the first argument or of the last result; or that it raises."""
    leaves = [((matrix(2, 2) + i) * 0.5).requires_grad_() for i in range(2)]

    def run():
        found = []
        for f, write in itertools.product(functions, writes):
            a, b = [t * 1 for t in leaves]
            torch._dynamo.graph_break()
            results = f(a, b)
            torch._dynamo.graph_break()
            write(a if what == "input" else results[-1])
            torch._dynamo.graph_break()
            try:
                gradients = torch.autograd.grad(results[0].sum(), leaves, allow_unused=True)
                found.append([g if g is None else g.contiguous() for g in gradients])
            except RuntimeError as error:
                found.append("modified by an inplace operation" in str(error))
        return found

    return Case(run, observe=leaves, forward_only=True)


def _in_place(a, b):
    a.exp_()
    return a * 1, b


def _twice_in_place(a, b):
    return (a.mul_(0.25).exp_() * b,)


def _by_a_view(a, b):
    a.t().exp_()
    return (a * b,)


def _in_part(a, b):
    a[0].exp_()
    return a * b, b


def _without_gradients(a, b):
    with torch.no_grad():
        a.mul_(2)
    return a * b, a.sum()


def _by_its_data(a, b):
    a.data.mul_(2)
    return a * b, a.exp()


def _of_its_data(a, b):
    z = a.data
    z.mul_(2)
    return z * b + a * 2, z


def _data_of_what_was_written(a, b):
    a.exp_()
    return a.data.t() @ b, a.data


_WRITTEN_INPUTS = (
    _in_place,
    _twice_in_place,
    _by_a_view,
    _in_part,
    _without_gradients,
    _by_its_data,
    _of_its_data,
    _data_of_what_was_written,
)


@program(whole=False)
def inputs_that_the_graph_writes():
    return _gradients(_WRITTEN_INPUTS, [_by_data], "input")


@program(whole=False)
def inputs_that_the_graph_writes_and_others_count_up():
    return _gradients(_WRITTEN_INPUTS, [_counted], "input")


@program(whole=False)
def copies_that_the_graph_writes():
    return _gradients([_of_its_data, _data_of_what_was_written], [_by_data, _counted], "result")


@program(whole=False)
def results():
    def relu(a, b):
        y = (a * 2).relu()
        return (y * b).sum(), y

    def transposed(a, b):
        y = a * 2
        z = y.t()
        z.exp_()
        return z * b, y

    def of_its_data(a, b):
        y = a * 2
        z = y.data
        z.mul_(3)
        return z * b, y

    def of_a_product(a, b):
        y = a * 2 * b + 1
        return y * b, y

    return _gradients([relu, transposed, of_its_data, of_a_product], [_by_data, _counted], "result")


def _pointwise(a, b):
    y = a @ b
    return (y + 1) * b * 2, y


def _detached(a, b):
    y = a @ a
    return ((b * 2).detach().add_(y).sin() * b).sum() + y.sum(), y


def _of_a_view(a, b):
    y = a @ b
    return (y.t() * 0.5 - 1) * b, y


def _rows(a, b):
    y = a @ b
    return (y - 1).softmax(0) * b, y[0]


@program(whole=False)
def results_that_no_node_of_eager_has_saved():
    """The function goes on and writes them: no kernel of the backward may want them again."""
    return _gradients([_pointwise, _detached, _of_a_view, _rows], [_counted, _by_data, _with_history], "result")


@program(whole=False)
def logits_behind_a_break():
    def run(a, b):
        y = (a.repeat(32, 32) @ (b * 0.01).repeat(32, 32)).bfloat16()
        loss = torch.nn.functional.cross_entropy(y.float(), torch.arange(64))
        torch._dynamo.graph_break()
        with torch.no_grad():
            y.mul_(2)
        return loss

    return Case(run, matrix(2, 2).requires_grad_(), matrix(2, 2).requires_grad_())


@program(whole=False)
def activations_in_place_behind_a_break():
    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    relu = torch.nn.ReLU(inplace=True)

    def run(x):
        y = first(x)
        gate = second((y + 1) * 0.5)
        torch._dynamo.graph_break()
        y = relu(y)
        return y * gate

    return Case(run, matrix(2, 2), then=[lambda: None], observe=[first, second])


def _with_other_data(*functions):
    """Of a leaf whose data is replaced before the backward: a saved leaf has the new one, a saved view the old one."""
    x, w = (matrix(2, 2) + 1).requires_grad_(), (matrix(2, 2) - 0.5).requires_grad_()

    def run():
        found = []
        for f in functions:
            y = f(x * 2, w)
            torch._dynamo.graph_break()
            w.data = w.data * 2 + 1
            torch._dynamo.graph_break()
            first = torch.autograd.grad(y.sum(), [x, w], create_graph=True)
            found += [g.detach() for g in first]
            found += torch.autograd.grad(sum(g.square().sum() for g in first), [x, w], allow_unused=True)
        return [g if g is None else g.contiguous() for g in found]

    return Case(run, observe=[x, w], forward_only=True, then=[lambda: None])


@program(whole=False)
def leaves_with_other_data():
    return _with_other_data(lambda x, w: x * w, lambda x, w: (x @ w).square(), lambda x, w: x * w * w)


@program(whole=False)
def views_of_leaves_with_other_data():
    return _with_other_data(
        torch.nn.functional.linear,
        lambda x, w: torch.nn.functional.linear(x, w, w[0]),
        lambda x, w: x * w.t() + x[0] * w[1],
        lambda x, w: x * x * w.detach().t() + w.t(),
    )


@program(whole=False)
def data_of_other_types_and_sizes():
    """As what moves weights away, or keeps them narrow, until they are wanted again."""
    layer = torch.nn.Linear(2, 2)

    def run(x):
        whole = layer.weight.data
        y = layer(x.sin())
        layer.weight.data = torch.zeros(0)
        torch._dynamo.graph_break()
        (first,) = torch.autograd.grad(y.square().sum(), x)
        layer.weight.data = whole
        return first

    return Case(run, matrix(2, 2).requires_grad_(), observe=layer, forward_only=True, then=[lambda: None])


def _product_behind(y):
    return (y * y).sum() + y.exp().sum()


def _detached_in_place(graph_break):
    """Eager's nodes refuse such a tensor where they have saved it itself, not what they made of it."""

    def run(x):
        found = []
        for square in (_product_behind, torch.exp, torch.square):
            y = x * 2
            graph_break()
            z = square(y)
            torch._dynamo.graph_break()
            y.detach_()
            try:
                found += torch.autograd.grad(z.sum(), x)
            except RuntimeError as error:
                found.append(str(error)[:60])
        return found

    return Case(run, matrix(2, 2).requires_grad_(), forward_only=True)


@program(whole=False)
def inputs_that_are_detached_in_place():
    return _detached_in_place(lambda: torch._dynamo.graph_break())


@program(whole=False)
def results_that_are_detached_in_place():
    return _detached_in_place(lambda: None)


def _gradient_or_error(z, x, **options):
    try:
        (gradient,) = torch.autograd.grad(z.sum(), x, retain_graph=True, **options)
    except RuntimeError as error:
        return str(error)[:60]
    return gradient.detach()


@program(whole=False)
def detached_results_and_who_has_saved_them():
    """The node that made a result reads it all the same; what was dropped without being detached is as it was."""

    def made(x, written):
        y = x.exp()
        if written:
            y = y.add_(1)
        return y, y * y, y.sum(), y.view(-1).square()

    def run(x):
        found = []
        for written in (False, True):
            for detach, dropped in ((False, True), (True, False), (True, True)):
                y, product, total, squares = made(x, written)
                torch._dynamo.graph_break()
                if detach:
                    y.detach_()
                if dropped:
                    del y
                for z in (total, product, squares):
                    found += [_gradient_or_error(z, x), _gradient_or_error(z, x, create_graph=True)]
        return found

    return Case(run, matrix(2, 2).requires_grad_(), forward_only=True)


@program(whole=False)
def detached_arguments_and_who_has_saved_them():
    """A node that has saved a view of an argument does not mind that it was detached in place; one that has saved it does."""

    def made(y):
        return y * y, y.sum(), y.view(-1).square(), y[0] * y[1].sum()

    def run(x):
        found = []
        for detach, dropped in ((False, True), (True, False), (True, True)):
            y = x.exp()
            torch._dynamo.graph_break()
            results = made(y)
            torch._dynamo.graph_break()
            if detach:
                y.detach_()
            if dropped:
                del y
            for z in results:
                found += [_gradient_or_error(z, x), _gradient_or_error(z, x, create_graph=True)]
        return found

    return Case(run, matrix(2, 2).requires_grad_(), forward_only=True)


@program(whole=False)
def detached_results_that_hooks_keep():
    def run(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            y = x * 2
            z = y * y
        torch._dynamo.graph_break()
        y.detach_()
        return _gradient_or_error(z, x), y.requires_grad_().is_leaf

    return Case(run, matrix(2, 2).requires_grad_(), forward_only=True)


@program(whole=False)
def detached_inputs_that_a_graph_has_written():
    """The nodes after the write have saved the input; a view that was saved keeps its own history."""

    def run(x):
        found = []
        for made in (lambda t: t.add_(1).sin(), lambda t: t.mul_(2) * t, lambda t: t.exp_() + 1, lambda t: t[0] * t[1]):
            for dropped in (False, True):
                t = x * 1
                torch._dynamo.graph_break()
                z = made(t)
                torch._dynamo.graph_break()
                t.detach_()
                if dropped:
                    del t
                found += [_gradient_or_error(z, x), _gradient_or_error(z, x, create_graph=True)]
        return found

    return Case(run, matrix(2, 2).requires_grad_(), forward_only=True)


@program(whole=False)
def detached_results_that_only_their_data_was_read_of():
    def run(x):
        y = x.exp()
        z = (y.data * y).tanh()
        torch._dynamo.graph_break()
        y.detach_()
        return _gradient_or_error(z, x)

    return Case(run, matrix(2, 2).requires_grad_(), forward_only=True)
