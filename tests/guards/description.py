"""Guards: sources and guards over the arguments of a function, described from Python, beside their meaning in Python.

Each source carries a reader, each guard a predicate: the slow oracle that the compiled program must agree with.
"""

import collections
import types

import torch  # noqa: F401  (before the module that links it)

import ff_guards_testing

ABSENT = NotImplemented  # what the testing module takes for "no value"


class Missing(Exception):
    """The oracle's reader found nothing."""


def raw_instance_dict(obj):
    return object.__getattribute__(obj, "__dict__")


def own_names(obj):
    """None: its attributes lie in no plain dict."""
    try:
        attributes = raw_instance_dict(obj)
    except AttributeError:
        return []
    return list(attributes) if type(attributes) is dict else None


def get(mapping, key):
    try:
        return dict.__getitem__(mapping, key)
    except (KeyError, TypeError):
        raise Missing from None


def item(container, key):
    if isinstance(container, dict):
        return get(container, key)
    if not isinstance(container, (list, tuple, collections.deque)):
        raise Missing
    try:
        return container[key]
    except (IndexError, TypeError, KeyError):
        raise Missing from None


def attribute_of_type(cls, name):
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    raise Missing


def same(a, b):
    """Equal type and bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, (float, complex)):
        return repr(a) == repr(b) if a == a else b != b
    return a == b


class Guards:
    def __init__(self, function, *names):
        self.function, self.names = function, list(names)
        self.sources, self.readers, self.guards, self.predicates, self.wanted = [], [None], [], [], []
        self.distinct_groups = []

    # ---- sources: each returns its number

    def _add(self, kind, base, index, key, reader):
        self.sources.append((kind, base, index, key))
        self.readers.append(reader)
        return len(self.sources)

    def _derived(self, kind, base, index, key, read):
        above = self.readers[base]
        return self._add(kind, base, index, key, lambda slots: read(above(slots)))

    def local(self, index):
        def read(slots):
            if index >= len(slots) or slots[index] is ABSENT:
                raise Missing
            return slots[index]

        return self._add("local", 0, index, ABSENT, read)

    def closure_cell(self, index):
        return self._add("closure_cell", 0, index, ABSENT, lambda _: self.function.__closure__[index])

    def function_source(self):
        return self._add("function", 0, 0, ABSENT, lambda _: self.function)

    def globals(self):
        return self._add("globals", 0, 0, ABSENT, lambda _: self.function.__globals__)

    def builtins(self):
        return self._add("builtins", 0, 0, ABSENT, lambda _: self.function.__builtins__)

    def constant(self, value):
        return self._add("constant", 0, 0, value, lambda _: value)

    def contents(self, base):
        def read(cell):
            try:
                return cell.cell_contents
            except (ValueError, AttributeError):
                raise Missing from None

        return self._derived("cell_contents", base, 0, ABSENT, read)

    def attr(self, base, name):
        return self._derived("instance_attr", base, 0, name, lambda o: get(raw_instance_dict(o), name))

    def slot(self, base, descriptor):
        def read(obj):
            try:
                return descriptor.__get__(obj)
            except (AttributeError, TypeError):
                raise Missing from None

        return self._derived("slot_attr", base, 0, descriptor, read)

    def type(self, base):
        return self._derived("type", base, 0, ABSENT, lambda o: type(o))

    def type_attr(self, base, name):
        return self._derived("type_attr", base, 0, name, lambda t: attribute_of_type(t, name))

    def item(self, base, key):
        return self._derived("item", base, 0, key, lambda c: item(c, key))

    def module_attr(self, base, name):
        def read(module):
            if not isinstance(module, types.ModuleType):
                raise Missing
            return get(module.__dict__, name)

        return self._derived("module_attr", base, 0, name, read)

    def instance_dict(self, base):
        return self._derived("instance_dict", base, 0, ABSENT, raw_instance_dict)

    def default(self, base, index):
        return self._derived("default", base, index, ABSENT, lambda f: item(f.__defaults__ or (), index))

    def kw_default(self, base, name):
        return self._derived("kw_default", base, 0, name, lambda f: get(f.__kwdefaults__ or {}, name))

    def function_cell(self, base, index):
        return self._derived("function_cell", base, index, ABSENT, lambda f: item(f.__closure__ or (), index))

    def function_field(self, base, name):
        return self._derived("function_field", base, 0, name, lambda f: getattr(f, name))

    def method_self(self, base):
        return self._derived("method_self", base, 0, ABSENT, lambda m: m.__self__)

    def method_function(self, base):
        return self._derived("method_function", base, 0, ABSENT, lambda m: m.__func__)

    def grad(self, base):
        return self._derived("tensor_grad", base, 0, ABSENT, lambda t: t.grad)

    def partial_field(self, base, name):
        return self._derived("partial_field", base, 0, name, lambda p: getattr(p, name))

    # ---- guards

    def _guard(self, source, kind, expected, predicate, aux=0):
        line = self.function.__code__.co_firstlineno
        self.guards.append((source, kind, expected, aux, line))
        self.predicates.append((source, predicate))
        return self

    def type_is(self, source, cls):
        return self._guard(source, "type_is", cls, lambda v: type(v) is cls)

    def identity(self, source, value):
        return self._guard(source, "identity", value, lambda v: v is value)

    def equals(self, source, value):
        return self._guard(source, "equals", value, lambda v: same(v, value))

    def length(self, source, count):
        return self._guard(source, "length", ABSENT, lambda v: hasattr(v, "__len__") and len(v) == count, count)

    def keys(self, source, keys):
        keys = list(keys)
        return self._guard(
            source, "keys", keys, lambda v: isinstance(v, dict) and len(v) == len(keys) and all(map(same, list(v), keys))
        )

    def has_key(self, source, key):
        return self._guard(source, "has_key", key, lambda v: isinstance(v, dict) and key in v)

    def lacks_key(self, source, key):
        return self._guard(source, "lacks_key", key, lambda v: isinstance(v, dict) and key not in v)

    def lacks_attr(self, source, name):
        return self._guard(source, "lacks_attr", name, lambda v: name not in getattr(v, "__dict__", ()))

    def own_names(self, source, names):
        names = list(names)
        return self._guard(source, "own_names", names, lambda v: own_names(v) == names)

    def set_equals(self, source, values):
        values = list(values)
        return self._guard(
            source,
            "set_equals",
            values,
            lambda v: type(v) in (set, frozenset) and len(v) == len(values) and all(map(same, v, values)),
        )

    def type_lookup(self, source, name, *found):
        def predicate(cls):
            try:
                value = attribute_of_type(cls, name)
            except (Missing, AttributeError):
                return isinstance(cls, type) and not found
            return bool(found) and value is found[0]

        return self._guard(source, "type_lookup", (name, *found), predicate)

    def class_order(self, source, cls, bases=False):
        """Which classes it looks names up in, in order; `bases`: those that this follows from."""
        name, expected = ("bases()", cls.__bases__) if bases else ("mro()", cls.__mro__)

        def predicate(v):
            return isinstance(v, type) and (v.__bases__ if bases else v.__mro__) == expected

        return self._guard(source, "type_lookup", (name, expected), predicate)

    def type_lookups(self, source, found, absent, version=0):
        """`found`: name → what the type has."""

        def predicate(cls):
            if not isinstance(cls, type):
                return False
            own = {name: base.__dict__[name] for base in reversed(cls.__mro__) for name in base.__dict__}
            return all(name in own and own[name] is value for name, value in found.items()) and not any(n in own for n in absent)

        expected = (tuple(found), tuple(found.values()), tuple(absent))
        return self._guard(source, "type_lookups", expected, predicate, version)

    def tensor(self, source, value, leaf=False):
        """`leaf`: whether it is a leaf is compared, too."""
        facts = tensor_facts(value, leaf)
        if any(guard[:2] == (source, "tensor") for guard in self.guards):
            return self
        return self._guard(source, "tensor", value, lambda v: tensor_facts(v, leaf) == facts, int(leaf))

    def cell_empty(self, source):
        def predicate(cell):
            if not isinstance(cell, types.CellType):
                return False
            try:
                cell.cell_contents
            except ValueError:
                return True
            return False

        return self._guard(source, "cell_empty", ABSENT, predicate)

    def null(self, source):
        self.guards.append((source, "null", ABSENT, 0, 0))
        self.predicates.append((source, None))
        return self

    def global_state(self):
        self.guards.append((0, "global_state", ABSENT, 0, 0))
        return self

    def same_as(self, source, other):
        self.guards.append((source, "same_as", ABSENT, other, 1))
        self.predicates.append((source, ("is", other)))
        return self

    def distinct_from(self, source, other):
        self.guards.append((source, "distinct_from", ABSENT, other, 1))
        self.predicates.append((source, ("is not", other)))
        return self

    def distinct(self, written, others):
        """Each a list of (source, whether the dict of its attributes is meant)."""
        for objects, flag in ((written, 1), (others, 0)):
            self.guards += [(source, "distinct", ABSENT, flag | 2 * attributes, 0) for source, attributes in objects]
        self.distinct_groups.append((written, others))
        return self

    def overlap(self, *pairs):
        for source, value in pairs:
            self.guards.append((source, "overlap", value, 0, 0))
        return self

    def resolve(self, *sources):
        self.wanted += sources
        return self

    def build(self):
        return ff_guards_testing.build(self.sources, self.guards, self.wanted, self.names, self.function.__code__)

    def used(self):
        """Numbers of the sources that the program resolves."""
        todo = [guard[0] for guard in self.guards] + self.wanted
        todo += [guard[3] for guard in self.guards if guard[1] in ("same_as", "distinct_from")]
        found = set()
        while todo:
            source = todo.pop()
            if source and source not in found:
                found.add(source)
                todo.append(self.sources[source - 1][1])
        return found

    # ---- the oracle

    def read(self, source, slots):
        try:
            return self.readers[source](slots)
        except (Missing, AttributeError, TypeError):
            return ABSENT

    def holds(self, slots):
        unbound = {source for source, predicate in self.predicates if predicate is None}
        for source in self.used() - unbound:
            if self.read(source, slots) is ABSENT:
                return False
        for source, predicate in self.predicates:
            value = self.read(source, slots)
            if predicate is None:
                if value is not ABSENT:
                    return False
            elif isinstance(predicate, tuple):
                other = self.read(predicate[1], slots)
                if ABSENT in (type(value), type(other)) or (value is other) != (predicate[0] == "is"):
                    return False
            elif value is ABSENT:
                return False
            else:
                try:
                    if not predicate(value):
                        return False
                except (AttributeError, TypeError):
                    return False
        return all(self._are_distinct(*group, slots) for group in self.distinct_groups)

    def _are_distinct(self, written, others, slots):
        def read(source, attributes):
            value = self.read(source, slots)
            return vars(value) if attributes else value

        written = [read(*place) for place in written]
        if len({id(value) for value in written}) < len(written):
            return False
        return not any(a is b for a in written for b in (read(*place) for place in others))


def tensor_facts(value, leaf):
    if not isinstance(value, torch.Tensor):
        return None
    return (
        type(value),
        value.dtype,
        value.device,
        value.layout,
        tuple(value.shape),
        value.stride() if value.layout is torch.strided else None,
        value.requires_grad,
        leaf and value.is_leaf,
        value.is_conj(),
        value.is_neg(),
        value.is_inference(),
    )
