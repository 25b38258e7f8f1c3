"""Variables at a graph break: what nobody reads again may go, what somebody can still ask for may not.

The values are made in the frame: what came from outside, and numbers, cost nothing to keep.
"""

import torch

from conformance.program import Case, program
from conformance.sample import leaf, vector


@program(whole=False)
def deleted_after_the_break():
    def f(x):
        y = [x * 2, x + 1]
        z = y[0] - y[1]
        print("a break")
        del y
        try:
            y
        except UnboundLocalError:
            z = z * 10
        return z

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def deleted_and_never_read_again():
    def f(x):
        y = [x * 2, x + 1]
        z = y[0] - y[1]
        print("a break")
        del y
        return z

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def seen_by_locals_alone():
    def f(x):
        made = {"a": x * 2}
        twice = (x + 1, made)
        print("a break")
        seen = locals()
        return sorted(seen), seen["made"]["a"], seen["twice"][0]

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def seen_by_vars_of_a_callee():
    def inner(t):
        made = [t * 3]
        print("a break")
        return sorted(vars()), vars()["made"]

    def f(x):
        kept = [x + 1]
        names, made = inner(x)
        return names, made[0] + kept[0]

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def read_by_a_handler_alone():
    def fails(t):
        print("a break")
        raise ValueError(t.shape[0])

    def f(x):
        made = [x * 2]
        try:
            fails(x)
        except ValueError as error:
            return made[0] + error.args[0]
        return x

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def read_by_the_handler_of_a_last_call():
    def fails(t):
        print("a break")
        raise ValueError(t.shape[0])

    def f(x):
        made = [x * 2]
        try:
            return fails(x)
        except ValueError as error:
            return made[0] + error.args[0]

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def read_by_a_finally_alone():
    log = []

    def f(x):
        made = [x * 2]
        try:
            print("a break")
            return x + 1
        finally:
            log.append(made[0].sum().item())

    return Case(f, vector(), then=[lambda: None], observe=log)


class Setters:
    def __setattr__(self, name, value):
        print("a break")
        object.__setattr__(self, name, value)
        return "what nobody gets"

    def __setitem__(self, key, value):
        print("a break")
        self.__dict__[key] = value
        return "what nobody gets"


@program(whole=False)
def result_of_a_setter_that_breaks():
    def f(x):
        box = Setters()
        by_name = setattr(box, "t", x * 2)
        box["u"] = box.t + 1
        box.v = box.u + 1
        return by_name, box.v

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def reassigned_on_one_way_only():
    def f(x, n):
        y = [x * n]
        for i in range(3):
            print("a break", i)
            if i == 1:
                y = [y[0] + 1]
        return y[0]

    return Case(f, leaf(), 2, then=[lambda: None])


@program(whole=False)
def slices_and_functions_made_before():
    def f(x):
        every_second = slice(0, None, 2)

        def scaled(t, *, by=3.0) -> "a tensor":
            return t * by

        same = scaled
        print("a break")
        return x[every_second], scaled(x), same is scaled, every_second, scaled.__kwdefaults__, scaled.__annotations__

    return Case(f, torch.arange(5.0), then=[lambda: None])


@program
def made_in_the_frame_and_returned_twice():
    def f(x):
        def scaled(t, *, by=3.0) -> "a tensor":
            return t * by

        pair = (x * 2, [1])
        return scaled, scaled, pair, [pair], slice(1, 7, 3), scaled.__kwdefaults__

    return Case(f, vector(), then=[lambda: None])
