"""Lists and dicts of Python classes that have methods of their own in place of those of their native bases."""

import collections
from collections import OrderedDict

import torch
from conformance.program import Args, Case, program
from conformance.programs.containers_of_classes import Ordered, Stack, Table, with_attributes
from conformance.sample import vector


@program
def methods_in_place_of_the_native_ones():
    calls = []

    class Loud(dict):
        def __getitem__(self, key):
            calls.append(("get", key))
            return super().__getitem__(key) * 2

        def __setitem__(self, key, value):
            calls.append(("set", key))
            super().__setitem__(key, value)

        def __delitem__(self, key):
            calls.append(("del", key))
            super().__delitem__(key)

        def __contains__(self, key):
            return key == "always" or super().__contains__(key)

        def __len__(self):
            return 40 + super().__len__()

        def __iter__(self):
            return iter(["a"])

        def keys(self):
            return ["a"]

    loud = Loud(a=1, b=2)
    dict.__setitem__(loud, "t", vector())

    def f(x):
        loud["c"] = 3
        del loud["b"]
        found = "always" in loud, "b" in loud, "c" in loud, len(loud), list(loud), dict(loud), loud.get("c")
        dict.__setitem__(loud, "b", loud["c"])
        return x + loud["t"], found, dict.__len__(loud), bool(loud)

    return Case(f, vector(), then=[lambda: None, lambda: setattr(Loud, "__len__", lambda self: 0)], observe=(loud, calls))


@program
def lists_with_methods_of_their_own():
    class Window(list):
        limit = 3

        def append(self, item):
            super().append(item)
            if len(self) > self.limit:
                del self[0]

        def __iter__(self):
            return reversed(list(super().__iter__()))

        def __getitem__(self, index):
            return super().__getitem__(index) if index != 100 else "hundred"

        def __bool__(self):
            return False

        def __add__(self, other):
            return ("added", len(self), other)

        def __eq__(self, other):
            return other == "equal"

        __hash__ = None

    window = Window([1, 2])

    def f(x):
        window.append(x)
        window.append(5)
        taken = [i for i in window if not isinstance(i, torch.Tensor)]
        return x + window[-1], taken, window[100], bool(window), window + 1, window == "equal", window == [1], 5 in window

    return Case(f, vector(), then=[lambda: None, lambda: setattr(Window, "limit", 1)], observe=window)


@program
def missing_keys():
    class Doubling(dict):
        def __missing__(self, key):
            self[key] = key * 2
            return self[key]

    made = Doubling(a=1)

    def f(x, key):
        return x, made[key], made.get("q"), "q" in made, len(made)

    return Case(f, vector(), "b", then=[lambda: Args(vector(), "a"), lambda: Args(vector(), "c")], observe=made)


@program
def missing_keys_raise():
    table, ordered, stack = Table(a=1), Ordered(a=1), Stack([1])

    def f(x, key):
        errors = []
        for read in (lambda: table[key], lambda: ordered[key], lambda: stack[5], lambda: ordered.pop(key)):
            try:
                read()
            except (KeyError, IndexError) as error:
                errors.append((type(error), error.args))
        try:
            del table[key]
        except KeyError as error:
            errors.append(error.args)
        return x + len(errors), errors

    return Case(f, vector(), "b", then=[lambda: Args(vector(), "a")], observe=(table, ordered))


@program(whole=False)
def ends_that_run_code():
    class Ending(list):
        ends = 0

        def __del__(self):
            Ending.ends += 1

    made = Ending([1])

    def f(x):
        made.append(2)
        made.n = 3
        return x + len(made), Ending.ends

    return Case(f, vector(), then=[lambda: None], look=lambda: (Ending.ends, list(made)))


@program(whole=False)
def own_attribute_named_like_a_method():
    ordered, table = Ordered(a=1), Table(a=1)
    ordered.keys = lambda: ["x", "y"]
    table.get = lambda key: key + "!"

    def f(x):
        merged = {}
        try:
            merged.update(ordered)
        except KeyError as error:
            merged = error.args
        return x + 1, merged, table.get("a"), list(ordered.keys())

    return Case(f, vector(), then=[lambda: delattr(ordered, "keys"), lambda: delattr(table, "get")])


@program
def results_of_models():
    class Output(OrderedDict):
        def __setitem__(self, key, value):
            super().__setitem__(key, value)
            super().__setattr__(key, value)

        def __setattr__(self, name, value):
            if name in self.keys() and value is not None:
                super().__setitem__(name, value)
            super().__setattr__(name, value)

        def __getitem__(self, key):
            if isinstance(key, str):
                return dict(self.items())[key]
            return self.to_tuple()[key]

        def to_tuple(self):
            return tuple(self[key] for key in self.keys())

        def __delitem__(self, *args):
            raise RuntimeError(f"no {type(self).__name__}.__delitem__")

    output = Output()
    output["logits"] = vector()
    output["loss"] = vector().sum()

    def f(x, output):
        logits, loss = output[:2]
        output.extra = x
        output.loss = loss * 2
        output["hidden"] = (x, x + 1)
        try:
            del output["loss"]
        except RuntimeError as error:
            text = str(error)
        return x + logits + output[0] + output.loss + output["loss"], len(output), output.to_tuple()[2], text, output

    return Case(f, vector(), output, then=[lambda: Args(vector(), Output(logits=vector(), loss=vector().sum()))])


@program
def counters():
    counter = collections.Counter("abca")

    def f(x):
        counter["a"] += 1
        counter.update("bb")
        return x * counter["a"], counter["nothing"], counter.most_common(1), counter.total(), len(counter)

    return Case(f, vector(), then=[lambda: counter.subtract("aab")], observe=counter)


@program
def classes_and_types_change():
    class A(list):
        scale = 2

    class B(list):
        scale = 3

    class Plain(A):
        __slots__ = ()

    def f(x, made):
        made.append(len(made))
        return x * made.scale, type(made).__name__, isinstance(made, A), made[-1]

    def reassign():
        made = A([1])
        made.__class__ = B
        return Args(vector(), made)

    return Case(
        f,
        vector(),
        A([1]),
        then=[
            lambda: Args(vector(), B([1])),
            lambda: Args(vector(), Plain([1, 2])),
            reassign,
            lambda: setattr(A, "append", lambda self, item: list.append(self, "mine")),
            lambda: Args(vector(), A([5])),
        ],
    )


@program
def parts_of_modules_and_globals():
    class Layers(list):
        def run(self, x):
            for layer in self:
                x = layer(x)
            return x

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = Layers([torch.relu, torch.sin])
            self.config = with_attributes(Table(scale=2), bias=1)

        def forward(self, x):
            return self.layers.run(x) * self.config["scale"] + self.config.bias

    model = Model()

    def change():
        model.layers.append(torch.cos)
        model.config.bias = 5

    return Case(lambda x: model(x), vector(), then=[change, lambda: model.config.update(scale=3)])


@program
def items_written_by_a_method_of_the_class():
    class Doubling(dict):
        def __setitem__(self, key, value):
            super().__setitem__(key, value * 2)

    made = Doubling(a=1)

    def f(x):
        made["b"] = x
        made["n"] = 3
        return x + 1

    return Case(f, vector(), then=[lambda: dict.update(made, {"b": 4})], observe=made)


@program
def items_deleted_by_a_method_of_the_class():
    class Loud(dict):
        def __delitem__(self, key):
            super().__delitem__(key + "!")

    made = Loud({"a!": 1})

    def f(x):
        del made["a"]
        return x + 1

    return Case(f, vector(), then=[lambda: dict.update(made, {"a!": 4})], observe=made)
