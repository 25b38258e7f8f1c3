"""copy.deepcopy and what is built on it: copies of what a frame made and of what it was given."""

import collections
import copy
import dataclasses
import types

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


class Node:
    def __init__(self, value, next=None):
        self.value = value
        self.next = next


@program
def of_what_is_made_inside():
    def f(x):
        shared = [1, {"k": (2, "t")}]
        table = {"a": shared, "b": shared, "t": ((), (1, 2)), 2.5: None}
        made = copy.deepcopy(table)
        made["a"].append(x + 1)
        table["a"].append(x)
        node = Node([1, shared[1]], Node(2.5))
        copied = copy.deepcopy(node)
        copied.next.value = 3
        return (
            made,
            made["a"] is made["b"],
            made["a"] is shared,
            made["t"] is table["t"],
            table,
            node.next.value,
            copied.next.value,
            copied.value == node.value,
            copied.value[1] is shared[1],
            type(copied) is Node,
        )

    return Case(f, vector(), forward_only=True)


@program
def of_what_holds_itself():
    def f(x):
        ring = [1]
        ring.append(ring)
        node = Node(1)
        node.next = Node(2, node)
        a, b = copy.deepcopy((ring, node))
        return x * len(a), a[1] is a, b.next.next is b, b is node, a[1] is ring

    return Case(f, vector())


@program
def of_an_argument():
    def f(x, config):
        own = copy.deepcopy(config)
        own["sizes"].append(x.shape[0])
        own["inner"]["deep"] = own["inner"].get("deep", 0) + 1
        return x * len(own["sizes"]), own, config["sizes"] is config["inner"].get("same"), own["inner"].get("same")

    config = {"sizes": [1, 2], "inner": {"deep": 4}, "pair": (1, [2])}

    def alias():
        config["inner"]["same"] = config["sizes"]

    def another():
        return Args(vector(), {"sizes": [1], "inner": {}, "pair": (1, [2])})

    return Case(f, vector(), config, then=[alias, another, lambda: Args(vector(), config)], forward_only=True)


@program
def dataclasses_as_dicts():
    @dataclasses.dataclass
    class Inner:
        sizes: list
        name: str = "n"

    @dataclasses.dataclass
    class Outer:
        inner: Inner
        scale: float
        table: dict = dataclasses.field(default_factory=dict)

    outside = Outer(Inner([3]), 0.5, {"k": Inner([])})

    def f(x):
        made = dataclasses.asdict(Outer(Inner([1, 2]), 2.0))
        given = dataclasses.asdict(outside)
        given["inner"]["sizes"].append(4)
        return x * made["scale"], made, given, dataclasses.astuple(outside)

    return Case(f, vector(), then=[lambda: setattr(outside.inner, "name", "m"), lambda: outside.table.clear()])


@program(whole=False)
def whose_hooks_see_the_memo():
    log = []

    class Special:
        def __init__(self, part):
            self.part = part

        def __deepcopy__(self, memo):
            log.append((len(memo), sorted(type(k).__name__ for k in memo), id(self.part) in memo))
            made = Special(copy.deepcopy(self.part, memo))
            memo["mine"] = made
            return made

    def f(x):
        part = [1]
        made = copy.deepcopy([part, Special(part), Special(part), [2]])
        return x * len(made), made[1].part is made[0], made[2].part is made[0]

    return Case(f, vector(), observe=log)


@program(whole=False)
def with_a_memo_of_the_programs():
    """What addresses depend on is made once: code after an id() is captured for each address."""
    part, nested, left = [1], [[3]], {}

    def f(x):
        memo = {id(part): "known"}
        made = copy.deepcopy({"p": part, "q": [part]}, memo)
        copy.deepcopy(nested, left)
        seen = len(left), all(isinstance(k, int) for k in left)
        left.clear()
        return x + 1, made, seen

    return Case(f, vector())


@program(whole=False)
def whose_hook_copies_with_a_memo_of_its_own():
    class Odd:
        def __init__(self):
            self.part = [1, [2]]

        def __getstate__(self):
            memo = {}
            copied = copy.deepcopy(self.part, memo)
            return {"part": copied, "first": memo[id(self.part)] is copied, "sizes": [len(memo)]}

    def f(x):
        made = copy.deepcopy(Odd())
        return x * made.sizes[0], made.first, made.part

    return Case(f, vector())


@program(whole=False)
def that_breaks_in_the_middle():
    class Loud:
        def __init__(self, parts):
            self.parts = parts

        def __reduce_ex__(self, protocol):
            print("reduced", protocol)
            return Loud, (self.parts,)

    def f(x):
        y = x * 2
        shared = [1]
        made = copy.deepcopy({"a": shared, "b": Loud([shared]), "c": [shared]})
        return y + 1, made["b"].parts[0] is made["a"], made["c"][0] is made["a"], made["a"] is shared

    return Case(f, vector())


@program(whole=False)
def of_containers_of_the_library():
    def f(x):
        made = copy.deepcopy([collections.OrderedDict(a=[1]), collections.deque([[2]]), types.SimpleNamespace(k=[3])])
        made += copy.deepcopy([{1, 2}, frozenset([3]), b"b", range(2), slice(1, 2), torch.float32, Node, len])
        made[0]["a"].append(4)
        return x * len(made), made

    return Case(f, vector())


@program
def with_types_of_torch():
    class Settings:
        def __init__(self, dtype):
            self.dtype, self.format, self.layout = dtype, torch.channels_last, torch.strided

    given = [Settings(torch.float64)]

    def f(x):
        made = copy.deepcopy(given[0])
        return x.to(made.dtype) * 2, made.format, made.layout, made.dtype is given[0].dtype

    return Case(f, vector(), then=[lambda: given.__setitem__(0, Settings(torch.float32))])
