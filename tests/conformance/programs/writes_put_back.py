"""Writes that the frame makes and nobody in it reads: each is put back in its place, in its order, in its namespace."""

import collections
import types

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


@program
def appended_to_a_list_that_is_not_read():
    items, rows = [1, 2], [[0.5]]

    def f(x):
        items.append(x * 2)
        items.append(3)
        rows[0].append(x.shape[0])
        return x + 1

    return Case(f, vector(), then=[lambda: None, lambda: items.clear()], observe=(items, rows))


@program
def appended_then_read():
    items = [1, 2]

    def f(x):
        items.append(x * 2)
        items.append(len(items))
        return items[0] * x + items[2]

    return Case(f, vector(), then=[lambda: None], observe=items)


@program
def key_set_and_deleted_again():
    table = {"a": 1}

    def f(x):
        table["new"] = x * 2
        y = table["new"] + 1
        del table["new"]
        table["last"] = y
        return y

    return Case(f, vector(), then=[lambda: [table.pop("last")] and None, lambda: table.update(new=5)], observe=table)


@program
def keys_set_in_an_order():
    table, ordered = {"a": 1, "b": 2}, collections.OrderedDict(a=1, b=2)

    def f(x):
        for t in (table, ordered):
            t["c"] = x * 2
            t["a"] = x + 1
            del t["b"]
            t["d"] = 3
            t["b"] = 4
        return x * 3

    return Case(f, vector(), then=[lambda: None, lambda: table.clear() or table.update(b=1)], observe=(table, ordered))


@program
def attribute_set_and_deleted_again():
    box = types.SimpleNamespace(a=1)

    class Plain:
        pass

    plain = Plain()

    def f(x):
        for o in (box, plain):
            o.new = x * 2
            y = o.new + 1
            del o.new
            o.last = y
        return y

    return Case(f, vector(), then=[lambda: None], observe=(box, plain))


@program
def global_of_a_function_of_another_module():
    other = types.ModuleType("other")
    source = "N = 1\n\ndef bump(x):\n    global N, LAST\n    N = N + 1\n    LAST = x * N\n    return LAST\n"
    exec(compile(source, __file__, "exec"), other.__dict__)

    def f(x):
        return other.bump(x) + other.bump(x)

    return Case(f, vector(), then=[lambda: None, lambda: setattr(other, "N", 7)], look=lambda: (other.N, other.LAST, "LAST" in globals()))


@program
def default_of_a_dict_made_by_a_read():
    table = collections.defaultdict(list, a=[1])

    def f(x):
        table["b"].append(x * 2)
        table["a"].append(2)
        return x + len(table)

    return Case(f, vector(), then=[lambda: None], observe=table)


@program
def versions_of_an_input_written_often():
    def f(x, y):
        x.add_(1)
        x.mul_(2)
        y[0] = 5
        x.sub_(y)
        return x * 2

    return Case(f, vector(), vector(3, 9.0), then=[lambda: None], versions=True)


@program(whole=False)
def write_to_one_of_two_that_overlap_before_an_error():
    def arguments(index):
        base = torch.arange(6.0)
        return Args(base[:4], base[1:5], torch.tensor([0, index]))

    def f(x, y, i):
        x.add_(y)
        y.mul_(2)
        return x[i] * y[i]

    first = arguments(2)
    return Case(f, *first.args, then=[lambda: arguments(1), lambda: arguments(7), lambda: arguments(3)], versions=True)
