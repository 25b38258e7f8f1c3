"""Closures: free variables, nonlocal, cells shared and empty, late binding, cells changed between calls."""

import types

from conformance.program import Args, Case, program
from conformance.sample import vector


@program(graphs=1)
def free_variable_read():
    scale = 3
    shift = vector()

    def f(x):
        return x * scale + shift

    return Case(f, vector())


@program
def cell_changed_between_calls():
    scale = 2

    def f(x):
        return x * scale

    def change():
        nonlocal scale
        scale = scale * 10

    def change_type():
        nonlocal scale
        scale = vector()

    return Case(f, vector(), then=[change, change_type, change])


@program
def nonlocal_written():
    total = 0

    def f(x):
        nonlocal total
        total += 1
        y = x * total
        total = total + 5
        return y

    return Case(f, vector())


@program
def nonlocal_tensor_accumulates():
    state = vector()

    def f(x):
        nonlocal state
        state = state + x
        return state * 2

    return Case(f, vector())


@program
def counter_made_inside():
    def f(x):
        count = 0

        def bump():
            nonlocal count
            count += 1
            return count

        bump()
        bump()
        return x * bump(), count

    return Case(f, vector())


@program
def closure_returned():
    def f(x):
        y = x + 1

        def later(z):
            return y * z

        y = y * 2
        return later, later(x)

    return Case(f, vector())


@program
def returned_closures_share_a_cell():
    def f(x):
        state = x

        def get():
            return state

        def put(value):
            nonlocal state
            state = value

        put(state * 3)
        return get, put, get()

    return Case(f, vector())


@program
def late_binding_in_loop():
    def f(x):
        functions = []
        for i in range(3):
            functions.append(lambda: x * i)
        bound = [lambda i=i: x + i for i in range(3)]
        return [g() for g in functions], [g() for g in bound]

    return Case(f, vector())


@program
def three_levels():
    def f(x):
        a = 1

        def g(y):
            b = a + 1

            def h(z):
                nonlocal a, b
                a += 10
                b += 100
                return z * a + b

            return h(y) + b

        return g(x) + a, a

    return Case(f, vector())


@program
def cell_of_argument_rebound():
    def f(x):
        def read():
            return x

        first = read()
        x = x * 5
        return first, read()

    return Case(f, vector())


@program
def empty_cell_raises_name_error():
    def f(x):
        def read():
            return missing

        try:
            read()
        except NameError as error:
            text = str(error)
        missing = x + 1
        return read(), text

    return Case(f, vector())


@program
def deleted_cell():
    def f(x):
        value = x + 1

        def read():
            return value

        first = read()
        del value
        try:
            read()
        except NameError as error:
            return first, type(error).__name__

    return Case(f, vector())


@program
def closure_over_loop_and_comprehension():
    def f(x):
        scale = 2
        parts = [x * scale * i for i in range(3) if i != scale]
        table = {i: (lambda: x + i + scale)() for i in range(2)}
        return parts, table

    return Case(f, vector())


@program
def closure_mutates_captured_list():
    log = []

    def note(value):
        log.append(value)
        return value

    def f(x):
        note(x + 1)
        note(len(log))
        return log[0] * 2

    return Case(f, vector(), then=[log.clear])


@program
def cell_contents_read_and_written():
    scale = 2

    def g(x):
        return x * scale

    def f(x):
        return g(x) + g.__closure__[0].cell_contents

    def change():
        g.__closure__[0].cell_contents = 7

    return Case(f, vector(), then=[change])


@program(whole=False)
def cell_contents_assigned_inside():
    scale = 2

    def g(x):
        return x * scale

    def f(x):
        before = g(x)
        g.__closure__[0].cell_contents = 9
        return before, g(x)

    return Case(f, vector(), observe=g)


@program(whole=False)
def function_built_by_hand():
    def f(x):
        cell = types.CellType(x + 1)
        made = types.FunctionType((lambda: x).__code__, {}, "made", None, (cell,))
        return made() * 2

    return Case(f, vector())


@program
def same_cell_in_two_functions():
    value = 1

    def up():
        nonlocal value
        value += 1

    def f(x):
        up()
        y = x * value
        up()
        return y, value

    return Case(f, vector(), observe=up)


@program
def closure_argument_with_state():
    def make(n):
        def g(x):
            nonlocal n
            n += 1
            return x + n

        return g

    def f(x, g):
        return g(x) + g(x)

    first = make(10)
    return Case(f, vector(), first, then=[lambda: None, lambda: Args(vector(), make(0)), lambda: Args(vector(), first)])


@program
def self_referencing_closure():
    def f(x):
        def walk(n):
            return x if n == 0 else walk(n - 1) * 2

        return walk(4)

    return Case(f, vector())


@program
def default_captures_cell_value():
    def f(x):
        n = 1

        def g(v, m=n):
            return v * m + n

        n = 10
        return g(x)

    return Case(f, vector())


@program
def closure_in_class_body():
    def f(x):
        scale = 4

        class Local:
            value = scale + 1

            def apply(self):
                return x * scale + self.value

        return Local().apply()

    return Case(f, vector())
