"""Programs for the pause and continue tests. Each takes a list that it logs its effects into, and returns a value or
raises; together they use every family of instructions."""

import error_programs  # noqa: F401  (adds its programs)
from program_list import PROGRAMS, Recorder, program  # noqa: F401


@program
def arithmetic(log):
    x, y = 17, 5
    values = [x + y, x - y, x * y, x / y, x // y, x % y, x**y, x << 2, x >> 1, x & y, x | y, x ^ y, -x, +x, ~x, not x]
    x += 1
    x *= 2
    x **= 2
    x //= 3
    x %= 1000
    x |= 4
    x -= y
    return values, x, x < y <= 5, x is y, x is not y, x == y or y != 5, x and y


@program
def loops(log):
    total = 0
    for i in range(5):
        if i == 1:
            continue
        if i == 4:
            break
        total += i
        log.append(total)
    else:
        log.append("never")
    while total > 0:
        total -= 3
        if total % 2:
            log.append(total)
    else:
        log.append("done")
    return total, [a * b for a in range(3) for b in range(3) if a != b], {a: b for a, b in zip("abc", range(3))}, {
        c for c in "hello"
    }


@program
def with_blocks(log):
    with Recorder(log) as outer, Recorder(log, (KeyError,)) as inner:
        outer["a"] = 1
        inner["b"] = outer["a"]
        log.append(inner["missing"])
    with Recorder(log):
        log.append("plain")
    for _ in range(2):
        with Recorder(log):
            continue
    return outer.size, inner.size


@program
def closures(log):
    count = 0
    names = []

    def step(by=1, *args, key="k", **kwargs):
        nonlocal count
        count += by
        names.append((key, args, sorted(kwargs)))
        return lambda: count + by

    later = [step(), step(2), step(3, 4, 5), step(key="z"), step(*(1, 2), **{"x": 1, "key": 3}), step(1, *[2], y=2)]
    del names[0]
    return count, names, [f() for f in later]


@program
def classes(log):
    class Base:
        kind = "base"

        def __init__(self, x):
            self.x = x

        def describe(self):
            return f"{self.kind}:{self.x!r:>4}"

        def __getattr__(self, name):
            log.append(("getattr", name))
            if name.startswith("no"):
                raise AttributeError(name)
            return name.upper()

    class Derived(Base):
        kind = "derived"
        slots: int = 3

        def __init__(self, x, y):
            super().__init__(x)
            self.y = y

        def describe(self):
            return super().describe() + f"/{self.y}"

        @property
        def both(self):
            return self.x, self.y

        @classmethod
        def make(cls, *args):
            return cls(*args)

        @staticmethod
        def static(a):
            return a

    d = Derived.make(1, 2)
    d.x += 5
    d.z = d.both
    del d.z
    try:
        d.nothing
    except AttributeError as error:
        log.append(str(error))
    return d.describe(), d.z, d.static(3), Derived.__annotations__, hasattr(d, "none")


@program
def generators(log):
    def inner(n):
        try:
            received = yield n
            log.append(received)
            for i in range(n):
                yield i
        except GeneratorExit:
            log.append("closed")
            raise
        except ValueError as error:
            log.append(str(error))
            yield "recovered"
        finally:
            log.append("inner done")
        return n * 10

    def outer():
        value = yield from inner(2)
        log.append(value)
        with Recorder(log):
            yield value
        return (yield from (x * x for x in range(3)))

    g = outer()
    values = [next(g), g.send("sent")]
    values.extend(g)
    g = outer()
    values.append(next(g))
    values.append(g.throw(ValueError("thrown")))
    g.close()
    g = inner(1)
    next(g)
    g.close()
    total = 0
    for value in outer():
        total += value if isinstance(value, int) else 1
    return values, total, sum(x for x in inner(4) if x), list(map(lambda v: v + 1, inner(2)))


@program
def unpacking(log):
    a, b = 1, 2
    a, b = b, a
    first, *rest, last = range(6)
    (x, (y, *z)), w = (1, "abc"), {"k": 0}
    packed = [*rest, *z], (*rest, a), {*z, b}, {**w, "m": 1}
    merged = {**packed[3], "k": 5}
    return first, rest, last, x, y, z, packed[:2], sorted(map(str, packed[2])), merged, rest[1:], rest[::-1], z[:1]


@program
def matches(log):
    class Point:
        __match_args__ = ("x", "y")

        def __init__(self, x, y):
            self.x = x
            self.y = y

    def kind(value):
        match value:
            case 0 | 1:
                return "small"
            case int(n) if n > 100:
                return f"big {n}"
            case [x, y, *rest]:
                return x, y, rest
            case {"key": inner, **others}:
                return inner, others
            case Point(x=0, y=y):
                return "axis", y
            case Point(x, y):
                return x, y
            case str() | None:
                return "text"
            case _:
                return "other"

    values = [0, 500, 7, (1, 2, 3), [1], {"key": 1, "more": 2}, {}, Point(0, 1), Point(2, 3), "s", None, 1.5]
    return [kind(value) for value in values]


@program
def imports(log):
    import os.path as path
    from math import floor, pi as p

    log.append(path.join("a", "b"))
    try:
        from math import no_such_name
    except ImportError as error:
        log.append(str(error).split(" (")[0])
    namespace = {}
    exec("from math import *\nx = [i for i in range(3)]\nclass C:\n  y = x\n  z: int = 1\n", namespace)
    return floor(p), namespace["x"], namespace["C"].y, namespace["C"].__annotations__, "sqrt" in namespace


@program
def global_names(log):
    global shared_name
    shared_name = 1
    shared_name += 1
    value = shared_name
    del shared_name
    try:
        shared_name
    except NameError as error:
        log.append(str(error))
    return value


@program
def containers(log):
    r = Recorder(log)
    r["a"] = [1, 2, 3]
    r["a"][1] += 10
    r["b"] = "a" in r, "c" not in r
    items = [key for key in r]
    if r:
        items.append(r.size)
    assert r, "not empty"
    text = f"{items} {r.size:03d} {'x'!s:>3} {'é'!a}"
    return items, text, r["a"][0:2], "yes" if r else "no"


@program
def coroutines(log):
    class Awaitable:
        def __await__(self):
            got = yield "waiting"
            log.append(got)
            return got

    class Managed:
        async def __aenter__(self):
            log.append("aenter")
            return await Awaitable()

        async def __aexit__(self, *info):
            log.append(("aexit", info[0] and info[0].__name__))
            return True

    async def numbers():
        for i in range(3):
            yield i
            await Awaitable()

    async def main():
        async with Managed() as value:
            log.append(value)
            raise ValueError("inside")
        total = 0
        async for i in numbers():
            total += i
        return total, [i async for i in numbers() if i]

    coroutine = main()
    sent = None
    try:
        while True:
            log.append(coroutine.send(sent))
            sent = len(log)
    except StopIteration as stop:
        return stop.value


@program
def deep_calls(log):
    def down(n):
        if n == 0:
            log.append("bottom")
            return 0
        return down(n - 1) + 1

    return down(5), sorted([3, 1, 2], key=lambda v: -v), max("abc", key=ord)


@program
def frames(log):
    import sys

    def where():
        frame = sys._getframe(1)
        return frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno, sorted(frame.f_locals)

    a = 1
    here = where()
    b = locals()["a"]
    return here, b, eval("a + b"), sorted(locals())
