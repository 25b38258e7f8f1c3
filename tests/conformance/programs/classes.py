"""Classes: attributes, inheritance, super, properties, class and static methods, slots, metaclasses, attribute hooks."""

import abc

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


@program
def instance_attributes_read_and_written():
    class State:
        def __init__(self):
            self.n = 1
            self.buffer = vector()

    state = State()

    def f(x):
        state.n += 1
        state.buffer = state.buffer + x * state.n
        state.fresh = x
        return state.buffer * 2

    return Case(f, vector(), then=[lambda: setattr(state, "n", 10), lambda: state.__dict__.pop("fresh")])


@program(rule=9)
def old_value_returned_after_write():
    class State:
        n = 5

    state = State()

    def f(x, o):
        old = o.n
        o.n = old + 1
        y = x * o.n
        return old, y

    return Case(f, vector(), state, then=[lambda: None])


@program(rule=9)
def old_tensor_kept_while_attribute_is_replaced():
    class State:
        pass

    state = State()
    state.value = vector()

    def f(x):
        old = state.value
        state.value = x + 1
        state.other = old
        return old, state.value is old, old * 2

    return Case(f, vector())


@program
def attribute_deleted():
    class State:
        n = 1

    state = State()
    state.n = 5

    def f(x):
        before = state.n
        del state.n
        return x * before, state.n, hasattr(state, "n"), "n" in state.__dict__

    return Case(f, vector(), then=[lambda: setattr(state, "n", 8)])


@program
def missing_attribute_error():
    class State:
        pass

    def f(x, o):
        try:
            return o.n * x
        except AttributeError as error:
            return x, str(error)

    state = State()
    return Case(f, vector(), state, then=[lambda: setattr(state, "n", 3), lambda: delattr(state, "n")])


@program
def object_made_mutated_returned():
    class Pair:
        def __init__(self, a, b=None):
            self.a = a
            self.b = b

        def swap(self):
            self.a, self.b = self.b, self.a
            return self

    def f(x):
        p = Pair(x + 1)
        p.b = x * 2
        q = p.swap()
        r = Pair(p, b=[p])
        return q, q is p, r

    return Case(f, vector())


@program
def class_attribute_versus_instance_attribute():
    class Base:
        scale = 2

    class Derived(Base):
        pass

    o = Derived()

    def f(x):
        return x * o.scale

    def change():
        Base.scale = 3

    def shadow_on_class():
        Derived.scale = 4

    def shadow_on_instance():
        o.scale = 5

    return Case(f, vector(), then=[change, shadow_on_class, shadow_on_instance, lambda: delattr(o, "scale")])


@program
def class_counter_written():
    class Counted:
        made = 0

        def __init__(self):
            Counted.made += 1
            self.number = type(self).made

    def f(x):
        a, b = Counted(), Counted()
        return x * a.number + b.number

    return Case(f, vector(), observe=Counted, then=[lambda: setattr(Counted, "made", 100)])


@program
def super_in_every_form():
    class A:
        def go(self, x):
            return x + 1

        @classmethod
        def name(cls):
            return cls.__name__

    class B(A):
        def go(self, x):
            return super().go(x) * 2

        @classmethod
        def name(cls):
            return "B" + super().name()

    class C(A):
        def go(self, x):
            return super(C, self).go(x) - 3

    class D(B, C):
        def go(self, x):
            method = super().go
            return method(x) + super(B, self).go(x)

    d = D()

    def f(x):
        return d.go(x), D.name(), [c.__name__ for c in D.__mro__]

    return Case(f, vector())


@program
def property_get_set_delete():
    class Temperature:
        def __init__(self):
            self.log = []
            self._value = 1

        @property
        def value(self):
            self.log.append("get")
            return self._value

        @value.setter
        def value(self, new):
            self.log.append("set")
            self._value = new

        @value.deleter
        def value(self):
            self.log.append("delete")
            self._value = 0

    t = Temperature()

    def f(x):
        y = x * t.value
        t.value = t.value + 1
        t.value += 5
        z = x * t.value
        del t.value
        return y, z, t._value

    return Case(f, vector(), observe=t, then=[lambda: setattr(t, "_value", 50)])


@program
def property_without_setter():
    class Fixed:
        @property
        def n(self):
            return 4

    o = Fixed()

    def f(x):
        try:
            o.n = 5
        except AttributeError as error:
            return x * o.n, str(error)

    return Case(f, vector())


@program
def property_raising_attribute_error_falls_to_getattr():
    class Odd:
        @property
        def n(self):
            raise AttributeError("inner")

        def __getattr__(self, name):
            return len(name) + 10

    o = Odd()

    def f(x):
        return x * o.n, o.other

    return Case(f, vector())


@program
def cached_property_fills_dict():
    import functools

    class Lazy:
        runs = 0

        @functools.cached_property
        def table(self):
            Lazy.runs += 1
            return [1, 2, Lazy.runs]

    o = Lazy()

    def f(x):
        return x * len(o.table), o.table[2], "table" in o.__dict__

    return Case(f, vector(), observe=[o, Lazy], then=[lambda: o.__dict__.pop("table"), lambda: None])


@program
def classmethod_and_staticmethod():
    class Maker:
        scale = 3

        @classmethod
        def make(cls, x):
            made = cls()
            made.value = x * cls.scale
            return made

        @staticmethod
        def plain(x, by=2):
            return x * by

    class Sub(Maker):
        scale = 5

    def f(x):
        return Maker.make(x).value, Sub.make(x).value, Sub().make(x).value, Maker.plain(x), Sub().plain(x, by=7)

    return Case(f, vector(), then=[lambda: setattr(Sub, "scale", 6)])


@program
def method_replaced_between_calls():
    class Worker:
        def go(self, x):
            return x + 1

    w = Worker()

    def f(x):
        return w.go(x)

    def change_class():
        Worker.go = lambda self, x: x * 100

    def change_instance():
        w.go = lambda x: x - 5

    return Case(f, vector(), then=[change_class, change_instance])


@program
def class_of_object_changed_between_calls():
    class A:
        def go(self, x):
            return x + 1

    class B:
        def go(self, x):
            return x * 50

    o = A()

    def f(x):
        return o.go(x), isinstance(o, A)

    return Case(f, vector(), then=[lambda: setattr(o, "__class__", B)])


@program
def base_classes_changed_between_calls():
    class A:
        def go(self, x):
            return x + 1

    class B:
        def go(self, x):
            return x * 50

    class C(A):
        pass

    o = C()

    def f(x):
        return o.go(x)

    def change():
        C.__bases__ = (B,)

    return Case(f, vector(), then=[change])


@program
def slots():
    class Slotted:
        __slots__ = ("a", "b")

        def __init__(self, a):
            self.a = a

    s = Slotted(2)

    def f(x):
        text = ""
        try:
            s.b
        except AttributeError as error:
            text = str(error)
        s.b = x * s.a
        s.a += 1
        try:
            s.c = 1
        except AttributeError as error:
            text += str(error)
        return s.b, text

    return Case(f, vector(), observe=s, then=[lambda: delattr(s, "b")])


@program
def getattr_hook():
    class Proxy:
        def __init__(self, inner):
            self.inner = inner
            self.log = []

        def __getattr__(self, name):
            self.log.append(name)
            return getattr(self.inner, name)

    p = Proxy(vector())

    def f(x):
        return x * p.shape[0] + p.sum(), hasattr(p, "nothing"), len(p.log)

    return Case(f, vector(), observe=p, then=[lambda: setattr(p, "inner", vector(5))])


@program
def getattribute_hook():
    class Watched:
        def __init__(self):
            object.__setattr__(self, "log", [])
            object.__setattr__(self, "n", 3)

        def __getattribute__(self, name):
            if name != "log":
                object.__getattribute__(self, "log").append(name)
            return object.__getattribute__(self, name)

        def go(self, x):
            return x * self.n

    w = Watched()

    def f(x):
        return w.go(x) + w.n

    return Case(f, vector(), observe=w)


@program
def setattr_and_delattr_hooks():
    class Guarded:
        def __init__(self):
            self.__dict__["log"] = []

        def __setattr__(self, name, value):
            self.log.append(("set", name))
            object.__setattr__(self, name, value)

        def __delattr__(self, name):
            self.log.append(("delete", name))
            object.__delattr__(self, name)

    g = Guarded()

    def f(x):
        g.a = x + 1
        g.b = 2
        y = g.a * g.b
        del g.b
        return y

    return Case(f, vector(), observe=g)


@program
def dynamic_attribute_functions():
    class Bag:
        pass

    def f(x):
        bag = Bag()
        for i, name in enumerate(["p", "q"]):
            setattr(bag, name, x * i)
        values = [getattr(bag, n) for n in sorted(vars(bag))]
        delattr(bag, "p")
        return values, getattr(bag, "p", None), hasattr(bag, "q"), list(bag.__dict__)

    return Case(f, vector())


@program
def descriptors():
    class Logged:
        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, o, owner=None):
            if o is None:
                return self
            o.log.append("get " + self.name)
            return o.__dict__.get(self.name, 0)

        def __set__(self, o, value):
            o.log.append("set " + self.name)
            o.__dict__[self.name] = value

    class Model:
        n = Logged()

        def __init__(self):
            self.log = []

    m = Model()

    def f(x):
        m.n = m.n + 1
        return x * m.n, type(Model.n).__name__

    return Case(f, vector(), observe=m)


@program
def non_data_descriptor_shadowed():
    class Plain:
        def __get__(self, o, owner=None):
            return 7

    class Model:
        n = Plain()

    m = Model()

    def f(x):
        return x * m.n

    return Case(f, vector(), then=[lambda: m.__dict__.update(n=2), lambda: m.__dict__.clear()])


@program
def metaclass_attributes_and_methods():
    class Meta(type):
        scale = 4

        def build(cls, x):
            return x * cls.scale

        @property
        def tag(cls):
            return cls.__name__ + "!"

    class Model(metaclass=Meta):
        pass

    def f(x):
        return Model.build(x), Model.tag, type(Model) is Meta, isinstance(Model, Meta)

    return Case(f, vector(), then=[lambda: setattr(Meta, "scale", 9)])


@program
def metaclass_prepare_and_new():
    log = []

    class Meta(type):
        @classmethod
        def __prepare__(mcls, name, bases, **options):
            log.append(("prepare", sorted(options)))
            return {"prepared": 3}

        def __new__(mcls, name, bases, namespace, **options):
            return super().__new__(mcls, name, bases, dict(namespace))

        def __init__(cls, name, bases, namespace, **options):
            super().__init__(name, bases, namespace)

    def f(x):
        class Local(metaclass=Meta, option=1):
            value = 2

        return x * Local.prepared * Local.value

    return Case(f, vector())


@program
def init_subclass_and_class_getitem():
    registry = []

    class Base:
        def __init_subclass__(cls, tag=None, **rest):
            super().__init_subclass__(**rest)
            registry.append(tag)

        def __class_getitem__(cls, item):
            return (cls.__name__, item)

    def f(x):
        class Sub(Base, tag="t"):
            pass

        return x * len(registry), Sub[3]

    return Case(f, vector())


@program
def new_and_init():
    class Singleton:
        made = None

        def __new__(cls, *args):
            if cls.made is None:
                cls.made = super().__new__(cls)
            return cls.made

        def __init__(self, n):
            self.n = n

    def f(x):
        a = Singleton(1)
        b = Singleton(5)
        return x * a.n, a is b

    return Case(f, vector(), observe=Singleton, then=[lambda: setattr(Singleton, "made", None)])


@program
def new_returning_other_type():
    class Odd:
        def __new__(cls, n):
            return n * 2

        def __init__(self, n):
            raise AssertionError("must not run")

    def f(x):
        return x * Odd(3)

    return Case(f, vector())


@program
def abstract_base_class():
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self, x):
            """Of the shape."""

        def twice(self, x):
            return self.area(x) * 2

    class Square(Shape):
        def area(self, x):
            return x * x

    def f(x):
        try:
            Shape()
        except TypeError as error:
            text = type(error).__name__
        s = Square()
        return s.twice(x), isinstance(s, Shape), issubclass(Square, Shape), text

    return Case(f, vector())


@program
def abc_register_and_subclasshook():
    class Sized(abc.ABC):
        @classmethod
        def __subclasshook__(cls, other):
            return hasattr(other, "size")

    def f(x):
        return x + 1, isinstance(x, Sized), isinstance(3, Sized), issubclass(torch.nn.Module, Sized)

    return Case(f, vector())


@program
def instance_check_overridden():
    log = []

    class Meta(type):
        def __instancecheck__(cls, o):
            log.append("check")
            return o == 3

    class Three(metaclass=Meta):
        pass

    def f(x):
        return x * 2 if isinstance(3, Three) else x, isinstance(4, Three)

    return Case(f, vector())


@program
def type_called_and_three_argument_type():
    def f(x):
        made = type("Made", (dict,), {"scale": 3, "go": lambda self, v: v * self.scale})
        o = made(a=1)
        return o.go(x), o["a"], type(o).__name__, type(3) is int, made.__bases__ == (dict,)

    return Case(f, vector())


@program
def subclasses_of_builtins():
    class Stack(list):
        def push(self, item):
            self.append(item)
            return self

        def __len__(self):
            return super().__len__() + 100

    class Table(dict):
        def __missing__(self, key):
            return key * 2

    class Number(int):
        def __add__(self, other):
            return Number(int(self) + int(other) + 1)

    def f(x, stack):
        stack.push(x).push(2)
        t = Table(a=1)
        n = Number(3) + 4
        return len(stack), t["b"], t["a"], n, type(n).__name__, x * n

    return Case(f, vector(), Stack([1]))


@program
def name_mangling_and_dunder_dict():
    class Hidden:
        def __init__(self):
            self.__secret = 3

        def reveal(self):
            return self.__secret

    h = Hidden()

    def f(x):
        return x * h.reveal(), h._Hidden__secret, list(vars(h))

    return Case(f, vector(), then=[lambda: setattr(h, "_Hidden__secret", 9)])


@program
def multiple_inheritance_cooperative():
    log = []

    class Root:
        def __init__(self, **rest):
            log.append("root")

    class Left(Root):
        def __init__(self, left=1, **rest):
            log.append("left")
            super().__init__(**rest)
            self.left = left

    class Right(Root):
        def __init__(self, right=2, **rest):
            log.append("right")
            super().__init__(**rest)
            self.right = right

    class Both(Left, Right):
        pass

    def f(x):
        b = Both(left=5, right=6)
        return x * b.left + b.right

    return Case(f, vector())


@program
def instance_dict_replaced():
    class State:
        pass

    s = State()
    s.n = 1

    def f(x):
        return x * s.n

    def change():
        s.__dict__ = {"n": 40}

    return Case(f, vector(), then=[change])


@program
def weakly_referenced_and_eq_hash():
    class Key:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return isinstance(other, Key) and self.n == other.n

        def __hash__(self):
            return hash(self.n)

    def f(x):
        table = {Key(1): "one", Key(2): "two"}
        table[Key(1)] = "uno"
        return x * len(table), table[Key(1)], Key(3) in table, Key(2) == Key(2), Key(1) != Key(2)

    return Case(f, vector())
