"""A break in a special method that a builtin function called: the function's own result goes where the call stands."""

import operator
from collections import OrderedDict

import framefuse
import pytest
import torch


class Slow:
    def __init__(self):
        self.seen = []

    def __setattr__(self, name, value):
        framefuse.graph_break()
        super().__setattr__(name, value)
        return "of __setattr__"

    def __delattr__(self, name):
        framefuse.graph_break()
        super().__delattr__(name)
        return "of __delattr__"

    def __setitem__(self, key, value):
        framefuse.graph_break()
        self.seen.append((key, value))
        return "of __setitem__"

    def __delitem__(self, key):
        framefuse.graph_break()
        self.seen.append(key)
        return "of __delitem__"


CALLS = {
    "setattr": lambda o: setattr(o, "a", 1),
    "delattr": lambda o: (setattr(o, "a", 1), delattr(o, "a")),
    "setitem": lambda o: operator.setitem(o, "a", 1),
    "delitem": lambda o: operator.delitem(o, "a"),
}


@pytest.mark.parametrize("name", CALLS)
def test_result_of_a_builtin_that_calls_a_special_method(name):
    call = CALLS[name]

    def f(x):
        o = Slow()
        y = x + 1
        results = [call(o), y * 2]
        return results, o.seen, y

    x = torch.randn(3)
    expected = f(x)
    compiled = framefuse.compile(f, backend="aten")
    for _ in range(3):
        result = compiled(x)
        assert str(result) == str(expected)


class Output(OrderedDict):
    """As the outputs of models in transformers: fields that are items, too."""

    def __init__(self, first):
        self.first = first
        self.fill(first)

    def fill(self, first):
        iterator = iter(first)
        framefuse.graph_break()
        setattr(self, "first", None)
        for i, element in enumerate(iterator):
            if i != 0:
                raise ValueError(f"element {i} came first")
            self["first"] = first
            break

    def __setattr__(self, name, value):
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)


@pytest.mark.parametrize("training", [False, True])
def test_outputs_that_are_filled_in_their_constructor(training):
    def f(x):
        y = x + 1
        return Output((y, y * 2, y * 3))

    x = torch.randn(3, requires_grad=training)
    compiled = framefuse.compile(f, backend="aten")
    for _ in range(3):
        torch.testing.assert_close(compiled(x)["first"], f(x)["first"])
