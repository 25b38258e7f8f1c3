"""functools.lru_cache and functools.cache: what is kept, what is dropped, what is counted, and what a caller gets."""

import functools
from typing import NamedTuple

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, vector


class Layer:
    """A method's cache holds the object; one cache serves all of them."""

    def __init__(self, n):
        self.n = n

    @functools.lru_cache(maxsize=1)  # noqa: B019
    def table(self, size, dtype=torch.float32):
        return torch.arange(size, dtype=dtype) * self.n


def info(function):
    return lambda: tuple(function.cache_info())


@program
def tables_of_layers_that_share_one_place():
    layers = [Layer(n) for n in range(3)]
    Layer.table.cache_clear()

    def f(x):
        for layer in layers:
            x = x + layer.table(x.shape[0])
        return x

    return Case(f, vector(), then=[lambda: None, lambda: Args(vector(5))], look=info(Layer.table))


@program
def the_same_tensor_comes_back():
    @functools.lru_cache(maxsize=2)
    def table(n):
        return torch.arange(n, dtype=torch.float32)

    def f(x, n):
        first, second, other = table(n), table(n), table(n + 1)
        return x + first + second, first is second, first is other, table(n) is first

    return Case(f, vector(3), 3, then=[lambda: None, lambda: Args(vector(4), 4)], look=lambda: (info(table)(), table(3)))


@program
def a_result_that_is_written():
    @functools.cache
    def table(n):
        return [torch.zeros(n), n]

    def f(x):
        kept = table(3)
        kept[0].add_(1)
        kept.append(len(kept))
        return x + table(3)[0], len(kept)

    return Case(f, vector(), then=[lambda: None], look=lambda: (info(table)(), table(3)))


@program
def a_result_that_was_dropped_is_made_again():
    made = []

    @functools.lru_cache(maxsize=2)
    def table(n):
        made.append(n)
        return torch.full((3,), float(n))

    def f(x, *numbers):
        for n in numbers:
            x = x + table(n)
        return x

    return Case(f, vector(), 1, 2, 3, 1, 2, then=[lambda: None, lambda: Args(vector(), 1, 1, 3, 3, 1)], look=info(table), observe=[made])


@program(whole=False)
def a_hit_that_a_miss_may_have_dropped():
    @functools.lru_cache(maxsize=2)
    def table(n):
        return torch.full((3,), float(n))

    def f(x, first, second):
        return x + table(first) + table(second), table(first) is table(second)

    return Case(f, vector(), 1, 2, then=[lambda: Args(vector(), 3, 1), lambda: Args(vector(), 4, 3)], look=info(table))


@program
def nothing_is_kept_without_room():
    @functools.lru_cache(maxsize=0)
    def table(n):
        return torch.arange(n, dtype=torch.float32)

    def f(x):
        return x + table(3), table(3) is table(3)

    return Case(f, vector(), then=[lambda: None], look=info(table))


@program
def one_that_calls_itself():
    @functools.cache
    def power(n):
        return torch.ones(3) if n == 0 else power(n - 1) * 2 + power(n // 2)

    def f(x, n):
        return x * power(n)

    return Case(f, vector(), 4, then=[lambda: Args(vector(), 6)], look=info(power))


@program
def one_that_writes_outside():
    seen = {}

    @functools.lru_cache(maxsize=4)
    def note(n, *, name="a"):
        seen[name] = seen.get(name, 0) + n
        return seen[name]

    def f(x):
        return x * note(2) * note(2) * note(3, name="b")

    return Case(f, vector(), then=[lambda: None, note.cache_clear], look=info(note), observe=[seen])


@program(whole=False)
def one_that_raises():
    @functools.lru_cache(maxsize=4)
    def check(n):
        if n > 1:
            raise ValueError(n)
        return n

    def f(x):
        try:
            return x * check(1) * check(2)
        except ValueError as error:
            return x + error.args[0]

    return Case(f, vector(), then=[lambda: None], look=info(check))


@program
def a_result_with_a_gradient():
    weight = leaf(3)

    @functools.cache
    def doubled():
        return weight * 2

    def f(x):
        return (x * doubled()).sum()

    return Case(f, vector(), then=[lambda: None], look=lambda: (info(doubled)(), doubled()), observe=[weight])


@program
def typed_and_by_keyword():
    @functools.lru_cache(typed=True)
    def scale(n, by=1):
        return torch.full((3,), float(n * by))

    def f(x):
        return x + scale(1) + scale(1.0) + scale(True) + scale(1, by=2) + scale(n=1)

    return Case(f, vector(), then=[lambda: None], look=info(scale))


@program
def another_cache_under_the_name():
    def made_with(maxsize, factor):
        @functools.lru_cache(maxsize=maxsize)
        def table(n):
            return torch.full((3,), float(n * factor))

        return table

    box = {"table": made_with(0, 2)}

    def f(x):
        table = box["table"]
        return x + table(1) + table(2) + table(1)

    def put(maxsize, factor):
        return lambda: box.update(table=made_with(maxsize, factor))

    return Case(f, vector(), then=[put(0, 3), put(1, 4), put(2, 5), put(None, 6)], look=lambda: info(box["table"])())


@program
def what_is_dropped_calls_the_cache():
    """The object that ends when its place is taken asks the same cache for something else."""
    found = []

    class Loud:
        def __del__(self):
            found.append(table(7))

    @functools.lru_cache(maxsize=1)
    def table(n):
        return Loud() if n == 1 else n * 2

    def f(x):
        return x + table(2)

    return Case(f, vector(), then=[lambda: None, lambda: table(1) and None, lambda: None], look=lambda: list(found))


@program
def caches_made_in_the_frame():
    def f(x, n):
        calls = []

        @functools.lru_cache(maxsize=2)
        def scaled(k):
            calls.append(k)
            return x * k

        @functools.cache
        def total():
            return x.sum() + n

        made = scaled(2) + scaled(n) + scaled(2) + scaled(k=4) + scaled(2)
        return made + total() + total(), calls, scaled.__name__, total() is total()

    return Case(f, vector(), 3, then=[lambda: Args(vector(4), 2)])


@program
def a_cache_by_tensors_made_in_the_frame():
    def f(x, y):
        @functools.cache
        def doubled(t):
            return t * 2

        return doubled(x) + doubled(y), doubled(x) is doubled(x), doubled(x) is doubled(y)

    x = vector()
    return Case(f, x, vector(), then=[lambda: Args(x, x)])


@program
def a_cached_property_of_a_local_class():
    def f(x):
        class Holder:
            @functools.cached_property
            def value(self):
                return x * 2

        holder = Holder()
        return holder.value + holder.value, holder.value is holder.value, list(vars(holder))

    return Case(f, vector())


@program(whole=False)
def a_cache_that_outlives_the_frame():
    def f(x, n):
        @functools.cache
        def scaled(k):
            return k * 2

        return x * scaled(n), scaled

    return Case(lambda x, n: (lambda y, g: (y, g(n), tuple(g.cache_info())))(*f(x, n)), vector(), 3)


@program
def of_a_tensor_that_is_made_here():
    @functools.lru_cache(maxsize=1)
    def ramp(size, mask=None):
        return mask.cumsum(0) * size

    def f(x):
        mask = (x > 0).float()
        first, again = ramp(x.shape[0], mask=mask), ramp(x.shape[0], mask=mask)
        other = ramp(x.shape[0], mask.clone())
        return x * first + other, first is again, first is other

    return Case(f, vector(), then=[lambda: None, lambda: Args(vector(5))], look=info(ramp))


class Setting(NamedTuple):
    heads: int
    names: tuple


@program
def called_with_named_tuples_and_frozen_sets():
    @functools.lru_cache(maxsize=None)
    def table(setting, axes=frozenset()):
        return torch.arange(3.0) * setting.heads + len(axes)

    def f(x, setting):
        first = table(setting)
        new = table(Setting(5, ("a", 2)))
        return first + x, table(setting, axes=frozenset((1, setting.heads))), first is table((2, ("b",))), new

    given = [Setting(3, ("b",)), Setting(2, ("b",)), Setting(2, ("c",))]
    return Case(f, vector(3), Setting(2, ("b",)), then=[lambda g=g: Args(vector(3), g) for g in given], look=info(table))
