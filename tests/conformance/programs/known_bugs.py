"""Programs that torch.compile (torch 2.13) gets wrong; they show that the comparison sees what it must."""

from conformance.program import Args, Case, program
from conformance.sample import vector


@program(known_bug="the append in a property getter is lost")
def append_in_property_getter():
    class Model:
        def __init__(self):
            self.log = []

        @property
        def scale(self):
            self.log.append("read")
            return 2

    m = Model()

    def f(x):
        return x * m.scale + m.scale

    return Case(f, vector(), observe=m, then=[lambda: None])


@program(known_bug="the append in a property getter is lost")
def append_in_property_getter_of_module():
    import torch

    class Model(torch.nn.Module):
        log: list = []

        @property
        def scale(self):
            self.log.append("read")
            return 2

        def forward(self, x):
            return x * self.scale

    Model.log.clear()
    model = Model()
    return Case(model, vector(), look=lambda: list(Model.log))


@program(known_bug="the append in a property getter is lost")
def append_in_property_getter_with_raise():
    class Model:
        def __init__(self):
            self.log = []

        @property
        def scale(self):
            self.log.append("read")
            raise AttributeError("none")

    m = Model()

    def f(x):
        return x * getattr(m, "scale", 3)

    return Case(f, vector(), observe=m)


@program(known_bug="the metaclass's __call__ is bypassed")
def metaclass_call():
    class Meta(type):
        made = 0

        def __call__(cls, *args):
            Meta.made += 1
            o = super().__call__(*args)
            o.extra = 7
            return o

    class Model(metaclass=Meta):
        def __init__(self, n):
            self.n = n

    def f(x):
        m = Model(2)
        return x * m.n + getattr(m, "extra", 0), Meta.made

    return Case(f, vector())


@program(known_bug="the metaclass's __call__ is bypassed")
def metaclass_call_makes_singleton():
    class Single(type):
        instances: dict = {}

        def __call__(cls, *args, **kwargs):
            if cls not in cls.instances:
                cls.instances[cls] = super().__call__(*args, **kwargs)
            return cls.instances[cls]

    Single.instances.clear()

    class Model(metaclass=Single):
        def __init__(self):
            self.n = 1

    def f(x):
        a, b = Model(), Model()
        a.n += 1
        return x * b.n, a is b

    return Case(f, vector())


@program(known_bug="side effects of __getattr__ are lost")
def getattr_with_side_effect():
    class Model:
        def __init__(self):
            self.asked = []

        def __getattr__(self, name):
            self.asked.append(name)
            return 3

    m = Model()

    def f(x):
        return x * m.scale + m.shift

    return Case(f, vector(), observe=m)


@program(known_bug="side effects of __getattr__ are lost")
def getattr_that_fills_a_cache():
    class Model:
        def __init__(self):
            self.loads = 0

        def __getattr__(self, name):
            self.loads += 1
            setattr(self, name, len(name))
            return len(name)

    m = Model()

    def f(x):
        return x * m.scale + m.scale, m.loads

    return Case(f, vector(), observe=m)


@program(known_bug="side effects of __getattr__ are lost")
def hasattr_with_side_effect():
    class Model:
        def __init__(self):
            self.asked = []

        def __getattr__(self, name):
            self.asked.append(name)
            raise AttributeError(name)

    m = Model()

    def f(x):
        return x + hasattr(m, "a") + hasattr(m, "b"), len(m.asked)

    return Case(f, vector(), observe=m)


@program(known_bug="duplicate keyword arguments are accepted")
def duplicate_keyword():
    def g(x, scale=1, **rest):
        return x * scale

    def f(x, options):
        try:
            return g(x, scale=2, **options)
        except TypeError as error:
            return x, type(error).__name__

    return Case(f, vector(), {"scale": 5}, then=[lambda: Args(vector(), {"shift": 5})])


@program(known_bug="duplicate keyword arguments are accepted")
def duplicate_keyword_in_two_dicts():
    def g(**options):
        return len(options)

    def f(x, a, b):
        y = x + 1
        try:
            return y * g(**a, **b)
        except TypeError as error:
            return y, type(error).__name__

    return Case(f, vector(), {"p": 1}, {"p": 2, "q": 3})


@program(known_bug="a negative __len__ is accepted")
def negative_length():
    class Odd:
        def __len__(self):
            return -1

    odd = Odd()

    def f(x):
        try:
            return x * len(odd)
        except ValueError as error:
            return x, str(error)

    return Case(f, vector())


@program(known_bug="a negative __len__ is accepted")
def negative_length_as_truth():
    class Odd:
        def __len__(self):
            return -5

    def f(x):
        try:
            return x * 2 if Odd() else x
        except ValueError as error:
            return x, str(error)

    return Case(f, vector())


@program
def length_that_is_no_int():
    class Odd:
        def __len__(self):
            return 2.5

    def f(x):
        try:
            return x * len(Odd())
        except TypeError as error:
            return x, str(error)

    return Case(f, vector())


@program
def huge_length():
    class Odd:
        def __len__(self):
            return 2**70

    def f(x):
        try:
            return x * len(Odd())
        except OverflowError as error:
            return x, str(error)

    return Case(f, vector())


@program
def range_unpacked_into_call():
    def g(*values):
        return values

    def f(x):
        return g(*range(3)), [*range(2, 5)], (*range(0, 6, 2), x)

    return Case(f, vector())


@program
def bound_method_identity():
    class Model:
        def go(self):
            return self

    m = Model()
    bound = m.go

    def f(x):
        return x + 1, bound.__self__ is m, bound.__func__ is Model.go, bound() is m, m.go == bound, m.go is m.go

    return Case(f, vector())


@program
def base_class_attribute_shadowed_later():
    class Base:
        n = 2

    class Derived(Base):
        pass

    d = Derived()

    def f(x):
        return x * d.n

    return Case(
        f, vector(), then=[lambda: setattr(Derived, "n", 9), lambda: delattr(Derived, "n"), lambda: setattr(d, "n", 4)]
    )


@program
def property_added_to_class_later():
    class Model:
        pass

    m = Model()
    m.n = 2

    def f(x):
        return x * m.n

    return Case(f, vector(), then=[lambda: setattr(Model, "n", property(lambda self: 50)), lambda: delattr(Model, "n")])


@program
def dunder_added_to_class_later():
    class Model:
        def __len__(self):
            return 2

    m = Model()

    def f(x):
        return x * len(m), bool(m)

    return Case(
        f,
        vector(),
        then=[
            lambda: setattr(Model, "__len__", lambda self: 5),
            lambda: setattr(Model, "__bool__", lambda self: False),
        ],
    )


@program
def self_containing_container():
    def f(x, d):
        d["self"] = d
        items = [x]
        items.append(items)
        return d, items

    return Case(f, vector(), {})
