"""Standard library: functools, itertools, collections.abc, dataclasses, enum, copy, math, random access, typing."""

import collections.abc
import copy
import functools
import itertools
import logging
import math
import operator
import types
import typing
import weakref

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


@program
def reduce_with_and_without_start():
    def f(x, items):
        return functools.reduce(operator.add, items), functools.reduce(lambda a, b: a * b, items, x)

    return Case(f, vector(), [vector(), 2, vector()], then=[lambda: Args(vector(), [vector()])])


@program(rule=3)
def lru_cache_would_keep_a_fake():
    @functools.lru_cache(maxsize=None)
    def table(n):
        return torch.arange(n, dtype=torch.float32)

    def f(x, n):
        return x + table(n)

    return Case(
        f, vector(3), 3, then=[lambda: None, lambda: Args(vector(4), 4), table.cache_clear], look=lambda: table(3)
    )


@program(rule=3, whole=False)
def lru_cache_counts():
    @functools.lru_cache
    def slow(n):
        return n * n

    def f(x):
        return x * slow(3) + slow(4), slow.cache_info().misses

    return Case(f, vector(), look=lambda: tuple(slow.cache_info()))


@program(rule=3)
def lru_cache_on_method():
    class Model:
        @functools.lru_cache(maxsize=4)  # noqa: B019
        def scale(self, n):
            return n + 1

    m = Model()

    def f(x):
        return x * m.scale(2) * m.scale(2)

    return Case(f, vector())


@program
def singledispatch():
    @functools.singledispatch
    def describe(value):
        return "object"

    @describe.register
    def _(value: int):
        return "int"

    @describe.register(torch.Tensor)
    def _(value):
        return value * 2

    def f(x):
        return describe(x), describe(3), describe("s"), describe(True)

    return Case(f, vector())


@program
def partialmethod_and_wraps():
    class Model:
        def go(self, x, by):
            return x * by

        double = functools.partialmethod(go, by=2)

    def f(x):
        return Model().double(x), functools.cmp_to_key(lambda a, b: b - a)(1) < functools.cmp_to_key(
            lambda a, b: b - a
        )(0)

    return Case(f, vector())


@program
def sorted_with_cmp_to_key():
    def f(x, items):
        return x * sorted(items, key=functools.cmp_to_key(lambda a, b: b - a))[0], min(items), max(items, default=0)

    return Case(f, vector(), [3, 1, 2])


@program
def itertools_finite():
    def f(x, items):
        return (
            list(itertools.chain(items, [x])),
            list(itertools.chain.from_iterable([[1], [2]])),
            list(itertools.accumulate(items)),
            list(itertools.accumulate(items, operator.mul, initial=1)),
            list(itertools.compress("abc", [1, 0, 1])),
            list(itertools.dropwhile(lambda v: v < 2, items)),
            list(itertools.takewhile(lambda v: v < 2, items)),
            list(itertools.filterfalse(lambda v: v % 2, items)),
            list(itertools.starmap(pow, [(2, 3)])),
            list(itertools.pairwise(items)),
            list(itertools.zip_longest(items, "a", fillvalue=x)),
        )

    return Case(f, vector(), [1, 2, 3])


@program
def itertools_combinatorics():
    def f(x):
        return (
            x * len(list(itertools.product("ab", repeat=2))),
            list(itertools.permutations([1, 2, 3], 2)),
            list(itertools.combinations("abc", 2)),
            list(itertools.combinations_with_replacement("ab", 2)),
        )

    return Case(f, vector())


@program
def itertools_infinite_and_tee():
    def f(x):
        counter = itertools.count(2, 3)
        cycle = itertools.cycle("ab")
        a, b = itertools.tee([x, x + 1])
        return (
            next(counter) + next(counter),
            [next(cycle) for _ in range(3)],
            list(a),
            next(b),
            list(itertools.repeat(x, 2)),
        )

    return Case(f, vector())


@program
def itertools_groupby():
    def f(x, text):
        return (
            x,
            [(k, len(list(g))) for k, g in itertools.groupby(text)],
            {k: [*g] for k, g in itertools.groupby([1, 3, 2], key=lambda v: v % 2)},
        )

    return Case(f, vector(), "aabbb", then=[lambda: Args(vector(), "")])


@program(whole=False)
def itertools_count_argument_advances():
    counter = itertools.count(5)

    def f(x):
        return x * next(counter)

    return Case(f, vector(), look=lambda: repr(counter), then=[lambda: None])


@program
def copy_shallow_and_deep():
    def f(x, items):
        shallow = copy.copy(items)
        deep = copy.deepcopy([1, [2, {"k": (3,)}]])
        shallow.append(4)
        return x * len(shallow), shallow[0] is items[0], deep, items

    return Case(f, vector(), [[1], 2])


@program
def copy_user_objects():
    class Node:
        def __init__(self, value, next=None):
            self.value = value
            self.next = next

    class Special:
        def __copy__(self):
            return "copied"

        def __deepcopy__(self, memo):
            return "deep copied"

    node = Node(1)
    node.next = node

    def f(x):
        a = copy.copy(node)
        b = copy.deepcopy(node)
        return x * a.value, a.next is node, b.next is b, copy.copy(Special()), copy.deepcopy([Special()])

    return Case(f, vector())


@program
def deepcopy_of_tensor_container():
    def f(x):
        items = [x + 1, x]
        made = copy.deepcopy(items)
        made[0].add_(5)
        return items[0], made[0], made[1] is x

    return Case(f, vector())


@program
def math_functions():
    def f(x, n, v):
        return (
            x * math.sqrt(n),
            math.floor(v),
            math.ceil(v),
            math.gcd(n, 6),
            math.prod([2, n]),
            math.isclose(v, 2.5),
            math.log2(n),
            math.pi,
            math.inf,
            math.isnan(math.nan),
            math.factorial(4),
            math.hypot(3, 4),
            math.fsum([0.1] * 3),
        )

    return Case(f, vector(), 4, 2.5, then=[lambda: Args(vector(), 9, -2.5)])


@program
def builtins_on_sequences():
    def f(x, items):
        return (
            x * sum(items),
            min(items),
            max(items),
            sorted(items, reverse=True),
            list(reversed(items)),
            list(enumerate(items, 1)),
            list(zip(items, "ab", strict=False)),
            list(map(lambda a, b: a * b, items, items)),
            list(filter(None, items)),
            any(items),
            all(items),
            len(items),
            round(2.567, 1),
            abs(-3),
            pow(2, 5, 7),
            divmod(7, 3),
        )

    return Case(f, vector(), [3, 0, 2], then=[lambda: Args(vector(), [1])])


@program
def map_filter_zip_over_tensors():
    def f(items):
        doubled = map(torch.neg, items)
        kept = filter(lambda t: t.dim() == 1, items)
        pairs = zip(items, items[1:])
        return list(doubled), list(kept), [a @ b for a, b in pairs]

    return Case(f, [vector(), vector(3, 2.0), vector()], then=[lambda: Args([vector(), vector()])])


@program
def zip_strict_error():
    def f(x, items):
        try:
            return [x * a * b for a, b in zip(items, [1, 2], strict=True)]
        except ValueError as error:
            return x, str(error)

    return Case(f, vector(), [1, 2], then=[lambda: Args(vector(), [1]), lambda: Args(vector(), [1, 2, 3])])


@program
def type_and_instance_checks():
    def f(x, value):
        return (
            x + isinstance(value, (int, str)),
            isinstance(x, torch.Tensor),
            issubclass(bool, int),
            type(value),
            isinstance(value, int | None),
            isinstance(value, collections.abc.Sequence),
            callable(value),
            isinstance(x, typing.Sized) if hasattr(typing, "Sized") else True,
        )

    return Case(f, vector(), 3, then=[lambda v=v: Args(vector(), v) for v in (None, "s", [1], True)])


@program
def types_module():
    def f(x):
        ns = types.SimpleNamespace(a=1, b=x)
        ns.a += 5
        proxy = types.MappingProxyType({"k": x})
        bound = types.MethodType(lambda self, v: v * self.a, ns)
        return (
            ns.b * ns.a,
            proxy["k"],
            bound(x),
            isinstance(f, types.FunctionType),
            ns == types.SimpleNamespace(a=6, b=ns.b),
        )

    return Case(f, vector())


@program
def weak_references():
    class Node:
        pass

    node = Node()
    node.n = 3
    ref = weakref.ref(node)

    def f(x):
        return x * ref().n, ref() is node

    return Case(f, vector(), observe=node, then=[lambda: setattr(node, "n", 5)])


@program
def weak_dictionaries():
    class Key:
        pass

    key = Key()
    table = weakref.WeakKeyDictionary({key: 2})

    def f(x):
        table[key] = table[key] + 1
        return x * table[key], len(table)

    return Case(f, vector(), observe=key, look=lambda: table[key])


@program(whole=False)
def id_and_hash_of_objects():
    items = [1]

    def f(x):
        made = []
        return x, id(items) == id(items), id(made) == id(items), hash("a") == hash("a"), id(x) == id(x)

    return Case(f, vector())


@program
def vars_dir_and_getattr_chain():
    class Bag:
        pass

    bag = Bag()
    bag.a, bag.b = 1, 2

    def f(x):
        total = sum(vars(bag).values())
        return x * total, sorted(vars(bag)), operator.attrgetter("a", "b")(bag)

    return Case(f, vector(), then=[lambda: setattr(bag, "c", 10), lambda: setattr(bag, "a", 4)])


@program
def iter_next_of_builtins():
    def f(x, d):
        it = iter(d)
        first = next(it)
        e = enumerate("ab")
        next(e)
        r = reversed([1, 2])
        return x, first, list(it), next(e), next(r), list(zip(*[iter([1, 2, 3, 4])] * 2))

    return Case(f, vector(), {"a": 1, "b": 2})


@program
def bisect_heapq_and_statistics():
    import bisect
    import heapq

    def f(x, items):
        heapq.heapify(items)
        heapq.heappush(items, 0)
        smallest = heapq.heappop(items)
        ordered = sorted(items)
        bisect.insort(ordered, 5)
        return x * smallest, ordered, bisect.bisect_left(ordered, 5), heapq.nlargest(2, items)

    return Case(f, vector(), [5, 3, 9, 1])


@program
def typing_generic_and_cast():
    T = typing.TypeVar("T")

    class Box(typing.Generic[T]):
        def __init__(self, value: T):
            self.value = value

    def f(x):
        b = Box[int](3)
        return typing.cast(torch.Tensor, x) * b.value, typing.get_type_hints(f)

    return Case(f, vector())


@program
def named_tuple_class_and_typed_dict():
    class Point(typing.NamedTuple):
        x: object
        y: int = 4

        def norm(self):
            return self.x * self.y

    class Options(typing.TypedDict):
        a: int

    def f(x):
        p = Point(x)
        o: Options = {"a": 2}
        return p.norm(), p._replace(y=o["a"]).norm(), p.y

    return Case(f, vector())


@program
def torch_pytree_and_return_types():
    def f(m):
        top = torch.topk(m, 2)
        values, indices = torch.max(m, dim=1)
        named = torch.max(m, dim=0)
        return (
            top,
            values,
            indices,
            named.values,
            named.indices,
            type(named).__name__,
            torch.Size([1, 2]).numel(),
            m.shape[:1],
        )

    return Case(f, matrix(3, 4), forward_only=True)


@program(whole=False)
def random_generator_object_argument():
    import random

    generator = random.Random(5)

    def f(x):
        return x * generator.random(), generator.randint(1, 6)

    return Case(f, vector(), observe=generator, then=[lambda: generator.seed(7)])


@program
def logging_below_the_level():
    logger = logging.Logger("alone", logging.INFO)

    def f(x):
        logger.debug("seen %s", x.shape)
        return x + logger.isEnabledFor(logging.DEBUG)

    return Case(f, vector(), then=[lambda: logger.setLevel(logging.ERROR), lambda: logger.setLevel(logging.WARNING)])
