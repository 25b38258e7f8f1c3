"""The __dict__ of an object that existed before, as a whole: counted, walked through, copied, and written past it."""

import functools

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


class Holder:
    def __init__(self, **attributes):
        for name, value in attributes.items():
            setattr(self, name, value)


@program
def counted():
    given, empty = Holder(a=1, b=[2]), Holder()

    def f(x):
        return x * len(vars(given)), bool(given.__dict__), not vars(empty), len(empty.__dict__)

    return Case(
        f,
        vector(),
        then=[
            lambda: setattr(given, "c", 3),
            lambda: setattr(empty, "a", 1),
            lambda: given.__dict__.clear(),
            lambda: setattr(empty, "__dict__", {}),
        ],
    )


@program
def walked_through():
    given = Holder(a=1, b=[2], c=torch.ones(3), d=Holder())

    def f(x):
        names = [n for n in given.__dict__]
        for name, value in vars(given).items():
            if isinstance(value, torch.Tensor):
                x = x + value
            names.append(name)
        first, *rest = vars(given).values()
        return x * first, names, len(rest), list(given.__dict__), "c" in vars(given).keys(), 5 in vars(given), ("a",) in vars(given)

    def reorder():
        given.a = vars(given).pop("a")

    return Case(
        f,
        vector(),
        then=[
            lambda: setattr(given, "a", 2),
            lambda: setattr(given, "e", None),
            lambda: delattr(given, "b"),
            lambda: delattr(given, "a"),
            lambda: setattr(given, "a", 3.5),
            lambda: setattr(given, "__dict__", {"c": 2, "a": 1}),
        ],
    )


@program
def copied():
    given = Holder(a=1, b=[2])

    def f(x):
        table = dict(given.__dict__)
        table["c"] = x
        merged = {**vars(given), "b": 0}
        both = vars(given) | {"z": 1}
        text = "".join(sorted(given.__dict__))
        taken = vars(given).copy()
        return x * len(table), table, merged, both, text, taken == vars(given), table["b"] is given.b, Holder(**vars(given)).b is given.b

    return Case(f, vector(), then=[lambda: given.b.append(3), lambda: setattr(given, "c", 4)], forward_only=True)


@program
def written_between():
    given = Holder(a=1, b=2)

    def f(x):
        attributes = vars(given)
        pairs = attributes.items()
        before = list(pairs)
        given.a = 5
        given.c = x
        del given.b
        after = list(attributes), len(attributes), len(pairs), attributes["a"]
        given.b = 7
        attributes["d"] = 8
        return x + given.d, before, after, list(vars(given)), given.c is attributes["c"]

    return Case(f, vector(), then=[lambda: None, lambda: setattr(given, "__dict__", {"a": 0, "b": 1})], observe=given, forward_only=True)


@program
def written_while_walked_through():
    given = Holder(a=1, b=2, c=3)

    def f(x):
        seen = []
        for name, value in vars(given).items():
            given.c = 10
            seen.append((name, value))
        try:
            for name in given.__dict__:
                setattr(given, name + name, 1)
        except RuntimeError as error:
            seen.append(str(error))
        return x * given.c, seen

    return Case(f, vector(), then=[lambda: setattr(given, "c", 0)], observe=given)


@program(whole=False)
def walked_through_with_breaks():
    given = Holder(a=1, b=[2], c=3)

    def f(x):
        total = 0
        for name, value in vars(given).items():
            print(name)
            given.c = 11
            if name != "b":
                total += value
        rest = iter(vars(given))
        first = next(rest)
        print(first)
        return x * total, list(rest), vars(given) is given.__dict__

    return Case(f, vector(), then=[lambda: setattr(given, "a", 5)], observe=given)


@program(whole=False)
def given_away():
    given = Holder(a=1)
    late = Holder()

    def f(x):
        given.b = x.shape[0]
        late.n = 1
        return x + 1, vars(given), given.__dict__ is vars(given), vars(late), iter(vars(given).items()), vars(given).keys()

    return Case(f, vector(), then=[lambda: setattr(given, "c", 2)], observe=[given, late], forward_only=True)


@program(whole=False)
def written_by_c_code():
    given = [Holder(a=1, b=2) for _ in range(9)]

    def f(x):
        vars(given[0]).update(c=3)
        given[1].__dict__ |= {"c": 4}
        found = vars(given[2]).setdefault("c", 5), vars(given[3]).popitem()
        vars(given[4]).clear()
        vars(given[5])[1] = 2
        list(map(vars(given[6]).__setitem__, ["c"], [6]))
        dict.__init__(vars(given[7]), c=7)
        functools.partial(vars(given[8]).update, c=8)()
        return x * given[0].c, found, [list(vars(g)) for g in given]

    return Case(f, vector(), then=[lambda: None], observe=given)


@program
def of_functions():
    def inner(x):
        return x + 1

    inner.tag, inner.parts = "t", [1]

    def f(x):
        @functools.wraps(inner)
        def outer(x):
            return inner(x) * 2

        return outer(x), outer.tag, outer.parts is inner.parts, len(inner.__dict__), list(vars(inner)), outer.__wrapped__ is inner

    return Case(f, vector(), then=[lambda: setattr(inner, "more", 1), lambda: delattr(inner, "more"), lambda: setattr(inner, "tag", "u")])


@program
def of_functions_without_any():
    def inner(x):
        return x + 1

    def f(x):
        return inner(x) * (1 + len(vars(inner))), bool(inner.__dict__)

    return Case(f, vector(), then=[lambda: setattr(inner, "tag", 1), lambda: vars(inner).clear()])


@program(whole=False)
def of_another_kind():
    class Table(dict):
        def __iter__(self):
            return iter(["own"])

        def __len__(self):
            return 77

    class Name(str):
        pass

    given, numbered, named = Holder(a=1), Holder(a=1), Holder(a=1)

    def f(x):
        numbers = 1 in vars(numbered), len(vars(numbered))
        return x * len(vars(given)), [n for n in vars(given)], numbers, vars(given) == {"a": 1}, "n" in vars(named), hasattr(named, "n")

    return Case(
        f,
        vector(),
        then=[
            lambda: setattr(given, "__dict__", Table(a=1)),
            lambda: numbered.__dict__.__setitem__(1, 2),
            lambda: numbered.__dict__.pop(1),
            lambda: named.__dict__.__setitem__(Name("n"), 1),
        ],
    )


@program
def of_made_objects_whose_class_reads_its_own_way():
    asked = []

    class Asking:
        def __init__(self, size):
            self.size = size

        def __getattribute__(self, name):
            asked.append(name)
            return super().__getattribute__(name)

    class Hiding:
        __dict__ = property(lambda self: asked.append("hidden") or {"size": 0})

        def __init__(self, size):
            self.size = size

    def f(x, size):
        made, kept = Asking(size), Asking([x])
        return x * made.size, vars(made), made.__dict__ is vars(made), kept, vars(kept), vars(Hiding(size))

    return Case(f, vector(), 2, then=[lambda: Args(vector(), 3)], observe=asked, forward_only=True)


@program
def of_arguments():
    def f(x, given):
        total = x
        for name in given.__dict__:
            total = total + getattr(given, name)
        return total, len(vars(given)), list(map(str.upper, vars(given)))

    one, two, other = Holder(a=1, b=2), Holder(b=2, a=1), Holder(a=1.5)
    return Case(f, vector(), one, then=[lambda: Args(vector(), two), lambda: Args(vector(), other), lambda: Args(vector(), Holder())])


@program(whole=False)
def whose_values_end():
    ended = []

    class Loud:
        def __init__(self, name):
            self.name = name

        def __del__(self):
            ended.append(self.name)

    given = Holder(inner=Holder(loud=Loud("first")))

    def f(x):
        names = [list(vars(given)), list(vars(given.inner))]
        given.inner = None
        return x * len(ended), names

    def again():
        given.inner = Holder(loud=Loud("second"))

    return Case(f, vector(), then=[again], observe=ended)
