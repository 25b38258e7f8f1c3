"""Second derivatives where an argument is written in place, and through writes that autograd does not see. What a first
pass has saved keeps the history that it had then, as eager's does."""

import torch

from conformance.program import Case, program
from conformance.sample import leaf


def _twice(f, *leaves, results=False):
    """f of results of the leaves, which it may write; then the gradient, and the gradient of that."""

    def run(*leaves):
        arguments = [t * 1 for t in leaves] if results else leaves
        y = f(*arguments)
        torch._dynamo.graph_break()
        first = torch.autograd.grad(y.sum(), leaves, create_graph=True)
        second = torch.autograd.grad(sum((g * g).sum() for g in first), leaves)
        return [g.detach() for g in first], second

    return Case(run, *leaves, forward_only=True)


def _writes(f):
    return _twice(lambda x, w: inner(f, x, w), leaf(), leaf(3, 0.5), results=True)


def inner(f, x, w):
    torch._dynamo.graph_break()
    return f(x, w)


@program(whole=False)
def scaled_by_another():
    def f(x, w):
        x.mul_(w)
        return x.sin()

    return _writes(f)


@program(whole=False)
def result_of_a_write_that_is_saved():
    return _writes(lambda x, w: x.sin_().exp_() * w)


@program(whole=False)
def old_value_that_no_first_pass_reads():
    def f(x, w):
        y = x.exp() * w
        x.add_(w)
        return y + x.tanh()

    return _writes(f)


@program(whole=False)
def written_in_part():
    def f(x, w):
        x[1:].mul_(w[:2])
        return x.exp()

    return _writes(f)


@program(whole=False)
def both_arguments_written():
    def f(x, w):
        w.add_(x)
        x.mul_(w)
        return w.tanh() * x

    return _writes(f)


@program(whole=False)
def written_again_after_the_graph():
    """The graph keeps what it was written with."""

    def run(x, w):
        y = x * 1
        torch._dynamo.graph_break()
        y.add_(w)
        z = y.exp()
        torch._dynamo.graph_break()
        y.mul_(3)
        first = torch.autograd.grad(z.sum(), (x, w), create_graph=True)
        second = torch.autograd.grad(sum((g * g).sum() for g in first), (x, w))
        return [g.detach() for g in first], second

    return Case(run, leaf(), leaf(3, 0.5), forward_only=True)


@program(whole=False)
def a_hook_of_a_written_argument_sees_both_derivatives():
    def run(x, w):
        y = x * 1
        torch._dynamo.graph_break()
        y.mul_(w)
        z = y.exp()
        torch._dynamo.graph_break()
        seen = []
        y.register_hook(lambda g: seen.append(g.detach().clone()))
        first = torch.autograd.grad(z.sum(), (x, w), create_graph=True)
        sum((g * g).sum() for g in first).backward()
        return seen, x.grad, w.grad

    return Case(run, leaf(), leaf(3, 0.5), forward_only=True)


@program(whole=False)
def a_parameter_written_without_gradients():
    def run(x, w):
        with torch.no_grad():
            w.mul_(2)
        y = (x * w).sin()
        torch._dynamo.graph_break()
        first = torch.autograd.grad(y.sum(), (x, w), create_graph=True)
        second = torch.autograd.grad(sum((g * g).sum() for g in first), (x, w))
        return [g.detach() for g in first], second

    return Case(run, leaf(), leaf(3, 0.5), forward_only=True)


def _pair(f):
    return _twice(f, leaf(), leaf(3, 0.5))


@program(whole=False)
def a_result_written_without_gradients():
    def f(x, w):
        z = x * 1
        with torch.no_grad():
            z.mul_(w)
        return z * z * w

    return _pair(f)


@program(whole=False)
def a_result_copied_over_without_gradients():
    def f(x, w):
        z = x * 2
        with torch.no_grad():
            z.copy_(w)
        return z * z * w

    return _pair(f)


@program(whole=False)
def a_part_of_a_result_written_without_gradients():
    def f(x, w):
        z = x * 1
        with torch.no_grad():
            z[1:].mul_(w[:2])
        return z.exp()

    return _pair(f)


@program(whole=False)
def a_transposed_result_written_without_gradients():
    def f(x, w):
        z = x.view(1, 3) * w.view(3, 1)
        with torch.no_grad():
            z.t().mul_(w)
        return z.exp()

    return _pair(f)


@program(whole=False)
def into_a_result_without_gradients():
    def f(x, w):
        z = x * 1
        with torch.no_grad():
            torch.mul(x, w, out=z)
        return z * z

    return _pair(f)


@program(whole=False)
def lists_written_without_gradients():
    def f(x, w):
        z, y = x * 1, x * w
        with torch.no_grad():
            torch._foreach_mul_([z, y], [2.0, 3.0])
        return z * y

    return _pair(f)


@program(whole=False)
def a_detached_tensor_with_a_history_of_its_own():
    """What is written to it shows in the whole, whose history is another."""

    def f(x, w):
        z = x * 2
        t = z.detach()
        t.add_(w)
        return t.sin() * z.cos()

    return _pair(f)


@program(whole=False)
def the_whole_of_such_a_tensor_is_written():
    def f(x, w):
        z = x * 1
        t = z.detach()
        t.mul_(w)
        with torch.no_grad():
            z.mul_(2)
        return z * w * t

    return _pair(f)


@program(whole=False)
def a_part_of_such_a_tensor_is_written():
    def f(x, w):
        z = x * 1
        part = z.detach()[1:]
        part.mul_(w[:2])
        return z[1:] * part

    return _pair(f)


@program(whole=False)
def data_that_is_read():
    return _pair(lambda x, w: (x * w).data * w * x + x.data * w)


@program(whole=False)
def data_written_with_what_has_a_history():
    def f(x, w):
        z = x * 1
        z.data.mul_(w)
        return z * z * w

    return _pair(f)


@program(whole=False)
def detached_in_place():
    def f(x, w):
        z = x * w
        z.detach_()
        return z * x * w

    return _pair(f)


@program(whole=False)
def one_of_many_that_is_detached():
    """More than a word has bits."""

    def f(x, w):
        parts = [torch.zeros_like(x) for _ in range(72)]
        parts[1], parts[70] = x * w, x.detach()
        return torch.stack(parts).sum(0).square()

    return _pair(f)


@program(whole=False)
def views_of_what_is_detached():
    return _pair(lambda x, w: x.view(3, 1).detach().view(1, 3).reshape(3) * w * x)


def _argument_written_after(f, pick=lambda results: results[0]):
    """f(argument, w) is a graph, which saves results; then the program writes the argument."""

    def run(x, w):
        argument = x * 1
        torch._dynamo.graph_break()
        results = f(argument, w)
        torch._dynamo.graph_break()
        argument.mul_(3)
        first = torch.autograd.grad(pick(results).sum(), (x, w), create_graph=True, allow_unused=True)
        first = [g for g in first if g is not None]
        second = torch.autograd.grad(sum((g * g).sum() for g in first), (x, w), allow_unused=True)
        return [g.detach() for g in first], second

    return Case(run, leaf(), leaf(3, 0.5), forward_only=True)


@program(whole=False)
def result_whose_argument_is_written_after():
    return _argument_written_after(lambda x, w: [x.exp()])


@program(whole=False)
def results_whose_argument_is_written_after():
    return _argument_written_after(lambda x, w: [x.exp(), x.tanh()], pick=lambda r: r[0] * r[1])


@program(whole=False)
def one_of_results_whose_argument_is_written_after():
    return _argument_written_after(lambda x, w: [x.exp(), x.tanh() * w], pick=lambda r: r[0])


@program(whole=False)
def chained_results_whose_argument_is_written_after():
    def f(x, w):
        y = x.exp()
        return [y, y * w, (y * w).sin()]

    return _argument_written_after(f, pick=lambda r: r[2])


@program(whole=False)
def third_derivative_whose_argument_is_written_after():
    def run(x):
        argument = x * 1
        torch._dynamo.graph_break()
        y = argument.exp()
        torch._dynamo.graph_break()
        argument.mul_(3)
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad((first * first).sum(), x, create_graph=True)
        (third,) = torch.autograd.grad((second * second).sum(), x)
        return first.detach(), second.detach(), third

    return Case(run, leaf(), forward_only=True)


@program(whole=False)
def argument_that_is_saved_is_written_after():
    """Eager raises, for sin() needs it."""
    case = _argument_written_after(lambda x, w: [x.sin() * w])

    def run(x, w):
        try:
            return case.f(x, w)
        except RuntimeError as error:
            return "modified by an inplace operation" in str(error)

    return Case(run, leaf(), leaf(3, 0.5), forward_only=True)
