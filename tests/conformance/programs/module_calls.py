"""What lies between a module's call and its forward(): frames, hooks of every kind, replaced parts, failures."""

import sys

import torch
from torch import nn
from torch.nn.modules import module as nn_module

from conformance.program import Case, program
from conformance.sample import leaf, matrix, vector


class Scale(nn.Module):
    def __init__(self, by=2.0):
        super().__init__()
        self.by = by

    def forward(self, x):
        return x * self.by


class Fails(nn.Module):
    def forward(self, x, fails=True):
        y = x + 1
        if fails:
            raise ValueError("no")
        return y


def functions_of(error):
    names, traceback = [], error.__traceback__
    while traceback is not None:
        names.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    return names


@program
def error_in_forward_escapes():
    model = nn.Sequential(Scale(), Fails())
    return Case(lambda x: model(x * 2), vector())


@program
def error_in_forward_is_handled():
    inner = Fails()

    def f(x):
        y = Scale()(x)
        try:
            y = inner(y)
        except ValueError as error:
            return y * 3, error.args
        return y

    return Case(f, vector())


@program
def frames_of_an_error_in_forward():
    inner = nn.Sequential(Scale(), Fails())

    def f(x):
        try:
            return inner(x)
        except ValueError as error:
            return x * 2, functions_of(error)

    return Case(f, vector())


@program
def error_handled_in_another_forward():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Scale(3.0), Fails()

        def forward(self, x):
            x = self.first(x)
            try:
                x = self.second(x)
            except ValueError:
                x = self.second(x, fails=False)
            return x

    outer = Outer()
    return Case(lambda x: outer(x) + 1, leaf())


@program
def callers_seen_from_forward():
    class Looks(nn.Module):
        def forward(self, x):
            names, frame = [], sys._getframe()
            for _ in range(4):
                names.append(frame.f_code.co_name)
                frame = frame.f_back
            return x + 1, names[:3]

    model = Looks()
    return Case(lambda x: model(x), vector())


@program(whole=False)
def break_in_an_inner_forward():
    class Prints(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = Scale(4.0)

        def forward(self, x):
            x = self.scale(x)
            if x.sum() > 0:
                x = self.scale(x)
            return x - 1

    model = nn.Sequential(Scale(), Prints(), Scale())
    return Case(lambda x: model(x) + model(x * 2), leaf())


@program
def hooks_come_and_go():
    model = nn.Sequential(Scale(), Scale(3.0))
    handles = []

    def change(register, hook):
        handles.append(getattr(model[1], register)(hook))

    return Case(
        lambda x: model(x),
        leaf(),
        then=[
            lambda: change("register_forward_hook", lambda m, a, out: out + 1),
            lambda: change("register_forward_pre_hook", lambda m, a: (a[0] * 2,)),
            lambda: handles.pop(0).remove(),
            lambda: handles.pop(0).remove(),
            lambda: change("register_full_backward_hook", lambda m, gi, go: (gi[0] * 2,)),
            lambda: handles.pop(0).remove(),
        ],
    )


@program
def hooks_for_all_modules_come_and_go():
    model = Scale()
    handles = []
    add = lambda: handles.append(nn_module.register_module_forward_hook(lambda m, a, out: out + 1))
    remove = lambda: handles.pop().remove()
    return Case(lambda x: model(x) * 2, vector(), then=[add, remove, add, remove])


@program
def hook_put_on_between_two_calls_inside():
    def f(x):
        model = shared
        y = model(x)
        handle = model.register_forward_hook(lambda m, a, out: out + 10)
        z = model(x)
        handle.remove()
        return y, z, model(x)

    shared = Scale()
    return Case(f, vector())


@program
def parts_of_the_call_replaced():
    model, other = Scale(), Scale(5.0)

    def put(name, value):
        object.__setattr__(model, name, value)

    def drop(name):
        object.__delattr__(model, name)

    return Case(
        lambda x: model(x),
        vector(),
        then=[
            lambda: put("forward", lambda x: x - 1),
            lambda: drop("forward"),
            lambda: put("_call_impl", lambda x: x - 2),
            lambda: drop("_call_impl"),
            lambda: put("_compiled_call_impl", other.forward),
            lambda: drop("_compiled_call_impl"),
            lambda: put("_forward_hooks", {}),
        ],
    )


@program
def classes_of_modules_changed():
    class Model(Scale):
        pass

    model = Model()

    def put(name, value):
        setattr(Model, name, value)

    return Case(
        lambda x: model(x),
        vector(),
        then=[
            lambda: put("forward", lambda self, x: x - self.by),
            lambda: put("_call_impl", lambda self, x: x - 2),
            lambda: delattr(Model, "_call_impl"),
            lambda: put("__call__", lambda self, x: x - 3),
            lambda: delattr(Model, "__call__"),
            lambda: put("__getattribute__", lambda self, name: object.__getattribute__(self, name)),
        ],
    )


@program
def wrong_arguments_for_forward():
    model = Scale()

    def f(x):
        try:
            return model(x, 1, by=2)
        except TypeError as error:
            return x * 2, str(error)

    return Case(f, vector())


@program
def keywords_defaults_and_numbers():
    class Net(nn.Module):
        def forward(self, x, by=2, *rest, shift=0.0, **options):
            return x * by + shift + len(rest) + options.get("more", 0)

    net = Net()

    def f(x, n):
        return net(x), net(x, n), net(x, n, 1, 2, shift=0.5), net(x=x, by=n, more=3), net(*[x, n], **{"shift": 1})

    return Case(f, matrix(), 3, then=[lambda: None])


@program
def forward_is_a_generator():
    class Net(nn.Module):
        def forward(self, x):
            for i in range(3):
                yield x * i

    net = Net()
    return Case(lambda x: sum(net(x)), vector())


@program
def called_through_the_class_and_super():
    class Derived(Scale):
        def __call__(self, x):
            return super().__call__(x) + 1

    model, derived = Scale(), Derived()
    return Case(lambda x: (nn.Module.__call__(model, x), derived(x), list(map(model, [x, x]))), leaf())


@program(not_ways=["sizes"])  # its errors name the judge's line that had it traced
def traced_and_scripted_modules_inside():
    model = torch.jit.trace(nn.Linear(3, 2), matrix())
    return Case(lambda x: model(x) * 2, matrix())
