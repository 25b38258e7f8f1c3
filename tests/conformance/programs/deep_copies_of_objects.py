"""Copies of objects that existed before the frame, and the hooks by which classes and objects take part in them."""

import abc
import collections
import copy
import copyreg
import typing

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector

T = typing.TypeVar("T")


class Config:
    def __init__(self):
        self.size = 2
        self.parts = [1, [2]]
        self.names = {"a": (1, [3]), "b": None}


@program
def of_an_object():
    class Own(Config):
        pass

    given = Own()
    given.letters = tuple("ab")

    def f(x):
        made = copy.deepcopy(given)
        made.size += 1
        made.parts.append(3)
        same = [made.letters is given.letters, made.names["a"] is given.names["a"], made.parts is given.parts]
        return x * made.size, vars(made), same, type(made) is Own

    return Case(f, vector(), look=lambda: sorted(n for n in vars(Own) if n.startswith("__slot")), forward_only=True)


@program
def of_an_object_that_changes():
    given = Config()

    def f(x):
        made = copy.deepcopy(given)
        return x * made.size, list(vars(made).items())

    def reorder():
        given.size = vars(given).pop("size")

    def by_class():
        Config.__deepcopy__ = lambda self, memo: Config()

    def back():
        del Config.__deepcopy__

    return Case(
        f,
        vector(),
        then=[
            lambda: setattr(given, "more", [4]),
            lambda: setattr(given, "size", 3),
            lambda: delattr(given, "parts"),
            reorder,
            lambda: setattr(given, "__dict__", {"size": 1}),
            lambda: setattr(given, "__dict__", collections.OrderedDict(size=2)),
            by_class,
            back,
        ],
        forward_only=True,
    )


@program
def of_an_argument_that_is_an_object():
    class Own(Config):
        pass

    def f(x, given):
        made = copy.deepcopy(given)
        return x + made.size, list(vars(made).items())

    one, two = Own(), Own()
    two.size, two.last = 7, 1
    empty = Own()
    vars(empty).clear()
    empty.size = 0
    return Case(f, vector(), one, then=[lambda: Args(vector(), two), lambda: Args(vector(), empty)], forward_only=True)


def renaming():
    """A class like transformers' configurations: names are read and written as others."""

    class Renaming:
        attribute_map = {"hidden": "size"}

        def __init__(self, **given):
            self.size = 4
            self.inner = None
            for name, value in given.items():
                setattr(self, name, value)

        def __getattribute__(self, name):
            if name != "attribute_map" and name in super().__getattribute__("attribute_map"):
                name = super().__getattribute__("attribute_map")[name]
            return super().__getattribute__(name)

        def __setattr__(self, name, value):
            if name in super().__getattribute__("attribute_map"):
                name = super().__getattribute__("attribute_map")[name]
            super().__setattr__(name, value)

    return Renaming


@program
def whose_class_reads_names_its_own_way():
    Renaming = renaming()
    given = Renaming(hidden=8, inner=Renaming(), layers=[1, 2])

    def f(x):
        made = copy.deepcopy(given)
        made.hidden = made.hidden + made.inner.hidden
        shallow = copy.copy(given)
        return x * made.size, vars(made), vars(made.inner), shallow.layers is given.layers, made.layers is given.layers

    return Case(f, vector(), then=[lambda: setattr(given, "hidden", 9), lambda: given.inner.__dict__.clear()], forward_only=True)


@program(whole=False)
def whose_class_hides_what_copies_ask_for():
    asked = []

    class Asked(Config):
        def __getattribute__(self, name):
            if name.startswith("__") and name not in ("__class__", "__dict__"):
                asked.append(name)
            if name == "__reduce__":
                raise AttributeError(name)
            if name == "__getstate__" and object.__getattribute__(self, "size") == 3:
                return lambda: {"size": 5}
            return super().__getattribute__(name)

    given = Asked()

    def f(x):
        made = copy.deepcopy(given)
        return x * made.size, sorted(object.__getattribute__(made, "__dict__"))

    return Case(f, vector(), then=[lambda: setattr(given, "size", 3)], observe=asked)


@program
def that_is_not_reached():
    class Own(Config):
        pass

    given = Own()

    def f(x, copies):
        made = copy.deepcopy(given) if copies else given
        return x * made.size, made is given

    return Case(
        f, vector(), False, then=[lambda: Args(vector(), True), lambda: None], look=lambda: "__slotnames__" in vars(Own), forward_only=True
    )


@program
def whose_state_is_its_classs():
    class Stated(Config):
        def __getstate__(self):
            return {**self.__dict__, "stated": [self.size]}

        def __setstate__(self, state):
            self.__dict__.update(state)
            self.restored = len(state)

    class Parent(Config):
        def __getstate__(self):
            return dict(super().__getstate__(), more=1)

    class Reduced(Config):
        def __reduce__(self):
            return Reduced, (), {"size": self.size + 1}

    given = [Stated(), Parent(), Reduced()]

    def f(x):
        made = copy.deepcopy(given)
        return x * made[2].size, [vars(m) for m in made]

    return Case(f, vector(), then=[lambda: setattr(given[2], "size", 4)], forward_only=True)


@program(whole=False)
def with_hooks_of_the_instance():
    class Own(Config):
        pass

    plain, hooked, stated, reduced = Own(), Own(), Own(), Own()
    hooked.__deepcopy__ = lambda memo: "hooked"
    stated.__getstate__ = lambda: {"size": 9}
    reduced.__reduce__ = lambda: "reduced"

    def f(x):
        made = copy.deepcopy([plain, hooked, stated, reduced])
        return x * made[0].size, made[1], made[2].size, made[3].size, made[3] is reduced

    return Case(f, vector(), then=[lambda: setattr(plain, "__deepcopy__", hooked.__deepcopy__)], forward_only=True)


@program(whole=False)
def with_slots():
    class Base:
        __slots__ = ()

    class Plain(Base):
        pass

    class Slotted:
        __slots__ = ("a", "b")

    class Both(Slotted):
        pass

    class Noted:
        __slotnames__ = ["hidden"]

    class Inherits(Noted):
        pass

    class Generic(typing.Generic[T]):
        pass

    def of(cls, **attributes):
        made = cls()
        for name, value in attributes.items():
            setattr(made, name, value)
        return made

    given = [of(Plain, n=[1]), of(Slotted, a=[2]), of(Both, a=3, c=[4]), of(Noted, n=1, hidden=[5]), of(Inherits, n=2), of(Generic, n=3)]

    def f(x):
        made = [copy.deepcopy(g) for g in given]
        return x + made[0].n[0], made[1].a, made[2].a, made[2].c, vars(made[3]), vars(made[4]), vars(made[5])

    return Case(f, vector(), look=lambda: [vars(type(g)).get("__slotnames__") for g in given], forward_only=True)


@program
def with_bases_that_have_no_slots():
    class Abstract(abc.ABC):
        @abc.abstractmethod
        def size(self): ...

    class Concrete(Abstract, typing.Generic[T]):
        def __init__(self):
            self.items = [1, 2]

        def size(self):
            return len(self.items)

    given = Concrete()

    def f(x):
        made = copy.deepcopy(given)
        made.items.append(3)
        return x * made.size(), given.size()

    return Case(f, vector(), then=[lambda: given.items.pop()], look=lambda: "__slotnames__" in vars(Concrete))


@program(whole=False)
def of_metaclasses_with_attributes():
    class Slots(type):
        __slots__ = ()

    class Reads(type):
        def __getattribute__(cls, name):
            if name in ("__slots__", "__reduce__"):
                log.append(name)
            return super().__getattribute__(name)

    class Writes(type):
        def __setattr__(cls, name, value):
            log.append(name)

    log = []
    classes = [Slots("A", (Config,), {}), Reads("B", (Config,), {}), Writes("C", (Config,), {})]
    given = [cls() for cls in classes]

    def f(x):
        made = [copy.deepcopy(g) for g in given]
        return x * made[1].size, [vars(m) for m in made]

    return Case(f, vector(), observe=log, look=lambda: ["__slotnames__" in vars(c) for c in classes], forward_only=True)


@program(whole=False)
def of_subclasses_of_builtins():
    class Items(list):
        pass

    class Table(dict):
        pass

    class Number(int):
        pass

    items, table, number = Items([[1]]), Table(a=[2]), Number(3)
    items.n, table.n, number.n = [4], [5], [6]

    def f(x):
        a, b, c = copy.deepcopy(items), copy.deepcopy(table), copy.deepcopy(number)
        return x * c, list(a), a.n, dict(b), b.n, c.n, a.n is items.n

    return Case(f, vector(), forward_only=True)


@program
def that_is_written_before():
    given = Config()

    def f(x):
        given.size = x.shape[0] + given.size
        given.late = [x.shape[0]]
        parts = given.parts
        del given.parts
        made = copy.deepcopy(given)
        given.parts = parts
        again = copy.deepcopy(given)
        given.size += 1
        return x + made.late[0] * made.size, list(vars(made)), list(vars(again)), made.late is given.late

    return Case(f, vector(), then=[lambda: None, lambda: setattr(given, "size", 0)], observe=given, forward_only=True)


@program
def that_share_and_hold_themselves():
    one, two = Config(), Config()
    one.me, one.other, two.other = one, two, one
    one.shared = two.shared = [one.parts]

    def f(x):
        a, b, both = copy.deepcopy([one, two, one.shared])
        return (
            x * a.size,
            a.me is a,
            a.other is b,
            b.other is a,
            a.shared is b.shared is both,
            both[0] is a.parts,
            a.parts is b.parts,
            a is one,
        )

    return Case(f, vector(), then=[lambda: setattr(two, "parts", one.parts), lambda: setattr(two, "other", two)])


@program(whole=False)
def with_the_dict_of_the_object():
    given = Config()

    def f(x):
        made, attributes, again = copy.deepcopy([given, vars(given), given.__dict__])
        return x * made.size, attributes is again, attributes is vars(made), attributes["parts"] is made.parts, list(attributes)

    def itself():
        given.mine = vars(given)

    return Case(f, vector(), then=[lambda: setattr(given, "n", 1), itself], forward_only=True)


@program(whole=False)
def with_a_dict_of_another_kind():
    class Hidden(Config):
        __dict__ = property(lambda self: {"size": 0})

    class Ordered(collections.OrderedDict):
        def items(self):
            return iter([("size", 11)])

    odd, ordered, numbered = Hidden(), Config(), Config()
    ordered.__dict__ = Ordered(size=10)
    numbered.__dict__[1] = "one"

    def f(x):
        a, b, c = copy.deepcopy(odd), copy.deepcopy(ordered), copy.deepcopy(numbered)
        return x * b.size, hasattr(a, "parts"), type(vars(b)) is dict, sorted(map(str, vars(c)))

    return Case(f, vector(), then=[lambda: numbered.__dict__.pop(1)])


@program(whole=False)
def with_a_table_of_reductions():
    class Own(Config):
        pass

    given = Own()

    def f(x):
        made = copy.deepcopy(given)
        return x * made.size, type(made) is Own

    def register():
        copyreg.pickle(Own, lambda o: (Config, ()))

    def remove():
        del copyreg.dispatch_table[Own]

    return Case(f, vector(), then=[lambda: setattr(given, "size", 3), register, remove])


@program
def of_modules_and_tensors():
    class Holder:
        pass

    given = Holder()
    given.table, given.weight = torch.arange(3.0), torch.nn.Parameter(torch.ones(3))
    given.both = [given.table, given.weight]
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    module.requires_grad_(False)

    def f(x):
        made, layers = copy.deepcopy(given), copy.deepcopy(module)
        layers[0].weight.zero_()
        return x + made.table, made.both[0] is made.table, made.both[1] is made.weight, type(made.weight).__name__, layers(x)

    return Case(f, torch.ones(3), then=[lambda: given.table.add_(1)], observe=[given, module], forward_only=True)


@program(whole=False)
def with_protocols_of_pickle():
    given = Config()

    def f(x):
        made = given.__reduce_ex__(4)
        old = given.__reduce_ex__(0)
        return x * made[2]["size"], made[1], made[2] is vars(given), len(old), given.__getstate__() is vars(given)

    return Case(f, vector(), then=[lambda: setattr(given, "size", 3)])


@program(whole=False)
def whose_end_is_noticed():
    ended = []

    class Loud(Config):
        def __del__(self):
            ended.append(self.size)

    given = Loud()

    def f(x):
        made = copy.deepcopy(given)
        made.size = 5
        bare = object.__new__(Loud)
        bare.size = 6
        return x * made.size, len(ended)

    def same():
        pass

    return Case(f, vector(), then=[same, same], observe=ended)


@program
def with_sets():
    class Settings:
        def __init__(self):
            self.skipped, self.kinds, self.nested = {"a", "b"}, frozenset({1, 2}), [{3, "c"}, set()]

    given = Settings()

    def f(x, own):
        made = copy.deepcopy(given)
        made.skipped.add("z")
        other = copy.deepcopy(own)
        other.discard(5)
        return x * len(made.skipped) + len(other), made.nested, made.kinds, sorted(made.skipped), other, made.skipped is given.skipped, own

    return Case(f, vector(), {5, 6}, then=[lambda: given.skipped.add("d"), lambda: Args(vector(), {7})], observe=[given])
