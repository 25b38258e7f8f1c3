"""Sets and deques of Python classes from outside: read, written, with attributes and methods of their own."""

import collections

from conformance.program import Args, Case, program
from conformance.sample import vector


class Marks(set):
    label = "marks"

    def add_all(self, *items):
        for item in items:
            self.add(item)
        self.last = items[-1]


class Loud(set):
    def __contains__(self, item):
        return not super().__contains__(item)

    def __iter__(self):
        return iter(sorted(super().__iter__(), reverse=True))

    def __len__(self):
        return 10 + super().__len__()


class Window(collections.deque):
    def mean(self):
        return sum(self) / len(self)


class Turned(collections.deque):
    def __getitem__(self, index):
        return super().__getitem__(-1 - index)

    def append(self, item):
        super().appendleft(item)

    def __iter__(self):
        raise ValueError("not walked")


@program
def a_set_is_read():
    marks = Marks([1, 2, 9])
    marks.scale = 3

    def f(x, n):
        for i in marks:
            x = x * 2 + i
        return x * marks.scale, n in marks, len(marks), bool(marks), type(marks) is Marks, marks.label, sorted(marks)

    def change():
        marks.scale = 5

    return Case(f, vector(), 2, then=[change, lambda: Args(vector(), 7), lambda: marks.add(17), lambda: marks.clear()])


@program
def a_set_is_written():
    marks = Marks([1, 2])

    def f(x, n):
        marks.add_all(n, n + 1)
        marks.discard(1)
        return x * len(marks), marks.last

    return Case(f, vector(), 5, look=lambda: (list(marks), vars(marks)), then=[lambda: None, lambda: Args(vector(), 8), lambda: marks.add(1)])


@program
def set_operations():
    marks, other = Marks([1, 2]), Marks([2, 3])

    def f(x):
        both = sorted(marks | other), sorted(marks & other), marks <= other, marks == {1, 2}
        marks.update(other)
        return x * len(marks), both, marks.issuperset(other)

    return Case(f, vector(), look=lambda: list(marks), then=[lambda: other.add(7), lambda: marks.clear()])


@program
def a_set_with_methods_of_its_own():
    loud = Loud([1, 2])

    def f(x):
        return x * len(loud), 1 in loud, 5 in loud, list(loud), [i for i in loud]

    return Case(f, vector(), then=[lambda: loud.add(5), lambda: loud.discard(1)])


@program
def a_deque_is_read_and_written():
    window = Window([1.0, 2.0], maxlen=3)

    def f(x):
        y = x * window.mean() + window[0] - window[-1]
        window.append(len(window) + 1.5)
        return y, len(window), window.maxlen, list(window)

    return Case(f, vector(), look=lambda: (list(window), window.maxlen), then=[lambda: None, lambda: None, lambda: window.rotate(1)])


@program
def tensors_in_a_deque():
    window = Window(maxlen=2)

    def f(x):
        window.append(x * 2)
        return sum(window), len(window)

    return Case(f, vector(), look=lambda: list(window), then=[lambda: Args(vector(3, 2.0)), lambda: Args(vector(3, 3.0)), lambda: window.clear()])


@program
def a_deque_with_methods_of_its_own():
    turned = Turned([1, 2, 3])

    def f(x):
        turned.append(7)
        try:
            walked = list(turned)
        except ValueError as error:
            walked = str(error)
        return x * turned[0], walked, len(turned)

    def look():
        return [collections.deque.__getitem__(turned, i) for i in range(len(turned))]

    return Case(f, vector(), look=look, then=[lambda: None, lambda: collections.deque.pop(turned) and None])


@program(whole=False)
def around_a_break():
    marks, window = Marks([1]), Window([2], maxlen=4)

    def f(x):
        marks.add(3)
        window.append(x + 1)
        held = marks, window
        print("between")
        held[0].add(4)
        held[1].append(x + 2)
        return x * len(held[0]), held[1][-1], held[0] is marks

    return Case(f, vector(), look=lambda: (list(marks), list(window)), then=[lambda: marks.clear()])


@program(whole=False)
def sets_and_deques_made_here():
    def f(x):
        marks, window = Marks([1, 2]), Window([x, x + 1], maxlen=5)
        marks.add(4)
        window.append(x * 2)
        return x * len(marks) + window[-1], marks, len(window)

    return Case(f, vector())
