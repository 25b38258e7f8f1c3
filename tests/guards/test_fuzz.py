"""Random object graphs, random guards on them, random mutations: a program holds exactly if every guarded fact does.

The oracle (description.py) reads the same facts through Python. Each seed is a test program of its own; failures print it.
"""

import collections
import os
import random
import types

import pytest
import torch
from description import ABSENT, Guards

COUNT = int(os.environ.get("FF_FUZZ_COUNT", "150"))
NAMES = ["a", "b", "c", "d", "weight"]
LEAVES = [0, 1, True, 1.0, 0.0, -0.0, float("nan"), None, "s", "t", b"x", 2**70, (1, "x"), (True, "x"), ..., 1j]


class Holder:
    pass


class Other:
    pass


class Slots:
    __slots__ = ("a", "b", "__dict__")


class Tree(torch.nn.Module):
    pass


def make_function(rng, value):
    def function(p=value, *, q=value):
        return value

    return function


def make(rng, depth, pool):
    """A random object, sometimes one that exists already."""
    if pool and rng.random() < 0.15:
        return rng.choice(pool)
    if depth <= 0 or rng.random() < 0.25:
        value = rng.choice(LEAVES) if rng.random() < 0.7 else rng.choice([torch.zeros(2), torch.zeros(3, requires_grad=True)])
        return value
    children = {n: make(rng, depth - 1, pool) for n in rng.sample(NAMES, rng.randint(1, 4))}
    kind = rng.randrange(11)
    if kind == 0:
        obj = Holder()
        obj.__dict__.update(children)
    elif kind == 1:
        obj = Holder()
        for n, v in children.items():
            setattr(obj, n, v)
    elif kind == 2:
        obj = Slots()
        for n, v in children.items():
            setattr(obj, n, v)
    elif kind == 3:
        obj = dict(children)
    elif kind == 4:
        obj = collections.OrderedDict(children)
    elif kind == 5:
        obj = list(children.values())
    elif kind == 6:
        obj = tuple(children.values())
    elif kind == 7:
        obj = types.CellType(children.popitem()[1])
    elif kind == 8:
        obj = make_function(rng, children.popitem()[1])
    elif kind == 9:
        obj = types.ModuleType("m")
        obj.__dict__.update(children)
    else:
        obj = {i: v for i, v in enumerate(children.values())}
        if rng.random() < 0.3:
            obj[Holder()] = 1
    pool.append(obj)
    return obj


def children(rng, g, source, value):
    """Sources one step below, with their values as the oracle reads them."""
    found = []
    if isinstance(value, dict):
        keys = list(value) + ([rng.choice(NAMES)] if rng.random() < 0.3 else [])
        found = [(lambda k=k: g.item(source, k)) for k in keys]
    elif isinstance(value, (list, tuple, collections.deque)):
        found = [(lambda i=i: g.item(source, i)) for i in range(len(value))]
    elif isinstance(value, types.CellType):
        found = [lambda: g.contents(source)]
    elif isinstance(value, types.FunctionType):
        found = [
            lambda: g.default(source, 0),
            lambda: g.kw_default(source, "q"),
            lambda: g.contents(g.function_cell(source, 0)),
            lambda: g.function_field(source, "__code__"),
        ]
    elif isinstance(value, types.ModuleType):
        found = [(lambda n=n: g.module_attr(source, n)) for n in value.__dict__ if n in NAMES]
    elif isinstance(value, (Holder, Other, Slots)):
        found = [(lambda n=n: g.attr(source, n)) for n in NAMES if n in object.__getattribute__(value, "__dict__")]
        found += [(lambda n=n: g.slot(source, Slots.__dict__[n])) for n in "ab" if isinstance(value, Slots) and hasattr(value, n)]
        found.append(lambda: g.type(source))
    elif value is Holder or value is Other:
        found = [lambda: g.type_attr(source, "shared")] if hasattr(value, "shared") else []
    return found


def add_guards(rng, g, slots, source, depth):
    value = g.read(source, slots)
    if value is ABSENT:
        return
    if rng.random() < 0.3:
        g.resolve(source)
    for guard in rng.sample(GUARDS, rng.randint(1, 3)):
        guard(rng, g, source, value)
    below = children(rng, g, source, value)
    for make_source in rng.sample(below, min(len(below), rng.randint(0, 4))):
        if depth > 0:
            add_guards(rng, g, slots, make_source(), depth - 1)


def guard_type(rng, g, s, v):
    g.type_is(s, type(v))


def guard_value(rng, g, s, v):
    if type(v) in (int, bool, float, str, bytes, complex, type(None), type(...)):
        g.equals(s, v)
    elif not isinstance(v, torch.Tensor):
        g.identity(s, v)


def guard_tensor(rng, g, s, v):
    if isinstance(v, torch.Tensor):
        g.tensor(s, v, leaf=rng.random() < 0.5)


def guard_container(rng, g, s, v):
    if type(v) in (dict, collections.OrderedDict):
        choice = rng.randrange(4)
        if choice == 0:
            g.keys(s, v)
        elif choice == 1:
            g.length(s, len(v))
        elif choice == 2 and v:
            g.has_key(s, rng.choice(list(v)))
        else:
            name = rng.choice(NAMES)
            (g.has_key if name in v else g.lacks_key)(s, name)
    elif type(v) in (list, tuple):
        g.length(s, len(v))


def guard_absence(rng, g, s, v):
    if isinstance(v, (Holder, Other)):
        name = rng.choice(NAMES)
        names = list(object.__getattribute__(v, "__dict__"))
        if rng.random() < 0.4 and all(type(n) is str for n in names):
            g.own_names(s, names)
        elif name not in names:
            g.lacks_attr(s, name)
    if v in (Holder, Other) if isinstance(v, type) else False:
        if rng.random() < 0.3:
            found = {name: v.__dict__[name] for name in ("shared", "__init__") if name in v.__dict__}
            g.type_lookups(s, found, [name for name in ("shared", "__call__") if name not in found])
        elif hasattr(v, "shared"):
            g.type_lookup(s, "shared", v.__dict__["shared"])
        else:
            g.type_lookup(s, "shared")


GUARDS = [guard_type, guard_value, guard_tensor, guard_container, guard_absence, guard_value]


def new_value(rng, pool):
    return make(rng, 1, pool)


def mutate(rng, pool):
    """One random change of one object of the graph; may change nothing that is guarded, or nothing at all."""
    if rng.random() < 0.06:
        cls = rng.choice([Holder, Other])
        if hasattr(cls, "shared") and rng.random() < 0.5:
            del cls.shared
        else:
            cls.shared = rng.choice(LEAVES)
        return
    obj = rng.choice(pool)
    if isinstance(obj, dict):
        mutate_dict(rng, obj, pool)
    elif isinstance(obj, list):
        action = rng.randrange(3)
        if action == 0 and obj:
            obj[rng.randrange(len(obj))] = new_value(rng, pool)
        elif action == 1 and obj:
            obj.pop(rng.randrange(len(obj)))
        else:
            obj.insert(rng.randrange(len(obj) + 1), new_value(rng, pool))
    elif isinstance(obj, types.CellType):
        if rng.random() < 0.3:
            del obj.cell_contents
        else:
            obj.cell_contents = new_value(rng, pool)
    elif isinstance(obj, types.FunctionType):
        action = rng.randrange(4)
        if action == 0:
            obj.__defaults__ = (new_value(rng, pool),) if rng.random() < 0.7 else None
        elif action == 1:
            obj.__kwdefaults__ = {"q": new_value(rng, pool)}
        elif action == 2:
            obj.__closure__[0].cell_contents = new_value(rng, pool)
        else:
            value = None
            obj.__code__ = (lambda p, *, q: value).__code__
    elif isinstance(obj, (Holder, Other, Slots, types.ModuleType)):
        mutate_instance(rng, obj, pool)


def mutate_dict(rng, obj, pool):
    action = rng.randrange(6)
    keys = list(obj)
    if action == 0 and keys:
        obj[rng.choice(keys)] = new_value(rng, pool)
    elif action == 1 and keys:
        del obj[rng.choice(keys)]
    elif action == 2:
        obj[rng.choice(NAMES)] = new_value(rng, pool)
    elif action == 3 and keys:
        key = rng.choice(keys)
        obj[key] = obj.pop(key)  # only the order changes
    elif action == 4 and isinstance(obj, collections.OrderedDict) and keys:
        obj.move_to_end(rng.choice(keys), last=rng.random() < 0.5)
    elif action == 5:
        obj[Holder()] = 1


def mutate_instance(rng, obj, pool):
    attributes = object.__getattribute__(obj, "__dict__") if rng.random() < 0.3 else None
    action = rng.randrange(5)
    if action == 0 and attributes is not None:
        name = rng.choice(NAMES)
        attributes.pop(name, None)
    elif action == 1 and not isinstance(obj, (types.ModuleType, Slots)):
        obj.__class__ = Other if isinstance(obj, Holder) else Holder
    elif action == 2 and not isinstance(obj, types.ModuleType):
        obj.__dict__ = {n: new_value(rng, pool) for n in rng.sample(NAMES, 2)}
    elif action == 3:
        name = rng.choice(NAMES)
        if hasattr(obj, name):
            delattr(obj, name)
    else:
        setattr(obj, rng.choice(NAMES), new_value(rng, pool))


def mutate_tensor(rng, tensor):
    action = rng.randrange(3)
    if action == 0:
        tensor.data = torch.zeros(rng.choice([2, 3]))
    elif action == 1:
        tensor.requires_grad_(rng.random() < 0.5)
    else:
        with torch.no_grad():
            tensor.fill_(1)


def tensors_below(obj, seen):
    if id(obj) in seen:
        return
    seen[id(obj)] = obj
    if isinstance(obj, torch.Tensor):
        yield obj
    elif isinstance(obj, dict):
        for v in obj.values():
            yield from tensors_below(v, seen)
    elif isinstance(obj, (list, tuple)):
        for v in obj:
            yield from tensors_below(v, seen)
    elif isinstance(obj, (Holder, Other, Slots)):
        yield from tensors_below(object.__getattribute__(obj, "__dict__"), seen)


@pytest.fixture(autouse=True)
def clean_classes():
    yield
    for cls in (Holder, Other):
        if "shared" in cls.__dict__:
            del cls.shared


def agitate(pool, program, function, slots):
    """Changes dicts often and leaves them as they were: what changes often is followed in another way."""
    for obj in pool:
        table = obj if isinstance(obj, dict) else getattr(obj, "__dict__", None)
        if isinstance(obj, types.FunctionType) or not isinstance(table, dict):
            continue
        for _ in range(6):
            table["agitated"] = 1
            program.check(function, slots)
            del table["agitated"]
            program.check(function, slots)


@pytest.mark.parametrize("seed", range(COUNT))
def test_fuzz(seed):
    rng = random.Random(seed)
    pool = []
    root = make(rng, 4, pool)
    while not pool:
        root = make(rng, 4, pool)
    if rng.random() < 0.3:  # enough for blocks to be left out
        root = [root, *(make(rng, 4, pool) for _ in range(12))]
        pool.append(root)
    second = make(rng, 3, pool)

    def function(x, y):
        return seed

    slots = [root, second]
    g = Guards(function, "x", "y")
    if rng.random() < 0.5:
        Holder.shared = 1
    for index in range(2):
        source = g.local(index)
        for _ in range(rng.randint(1, 3)):
            add_guards(rng, g, tuple(slots), source, 4)
    x, y = g.local(0), g.local(1)
    (g.same_as if root is second else g.distinct_from)(x, y)
    program = g.build()
    assert program.check(function, tuple(slots))[0], program.explain(function, tuple(slots))
    if rng.random() < 0.5:
        agitate(pool, program, function, tuple(slots))
    history = []
    for step in range(60):
        before = list(slots)
        if rng.random() < 0.1:
            slots[rng.randrange(2)] = rng.choice(pool)
        elif rng.random() < 0.15:
            found = list(tensors_below(root, {}))
            if found:
                tensor = rng.choice(found)
                if tensor.is_leaf:
                    mutate_tensor(rng, tensor)
        else:
            mutate(rng, pool)
        frame = tuple(slots)
        expected = g.holds(frame)
        for _ in range(rng.randint(1, 2)):
            holds, values = program.check(function, frame)
            text = program.explain(function, frame)
            assert holds == expected, (seed, step, text)
            assert (text == "") == expected, (seed, step, text)
        for number in g.used() if holds else ():
            assert values[number - 1] is g.read(number, frame), (seed, step, g.sources[number - 1])
        history.append(expected)
        if rng.random() < 0.3:
            slots = before
    assert history
