"""Classes that are given other bases between calls."""

import itertools

from conformance.program import Case, program
from conformance.sample import vector


def family():
    """Two bases, and a class of the first."""

    class First:
        factor = 2

        def scaled(self, x):
            return x * 2

    class Second:
        factor = 3

        def scaled(self, x):
            return x * 3

    class Leaf(First):
        def scaled(self, x):
            return super().scaled(x) + 1

    return First, Second, Leaf


def given_bases(cls, *turns):
    """State changes: the class gets these bases, one turn after the other."""
    return [lambda bases=bases: setattr(cls, "__bases__", bases) for bases in turns]


@program
def asked_for_by_isinstance():
    first, second, leaf = family()
    made = leaf()

    def f(x):
        return (
            x + isinstance(made, second) + 2 * issubclass(leaf, first),
            isinstance(made, (int, second)),
            [isinstance(o, first) for o in (made, 1, leaf)],
        )

    return Case(f, vector(), then=given_bases(leaf, (second,), (first,), (second, first), (first, second)))


@program
def super_of_a_class():
    first, second, leaf = family()
    made = leaf()

    def f(x):
        return made.scaled(x), leaf().factor

    return Case(f, vector(), then=given_bases(leaf, (second,), (first,), (second, first)))


@program
def listed_orders():
    first, second, leaf = family()

    def f(x):
        return (
            x + len(leaf.__mro__),
            [c.__name__ for c in leaf.__mro__],
            [c.__name__ for c in leaf.__bases__],
            leaf.__base__.__name__,
            type(leaf()).__mro__[1] is first,
        )

    return Case(f, vector(), then=given_bases(leaf, (second,), (first,), (second, first), (first, second)))


@program
def a_base_of_a_base():
    first, second, leaf = family()

    class Deep(leaf):
        pass

    made = Deep()

    def f(x):
        return made.scaled(x), isinstance(made, second), [c.__name__ for c in Deep.__mro__], Deep.__bases__ == (leaf,)

    return Case(f, vector(), then=given_bases(leaf, (second,), (first,)))


@program
def exceptions_that_are_caught():
    class First(Exception):
        pass

    class Second(Exception):
        pass

    class Leaf(First):
        pass

    def f(x):
        try:
            raise Leaf("here")
        except First:
            return x + 1
        except Exception:
            return x + 2

    return Case(f, vector(), then=given_bases(Leaf, (Second,), (First,)))


@program
def matched_by_patterns():
    first, second, leaf = family()
    made = leaf()

    def f(x):
        match made:
            case second(factor=k):
                return x * k
            case first(factor=k):
                return x + k
        return x

    return Case(f, vector(), then=given_bases(leaf, (second,), (first,)))


@program
def operands_that_come_first():
    class Left:
        def __add__(self, other):
            return "left"

        def __lt__(self, other):
            return False

    class Other:
        pass

    class Right(Other):
        def __radd__(self, other):
            return "right"

        def __gt__(self, other):
            return True

    left, right = Left(), Right()

    def f(x):
        return x + 1, left + right, left < right, [left] < [right], list(itertools.accumulate([left, right]))[1]

    return Case(f, vector(), then=given_bases(Right, (Left,), (Other,)))


@program
def a_class_that_the_frame_makes():
    first, second, leaf = family()

    def f(x):
        class Made(leaf):
            pass

        made = Made()
        return made.scaled(x), isinstance(made, second), issubclass(Made, first)

    return Case(f, vector(), then=given_bases(leaf, (second,), (first,)))
