"""Statements: conditionals, loops with else, del, assert, import, global, assignment in every form."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector

COUNTER = 0
TABLE: list = []


@program(graphs=1)
def if_elif_else_on_int():
    def f(x, n):
        if n > 2:
            y = x + 1
        elif n == 2:
            y = x * 2
        else:
            y = x - 3
        return y.sum(), n

    return Case(
        f, vector(), 3, then=[lambda: Args(vector(), 2), lambda: Args(vector(), -1), lambda: Args(vector(), True)]
    )


@program
def while_with_break_and_else():
    def f(x, limit):
        n = 0
        while n < 5:
            x = x + n
            if n == limit:
                break
            n += 1
        else:
            x = x * 100
        return x, n

    return Case(f, vector(), 3, then=[lambda: Args(vector(), 99)])


@program
def for_with_continue_and_else():
    def f(x, skip):
        for i in range(6):
            if i % 2 == skip:
                continue
            x = x * 2 - i
        else:
            x = -x
        return x

    return Case(f, vector(), 0, then=[lambda: Args(vector(), 1), lambda: Args(vector(), 7)])


@program
def nested_loops_break_outer_by_flag():
    def f(x):
        done = False
        for i in range(4):
            for j in range(4):
                x = x + i * j
                if i * j == 4:
                    done = True
                    break
            if done:
                break
        return x, i, j

    return Case(f, vector())


@program(whole=False)
def while_on_tensor_value():
    def f(x):
        steps = 0
        while x.sum() < 100:
            x = x * 2
            steps += 1
        return x, steps

    return Case(f, vector(), then=[lambda: Args(vector(3, 50.0)), lambda: Args(vector(3, 0.01))])


@program
def del_local_then_unbound():
    def f(x):
        y = x + 1
        z = y * 2
        del y
        try:
            return y
        except UnboundLocalError as error:
            return z, str(error)

    return Case(f, vector())


@program
def del_item_and_slice():
    def f(x, items):
        del items[0]
        del items[1:3]
        return x * len(items)

    return Case(f, vector(), [1, 2, 3, 4, 5], then=[lambda: Args(vector(), [0] * 7)])


@program
def assert_that_holds():
    def f(x, n):
        assert n > 0, "n must be positive"
        assert x.dim() == 1
        return x / n

    return Case(f, vector(), 2)


@program(whole=False)
def assert_that_fails():
    def f(x, n):
        y = x * 2
        assert n > 0, f"n is {n}"
        return y

    return Case(f, vector(), 0, then=[lambda: Args(vector(), 4), lambda: Args(vector(), -1)])


@program(whole=False)
def import_inside():
    def f(x):
        import math
        from os.path import join as combine

        return x * math.pi, combine("a", "b")

    return Case(f, vector())


@program
def global_counter():
    global COUNTER
    COUNTER = 0

    def f(x):
        global COUNTER
        COUNTER += 1
        y = x * COUNTER
        COUNTER = COUNTER + 10
        return y

    def change():
        global COUNTER
        COUNTER = 5

    return Case(f, vector(), then=[lambda: None, change], look=lambda: COUNTER)


@program
def global_deleted_and_created():
    globals().pop("MADE_HERE", None)

    def f(x):
        global MADE_HERE
        MADE_HERE = x + 1
        y = MADE_HERE * 2
        del MADE_HERE
        return y

    return Case(f, vector(), look=lambda: "MADE_HERE" in globals())


@program
def global_list_appended():
    TABLE.clear()

    def f(x):
        TABLE.append(x * 2)
        return TABLE[-1] + len(TABLE)

    return Case(f, vector(), then=[lambda: None, TABLE.clear], look=lambda: list(TABLE))


@program
def starred_assignment():
    def f(x):
        first, *middle, last = [x + i for i in range(5)]
        (a, b), c = (first, last), middle
        return a - b, c, len(middle)

    return Case(f, vector())


@program
def unpack_tensor_rows():
    def f(m):
        a, b = m
        (c, *d) = m.unbind(1)
        return a * b, c, d

    return Case(f, matrix())


@program
def chained_assignment_aliases():
    def f(x):
        a = b = [x]
        a.append(x + 1)
        c = d = x * 2
        return a, b, a is b, c is d, c, d

    return Case(f, vector())


@program
def swap_and_rotate():
    def f(x, y):
        x, y = y, x
        a, b, c = x + 1, y + 2, x * y
        a, b, c = c, a, b
        return a, b, c

    return Case(f, vector(), vector(3, 9.0))


@program
def annotated_assignment():
    def f(x):
        y: torch.Tensor = x + 1
        n: int
        n = 3
        return y * n

    return Case(f, vector())


@program
def augmented_assignment_targets():
    class Holder:
        total = 10

    holder = Holder()

    def f(x, items):
        items[0] += x
        holder.total += 1
        items[-1] *= 2
        y = x
        y = y + 1
        y -= 3
        return y, holder.total

    return Case(f, vector(), [vector(), 4], observe=holder, then=[lambda: setattr(Holder, "total", 3)])


@program
def evaluation_order():
    order = []

    def note(name, value):
        order.append(name)
        return value

    def f(x):
        table = {}
        note("target", table)[note("key", "k")] = note("value", x + 1)
        y = note("left", x) + note("right", x * 2)
        z = note("f", max)(note("a", 1), note("b", 2), key=note("c", None))
        return table, y, z

    return Case(f, vector())


@program
def conditional_expression():
    def f(x, flag):
        return (x + 1 if flag else x - 1), (flag and x), (flag or x * 3), not flag

    return Case(
        f, vector(), True, then=[lambda: Args(vector(), False), lambda: Args(vector(), []), lambda: Args(vector(), [0])]
    )


@program
def walrus_in_condition():
    def f(x, items):
        out = []
        while items and (n := items.pop()) > 1:
            out.append(x * n)
        return out, n, items

    return Case(f, vector(), [1, 5, 4, 3])


@program
def early_return_in_loop():
    def f(x, wanted):
        for i, part in enumerate((x, x + 1, x + 2)):
            if i == wanted:
                return part * 10
        return None

    return Case(f, vector(), 1, then=[lambda: Args(vector(), 5), lambda: Args(vector(), 0)])


@program
def returns_nothing():
    def f(x):
        x + 1

    return Case(f, vector())


@program
def function_without_tensor_work():
    def f(a, b):
        return a * b + len(str(a))

    return Case(f, 3, 4, then=[lambda: Args(2.5, 2), lambda: Args("ab", 2)])


@program
def loop_over_tensor():
    def f(m):
        total = 0
        for row in m:
            total = total + row * 2
        return total

    return Case(f, matrix(3, 2), then=[lambda: Args(matrix(1, 4)), lambda: Args(matrix(5, 2))])


@program(graphs=1)
def deep_loop_unrolled():
    def f(x):
        for i in range(60):
            x = x * 1.01 + i
        return x

    return Case(f, vector())


@program(whole=False)
def exec_and_eval():
    def f(x):
        y = x + 1
        names = {}
        exec("z = 3", names)
        return y * names["z"], eval("x * 2")

    return Case(f, vector())


@program(whole=False)
def locals_and_globals():
    def f(x):
        y = x + 1
        seen = sorted(locals())
        return y, seen, "torch" in globals()

    return Case(f, vector())


@program
def class_statement_inside():
    def f(x):
        class Local:
            scale = 3

            def apply(self, value):
                return value * self.scale

        return Local().apply(x), Local.__name__

    return Case(f, vector())


@program
def nested_function_defined_inside():
    def f(x):
        def twice(value, /, times=2, *, extra=0):
            return value * times + extra

        return twice(x), twice(x, 3, extra=1), twice.__name__, twice.__defaults__

    return Case(f, vector())


@program(break_step=16)
def many_locals_and_long_jumps():
    source = ["def f(x, n):"]
    source += [f"    v{i} = x + {i}" for i in range(300)]
    source += ["    if n:", *[f"        v{i} = v{i} * 2" for i in range(300)], "    return v0, v150, v299"]
    names: dict = {}
    exec(compile("\n".join(source), __file__, "exec"), names)
    return Case(names["f"], vector(), 1, then=[lambda: Args(vector(), 0)])


@program
def try_in_loop_with_continue():
    def f(x, items):
        out = []
        for item in items:
            try:
                value = x / item
            except TypeError:
                continue
            finally:
                out.append(type(item).__name__)
            out.append(value)
        return out

    return Case(f, vector(), [1, "a", 2.0, None])


@program(whole=False)
def variable_deleted_again_after_a_break():
    def f(x, s):
        y = x + 1
        for _ in range(3):
            torch._dynamo.graph_break()
            try:
                del s
            except NameError:
                y = y * 2
        return y

    return Case(f, vector(), 3, then=[lambda: Args(vector(), 4)])


@program(whole=False)
def variables_of_each_kind_deleted_again_after_a_break():
    def f(x, number, text, tensor, items, layer):
        y = x + 1
        for _ in range(2):
            torch._dynamo.graph_break()
            try:
                del number
            except NameError:
                y = y * 2
            try:
                del text
            except NameError:
                y = y * 3
            try:
                del tensor
            except NameError:
                y = y * 5
            try:
                del items
            except NameError:
                y = y * 7
            try:
                del layer
            except NameError:
                y = y * 11
        return y

    def made(n):
        return vector(), n, "text" * n, torch.nn.Parameter(vector()), [n], torch.nn.ReLU()

    return Case(f, *made(2), then=[lambda: Args(*made(3))])
