"""Sets, deques, the collections module, byte and number sequences, tuples and ranges: every method that mutates."""

import array
import collections

from conformance.program import Args, Case, program
from conformance.sample import vector


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
        return (
            x * len(fs),
            s | {9},
            s & {1},
            s - {1},
            s ^ {1, 9},
            fs == s,
            s < {1, 2, 3},
            {fs: "k"}[fs],
            hash(fs) == hash(frozenset(s)),
        )

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

    return Case(
        f, vector(), collections.deque([9]), then=[lambda: Args(vector(), collections.deque([9, 9, 8], maxlen=4))]
    )


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
        return (
            x * t.count(1),
            t.index(2),
            t + (x,),
            t * 2,
            (t, (t,)) == (t, (t,)),
            hash(t) == hash((1, 2, 1)),
            t[-1],
            len(t),
        )

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

    return Case(
        f, vector(), range(0, 6, 2), then=[lambda: Args(vector(), range(8, 0, -2)), lambda: Args(vector(), range(2, 6))]
    )
