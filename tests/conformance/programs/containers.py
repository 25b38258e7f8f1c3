"""Mutation of each container in each method: list, dict, set, deque, bytearray, as argument, closure and global."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


@program(graphs=1)
def list_append_extend_insert():
    def f(x, items):
        items.append(x)
        items.extend([x + 1, 2])
        items.extend(i for i in (5, 6))
        items.insert(0, "first")
        items.insert(-100, "very first")
        items.insert(100, "last")
        return x * len(items)

    return Case(f, vector(), [1, 2])


@program
def list_pop_remove_clear():
    def f(x, items):
        a = items.pop()
        b = items.pop(0)
        items.remove(3)
        try:
            items.remove("nothing")
        except ValueError as error:
            text = str(error)
        y = x * a + b
        rest = items.copy()
        items.clear()
        return y, rest, text

    return Case(f, vector(), [1, 2, 3, 3, 4], then=[lambda: Args(vector(), [3, 3, 3, 3])])


@program
def list_pop_empty_error():
    def f(x, items):
        try:
            items.pop()
        except IndexError as error:
            return x + 1, str(error)
        return x

    return Case(f, vector(), [], then=[lambda: Args(vector(), [1])])


@program
def index_that_fits_in_no_word():
    items = [1, 2, 3]
    pair = (4, 5)

    def f(x, *rest):
        for container, index in ((items, 10**30), (items, -(10**30)), (pair, 10**30), (rest, 2**64)):
            try:
                x = x + container[index]
            except IndexError as error:
                x = x * 2 + len(str(error))
        try:
            return x + rest[10**20]
        except IndexError:
            return x - items[2]

    return Case(f, vector(), 6, 7)


@program
def list_sort_and_reverse():
    log = []

    def key(v):
        log.append(v)
        return -v

    def f(x, items):
        items.sort()
        first = list(items)
        items.sort(key=key)
        items.reverse()
        items.sort(key=lambda v: v % 2, reverse=True)
        return x * items[0], first

    return Case(f, vector(), [3, 1, 2, 4])


@program
def list_sort_with_failing_key():
    def f(x, items):
        try:
            items.sort(key=lambda v: 1 // v)
        except ZeroDivisionError as error:
            return x, str(error), list(items)

    return Case(f, vector(), [3, 0, 1])


@program
def list_index_count_contains():
    def f(x, items):
        return x * items.index(2), items.count(2), items.index(2, 2), 5 in items, items == [1, 2, 3, 2], items < [2]

    return Case(f, vector(), [1, 2, 3, 2])


@program
def list_of_tensors_mutated_in_place():
    def f(items):
        for t in items:
            t.mul_(2)
        items[0] = items[1] + 1
        items[1].add_(5)
        return sum(items)

    return Case(f, [vector(), vector(3, 3.0)], versions=True)


@program
def list_aliased_in_two_places():
    shared = [1]
    o = {"a": shared, "b": [shared]}

    def f(x):
        o["a"].append(2)
        o["b"][0].append(3)
        return x * len(shared), o["a"] is o["b"][0]

    return Case(f, vector(), observe=o)


@program
def list_length_changes():
    items = [1, 2, 3]

    def f(x):
        for i in items:
            x = x + i
        return x

    return Case(f, vector(), then=[lambda: items.append(10), items.pop, items.clear])


@program
def list_length_only():
    items = [vector(), vector()]

    def f(x):
        return x * len(items)

    return Case(f, vector(), then=[lambda: items.append(1), lambda: items.__setitem__(0, None)])


@program
def list_slices_deleted_and_replaced():
    def f(x, items):
        items[1:1] = [x, x]
        del items[-1:]
        items[:0] = range(2)
        items *= 2
        del items[::3]
        return x * len(items)

    return Case(f, vector(), [1, 2, 3])


@program
def dict_set_get_pop():
    def f(x, d):
        d["new"] = x + 1
        d["a"] = d["a"] + 1
        gone = d.pop("b")
        default = d.pop("zzz", None)
        return x * d["a"], gone, default, d.get("nope"), d.get("a", 5), "new" in d

    return Case(f, vector(), {"a": 1, "b": 2}, then=[lambda: Args(vector(), {"b": 0, "a": 10})])


@program
def dict_update_setdefault_popitem():
    def f(x, d):
        d.update({"p": 1}, q=x)
        d.update([("r", 2)])
        a = d.setdefault("p", 100)
        b = d.setdefault("s", [])
        b.append(x * 2)
        last = d.popitem()
        d |= {"t": 3}
        return x * a, last, list(d)

    return Case(f, vector(), {})


@program
def dict_delete_and_key_error():
    def f(x, d):
        del d["a"]
        texts = []
        for attempt in (lambda: d["a"], lambda: d.__delitem__("a"), lambda: {}.popitem()):
            try:
                attempt()
            except KeyError as error:
                texts.append(str(error))
        return x * len(d), texts

    return Case(f, vector(), {"a": 1, "b": 2})


@program
def dict_order_after_reinsert():
    def f(x, d):
        value = d.pop("a")
        d["a"] = value + 1
        d["b"] = 0
        return x, list(d), list(reversed(d)), list(d.items())

    return Case(f, vector(), {"a": 1, "b": 2, "c": 3}, then=[lambda: Args(vector(), {"c": 1, "a": 2})])


@program
def dict_views():
    def f(x, d):
        keys, values, items = d.keys(), d.values(), d.items()
        d["new"] = 5
        return x * len(keys), sorted(values), ("new", 5) in items, keys & {"a", "z"}, keys == {"a", "new"}

    return Case(f, vector(), {"a": 1})


@program
def dict_iteration_with_key_changes():
    d = {"a": 1, "b": 2}

    def f(x):
        for key, value in d.items():
            x = x + value * len(key)
        return x

    def reorder():
        d["a"] = d.pop("a")

    return Case(f, vector(), then=[lambda: d.update(ccc=5), lambda: d.pop("b"), reorder, lambda: d.update(a=7)])


@program
def dict_with_many_key_types():
    def f(x, d):
        d[(1, "t")] = x
        d[None] = 1
        d[2.5] = 2
        d[frozenset([1])] = 3
        d[True] = 4
        return d[(1, "t")] * d[1], len(d), d[frozenset([1])]

    return Case(f, vector(), {1: "one"})


@program
def dict_fromkeys_copy_compare():
    def f(x, d):
        c = d.copy()
        c["b"] = x
        return dict.fromkeys("ab", 0), c, c == d, d == {"a": 1}, dict(d, z=1), dict([(1, x)])

    return Case(f, vector(), {"a": 1})


@program
def dict_of_tensors_as_state():
    state = {}

    def f(x):
        if "m" not in state:
            state["m"] = x * 0
            state["step"] = 0
        state["step"] += 1
        state["m"] = state["m"] * 0.5 + x
        return state["m"] / state["step"]

    return Case(f, vector(), then=[lambda: None, state.clear])


@program
def dict_keyed_by_tensor_identity():
    a, b = vector(), vector(3, 5.0)
    table = {a: "a", b: "b"}

    def f(x, y):
        return x + 1, table[x], table.get(y), y in table

    return Case(f, a, b, then=[lambda: Args(b, a), lambda: Args(a, vector())])


@program
def nested_containers():
    tree = {"l": [{"n": 1}, {"n": 2}], "t": (1, [2])}

    def f(x):
        tree["l"][0]["n"] += 1
        tree["l"].append({"n": x})
        tree["t"][1].append(3)
        return x * tree["l"][0]["n"] * len(tree["t"][1])

    return Case(f, vector(), then=[lambda: tree["l"].pop(), lambda: tree["l"][0].update(n=100)])


@program(whole=False)
def iterator_argument_is_consumed():
    it = iter([1, 2, 3, 4])

    def f(x, it):
        a = next(it)
        return x * a, next(it, None)

    return Case(f, vector(), it, then=[lambda: None])


@program
def container_returned_is_the_argument():
    def f(x, items, d):
        items.append(x + 1)
        d["self"] = d
        return items, d, [items]

    return Case(f, vector(), [], {})


@program
def same_list_twice_as_argument():
    shared = [1]

    def f(x, a, b):
        a.append(2)
        return x * len(b), a is b

    return Case(
        f, vector(), shared, shared, then=[lambda: Args(vector(), [1], [1]), lambda: Args(vector(), shared, [5])]
    )


@program
def list_cleared_while_its_tensor_lives():
    def f(items):
        t = items[0]
        items.clear()
        return t * 2, t

    return Case(f, [vector(), 1])


@program
def absent_keys_of_torch_types():
    table = {torch.Size([2]): 1, torch.device("cpu", 0): 2, (torch.Size([3]),): 3, "k": 4}

    def f(x, *keys):
        found = [table.get(key, "none") for key in keys]
        there = [key in table for key in keys]
        try:
            found.append(table[keys[0]])
        except KeyError as error:
            found.append(error.args)
        return x + 1, found, there

    wanted = [torch.device("cpu"), torch.Size([2, 3]), torch.device("cpu", 0), torch.Size([2]), torch.float32, (torch.Size([3]),), (2,)]

    def more():
        table[torch.device("cpu")] = table[torch.Size([2, 3])] = 7

    return Case(f, vector(), *wanted, then=[more, table.clear], observe=table)
