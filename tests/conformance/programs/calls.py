"""Calls in every form: argument kinds, defaults, unpacking, recursion, lambdas, bound and partial functions."""

import functools

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


@program(graphs=1)
def positional_and_keyword():
    def g(a, b, c=3):
        return a * b + c

    def f(x):
        return g(x, 2), g(x, b=3), g(b=x, a=2), g(c=x, a=1, b=2), g(x, 2, 5)

    return Case(f, vector())


@program
def keyword_only_and_positional_only():
    def g(a, /, b=2, *, c, d=4):
        return a + b * c - d

    def f(x):
        return g(x, c=1), g(x, 5, c=2, d=3), g(x, b=7, c=x)

    return Case(f, vector())


@program
def star_arguments_collected():
    def g(first, *rest, flag=False, **named):
        return first, rest, flag, named

    def f(x):
        return g(x), g(x, 1, 2), g(x, 1, flag=True, z=x, y=2)

    return Case(f, vector())


@program
def star_arguments_unpacked():
    def g(a, b, c, d=0):
        return a + b * c - d

    def f(x, items, names):
        return g(*items), g(x, *items[1:]), g(*items, **names), g(x, **{"b": 2, "c": 3}), g(*(x, 1), *[2], **names)

    return Case(f, vector(), [vector(), 2, 3], {"d": 1}, then=[lambda: Args(vector(), (vector(), 5, 6), {"d": 9})])


@program
def star_unpacks_any_iterable():
    def g(*values):
        return values

    def f(x):
        return g(*range(3)), g(*"ab"), g(*{"k": 1}), g(*(x + i for i in range(2))), g(*map(len, ["a", "bb"]))

    return Case(f, vector())


@program
def double_star_order_and_kinds():
    def g(**named):
        return list(named), named

    def f(x, table):
        return g(z=1, **table, a=x), {**table, "b": 2, **{"c": x}}

    return Case(f, vector(), {"q": 1, "b": 0})


@program(whole=False)
def missing_argument_error():
    def g(a, b, *, c):
        return a

    def f(x):
        y = x + 1
        return g(y)

    return Case(f, vector())


@program
def argument_errors_caught():
    def g(a, b=1, /, *, c=2):
        return a + b + c

    def f(x):
        texts = []
        for attempt in (
            lambda: g(),
            lambda: g(x, 1, 2),
            lambda: g(x, d=1),
            lambda: g(a=x),
            lambda: g(x, c=1, **{"b": 2}),
        ):
            try:
                attempt()
            except TypeError as error:
                texts.append(str(error).replace("argument_errors_caught.<locals>.", ""))
        return x * 2, texts

    return Case(f, vector())


@program
def duplicate_keyword_is_an_error():
    def g(a=None, b=None):
        return a, b

    def f(x, table):
        try:
            return g(a=x, **table)
        except TypeError as error:
            return x + 1, str(error)

    return Case(f, vector(), {"a": 5}, then=[lambda: Args(vector(), {"b": 5})])


@program
def non_string_keyword_is_an_error():
    def g(**named):
        return named

    def f(x):
        try:
            return g(**{1: x})
        except TypeError as error:
            return x * 2, str(error)

    return Case(f, vector())


@program
def defaults_are_shared_and_mutable():
    def g(x, seen=[]):  # noqa: B006
        seen.append(x.sum())
        return len(seen)

    def f(x):
        return x * g(x), x + g(x)

    return Case(f, vector(), observe=g, then=[lambda: g.__defaults__[0].clear(), lambda: None])


@program
def defaults_replaced_between_calls():
    def g(x, scale=2, *, shift=1):
        return x * scale + shift

    def f(x):
        return g(x)

    def change():
        g.__defaults__ = (5,)

    def change_keyword():
        g.__kwdefaults__ = {"shift": vector()}

    return Case(f, vector(), observe=g, then=[change, change_keyword])


@program
def default_of_compiled_function_itself():
    def f(x, scale=2, *, shift=torch.ones(3)):
        return x * scale + shift

    def change():
        f.__defaults__ = (7,)

    return Case(f, vector(), then=[change, lambda: Args(vector(), 3), lambda: Args(vector(), shift=2)])


@program
def code_replaced_between_calls():
    def g(x):
        return x + 1

    def h(x):
        return x * 100

    def f(x):
        return g(x)

    def change():
        g.__code__ = h.__code__

    return Case(f, vector(), then=[change])


@program
def recursion():
    def power(x, n):
        return x if n == 0 else power(x * 2, n - 1) + n

    def f(x, n):
        return power(x, n)

    return Case(f, vector(), 5, then=[lambda: Args(vector(), 0), lambda: Args(vector(), 9)])


@program
def mutual_recursion_over_tree():
    def leafs(node):
        return sum((branch(child) for child in node), start=0)

    def branch(node):
        return leafs(node) if isinstance(node, list) else node * 2

    def f(tree):
        return branch(tree)

    return Case(f, [vector(), [vector(3, 2.0), [vector()]], 1])


@program(whole=False, break_step=32)
def recursion_limit():
    def endless(x, n):
        return endless(x + 1, n + 1)

    def f(x):
        try:
            return endless(x, 0)
        except RecursionError:
            return x * 2

    return Case(f, vector())


@program
def lambdas_and_immediate_call():
    def f(x):
        scale = lambda value, by=3: value * by  # noqa: E731
        return scale(x), (lambda: x + 1)(), [g(x) for g in (lambda v: v - 1, lambda v: -v)]

    return Case(f, vector())


@program
def partial_functions():
    def g(a, b, c=0, *, d=1):
        return a * b + c - d

    def f(x):
        by_two = functools.partial(g, 2)
        more = functools.partial(by_two, c=x, d=5)
        return by_two(x), more(x), more(x, c=1), more.args, sorted(more.keywords)

    return Case(f, vector())


@program
def partial_as_argument():
    def g(scale, x):
        return x * scale

    def f(x, p):
        return p(x) + len(p.args)

    return Case(
        f,
        vector(),
        functools.partial(g, 3),
        then=[lambda: Args(vector(), functools.partial(g, 4)), lambda: Args(vector(), functools.partial(g, vector()))],
    )


@program
def bound_methods_stored_and_called():
    class Scaler:
        def __init__(self, by):
            self.by = by

        def scale(self, x):
            return x * self.by

    scaler = Scaler(2)
    bound = scaler.scale

    def f(x):
        return bound(x) + Scaler.scale(scaler, x), bound.__self__ is scaler, bound == scaler.scale

    return Case(f, vector(), then=[lambda: setattr(scaler, "by", 5)])


@program
def function_as_argument():
    def f(x, g):
        return g(x) + 1

    return Case(
        f, vector(), torch.sin, then=[lambda: Args(vector(), torch.cos), lambda: Args(vector(), lambda v: v * 3)]
    )


@program
def functions_in_table():
    table = {"relu": torch.relu, "double": lambda v: v * 2, "neg": torch.Tensor.neg}

    def f(x, name):
        return table[name](x)

    return Case(
        f,
        vector(),
        "relu",
        then=[lambda: Args(vector(), "double"), lambda: table.update(double=torch.exp), lambda: Args(vector(), "neg")],
    )


@program
def callable_object():
    class Adder:
        def __init__(self, n):
            self.n = n
            self.calls = 0

        def __call__(self, x, *more):
            self.calls += 1
            return x + self.n + len(more)

    adder = Adder(3)

    def f(x):
        return adder(x), adder(x, 1, 2), callable(adder)

    return Case(f, vector(), observe=adder, then=[lambda: setattr(adder, "n", 30)])


@program
def decorated_functions():
    def counted(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            wrapper.calls += 1
            return fn(*args, **kwargs)

        wrapper.calls = 0
        return wrapper

    @counted
    def g(x):
        return x * 3

    def f(x):
        return g(x) + g(x + 1), g.__name__, g.calls

    return Case(f, vector())


@program
def decorator_applied_inside():
    def twice(fn):
        return lambda x: fn(fn(x))

    def f(x):
        @twice
        @twice
        def g(v):
            return v * 2 + 1

        return g(x)

    return Case(f, vector())


@program
def wrong_number_of_values_to_unpack():
    def f(x):
        texts = []
        for values in ((1,), (1, 2, 3)):
            try:
                a, b = values
            except ValueError as error:
                texts.append(str(error))
        return x + 1, texts

    return Case(f, vector())


@program
def call_not_callable():
    def f(x, thing):
        try:
            return thing(x)
        except TypeError as error:
            return x, str(error)

    return Case(f, vector(), 3, then=[lambda: Args(vector(), None), lambda: Args(vector(), torch.neg)])


@program
def arguments_of_compiled_function():
    def f(a, /, b, *rest, c=1, **named):
        return a + b, [r * c for r in rest], {k: v + a for k, v in named.items()}

    return Case(
        f,
        vector(),
        2,
        vector(),
        3,
        kwargs={"c": 2, "k": vector()},
        then=[lambda: Args(vector(), 2), lambda: Args(vector(), b=5, z=1), lambda: Args(vector(), 1, 2, 3, 4)],
    )


@program(whole=False)
def bad_call_of_compiled_function():
    def f(a, b):
        return a + b

    return Case(f, vector(), kwargs={"c": 1})


@program
def builtin_with_keyword_and_star():
    def f(x, items):
        return (
            max(*items, key=lambda v: -v),
            sorted(items, reverse=True),
            dict(items and [("a", 1)], b=x),
            int("ff", base=16),
        )

    return Case(f, vector(), [3, 1, 2])


@program
def method_on_temporary_and_chain():
    def f(m):
        return m.t().contiguous().view(-1).add(1).mul(2).sum().reshape(1), m.clone().fill_(3).t()

    return Case(f, matrix())


@program
def arguments_evaluated_before_error():
    log = []

    def note(value):
        log.append(value)
        return value

    def f(x):
        try:
            nothing = None
            nothing(note(1), k=note(2))
        except TypeError:
            pass
        return x * len(log)

    return Case(f, vector())


@program
def function_attributes():
    def g(x):
        g.calls = getattr(g, "calls", 0) + 1
        return x * g.calls

    def f(x):
        return g(x) + g(x)

    return Case(f, vector(), observe=g, then=[lambda: setattr(g, "calls", 10), lambda: delattr(g, "calls")])


@program
def function_introspection():
    def g(a, b: int = 2, *c, d=3, **e) -> int:
        """Doc."""

    def f(x):
        code = g.__code__
        return x + code.co_argcount, code.co_varnames, g.__annotations__, g.__doc__, g.__kwdefaults__, g.__qualname__

    return Case(f, vector())
