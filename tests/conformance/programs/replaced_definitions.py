"""Definitions that a program replaces between calls, and what it asks of objects that have no dict, no name or a twin."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


def minus_one(x):
    return x - 1


class Shifts:
    def by(self, x):
        return x + 2

    @property
    def amount(self):
        return 3


class Slotted:
    __slots__ = ("n",)


@program
def code_of_a_function_replaced():
    old = minus_one.__code__

    def f(x):
        return minus_one(x)

    def change():
        minus_one.__code__ = (lambda x: x * 5).__code__

    def back():
        minus_one.__code__ = old

    return Case(f, vector(), then=[change, back])


@program
def code_of_a_method_replaced():
    old = Shifts.by.__code__
    shifts = Shifts()

    def f(x):
        return shifts.by(x)

    def change():
        Shifts.by.__code__ = (lambda self, x: x * 5).__code__

    def back():
        Shifts.by.__code__ = old

    return Case(f, vector(), then=[change, back])


@program
def code_of_a_propertys_getter_replaced():
    getter = Shifts.amount.fget
    old = getter.__code__
    shifts = Shifts()

    def f(x):
        return x + shifts.amount

    def change():
        getter.__code__ = (lambda self: 7).__code__

    def back():
        getter.__code__ = old

    return Case(f, vector(), then=[change, back])


@program
def name_of_a_class_replaced():
    class Named:
        pass

    thing = Named()

    def f(x):
        return x + len(thing.__class__.__name__) + len(type(thing).__qualname__)

    def change():
        Named.__name__ = "Other"

    def again():
        Named.__qualname__ = "Another"

    return Case(f, vector(), then=[change, again])


@program
def name_of_what_a_bound_method_calls():
    shifts = Shifts()

    def f(x, go):
        try:
            return x + len(go.__name__) + len(go.__qualname__)
        except AttributeError:
            return x - 1

    return Case(f, vector(), shifts.by, then=[lambda: Args(vector(), Shifts().by), lambda: Args(vector(), minus_one)])


@program
def vars_of_an_object_without_a_dict():
    def f(x, thing):
        try:
            return x + len(vars(thing))
        except TypeError as error:
            return x * len(str(error))

    return Case(f, vector(), Slotted(), then=[lambda: Args(vector(), Shifts())])


@program(whole=False)
def dict_of_a_tensor_written():
    def f(x, t):
        vars(t)["n"] = 2
        t.n, old = 1, t.n
        return x * old

    return Case(f, vector(), vector(2), then=[lambda: Args(vector(), vector(1))])


@program
def found_in_a_list_by_identity():
    one, other = Shifts(), Shifts()

    def f(x, a, b):
        return x + (a in [b, 1]) + [1, b].count(a) + ([a] == [b])

    return Case(f, vector(), one, other, then=[lambda: Args(vector(), one, one), lambda: Args(vector(), other, one)])


@program
def functions_compared_by_identity():
    def made():
        return lambda x: x

    one, other = made(), made()

    def f(x, a, b):
        return x + (a == b) + (a in [b, 1]) * 2

    return Case(f, vector(), one, other, then=[lambda: Args(vector(), one, one), lambda: Args(vector(), other, one)])


@program(whole=False)
def a_break_under_a_device():
    def f(x, log):
        with torch.device("cpu"):
            y = x + torch.ones(3)
            log.append(f"{y}")
            y = y * torch.arange(3)
        return y + torch.zeros(3)

    return Case(f, vector(), [])


@program
def tensors_made_under_a_device():
    def f(x):
        with torch.device("cpu"):
            y = x + torch.ones(3)
        return y * torch.ones(3)

    return Case(f, vector())


@program
def version_of_an_alias_laid_out_anew():
    def f(x):
        x.detach().t_()
        x.view(3).unsqueeze_(0)
        return x * 2

    return Case(f, vector(), versions=True)


@program(whole=False)
def an_operand_that_overlaps_what_is_written():
    def f(x):
        try:
            x.index_add_(0, torch.tensor([0]), x[:1])
        except RuntimeError:
            return x * 3
        return x * 2

    return Case(f, vector(6).view(1, 6), then=[lambda: Args(vector(6).view(2, 3))])


@program(whole=False)
def an_inference_tensor_written_through_an_alias():
    def inference():
        with torch.inference_mode():
            return vector()

    def f(x, t):
        try:
            t.detach()[0] = 3
        except RuntimeError:
            return x * 2
        return x + 1

    return Case(f, vector(), vector(), then=[lambda: Args(vector(), inference())])


@program(whole=False)
def views_of_an_inference_tensor_written_by_python():
    with torch.inference_mode():
        kept = vector(4)

    def refused(write):
        try:
            write()
        except RuntimeError as error:
            return str(error).partition(".")[0]
        return "written"

    def f(x):
        views = kept[1:], kept.view(2, 2), kept.detach(), kept.data
        torch._dynamo.graph_break()
        facts = [(v.is_inference(), refused(lambda v=v: v.add_(1))) for v in views]
        return x + kept.sum(), facts

    return Case(f, vector(), observe=kept)


@program
def name_of_a_class_in_the_texts_of_errors():
    class Plain:
        def __init__(self):
            self.n = 1

    plain = Plain()

    def f(x):
        for wrong in (
            lambda: plain.missing,
            lambda: plain + 1,
            lambda: plain(),
            lambda: plain[0],
            lambda: len(plain),
            lambda: iter(plain),
            lambda: [1] + plain,
            lambda: Plain(1, 2),
        ):
            try:
                wrong()
            except (AttributeError, TypeError) as error:
                x = x + len(str(error))
        return x

    def rename(name):
        Plain.__name__ = name

    return Case(f, vector(), then=[lambda: rename("Other"), lambda: rename("Yet_another"), lambda: rename("Plain")])
