"""Numbers that a call itself writes, in classes and objects: each call finds another one, by any backend."""

from conformance.program import Case, program
from conformance.sample import vector


@program
def next_number_of_a_class():
    class Handle:
        following = 7

        def __init__(self):
            self.number = Handle.following
            Handle.following += 1

    def f(x):
        handles = [Handle(), Handle()]
        return x * 2, [handle.number for handle in handles]

    return Case(f, vector(), look=lambda: Handle.following, then=[lambda: None] * 10)


@program
def steps_beside_the_graph():
    class State:
        step, total = 3, 0.5

    state = State()

    def f(x):
        state.step = state.step + 1
        state.total += 0.25
        return x * 2, state.step % 4 == 0

    return Case(f, vector(), look=lambda: (state.step, state.total), then=[lambda: None] * 10)


@program
def steps_in_the_graph():
    class State:
        step = 3

    state = State()

    def f(x):
        state.step += 1
        return x * state.step

    return Case(f, vector(), look=lambda: state.step, then=[lambda: None] * 4)


@program
def number_of_a_base_class():
    class Base:
        made = 2

        @classmethod
        def count(cls):
            Base.made += 1
            return cls.made

    class Derived(Base):
        pass

    def own():
        Derived.made = 50

    def f(x):
        return x * 2, Derived.count()

    return Case(f, vector(), look=lambda: (Base.made, Derived.made), then=[lambda: None, lambda: None, own, lambda: None])


@program
def own_number_that_is_the_bases_now():
    """No value tells it from the base's: the name in the class's own dict does."""

    class Base:
        made = 2

    class Derived(Base):
        pass

    def own():
        Derived.made = Base.made

    def f(x):
        Base.made += 1
        return x * 2, Derived.made

    return Case(f, vector(), look=lambda: (Base.made, Derived.made), then=[lambda: None, lambda: None, own, lambda: None])
