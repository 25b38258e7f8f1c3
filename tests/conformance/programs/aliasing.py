"""Objects that are different ones in the first call and one and the same in a later call, written in between reads."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


class Box:
    def __init__(self, n):
        self.n = n


@program
def written_dict_becomes_the_one_read():
    first, second = {"a": 1}, {"a": 1}

    def f(x, written, read):
        written["t"] = 5
        for k, v in read.items():
            x = x * 2 + v * len(k)
        return x

    def same():
        table = {"a": 1}
        return Args(vector(), table, table)

    return Case(f, vector(), first, second, then=[same, lambda: Args(vector(), {"a": 1}, {"a": 1})])


@program
def written_object_becomes_the_one_read():
    def f(x, written, read):
        written.items = [1, 2]
        return x + getattr(read, "items", [7])[-1]

    def same():
        box = Box(1)
        return Args(vector(), box, box)

    return Case(f, vector(), Box(1), Box(1), then=[same, lambda: Args(vector(), Box(1), Box(1))])


@program
def written_dict_becomes_the_attributes_of_an_object():
    def f(x, written, box):
        written["n"] = 5
        return x + box.n

    def same():
        box = Box(1)
        return Args(vector(), vars(box), box)

    return Case(f, vector(), {"n": 1}, Box(1), then=[same, lambda: Args(vector(), {"n": 1}, Box(1))])


@program
def written_object_has_the_dict_for_its_attributes():
    def f(x, box, read):
        box.n = 5
        return x + read["n"]

    def same():
        box = Box(1)
        return Args(vector(), box, vars(box))

    return Case(f, vector(), Box(1), {"n": 1}, then=[same])


@program
def written_list_becomes_the_one_read():
    def f(x, written, read):
        written.append(4)
        return x * len(read) + sum(read)

    def same():
        items = [1, 2]
        return Args(vector(), items, items)

    return Case(f, vector(), [1, 2], [1, 2], then=[same])


@program
def both_written_then_one():
    def f(x, first, second):
        first.n = first.n + 1
        second.n = second.n * 3
        return x * first.n - second.n

    def same():
        box = Box(2)
        return Args(vector(), box, box)

    return Case(f, vector(), Box(2), Box(2), then=[same, lambda: Args(vector(), Box(2), Box(2))])


@program
def lists_in_one_list():
    rows = [[1], [1]]

    def f(x):
        rows[0].append(2)
        return x + len(rows[1])

    def share():
        rows[0] = [1]
        rows[1] = rows[0]

    return Case(f, vector(), observe=rows, then=[share, share])


@program
def cells_of_two_functions_become_one():
    def counter(start):
        count = start

        def step(x):
            nonlocal count
            count += 1
            return x * count

        def look(x):
            return x + count

        return step, look

    def f(x, step, look):
        return look(step(x))

    (one_step, _), (_, other_look) = counter(1), counter(1)

    def same():
        step, look = counter(1)
        return Args(vector(), step, look)

    return Case(f, vector(), one_step, other_look, then=[same])


@program
def type_of_a_number_is_read_by_callable():
    state = {"s": torch.neg}

    def f(x):
        return x + callable(state["s"])

    return Case(f, vector(), then=[lambda: state.update(s=1.0), lambda: state.update(s=Box)])


@program(whole=False)
def namespace_of_a_tensor():
    def f(x, t):
        return x * len(vars(t))

    tagged = vector()
    tagged.note = 3
    return Case(f, vector(), tagged, then=[lambda: Args(vector(), vector())])


@program
def a_written_input_is_saved_for_the_backward():
    def f(w, o, p):
        o.add_(1)
        with torch.no_grad():
            p.mul_(2)
            p.add_(matrix()[1])
        return w * o, w * p

    return Case(f, leaf(), vector(), vector(), then=[lambda: Args(leaf(3, 2.0), vector(), vector())])
