"""copy.copy and copy.deepcopy of lists and dicts of the program's classes, which have attributes too."""

import collections
import copy

from conformance.program import Case, program
from conformance.sample import vector


class Names(list):
    pass


class Table(dict):
    pass


class Ordered(collections.OrderedDict):
    pass


def given(container, **attributes):
    for name, value in attributes.items():
        setattr(container, name, value)
    return container


def copied(how, container):
    def f(x):
        made = how(container)
        made.note = "copy"
        return x * len(made), made, made.inner is container.inner, getattr(container, "note", None)

    def changed():
        container.inner = [3]

    def more():
        container.more = 5

    return Case(f, vector(), observe=container, then=[changed, more])


@program(break_step=29)
def list_with_attributes():
    return copied(copy.copy, given(Names([1, 2]), inner=[1]))


@program(break_step=29)
def list_copied_deeply():
    return copied(copy.deepcopy, given(Names([[1], 2]), inner=[1]))


@program(break_step=29)
def dict_with_attributes():
    return copied(copy.copy, given(Table(a=1), inner=[1]))


@program(break_step=29)
def dict_copied_deeply():
    return copied(copy.deepcopy, given(Table(a=[1], b={"c": 2}), inner=[1]))


@program(break_step=29)
def ordered_dict_with_attributes():
    return copied(copy.copy, given(Ordered(a=1, b=2), inner=[1]))


@program(break_step=29)
def ordered_dict_copied_deeply():
    return copied(copy.deepcopy, given(Ordered(b=[1], a=2), inner=[1]))


@program(break_step=29)
def made_in_the_frame():
    def f(x):
        made = given(Table(a=x), inner=[1])
        flat, deep = copy.copy(made), copy.deepcopy(given(Names([2]), inner=[1]))
        return flat["a"] * deep[0], flat.inner is made.inner, deep

    return Case(f, vector())


@program(break_step=29)
def plain_ordered_dicts():
    table = collections.OrderedDict(b=[1], a=2)

    def f(x):
        flat, deep = copy.copy(table), copy.deepcopy(table)
        return x * len(flat), flat["b"] is table["b"], deep, type(flat).__name__

    return Case(f, vector(), observe=table, then=[lambda: table.move_to_end("b"), lambda: table.update(c=3)])


@program(break_step=29)
def class_that_walks_its_own_way():
    class Doubled(list):
        def __iter__(self):
            return iter([2 * item for item in list.__iter__(self)])

    numbers = Doubled([1, 2])

    def f(x):
        return x + 1, list.__len__(copy.copy(numbers)), list.__getitem__(copy.copy(numbers), 1)

    return Case(f, vector(), then=[lambda: numbers.append(3)])


@program(break_step=29)
def class_with_a_state_of_its_own():
    class Counted(dict):
        def __getstate__(self):
            return {"count": len(self)}

        def __setstate__(self, state):
            self.count = state["count"]

    table = Counted(a=1, b=2)

    def f(x):
        made = copy.copy(table)
        return x * made.count, dict(made)

    return Case(f, vector(), then=[lambda: table.update(c=3)])


@program(whole=False)
def dict_with_slots():
    class Slotted(dict):
        __slots__ = ("tag",)

    table = Slotted(a=1)
    table.tag = "t"

    def f(x):
        made = copy.copy(table)
        return x + 1, made.tag, dict(made)

    return Case(f, vector(), then=[lambda: table.update(b=2)])
