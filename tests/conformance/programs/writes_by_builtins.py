"""setattr(), delattr() and operator's functions on classes with hooks of their own: a graph may break below each of them."""

import operator

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


class Recording:
    """Its hooks return what the builtins must not."""

    def __init__(self):
        object.__setattr__(self, "seen", [])

    def __setattr__(self, name, value):
        self.seen.append(("set", name))
        print("set", name)
        object.__setattr__(self, name, value)
        return "ignored"

    def __delattr__(self, name):
        self.seen.append(("deleted", name))
        print("deleted", name)
        object.__delattr__(self, name)
        return "ignored"

    def __setitem__(self, key, value):
        self.seen.append(("item", key, float(value.sum())))
        return "ignored"

    def __delitem__(self, key):
        print("item deleted", key)
        self.seen.append(("item deleted", key))
        return "ignored"


@program(whole=False)
def results_of_builtins_that_write():
    def f(x):
        o = Recording()
        results = [setattr(o, "a", x + 1)]
        results.append(operator.setitem(o, 1, x * 2))
        results.append(operator.delitem(o, 1))
        y = o.a * 3
        results.append(delattr(o, "a"))
        return y, results, o.seen

    return Case(f, vector())


@program(whole=False)
def statements_after_a_builtin_that_writes():
    """The result is dropped by the statement; locals and the stack below must be what they were."""

    def f(x, values):
        o = Recording()
        iterator = iter(values)
        setattr(o, "first", x)
        total = x
        for number, value in enumerate(iterator):
            operator.setitem(o, number, value)
            total = total + value * number
            setattr(o, "last", total)
        delattr(o, "last")
        return total, number, o.seen

    return Case(f, vector(), [vector(), vector(3, 2.0), vector(3, 3.0)])


@program(whole=False)
def loops_over_iterators_in_classes_that_write_themselves():
    """What Hugging Face's ModelOutput does in __post_init__."""

    class Output(dict):
        def __init__(self, first):
            self.first = first
            iterator = iter(first)
            setattr(self, "first", None)
            for number, element in enumerate(iterator):
                if not isinstance(element, (list, tuple)):
                    if number != 0:
                        raise ValueError("an element too many")
                    self["first"] = first
                    break
                setattr(self, element[0], element[1])

        def __setattr__(self, name, value):
            if name in self.keys() and value is not None:
                super().__setitem__(name, value)
            super().__setattr__(name, value)

        def __setitem__(self, key, value):
            super().__setitem__(key, value)
            super().__setattr__(key, value)

    def f(x):
        first = (x + 1, x + 2, x + 3)
        torch._dynamo.graph_break()
        return Output(first)["first"]

    return Case(f, vector())


class Plain:
    def write(self, name, value):
        super().__setattr__(name, value)

    def drop(self, name):
        super().__delattr__(name)


def _plain():
    o = Plain()
    o.a, o.b = vector(), vector(3, 2.0)
    return o


@program
def names_that_change_in_slot_wrappers():
    """The name is read by capture itself: another one is another program."""
    o = _plain()

    def f(x, name):
        object.__setattr__(o, name, x + 1)
        return x * 2

    return Case(f, vector(), "a", observe=o, then=[lambda: Args(vector(), "b"), lambda: Args(vector(), "a")])


@program
def names_that_change_in_methods_of_super():
    o = _plain()

    def f(x, name):
        o.write(name, x + 1)
        return x * 2

    return Case(f, vector(), "a", observe=o, then=[lambda: Args(vector(), "b"), lambda: Args(vector(), "a")])


@program
def names_that_are_deleted_change():
    o = _plain()

    def f(x, name, how):
        if how:
            object.__delattr__(o, name)
        else:
            o.drop(name)
        return x * 2

    def restore(*args):
        o.a, o.b = vector(), vector(3, 2.0)
        return Args(vector(), *args)

    changes = [("b", True), ("a", True), ("b", False), ("a", False)]
    return Case(f, vector(), "a", True, observe=o, then=[lambda c=c: restore(*c) for c in changes])


@program
def keys_that_change_in_slot_wrappers():
    table = {"a": vector(), "b": vector(3, 2.0)}

    def f(x, name):
        dict.__setitem__(table, name, table[name] + x)
        found = dict.__getitem__(table, name), dict.get(table, name), dict.__contains__(table, name)
        return found, table.setdefault(name, x), operator.getitem(table, name)

    return Case(f, vector(), "a", observe=table, then=[lambda: Args(vector(), "b"), lambda: Args(vector(), "a")])


@program(whole=False)
def keys_and_elements_that_stay_are_the_same_objects():
    def f(x, table, names):
        table.setdefault("z", len(table))
        table["a"] = table.pop("a") + 1
        names.add("z")
        names.discard("a")
        return x + len(table)

    def fresh():
        return (1, int("2"))

    def made():
        key, name = fresh(), fresh()
        return {"a": 0, key: 1, (7.5, key): 2, float("1.25"): 3}, {name, "a", frozenset((name,))}, [key, name]

    def again():
        made_now = made()
        kept.append(made_now)
        return Args(vector(), *made_now[:2])

    first = made()
    kept = [first]
    return Case(
        f, vector(), *first[:2], then=[again, again], look=lambda: [[any(k is o for k in where) for where in (t, n)] for t, n, (o, _) in kept]
    )
