"""Lists and dicts of Python classes that come from outside: items, attributes, methods of their own."""

import copy
import json
import weakref
from collections import OrderedDict

import torch
from conformance.program import Args, Case, program
from conformance.sample import vector


class Stack(list):
    """With attributes."""


class Table(dict):
    """With attributes."""


class Ordered(OrderedDict):
    """With attributes."""


def with_attributes(made, **attributes):
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


@program
def reads_of_all_kinds():
    x = vector()
    stack, table, ordered = Stack([x, 2, "t"]), Table(a=x, b=3), Ordered(a=x * 2, b=5)

    def f(x):
        y = x + stack[0] * stack[-2] + table["a"] * table.get("b", 0) + ordered["a"]
        found = (len(stack), len(table), len(ordered), "b" in table, "c" in ordered, 2 in stack, bool(stack), not table)
        listed = [list(stack)[1:], sorted(table), list(ordered), list(ordered.items())[1], list(table.values())[1]]
        return y, found, listed, stack[1:], [*stack][2], {**table}["b"], dict(ordered)["b"], tuple(stack)[1]

    def change():
        stack[1] = 7
        table["b"] = 11
        ordered["c"] = 1

    return Case(f, x, then=[change, lambda: ordered.move_to_end("a"), lambda: stack.append(1), table.clear])


@program
def writes_of_all_kinds():
    stack, table, ordered = Stack([1, 2, 3]), Table(a=1, b=2), Ordered(a=1, b=2, c=3)

    def f(x):
        stack.append(x)
        stack[0] = stack[1] + 1
        stack.extend([4, 5])
        table["c"] = x + 1
        table["a"] += 1
        del table["b"]
        table.update(d=4)
        ordered["a"] = ordered["a"] + 1
        ordered.move_to_end("a")
        ordered["z"] = len(ordered)
        return x * stack[0], stack.pop(), table.pop("d"), ordered.popitem(last=False)

    def again():
        table["b"] = 5
        ordered.update(b=1, c=2)

    return Case(f, vector(), then=[again, again], observe=(stack, table, ordered))


@program
def attributes_beside_items():
    stack = with_attributes(Stack([1]), scale=2, name="s")
    table = with_attributes(Table(scale=5), scale=3)

    def f(x):
        stack.scale += 1
        stack.added = x
        table.scale = table["scale"] + stack.scale
        table["scale"] = 1
        del stack.name
        return x * table.scale, hasattr(stack, "name"), getattr(stack, "other", 4), sorted(vars(stack)), vars(table)

    def change():
        stack.name = "again"
        stack.scale = 10
        table["scale"] = 8

    return Case(f, vector(), then=[change, change], observe=(stack, table))


@program
def dicts_of_attributes():
    table = with_attributes(Table(a=1), b=2)

    def f(x):
        own = table.__dict__
        own["c"] = x
        table.d = 5
        return x * own["b"], sorted(own), sorted(table), own is vars(table)

    return Case(f, vector(), then=[lambda: setattr(table, "b", 3)], observe=table)


@program
def slots_beside_items():
    class Slotted(list):
        __slots__ = ("a", "b")

    made = Slotted([1, 2])
    made.a = 3

    def f(x):
        missing = hasattr(made, "b")
        made.b = x
        made.append(made.a)
        made.a += 1
        try:
            made.c = 1
        except AttributeError as error:
            text = str(error)
        return x * made.a, missing, text, len(made)

    def change():
        made.a = 10
        del made.b

    return Case(f, vector(), then=[change], look=lambda: (list(made), made.a, made.b))


@program
def one_object_twice():
    def f(x, a, b):
        a.append(1)
        b.mark = len(b)
        b["n" if isinstance(b, dict) else 0] = 5
        return x * len(a), a is b, len(b), getattr(a, "mark", None)

    def same():
        one = Stack([3])
        return Args(vector(), one, one)

    return Case(f, vector(), Stack([1]), Stack([2, 4]), then=[same, lambda: Args(vector(), Stack([1]), Table(n=2)), same])


@program
def two_tables_or_one():
    def f(x, a, b):
        a["k"] = 1
        a.name = "first"
        b["k"] = 2
        b.name = "second"
        return x * a["k"], a.name, a == b

    def same():
        one = Table(k=3)
        return Args(vector(), one, one)

    return Case(f, vector(), Table(), Table(), then=[same, lambda: Args(vector(), Table(), Table()), same])


@program
def contains_itself():
    stack = Stack([1])
    stack.append(stack)
    stack.me = stack

    def f(x):
        stack.me.append(x)
        return x + stack[1][0], stack.me is stack, stack[1] is stack, len(stack[1].me)

    return Case(f, vector(), then=[lambda: stack.pop()], look=lambda: (len(stack), stack[1] is stack))


@program(whole=False)
def the_dict_of_its_own_attributes():
    class Both(dict):
        def __init__(self, **items):
            super().__init__(items)
            self.__dict__ = self

    both = Both(a=1)

    def f(x):
        both.b = x
        both["c"] = both.a + 1
        return x * both.c, sorted(both), both["b"]

    return Case(f, vector(), then=[lambda: both.update(a=4)], look=lambda: sorted(both))


@program
def dict_of_a_class_as_attributes():
    class Holder:
        pass

    holder = Holder()
    holder.__dict__ = Table(a=2)

    def f(x):
        return x * holder.a

    return Case(f, vector(), then=[lambda: setattr(holder, "a", 5)])


@program
def returned_and_kept():
    stack = with_attributes(Stack([1]), n=1)
    kept = []

    def f(x):
        stack.append(x * 2)
        kept.append(stack)
        bound = stack.append
        return stack, kept[0] is stack, bound, {"s": stack}, stack.__class__, type(stack)([3])

    return Case(f, vector(), then=[lambda: None], look=lambda: (kept[0] is stack, len(stack)))


@program(whole=False)
def alive_across_a_break():
    table = with_attributes(Table(a=1), n=2)
    ordered = Ordered(b=1, a=2)

    def f(x):
        table["x"] = x * 2
        table.n += 1
        ordered.move_to_end("b")
        torch._dynamo.graph_break()
        table["y"] = table["x"] + table.n
        ordered["c"] = list(ordered)
        return table["y"] + 1, table.n, list(ordered)

    return Case(f, vector(), then=[lambda: None], observe=(table, ordered))


@program
def given_to_torch_and_c_code():
    stack, table = Stack([vector(), vector() * 2]), Table(b=2, a=1)

    def f(x):
        stacked = torch.stack(stack).sum(0)
        text = repr(table), f"{table}", str(Stack([1]))
        most = max(table), sum(table.values()), sorted(table, reverse=True), list(zip(table, stack))[0][0]
        return x + stacked, text, most, table | {"c": 3}, {"z": 1} | table, [1] + stack[:0], stack * 1 == stack

    return Case(f, vector(), then=[lambda: table.update(c=5)], observe=(stack, table))


@program(whole=False)
def written_as_json():
    table = Table(b=[2, Stack([1])], a=1)

    def f(x):
        return x + 1, json.dumps(table), json.dumps(table["b"], indent=1)

    return Case(f, vector(), then=[lambda: table.update(c=5)])


@program
def in_place_operators():
    stack, table, ordered = Stack([1]), Table(a=1), Ordered(a=1)

    def f(x):
        mine = stack
        mine += [2, x]
        mine *= 2
        other = table
        other |= {"b": 2}
        third = ordered
        third |= {"b": 5}
        return x + len(mine), mine is stack, other is table, third is ordered, type(mine)

    return Case(f, vector(), then=[lambda: None], observe=(stack, table, ordered))


@program(whole=False)
def copies():
    stack = with_attributes(Stack([[1], 2]), own=[3])
    table = with_attributes(Table(a=[1]), own=[3])
    ordered = with_attributes(Ordered(b=[1], a=2), own=[3])

    def f(x):
        made = []
        for one in (stack, table, ordered):
            shallow, method, deep = copy.copy(one), one.copy(), copy.deepcopy(one)
            made.append((shallow, method, deep, type(method), vars(shallow), vars(deep), deep.own is one.own))
        return x + 1, made

    return Case(f, vector(), then=[lambda: stack.append(4)])


@program(whole=False)
def weak_references_and_identity():
    stack, table = Stack([1]), Table(a=1)
    refs = weakref.ref(stack), weakref.ref(table)

    def f(x):
        fresh = weakref.ref(table)
        return x + refs[0]()[0], refs[1]() is table, fresh() is table, id(stack) == id(refs[0]()), table.__weakref__ is refs[1]

    return Case(f, vector(), then=[lambda: stack.insert(0, 4)])


@program
def iterated_and_changed():
    table, stack = Table(a=1, b=2), Stack([1, 2, 3])

    def f(x):
        try:
            for key in table:
                table[key + "!"] = x
        except RuntimeError as error:
            text = str(error)
        for item in stack:
            if len(stack) < 5:
                stack.append(item * 2)
        iterator = iter(stack)
        next(iterator)
        return x + len(stack), text, list(iterator)

    return Case(f, vector(), then=[lambda: stack.clear()], observe=(table, stack))


@program
def keys_that_are_objects_and_tensors():
    class Key:
        pass

    key, t = Key(), vector()
    table = Table({key: 1, 5: 2, (1, 2): 3})
    of_tensors = Table({t: 7})

    def f(x, t):
        table[(1, 2)] += 1
        return x * table[key] + table[5], table[(1, 2)], of_tensors.get(t), len(of_tensors)

    return Case(f, vector(), t, then=[lambda: table.__setitem__(key, 4)], observe=table)


@program
def errors_after_writes_to_them():
    stack = with_attributes(Stack([1]), n=1)
    table = Table(a=1)

    def f(x, fails):
        stack.append(2)
        stack.n += 1
        table["b"] = x
        if fails:
            raise ValueError(len(stack))
        return x * stack.n

    return Case(f, vector(), False, then=[lambda: Args(vector(), True), lambda: Args(vector(), False)], observe=(stack, table))


@program
def sorted_reversed_and_sliced():
    stack = Stack([3, 1, 2])

    def f(x):
        stack.sort()
        stack.reverse()
        stack[1:1] = [9, 8]
        del stack[-1]
        stack.insert(0, stack.index(9))
        stack.remove(8)
        return x * stack[0], stack.count(3), list(reversed(stack)), stack[::2], type(stack[:1])

    return Case(f, vector(), then=[lambda: stack.extend([8, 0])], observe=stack)


@program
def matched_and_unpacked():
    stack, table = Stack([1, 2, 3]), Table(kind="a", value=4)

    def f(x):
        a, *rest = stack
        match table:
            case {"kind": "a", "value": value, **others}:
                got = value, others
            case _:
                got = None
        match stack:
            case [first, _, third]:
                got = got, first + third
        return x + a, rest, got, (lambda *args, **kwargs: (args, kwargs))(*stack, **table)

    return Case(f, vector(), then=[lambda: table.update(kind="b"), lambda: stack.append(4)])


@program
def made_here_and_put_in_another_order():
    def f(x):
        made = with_attributes(Ordered(a=1, b=x, c=3), n=2)
        made.move_to_end("a")
        made["b"] = made["b"] + 1
        table = with_attributes(Table(b=2, a=1), n=3)
        stack = with_attributes(Stack([x]), n=4)
        stack.append(made)
        return made, list(made), table, stack, made.n + table.n + stack.n

    return Case(f, vector(), then=[lambda: None])


@program
def attributes_of_two_or_of_one():
    class Slotted(list):
        __slots__ = ("n",)

    def f(x, a, b):
        a.n = 1
        b.n = 2
        return x * a.n

    def same():
        one = Slotted()
        return Args(vector(), one, one)

    return Case(f, vector(), Slotted(), Slotted(), then=[same, lambda: Args(vector(), Slotted(), Slotted()), same])
