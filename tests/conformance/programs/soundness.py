"""The soundness rules of the design, each with programs that a naive capture gets wrong."""

import collections
import copy
import functools
import gc
import importlib
import operator
import sys
import types
import weakref

from conformance.program import Case, program
from conformance.sample import vector


@program(rule=1)
def zero_argument_super_and_class_cell():
    class Base:
        def go(self, x):
            return x + 1

    class Derived(Base):
        def go(self, x):
            parts = [super(Derived, self).go(x) for _ in range(2)]
            return super().go(x) + parts[0], __class__.__name__

    d = Derived()

    def f(x):
        return d.go(x)

    return Case(f, vector())


@program(rule=1, whole=False)
def locals_eval_see_the_right_frame():
    def helper(value):
        inner = value + 1  # noqa: F841
        return sorted(locals()), eval("inner * 2")

    def f(x):
        names, n = helper(3)
        return x * n, names

    return Case(f, vector())


@program(rule=2, whole=False)
def finaliser_runs_natively():
    log = []

    class Dying:
        def __init__(self, name):
            self.name = name

        def __del__(self):
            log.append(self.name)

    def f(x):
        d = Dying("first")
        y = x + 1
        d = Dying("second")
        y = y * 2
        del d
        return y * len(log)

    return Case(f, vector(), then=[log.clear])


@program(rule=6, whole=False)
def finaliser_of_existing_object():
    log = []

    class Dying:
        def __del__(self):
            log.append("died")

    holder = {"d": Dying()}

    def f(x):
        y = x + 1
        del holder["d"]
        return y * 2, len(log)

    def again():
        holder["d"] = Dying()

    return Case(f, vector(), then=[again])


@program(rule=2, whole=False)
def weak_reference_callback():
    log = []

    class Node:
        pass

    def f(x):
        node = Node()
        ref = weakref.ref(node, lambda r: log.append("gone"))
        y = x * 2
        del node
        return y, ref() is None, len(log)

    return Case(f, vector())


@program(rule=3)
def attrgetter_alone():
    class State:
        n = 3

    state = State()
    get = operator.attrgetter("n")

    def f(x):
        return x * get(state)

    return Case(f, vector(), then=[lambda: setattr(state, "n", 8)])


@program(rule=3)
def list_sorted_by_attrgetter_after_write():
    class Item:
        def __init__(self, rank):
            self.rank = rank

    items = [Item(3), Item(1), Item(2)]

    def f(x):
        items[0].rank = 0
        ordered = sorted(items, key=operator.attrgetter("rank"))
        return x * ordered[0].rank, [i.rank for i in ordered], ordered[0] is items[0]

    return Case(f, vector(), then=[lambda: setattr(items[1], "rank", -5)])


@program(rule=3)
def attrgetter_in_map():
    class Item:
        def __init__(self, value):
            self.value = value

    items = [Item(vector()), Item(vector(3, 4.0))]

    def f(x):
        items[0].value = x
        return sum(map(operator.attrgetter("value"), items))

    return Case(f, vector(), then=[lambda: setattr(items[1], "value", vector())])


@program(rule=3)
def vars_after_write():
    class Bag:
        pass

    bag = Bag()
    bag.a = 1

    def f(x):
        bag.b = x
        return x * len(vars(bag)), "b" in vars(bag), list(bag.__dict__)

    return Case(f, vector(), then=[lambda: setattr(bag, "c", 0)])


@program(rule=3)
def copy_after_write():
    class Bag:
        pass

    bag = Bag()
    bag.items = [1]

    def f(x):
        bag.n = 5
        bag.items.append(x)
        other = copy.copy(bag)
        return x * other.n, other.items is bag.items, len(copy.copy(bag.items))

    return Case(f, vector(), observe=bag, then=[lambda: bag.items.clear()])


@program(rule=3)
def deque_append_after_read():
    d = collections.deque([1])

    def f(x):
        n = len(d)
        d.append(x)
        return x * n * len(d)

    return Case(f, vector(), then=[lambda: d.clear()])


@program(rule=3, whole=False)
def pre_existing_iterator_advanced():
    it = iter(range(100))

    def f(x):
        return x * next(it) + next(it)

    return Case(f, vector(), then=[lambda: next(it) and None])


@program(rule=3, whole=False)
def first_import_inside_the_frame():
    sys.modules.pop("colorsys", None)

    def f(x):
        y = x + 1
        late = importlib.import_module("colorsys")
        return y * late.ONE_THIRD, "colorsys" in sys.modules

    return Case(f, vector())


@program(rule=3, whole=False)
def module_never_imported_before():
    sys.modules.pop("nturl2path", None)

    def f(x):
        import nturl2path

        y = x + len(nturl2path.__name__)
        return y, "nturl2path" in sys.modules

    return Case(f, vector())


@program(rule=3)
def shadowed_builtin():
    name = "len"

    def f(x):
        return x * len([1, 2, 3])

    def shadow():
        globals()[name] = lambda items: 100

    def unshadow():
        globals().pop(name, None)

    unshadow()
    return Case(f, vector(), then=[shadow, unshadow])


@program(rule=3)
def builtin_shadowed_before_and_deleted():
    globals()["abs"] = lambda v: v * 10

    def f(x):
        return x * abs(-2)

    def unshadow():
        globals().pop("abs", None)

    return Case(f, vector(), then=[unshadow])


@program(rule=4)
def c_trampolines():
    class Meta(type):
        def __call__(cls, *args):
            made = super().__call__(*args)
            made.log.append("meta call")
            return made

    class Model(metaclass=Meta):
        def __init__(self, n):
            self.log = ["init"]
            self.n = n

        def __call__(self, x):
            self.log.append("call")
            return x * self.n

    def f(x):
        m = Model(3)
        p = functools.partial(m, x)
        bound = types.MethodType(lambda self, v: v + self.n, m)
        return p(), bound(x), m.log

    return Case(f, vector())


@program(rule=4, whole=False)
def break_inside_sort_key():
    def key(v):
        print("key", v)
        return -v

    def f(x, items):
        y = x + 1
        items.sort(key=key)
        return y * items[0]

    return Case(f, vector(), [1, 3, 2])


@program(rule=4, whole=False)
def break_inside_property_and_getattr():
    class Model:
        @property
        def n(self):
            print("property")
            return 3

        def __getattr__(self, name):
            print("getattr", name)
            return 4

    m = Model()

    def f(x):
        y = x + 1
        return y * m.n + m.other

    return Case(f, vector())


@program(rule=4, whole=False)
def hasattr_around_a_break():
    class Model:
        def __getattr__(self, name):
            print("asked", name)
            if name == "yes":
                return 1
            raise AttributeError(name)

    m = Model()

    def f(x):
        y = x + 1
        found = hasattr(m, "yes"), hasattr(m, "no"), getattr(m, "never", 5)
        return y * 2, found

    return Case(f, vector())


@program(rule=5, whole=False)
def compiled_function_not_kept_in_capture():
    seen = []

    def spy(x):
        seen.append(type(x).__name__)
        return x.sum().item()

    def f(x):
        y = x * 2
        n = spy(y)
        return y * n

    return Case(f, vector(), observe=seen)


@program(rule=2)
def collector_runs_between():
    class Node:
        pass

    def f(x):
        for _ in range(3):
            a, b = Node(), Node()
            a.b, b.a = b, a
        return x + 1

    return Case(f, vector(), then=[lambda: gc.collect() and None])


class Parcel:
    def __init__(self):
        self.items = [1]
        self.weight = 2


@program(rule=3, whole=False)
def copy_sees_what_changed_between_calls():
    parcel = Parcel()

    def f(x):
        other = copy.copy(parcel)
        return x * other.weight, other.items is parcel.items, list(other.items), parcel.__reduce_ex__(4)[2]["weight"]

    def change():
        parcel.weight += 1
        parcel.items.append(5)

    return Case(f, vector(), observe=parcel, then=[change, change])


@program(whole=False)
def size_of_an_object_is_not_remembered():
    parcel = Parcel()

    def f(x):
        return x + len(parcel.__dir__()), "new" in parcel.__dir__()

    return Case(f, vector(), observe=parcel, then=[lambda: setattr(parcel, "new", 1)])


@program(whole=False)
def dict_of_a_new_object_stays_its_own():
    def f(x):
        parcel = Parcel()
        attributes = parcel.__dict__
        print("between")
        attributes["weight"] = 7
        attributes["late"] = x + 1
        return x * parcel.weight, parcel.late, attributes is parcel.__dict__

    return Case(f, vector())


@program(whole=False)
def keys_are_hashed_as_often_as_they_are_put_in():
    class Counting:
        def __init__(self):
            self.hashed = 0
            self.compared = 0

        def __hash__(self):
            self.hashed += 1
            return 42

        def __eq__(self, other):
            self.compared += 1
            return self is other

    def f(x):
        first, second = Counting(), Counting()
        table = {first: x}
        print("between")
        table.setdefault(second, x + 1)
        keys = [key.hashed for key in table]
        return x * 2, keys, first.hashed, second.hashed, first.compared + second.compared

    return Case(f, vector())


@program(whole=False)
def variable_holds_its_object_to_the_end():
    def f(x):
        parcel = Parcel()
        proxy = weakref.proxy(parcel)
        held = [Parcel()]
        seen = weakref.ref(held[0])
        print("between")
        return x * proxy.weight, seen() is None

    return Case(f, vector())


@program
def descriptor_that_can_only_be_set():
    class Kept:
        def __set__(self, owner, value):
            owner.__dict__["field"] = value

    class Owner:
        field = Kept()

    owner = Owner()

    def f(x):
        before = isinstance(owner.field, Kept)
        owner.field = 3
        return x * owner.field, before

    return Case(f, vector(), observe=owner, then=[lambda: owner.__dict__.clear()])


@program(whole=False)
def ordered_dict_with_attributes_of_its_own():
    def f(x):
        table = collections.OrderedDict(a=1)
        table.extra = x + 1
        print("between")
        return table.extra * table["a"], dict(table)

    return Case(f, vector())
