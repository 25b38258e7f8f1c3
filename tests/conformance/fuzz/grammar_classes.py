"""State that is instances of classes made anew for each program: names in type and instance come and go.

A class statement in the factory's support function gives each run its own types, so that what a change does to one never
reaches the next run. Kinds of protocol: plain attributes, properties, slots, __getattr__, descriptors, containers,
operators, metaclasses.
"""

from conformance.fuzz.vocabulary import Kind

SUPPORT = {
    "fresh": '''
def fresh(n=2, meta=type):
    """An instance of a class with a base, both new."""

    class Root(metaclass=meta):
        n = 5

        def go(self, r):
            return r + self.n

    class Leaf(Root):
        count = 0

        @property
        def half(self):
            return self.n / 2

        @staticmethod
        def shift(r):
            return r - 1

        @classmethod
        def kind(cls, r):
            return r * cls.count

        def __eq__(self, other):
            return isinstance(other, Leaf) and self.n == other.n

        def __hash__(self):
            return 3

    made = Leaf()
    made.n = n
    return made
''',
    "slotted": '''
def slotted(n=2):
    class Slotted:
        __slots__ = ("n", "m")

        def __init__(self, n):
            self.n = n

        def go(self, r):
            return r * self.n

    return Slotted(n)
''',
    "dynamic": '''
def dynamic(n=2):
    """Answers names that nothing has."""

    class Dynamic:
        made = 1

        def __init__(self):
            self.n = n

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return len(name)

        def __setattr__(self, name, value):
            object.__setattr__(self, name, value)
            if name == "noted":
                object.__setattr__(self, "last", value)

    return Dynamic()
''',
    "sequence": '''
def sequence(*items):
    """Behaves as a container and as a number."""

    class Sequence:
        def __init__(self):
            self.items = list(items)

        def __len__(self):
            return len(self.items)

        def __getitem__(self, at):
            return self.items[at]

        def __setitem__(self, at, value):
            self.items[at] = value

        def __delitem__(self, at):
            del self.items[at]

        def __contains__(self, item):
            return item in self.items

        def __add__(self, other):
            return sum(self.items) + other

        __radd__ = __add__

        def __call__(self, r):
            return r + len(self.items)

        def __enter__(self):
            self.items.append(1)
            return self

        def __exit__(self, *error):
            self.items.pop()
            return False

        def __index__(self):
            return len(self.items)

        def __str__(self):
            return f"<{len(self.items)}>"

        __format__ = lambda self, spec: spec + str(self)

    return Sequence()
''',
    "Meta": '''
class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.by_meta = 1
        return made

    def __instancecheck__(cls, other):
        return hasattr(other, "n")

    @property
    def label(cls):
        return len(cls.__name__)
''',
    "Stored": '''
class Stored:
    """A data descriptor that keeps its value in the instance."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, owner, kind):
        return self if owner is None else vars(owner).get(self.name, 6)

    def __set__(self, owner, value):
        vars(owner)[self.name] = value

    def __delete__(self, owner):
        vars(owner).pop(self.name, None)
''',
    "Fixed": '''
class Fixed:
    """No data descriptor: the instance's own name hides it."""

    def __get__(self, owner, kind):
        return 8
''',
}

_INSTANCE = Kind(
    initial=["fresh()", "fresh(3)", "fresh(vector())", "fresh(2, Meta)", "slotted()", "slotted(3)", "dynamic()", "sequence(1, 2)"],
    reads=[
        ["r = r * {s}.n"],
        ["r = {s}.go(r)"],
        ["r = r + {s}.half"],
        ["r = r + {s}.count"],
        ["r = {s}.shift(r)"],
        ["r = {s}.kind(r)"],
        ["r = r + getattr({s}, 'm', 4)"],
        ["r = r + ('m' in getattr({s}, '__dict__', ()))"],
        ["r = r + hasattr({s}, 'extra') + 2 * hasattr(type({s}), 'extra')"],
        ["try:", "    r = r + {s}.m", "except AttributeError as error:", "    r = r + len(str(error))"],
        ["r = r * (2 if {s} == {o} else 3)"],
        ["r = r + ({s} in [{o}, 1])"],
        ["r = r + isinstance({s}, type({o})) + 2 * issubclass(type({s}), type({o}).__mro__[-2])"],
        ["r = r + len(type({s}).__mro__)"],
        ["r = r + super(type({s}), {s}).n"],
        ["r = type({s}).go({s}, r)"],
        ["made = type({s})()", "r = r + made.n"],
        ["go = {s}.go", "r = go(r)"],
        ["r = r + callable({s}) + callable(getattr({s}, 'go', None))"],
        ["r = r + len({s}.__class__.__name__)"],
        ["r = r + getattr(type({s}), 'label', 1)"],
        ["r = r + len(vars({s}))"],
        ["r = r + sum(1 for name in ('n', 'm', 'count') if name in type({s}).__dict__)"],
        ["r = r + {s}.anything_else"],
        ["r = r + len({s})"],
        ["r = {s}(r)"],
        ["r = {s} + r"],
        ["with {s} as entered:", "    r = r + entered.n"],
        ["with {s} as entered:", "    print(len(entered))", "    r = r + len(entered)"],
        ["r = r + sum({s})"],
        ["r = r + {s}[{k}]"],
        ['r = r + len(f"{{{s}:x}}") + range(9)[{s}]'],
        ["r = r + operator.attrgetter('n')({s})"],
        ["r = r + operator.methodcaller('go', 1)({s})"],
        ["r = r + inspect.getattr_static({s}, 'count', 3)"],
        ["r = r + len(inspect.signature({s}.go).parameters)"],
        ["r = r + hash({s}) % 5 if type({s}).__hash__ is not object.__hash__ else r"],
        ["r = r + len(repr({s})) * 0"],
    ],
    writes=[
        ["{s}.n = {k}"],
        ["{s}.m = r.sum()", "r = r + {s}.m"],
        ["del {s}.n"],
        ["del {s}.m"],
        ["{s}.m = 1", "del {s}.m"],
        ["type({s}).count += 1"],
        ["type({s}).extra = {k}"],
        ["{s}.count = {s}.count + 1"],
        ["{s}.noted = {k}", "r = r + {s}.last"],
        ["{s}[0] = {k}"],
        ["del {s}[0]"],
        ["{s}.items.append({k})", "r = r + len({s})"],
        ["setattr({s}, 'm', {k})", "r = r + {s}.m"],
        ["object.__setattr__({s}, 'm', {k})"],
        ["object.__delattr__({s}, 'n')"],
        ["vars({s}).update(m={k})"],
        ["{s}.n, {o}.n = {o}.n, {s}.n"],
        ["{s}.go = lambda r: r * {k}", "r = {s}.go(r)"],
        ["setattr(type({s}), 'extra', {k})"],
        ["{s}.__dict__['n'] = {k}", "r = r + {s}.n"],
        ["{s}.me = {s}"],
    ],
    changes=[
        "{s}.n = {k}",
        "{s}.n = {v}",
        "{s}.m = {k}",
        "del {s}.n",
        "del {s}.m",
        "del {s}.n\n{s}.n = {k}",
        "type({s}).n = {k} + 10",
        "type({s}).m = {k} + 20",
        "del type({s}).n",
        "del type({s}).m",
        "type({s}).__mro__[-2].n = {k} + 30",
        "type({s}).count = {k}",
        "del type({s}).count",
        "{s}.count = {k}",
        "{s}.half = {k}",
        "type({s}).half = {k}",
        "type({s}).half = property(lambda self: self.n * 3)",
        "del type({s}).half",
        "type({s}).m = property(lambda self: 7)",
        "type({s}).m = Stored()",
        "type({s}).n = Stored()\ntype({s}).n.name = '_n'",
        "type({s}).n = Fixed()",
        "type({s}).__getattr__ = lambda self, name: 9",
        "del type({s}).__getattr__",
        "type({s}).__getattribute__ = lambda self, name: object.__getattribute__(self, name)",
        "type({s}).__eq__ = lambda self, other: True",
        "type({s}).__len__ = lambda self: 3",
        "del type({s}).__len__",
        "type({s}).__call__ = lambda self, r: r * 4",
        "type({s}).__init__ = lambda self: setattr(self, 'n', 4)",
        "type({s}).go = lambda self, r: r * self.n",
        "{s}.go = lambda r: r * 50",
        "del {s}.go",
        "type({s}).shift = staticmethod(lambda r: r + 2)",
        "type({s}).kind = classmethod(lambda cls, r: r + 2)",
        "type({s}).anything_else = {k}",
        "{s}.extra = {k}",
        "type({s}).extra = {k}",
        "del type({s}).extra",
        "{s}.__class__ = type({o})",
        "type({s}).__bases__ = type({o}).__bases__",
        "type({s}).__name__ = 'Other'",
        "{s}.__dict__ = dict({s}.__dict__)",
        "{s}.__dict__.clear()",
        "{s}.items.append({k})",
        "{s}.items = [{k}]",
        "{s} = {o}",
        "{s} = copy.copy({s})",
        "{s} = type({s})()",
    ],
    weight=20,
)

KINDS = {"instance": _INSTANCE}
