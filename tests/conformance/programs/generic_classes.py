"""Classes derived from typing.Generic that are subscripted in a frame, and annotations that are asked for there."""

import typing

from conformance.program import Case, program
from conformance.sample import vector

T = typing.TypeVar("T")
U = typing.TypeVar("U")


class Box(typing.Generic[T]):
    def __init__(self, value):
        self.value = value


class Pair(Box[T], typing.Generic[T, U]):
    made = 0

    def __init__(self, first, second):
        super().__init__(first)
        self.second = second
        type(self).made += 1


@program
def alias_is_the_same_each_time():
    def f(x):
        box = Box[int](3)
        return x * box.value, Box[int] is Box[int], box.__orig_class__ is Box[int], Box[int] == Box[str]

    return Case(f, vector())


@program
def alias_that_is_returned():
    def f(x):
        return x * 2, Box[int], Box[str](4).__orig_class__

    return Case(f, vector(), look=lambda: Box[int].__args__)


@program(whole=False)  # a class that was written is subscripted
def two_parameters():
    Pair.made = 0

    def f(x):
        pair = Pair[int, str](2, 3)
        return x * pair.value * pair.second, isinstance(pair, Box), Pair[int, str].__args__, Pair.made

    return Case(f, vector(), then=[lambda: None])


@program
def forms_that_typing_keeps():
    def f(x):
        kept = typing.Dict[str, typing.List[int]]
        return x * 2, kept, typing.Optional[int], typing.Callable[[int], str], typing.Literal[1, "a"], [typing.Tuple[kept, int]]

    def asked():
        kept = typing.Dict[str, typing.List[int]]
        return kept, typing.Optional[int], typing.Callable[[int], str], typing.Literal[1, "a"], typing.Tuple[kept, int]

    return Case(f, vector(), then=[lambda: None], look=asked)


@program(whole=False)
def forms_that_live_across_a_break():
    def f(x):
        kept, of_variable, doubled = typing.Optional[int], typing.List[T], typing.Union[int, int, str]
        print("break")
        same = kept is typing.Optional[int], of_variable is typing.List[T], doubled is typing.Union[int, int, str]
        return x * 2, same, typing.Dict[str, T][int] is typing.Dict[str, T][int], doubled

    return Case(f, vector(), then=[lambda: None])


@program
def parameters_changed_between_calls():
    class Own(typing.Generic[T]):
        n = 2

    def f(x):
        try:
            return x * Own[int].n
        except TypeError as error:
            return x, type(error).__name__

    return Case(f, vector(), then=[lambda: setattr(Own, "__parameters__", (T, U)), lambda: setattr(Own, "n", 3)])


@program(whole=False)
def class_made_in_the_frame():
    def f(x):
        class Local(typing.Generic[T]):
            n = 3

        class Key:
            pass

        return x * Local[int]().n, Box[Key] is Box[Key], Local[int] == Box[int]

    return Case(f, vector())


@program(whole=False)
def class_written_in_the_frame():
    class Own(typing.Generic[T]):
        n = 2

    def f(x):
        Own.n += 1
        return x * Own[int]().n

    return Case(f, vector(), observe=Own)


@program(whole=False)
def wrong_number_of_parameters():
    def f(x):
        texts = []
        for key in ((int, str), (int, str, float), ()):
            try:
                Box[key]
            except TypeError as error:
                texts.append(str(error))
        return x, texts

    return Case(f, vector())


@program(whole=False)
def keys_that_are_no_classes():
    def f(x):
        return x, Box["Box"].__args__, Box[T].__parameters__, Box[list[int]].__args__, Box[None].__args__

    return Case(f, vector())


@program(whole=False)
def own_way_of_subscripting():
    log = []

    class Own(Box[T]):
        def __class_getitem__(cls, key):
            log.append(key.__name__)
            return super().__class_getitem__(key)

    def f(x):
        return x * Own[int](3).value * len(log)

    return Case(f, vector(), observe=log)


@program
def hints_that_are_classes():
    def g(a: int, b: str = "") -> float:
        return 1.0

    def f(x):
        hints = typing.get_type_hints(g)
        hints["more"] = list
        return x * len(hints), list(hints), typing.get_type_hints(g)["b"] is str

    def change():
        g.__annotations__["a"] = bytes
        g.__annotations__["c"] = int

    return Case(f, vector(), then=[change])


@program(whole=False)
def hints_that_are_names():
    def g(a: "int", b: "typing.Optional[str]" = None) -> None:
        return None

    def f(x):
        return x, typing.get_type_hints(g)["a"] is int, len(typing.get_type_hints(g)), typing.get_type_hints(Box)

    return Case(f, vector())


@program(whole=False)
def hints_of_what_has_none():
    def f(x, n):
        try:
            return x, typing.get_type_hints(n)
        except TypeError:
            return x, "none"

    return Case(f, vector(), 3)
