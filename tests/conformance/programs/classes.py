"""Classes: instances, inheritance, super, class and static methods, classes changed between calls."""

import typing

import torch
from conformance.program import Case, program
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


@program(whole=False)
def method_of_the_base_is_called_with_a_star_after_a_break():
    class Logged(list):
        def append(self, *items):
            print("append", len(items))
            super().append(*[item for item in items if item is not None])

    log = Logged()

    def f(x):
        log.append(x.shape[0])
        bound = super(Logged, log).append
        print("between")
        bound(7)
        return x + len(log), list(log)

    return Case(f, vector(), observe=log)


@program
def generic_classes():
    T = typing.TypeVar("T")

    class Box(typing.Generic[T]):
        scale = 2

        def __init__(self, value: T):
            self.value = value

        def doubled(self):
            return self.value * self.scale

    class Named(Box[int]):
        __slots__ = ("name",)

    class Stack(typing.Generic[T], torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Identity()

        def forward(self, x):
            return self.inner(x) + 1

    boxes = [Box(3), Box(4), Named(5)]
    boxes[2].name = "last"
    stack = Stack()

    def f(x):
        for box in boxes:
            x = x + box.doubled()
        fresh = Named(7)
        fresh.name = boxes[2].name
        boxes[0].value += 1
        return stack(x), fresh, isinstance(fresh, Box), type(boxes[0]).__name__

    def change():
        Box.scale = 3

    return Case(f, vector(), observe=boxes, then=[lambda: setattr(boxes[1], "value", 9), change, boxes.pop])
