"""Generators: next, send, throw, close, yield from, half consumed ones, iterators made of them."""

import itertools

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


def count_up(x, n):
    """A plain generator that several programs use."""
    for i in range(n):
        yield x + i


@program
def consumed_by_loop():
    def f(x, n):
        total = x
        for part in count_up(x, n):
            total = total + part
        return total

    return Case(f, vector(), 3, then=[lambda: Args(vector(), 0), lambda: Args(vector(), 5)])


@program
def consumed_by_builtins():
    def f(x):
        return list(count_up(x, 2)), tuple(count_up(x, 1)), sum(count_up(x, 3)), dict(zip("ab", count_up(x, 2)))

    return Case(f, vector())


@program
def next_and_default():
    def f(x):
        g = count_up(x, 2)
        return next(g), next(g), next(g, None), next(g, 3)

    return Case(f, vector())


@program
def send_values():
    def accumulate(x):
        total = x
        while True:
            received = yield total
            if received is None:
                return
            total = total * received

    def f(x):
        g = accumulate(x)
        first = next(g)
        second = g.send(2)
        third = g.send(3)
        done = next(g, "done")
        return first, second, third, done

    return Case(f, vector())


@program
def throw_into():
    def guarded(x):
        try:
            yield x
        except ValueError as error:
            yield x * len(error.args)
        finally:
            log.append("finally")

    log = []

    def f(x):
        g = guarded(x)
        next(g)
        y = g.throw(ValueError("a", "b"))
        rest = list(g)
        return y, rest

    return Case(f, vector(), observe=log)


@program
def close_runs_finally():
    log = []

    def guarded(x):
        try:
            yield x
            yield x + 1
        finally:
            log.append("closed")

    def f(x):
        g = guarded(x)
        y = next(g)
        g.close()
        return y * 2, list(g), len(log)

    return Case(f, vector())


@program
def close_ignored_raises():
    def stubborn(x):
        try:
            yield x
        except GeneratorExit:
            yield x + 1

    def f(x):
        g = stubborn(x)
        next(g)
        try:
            g.close()
        except RuntimeError as error:
            return x, str(error)

    return Case(f, vector())


@program
def yield_from_with_result():
    def inner(x):
        received = yield x
        return x * received

    def outer(x):
        result = yield from inner(x)
        yield result + 1
        yield from [1, 2]

    def f(x):
        g = outer(x)
        return next(g), g.send(4), list(g)

    return Case(f, vector())


@program
def yield_from_nested_throw():
    def inner():
        try:
            yield 1
        except KeyError:
            yield 2

    def outer():
        yield from inner()
        yield 3

    def f(x):
        g = outer()
        a = next(g)
        b = g.throw(KeyError("k"))
        return x * a * b, list(g)

    return Case(f, vector())


@program(whole=False, rule=13)
def half_consumed_argument():
    def make():
        g = count_up(vector(), 5)
        next(g)
        return g

    def f(x, g):
        first = next(g)
        return x + first

    g = make()
    return Case(
        f, vector(), g, then=[lambda: None, lambda: Args(vector(), make())], look=lambda: g.gi_frame is not None
    )


@program(whole=False, rule=13)
def argument_consumed_half():
    g = count_up(vector(), 6)

    def f(x):
        total = x
        for part in itertools.islice(g, 2):
            total = total + part
        return total

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def generator_returned_unstarted():
    def f(x):
        y = x + 1
        return count_up(y, 3)

    def outer(x):
        return list(f(x))

    return Case(outer, vector())


@program(whole=False)
def generator_returned_half_consumed():
    def f(x):
        g = count_up(x * 2, 4)
        first = next(g)
        return first, g

    case = Case(f, vector())
    return case


@program
def stop_iteration_inside_generator():
    def broken(x):
        yield x
        raise StopIteration("inner")

    def f(x):
        g = broken(x)
        y = next(g)
        try:
            next(g)
        except RuntimeError as error:
            return y + 1, str(error), type(error.__cause__).__name__

    return Case(f, vector())


@program(whole=False)
def exception_in_generator_escapes():
    def broken(x):
        yield x
        raise ValueError("in generator")

    def f(x):
        total = 0
        for part in broken(x + 1):
            total = total + part
        return total

    return Case(f, vector())


@program
def generator_expression_lazy():
    log = []

    def note(value):
        log.append(value)
        return value

    def f(x):
        g = (x * note(i) for i in range(5))
        first = next(g)
        second = next(g)
        return first + second, len(log)

    return Case(f, vector())


@program
def outermost_iterable_evaluated_at_once():
    def f(x):
        items = [1, 2]
        g = (x * i for i in items)
        items = [5, 6]  # noqa: F841
        return list(g)

    return Case(f, vector())


@program
def infinite_generator_with_islice_and_zip():
    def naturals():
        n = 0
        while True:
            yield n
            n += 1

    def f(x):
        return [x * a for a, _ in zip(naturals(), "abc")], list(itertools.islice(naturals(), 2, 6, 2))

    return Case(f, vector())


@program
def generator_with_state_machine():
    def machine():
        state = "start"
        while True:
            event = yield state
            state = {"start": "run", "run": "stop"}.get(state, "stop") if event else state

    def f(x, events):
        m = machine()
        next(m)
        states = [m.send(e) for e in events]
        return x * len(states), states

    return Case(f, vector(), [0, 1, 0, 1], then=[lambda: Args(vector(), [1, 1, 1])])


@program
def generator_method_and_iter_protocol():
    class Tree:
        def __init__(self, value, *children):
            self.value = value
            self.children = children

        def __iter__(self):
            yield self.value
            for child in self.children:
                yield from child

    def f(x, tree):
        return x * sum(tree), list(tree)

    return Case(f, vector(), Tree(1, Tree(2, Tree(3)), Tree(4)))


@program
def recursive_generator():
    def walk(m, depth):
        if depth == 0:
            yield m.sum()
        else:
            for row in m:
                yield from walk(row, depth - 1)

    def f(m):
        return sum(walk(m, 1)), len(list(walk(m, 2)))

    return Case(f, matrix())


@program
def generator_in_two_loops():
    def f(x):
        g = count_up(x, 5)
        a = [next(g) for _ in range(2)]
        b = [part * 2 for part in g]
        return a, b

    return Case(f, vector())


@program
def any_and_all_stop_early():
    log = []

    def note(n):
        log.append(n)
        return n > 1

    def f(x):
        return x * any(note(i) for i in range(5)), all(note(i) for i in (3, 0, 7))

    return Case(f, vector())


@program
def generator_attributes():
    def f(x):
        g = count_up(x, 1)
        return x, g.gi_running, g.gi_yieldfrom, g.__name__, g.gi_code.co_name

    return Case(f, vector())


@program
def send_before_start():
    def f(x):
        g = count_up(x, 1)
        try:
            g.send(3)
        except TypeError as error:
            return x, str(error)

    return Case(f, vector())


@program(whole=False)
def break_inside_generator():
    def noisy(x):
        for i in range(3):
            print("step", i)
            yield x * i

    def f(x):
        total = x
        for part in noisy(x):
            total = total + part
        return total

    return Case(f, vector())


@program
def generator_kept_in_closure_list():
    def f(x):
        streams = [count_up(x, 2), count_up(x * 10, 3)]
        out = []
        while streams:
            for stream in list(streams):
                value = next(stream, None)
                if value is None:
                    streams.remove(stream)
                else:
                    out.append(value)
        return out

    return Case(f, vector())


@program
def reraise_through_yield_from():
    def inner(x):
        yield x
        raise KeyError("inner")

    def outer(x):
        try:
            yield from inner(x)
        except KeyError as error:
            yield x * len(error.args[0])

    def f(x):
        return list(outer(x))

    return Case(f, vector())


@program
def parameters_generator():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 2))
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(0.25)

    def f(x):
        norm = sum(p.square().sum() for p in model.parameters() if p.dim() > 1)
        return model(x) * norm

    return Case(f, vector())


@program
def next_of_a_generator_that_returned():
    def numbers(value):
        yield 1
        return value

    def f(x):
        texts = []
        for value in (None, 1, (2,), StopIteration(3)):
            g = numbers(value)
            next(g)
            try:
                next(g)
            except StopIteration as end:
                texts.append(repr(end))
        return x + len(texts), texts, next(iter(()), "default")

    return Case(f, vector())
