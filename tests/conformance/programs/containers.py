"""Mutation of each container in each method: list, dict, set, deque, bytearray, as argument, closure and global."""

import array
import collections

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


@program
def set_methods():
    def f(x, s):
        s.add(5)
        s.discard(100)
        s.remove(1)
        s.update([7, 8], {9})
        s |= {10}
        s -= {7}
        s &= {2, 5, 8, 9, 10}
        s ^= {2, 3}
        return x * len(s), sorted(s), 5 in s, s.isdisjoint({99}), s.issuperset({5})

    return Case(f, vector(), {1, 2}, then=[lambda: Args(vector(), {1})])


@program
def set_pop_clear_copy_errors():
    def f(x, s):
        c = s.copy()
        only = s.pop()
        try:
            s.pop()
        except KeyError as error:
            text = str(error)
        s.clear()
        try:
            c.remove("absent")
        except KeyError as error:
            text += str(error)
        return x * only, text, c

    return Case(f, vector(), {4})


@program
def set_algebra_and_frozen():
    def f(x, s):
        fs = frozenset(s)
        return x * len(fs), s | {9}, s & {1}, s - {1}, s ^ {1, 9}, fs == s, s < {1, 2, 3}, {fs: "k"}[fs], hash(fs) == hash(frozenset(s))

    return Case(f, vector(), {1, 2}, then=[lambda: Args(vector(), {1})])


@program
def set_changes_between_calls():
    s = {1, 2}

    def f(x):
        if 3 in s:
            return x * 3
        return x * len(s)

    return Case(f, vector(), then=[lambda: s.add(3), lambda: s.discard(3), lambda: s.add(9)])


@program
def deque_methods():
    def f(x, d):
        d.append(x.dim())
        d.appendleft(0)
        d.extend([1, 2])
        d.extendleft([3, 4])
        d.rotate(1)
        a, b = d.pop(), d.popleft()
        d.insert(1, "i")
        d.remove("i")
        d.reverse()
        return x * len(d), a, b, d[0], d.count(1), d.maxlen

    return Case(f, vector(), collections.deque([9]), then=[lambda: Args(vector(), collections.deque([9, 9, 8], maxlen=4))])


@program
def deque_of_recent_values():
    recent = collections.deque(maxlen=2)

    def f(x):
        recent.append(x * (len(recent) + 1))
        return sum(recent)

    return Case(f, vector(), then=[lambda: None, recent.clear])


@program
def defaultdict_creates_on_read():
    made = collections.defaultdict(list)

    def f(x):
        made["a"].append(x)
        made["b"]
        "c" in made  # noqa: B015
        made.get("d")
        return x * len(made), len(made["a"])

    return Case(f, vector(), observe=made, then=[lambda: None, made.clear])


@program
def defaultdict_with_user_factory():
    log = []

    def factory():
        log.append("made")
        return 3

    d = collections.defaultdict(factory)

    def f(x):
        d["k"] += 1
        return x * d["k"] + d["other"]

    return Case(f, vector())


@program
def ordered_dict_methods():
    def f(x, d):
        d.move_to_end("a")
        d["z"] = x
        d.move_to_end("z", last=False)
        first = d.popitem(last=False)
        return x + len(d), list(d), first, d == collections.OrderedDict(b=2, a=1)

    return Case(f, vector(), collections.OrderedDict(a=1, b=2))


@program
def counter_operations():
    def f(x, c):
        c.update("aab")
        c["z"] += 2
        c.subtract({"a": 1})
        top = c.most_common(1)
        return x * c["a"], top, c["missing"], c + collections.Counter(a=1), sorted(c.elements()), c.total()

    return Case(f, vector(), collections.Counter("abc"))


@program
def chain_map_and_user_dict():
    class Upper(collections.UserDict):
        def __setitem__(self, key, value):
            super().__setitem__(key.upper(), value)

    base = {"a": 1}

    def f(x):
        cm = collections.ChainMap({"b": 2}, base)
        cm["a"] = 5
        u = Upper(k=3)
        return x * cm["a"] * base["a"], dict(cm), u["K"], list(u)

    return Case(f, vector())


@program
def namedtuple_operations():
    Point = collections.namedtuple("Point", "x y", defaults=[7])

    def f(x, p):
        q = p._replace(y=x)
        a, b = q
        return Point(x), q, a * b, p == (1, 2), q._asdict(), p._fields, Point._make([1, 2]), p[0], isinstance(p, tuple)

    return Case(f, vector(), Point(1, 2), then=[lambda: Args(vector(), Point(3, vector()))])


@program
def bytearray_methods():
    def f(x, b):
        b.append(65)
        b.extend(b"zz")
        b[0] = 66
        del b[1]
        b += b"!"
        b.reverse()
        last = b.pop()
        return x * last, bytes(b), len(b), b.find(b"z")

    return Case(f, vector(), bytearray(b"abc"))


@program(whole=False)
def array_and_memoryview():
    def f(x, a, m):
        a.append(5)
        m[0] = 7
        return x * a[0], list(a), bytes(m)

    return Case(f, vector(), array.array("i", [1, 2]), memoryview(bytearray(b"abc")))


@program
def tuple_methods_and_nesting():
    def f(x, t):
        return x * t.count(1), t.index(2), t + (x,), t * 2, (t, (t,)) == (t, (t,)), hash(t) == hash((1, 2, 1)), t[-1], len(t)

    return Case(f, vector(), (1, 2, 1), then=[lambda: Args(vector(), (2, 1, 1))])


@program
def tuple_of_tensors_contents_changed():
    a, b = vector(), vector(3, 2.0)
    pair = (a, b)

    def f():
        return pair[0] * pair[1]

    return Case(f, then=[lambda: a.mul_(2), lambda: b.data.add_(1)])


@program
def range_objects():
    def f(x, r):
        return x * len(r), list(r), r[1], r[::2], 4 in r, r.start, r.index(2), r == range(0, 6, 2), list(reversed(r))

    return Case(f, vector(), range(0, 6, 2), then=[lambda: Args(vector(), range(8, 0, -2)), lambda: Args(vector(), range(2, 6))])


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

    return Case(f, vector(), shared, shared, then=[lambda: Args(vector(), [1], [1]), lambda: Args(vector(), shared, [5])])


@program
def list_cleared_while_its_tensor_lives():
    def f(items):
        t = items[0]
        items.clear()
        return t * 2, t

    return Case(f, [vector(), 1])
