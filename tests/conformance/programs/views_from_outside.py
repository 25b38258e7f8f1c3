"""Views of dicts and read-only proxies that were made before the call: they show what their dict holds now."""

import collections
import types

from conformance.program import Case, program
from conformance.sample import vector


def numbers():
    return {"a": 2, "b": 3, "c": 4}


@program
def values_walked():
    table = numbers()
    values = table.values()

    def f(x):
        for value in values:
            x = x * value
        return x + sum(values), len(values), 3 in values

    return Case(f, vector(), observe=table, then=[lambda: table.update(b=7), lambda: table.pop("c"), lambda: table.clear()])


@program
def items_and_keys():
    table = numbers()
    items, keys = table.items(), table.keys()

    def f(x):
        for key, value in items:
            x = x + value * len(key)
        return x * len(keys), "b" in keys, ("a", 2) in items, list(keys), sorted(keys & {"a", "z"})

    def moved():
        table["a"] = table.pop("a")

    return Case(f, vector(), observe=table, then=[lambda: table.update(a=5), moved, lambda: table.setdefault("z", 1)])


@program
def read_only_proxy():
    table = numbers()
    proxy = types.MappingProxyType(table)

    def f(x):
        try:
            proxy["a"] = 1
        except TypeError as error:
            text = str(error)
        values = [v for v in proxy.values()]
        return x * proxy["a"] + len(proxy), proxy.get("q", 9), values, "b" in proxy, text, dict(proxy)

    return Case(f, vector(), observe=table, then=[lambda: table.update(a=8), lambda: table.update(q=1)])


@program
def proxy_and_its_dict():
    """A write to the dict is seen in the views."""
    table = numbers()
    proxy, values = types.MappingProxyType(table), table.values()

    def f(x):
        table["a"] = table["a"] + 1
        table["new"] = 10
        return x * proxy["a"] + sum(values), len(proxy)

    return Case(f, vector(), observe=table, then=[lambda: None, lambda: table.pop("b")])


@program
def views_in_order():
    table = collections.OrderedDict(a=1, b=2)
    keys, values, items = table.keys(), table.values(), table.items()

    def f(x):
        return x * sum(values), list(keys), [k for k, _ in items], list(reversed(keys))

    return Case(f, vector(), observe=table, then=[lambda: table.move_to_end("a"), lambda: table.update(c=3)])


@program
def view_given_and_given_back():
    table = numbers()

    def f(x, values, proxy):
        return x * sum(values), values, proxy, values is proxy

    proxy = types.MappingProxyType(table)
    return Case(lambda x: f(x, *kept), vector(), observe=(kept := (table.values(), proxy)))


@program(whole=False)
def views_that_live_over_a_break():
    table, ordered = numbers(), collections.OrderedDict(a=1, b=2)

    def f(x):
        made = {"p": x, "q": 3}
        views = [table.values(), ordered.keys(), made.items(), types.MappingProxyType(made)]
        table["a"] = 9
        print("break")
        made["r"] = 4
        return x * sum(views[0]), list(views[1]), len(views[2]), views[3]["r"]

    return Case(f, vector(), observe=[table, ordered], then=[lambda: table.update(b=7)])


@program
def views_as_results():
    table = numbers()

    def f(x):
        made = {"p": x + 1}
        return made, made.values(), table.keys(), types.MappingProxyType(made)

    def g(x):
        made, values, keys, proxy = f(x)
        made["q"] = x
        table["z"] = 1
        return len(values), len(keys), len(proxy), made

    return Case(g, vector(), observe=table, then=[lambda: table.pop("z")])


@program
def two_views_of_one_dict():
    table = numbers()
    views = [table.keys(), table.keys()]

    def f(x):
        return x + 1, views[0] is views[1], views[0] == views[1]

    def same():
        views[1] = views[0]

    return Case(f, vector(), then=[same, lambda: views.reverse()])


@program
def tensors_in_a_view():
    table = {"x": vector(), "y": vector() * 2}
    items = table.items()

    def f(x):
        for name, value in items:
            x = x + value * len(name)
        return x

    return Case(f, vector(), observe=table, then=[lambda: table.update(y=vector() - 1)])


@program(whole=False)
def proxy_of_a_class():
    class Settings:
        scale = 2

    namespace = Settings.__dict__

    def f(x):
        return x * namespace["scale"]

    def other():
        Settings.scale = 5

    return Case(f, vector(), then=[other])
