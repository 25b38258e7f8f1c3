"""t_(), unsqueeze_() and their like on tensors from outside: the tensor itself has other sizes afterwards."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


@program
def transposed_and_used():
    def f(x, y):
        x.t_()
        return x @ y, x.shape, x.stride(), x.is_contiguous()

    return Case(f, matrix(), matrix(), versions=True, then=[lambda: Args(matrix(), matrix()), lambda: Args(matrix(3, 4), matrix(3, 2))])


@program
def changed_again_in_each_call():
    x = matrix()

    def f(y):
        x.transpose_(0, -1)
        return x.sum(0) * y, x.size(0)

    return Case(f, torch.tensor(2.0), look=lambda: (x.shape, x.stride(), x._version), then=[lambda: None, lambda: None])


@program
def squeezed_and_unsqueezed():
    def f(x):
        x.unsqueeze_(0)
        x.unsqueeze_(-1)
        y = x * 2
        x.squeeze_(0)
        return y, x.shape, x + 1

    return Case(f, vector(), versions=True)


@program
def returned_itself_and_as_a_view():
    def f(x):
        before = x[0]
        x.t_()
        return x, before, x[0], x.t()

    return Case(f, matrix(), versions=True)


@program
def one_object_of_two_names():
    def f(x, y):
        x.t_()
        return x is y, y.shape, y * 2

    x = matrix()
    return Case(f, x, x)


@program
def another_tensor_of_the_same_memory():
    def f(x, y):
        y.t_()
        return x.shape, y.shape, x.sum(0) + y.sum(1)

    x = matrix()
    return Case(f, x, x[:, :])


@program
def nothing_else_is_done():
    def f(x):
        x.t_()

    return Case(f, matrix(), versions=True)


@program
def error_after_the_change():
    def f(x):
        x.t_()
        try:
            x.unsqueeze_(7)
        except IndexError as error:
            return x * 2, str(error)

    return Case(f, matrix(), versions=True)


@program(whole=False)
def error_that_escapes_after_the_change():
    def f(x):
        x.t_()
        raise ValueError("no")

    return Case(f, matrix(), versions=True)


@program(whole=False)
def changed_and_written():
    def f(x):
        x.t_()
        x.add_(1)
        x[0] = 5
        return x * 2

    return Case(f, matrix(), versions=True)


@program(whole=False)
def changed_and_saved_for_gradients():
    def f(x, w):
        x.t_()
        return (x * w).sum(), w.exp()

    return Case(f, matrix(3, 3), leaf())


@program(whole=False)
def saved_and_then_changed():
    def f(x, w):
        y = (x * w).sum()
        x.t_()
        return y

    return Case(f, matrix(3, 3), leaf(), forward_only=True)


@program(whole=False)
def leaf_that_requires_grad():
    def f(x):
        try:
            x.t_()
        except RuntimeError as error:
            return x * 2, type(error).__name__

    return Case(f, matrix().requires_grad_())


@program(whole=False)
def data_of_a_tensor():
    def f(x):
        y = x.data
        y.t_()
        z = x.detach()
        z.unsqueeze_(0)
        return y.shape, z.shape, x.shape, x + 1

    return Case(f, matrix())


@program(whole=False)
def break_behind_the_change():
    def f(x):
        x.t_()
        y = x * 2
        if y.sum().item() > 0:
            x.unsqueeze_(0)
        return y, x.shape, x + 1

    return Case(f, matrix(), versions=True)


@program
def several_dimensions_at_once():
    def f(x):
        x.squeeze_((0, 2))
        x.swapaxes_(0, 1)
        return x * 2, x.shape

    return Case(f, torch.ones(1, 2, 1, 3), versions=True)


@program
def squeezed_in_several_dimensions():
    def f(x):
        x.squeeze_((0, 2))
        return x * 2, x.shape

    return Case(f, torch.arange(6.0).view(1, 2, 1, 3), versions=True, then=[lambda: Args(torch.arange(4.0).view(1, 2, 1, 2))])


@program
def strides_given_in_place():
    def f(x, y):
        x.as_strided_((2, 2), (1, 2), 1)
        y.as_strided_((3,), (2,))
        return x * 2, y + 1, x.stride(), y.shape

    return Case(f, torch.arange(8.0), torch.arange(6.0), versions=True)


@program
def resized_to_what_there_is_room_for():
    def f(x, y, z):
        x.resize_(2, 3)
        y.resize_as_(x)
        z.resize_(4).resize_(2, 2)
        return x * 2, y + x, z, y.is_contiguous()

    return Case(f, torch.arange(6.0), torch.arange(8.0).view(2, 4), torch.arange(4.0), versions=True)


@program
def new_one_resized():
    def f(x):
        y = x * 2
        y.resize_(2)
        y.add_(1)
        return y, y.shape

    return Case(f, vector())


@program(whole=False)
def resized_to_more_than_there_is_room_for():
    def f(x):
        x.resize_(9)
        x.fill_(1)
        return x + 1

    return Case(f, vector())


@program
def written_while_it_had_other_sizes():
    def f(x):
        x.unsqueeze_(0)
        x.add_(1)
        x.squeeze_(0)
        return x, x * 2

    return Case(f, matrix(), versions=True)


@program
def dropped_out_in_place():
    def f(x):
        return torch.nn.functional.dropout3d(x, 0.5, training=True, inplace=True) is x, x + 1

    return Case(f, torch.ones(2, 3, 3, 3))


@program
def used_by_calls_before_and_after():
    def f(x, y):
        before = x.softmax(-1) + x.relu()
        x.t_()
        parts = torch.split(x, 1)
        x.unsqueeze_(0)
        y.resize_(2)
        return before, parts, torch.cat([x, x], 0), x.shape, y * 2, y.numel()

    return Case(f, matrix(2, 3), vector(), versions=True, then=[lambda: Args(matrix(2, 3), vector())])
