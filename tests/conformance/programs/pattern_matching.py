"""match statements: literals, captures, sequences, mappings, classes, guards, or-patterns."""

import dataclasses
import enum

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Point:
    x: object
    y: object


@program
def literals_and_wildcard():
    def f(x, n):
        match n:
            case 0:
                return x
            case 1 | 2:
                return x * 2
            case "text":
                return x * 3
            case None:
                return x * 4
            case -1.5:
                return x * 5
            case _:
                return x * 6

    return Case(f, vector(), 2, then=[lambda v=v: Args(vector(), v) for v in (0, "text", None, -1.5, True, b"x")])


@program
def sequences():
    def f(x, items):
        match items:
            case []:
                return x
            case [one]:
                return x * one
            case [first, *_, last] if first == last:
                return x + first
            case (a, b, *rest):
                return x * a + b, rest

    return Case(
        f, vector(), [2], then=[lambda v=v: Args(vector(), v) for v in ([], (1, 2), [3, 9, 3], "ab", [1, 2, 3, 4])]
    )


@program
def mappings():
    def f(x, table):
        match table:
            case {"kind": "scale", "by": by}:
                return x * by
            case {"kind": kind, **rest}:
                return x + len(rest), kind, rest
            case {}:
                return x - 1

    return Case(
        f,
        vector(),
        {"kind": "scale", "by": 3},
        then=[lambda v=v: Args(vector(), v) for v in ({"kind": "z", "p": 1}, {}, {"a": 1}, 5)],
    )


@program
def class_patterns():
    def f(value):
        match value:
            case Point(x=0, y=y):
                return y * 2
            case Point(x, y):
                return x + y
            case torch.Tensor():
                return value * 3
            case int(n) | float(n):
                return n + 1
            case str():
                return value

    return Case(
        f, Point(0, vector()), then=[lambda v=v: Args(v) for v in (Point(1, vector()), vector(), 3, 2.5, "s", None)]
    )


@program
def nested_and_as_patterns():
    def f(x, value):
        match value:
            case [Point(x=a, y=[b, *_]) as point, {"k": k}] if a > 0:
                return x * a + b, k, point is value[0]
            case [_, _] as pair:
                return x, len(pair)

    return Case(f, vector(), [Point(2, [7, 8]), {"k": "v"}], then=[lambda: Args(vector(), [Point(-1, [1]), {"k": 0}])])


@program
def value_patterns():
    def f(x, color):
        match color:
            case Color.RED:
                return x
            case Color.BLUE:
                return -x

    return Case(f, vector(), Color.RED, then=[lambda: Args(vector(), Color.BLUE), lambda: Args(vector(), 1)])


@program
def match_args_positional():
    class Pair:
        __match_args__ = ("left", "right")

        def __init__(self, left, right):
            self.left = left
            self.right = right

    def f(x, p):
        match p:
            case Pair(1, r):
                return x * r
            case Pair(left, 2):
                return x + left

    return Case(f, vector(), Pair(1, 5), then=[lambda: Args(vector(), Pair(7, 2)), lambda: Args(vector(), Pair(0, 0))])


@program
def match_args_error():
    class Plain:
        pass

    def f(x, p):
        try:
            match p:
                case Plain(1):
                    return x
        except TypeError as error:
            return x, str(error)

    return Case(f, vector(), Plain())


@program
def match_on_shape():
    def f(t):
        match t.shape:
            case (n,):
                return t * n
            case (rows, columns):
                return t.sum() * rows + columns
            case _:
                return t

    return Case(f, vector(), then=[lambda: Args(matrix()), lambda: Args(torch.ones(1, 2, 3)), lambda: Args(vector(5))])


@program
def no_case_matches():
    def f(x, n):
        y = x
        match n:
            case 5:
                y = x * 2
        return y

    return Case(f, vector(), 4, then=[lambda: Args(vector(), 5)])


@program
def guard_with_effects():
    log = []

    def check(value):
        log.append(value)
        return value > 2

    def f(x, n):
        match n:
            case v if check(v):
                return x * v
            case v if check(v + 10):
                return x - v

    return Case(f, vector(), 1, then=[lambda: Args(vector(), 3)])
