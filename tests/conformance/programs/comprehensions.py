"""Comprehensions of every kind: nested, filtered, with walrus and closures."""

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


@program(graphs=1)
def list_comprehension():
    def f(x):
        return [x * i for i in range(4) if i != 2]

    return Case(f, vector())


@program
def dict_comprehension():
    def f(x, names):
        return {name: x + i for i, name in enumerate(names)}

    return Case(f, vector(), ["a", "b", "a"], then=[lambda: Args(vector(), [])])


@program
def set_comprehension():
    def f(x, items):
        sizes = {len(s) for s in items}
        return x * len(sizes), sizes

    return Case(f, vector(), ["a", "b", "cc"])


@program
def nested_loops_and_conditions():
    def f(x):
        return [x * i + j for i in range(3) if i for j in range(i) if (i + j) % 2]

    return Case(f, vector())


@program
def nested_comprehension():
    def f(m):
        rows = [[v * 2 for v in row] for row in m]
        return [sum(r) for r in rows], {k: [v for v in range(k)] for k in range(3)}

    return Case(f, matrix())


@program
def walrus_binds_outside():
    def f(x):
        parts = [(last := x + i) for i in range(3)]
        return parts, last

    return Case(f, vector())


@program
def walrus_filter():
    def f(x, items):
        return [x * y for i in items if (y := i - 2) > 0]

    return Case(f, vector(), [1, 2, 3, 4], then=[lambda: Args(vector(), [9])])


@program
def variable_does_not_leak():
    def f(x):
        i = 100
        parts = [x + i for i in range(2)]
        return parts, i

    return Case(f, vector())


@program
def unpacking_targets():
    def f(x, pairs):
        return [x * a + b for a, b in pairs], {k: v for k, (v, *_) in {"p": (x, 1, 2)}.items()}

    return Case(f, vector(), [(1, 2), (3, 4)])


@program
def free_variables_inside():
    scale = 2

    def f(x):
        shift = 5
        return [(lambda v: v * scale + shift + i)(x) for i in range(2)]

    return Case(f, vector())


@program
def comprehension_in_class_body():
    def f(x):
        class Table:
            sizes = [i * 2 for i in range(3)]

        return x * sum(Table.sizes)

    return Case(f, vector())


@program
def comprehension_over_dict_and_string():
    def f(x, table):
        return [k + v for k, v in table.items()], [c for c in "ab"], [k for k in table], list(table.values()), x + 1

    return Case(f, vector(), {"p": "1", "q": "2"}, then=[lambda: Args(vector(), {"z": "0"})])


@program(whole=False)
def exception_inside_comprehension():
    def f(x, items):
        return [x / i for i in items if 1 // i]

    return Case(f, vector(), [1, 0, 2], then=[lambda: Args(vector(), [1])])


@program(whole=False)
def break_inside_comprehension():
    def f(x):
        y = x + 1
        parts = [(print("part", i), y * i)[1] for i in range(3)]
        return sum(parts)

    return Case(f, vector())


@program
def conditional_value():
    def f(x):
        return [x if i % 2 else -x for i in range(3)], [i for i in range(3) if (i > 0 and not i == 2)]

    return Case(f, vector())


@program
def sum_of_products():
    def f(items):
        return sum(a * b for a in items for b in items), sum([i.sum() for i in items], start=1)

    return Case(f, [vector(), vector(3, 2.0)])


@program(graphs=1)
def loop_that_appends():
    def f(x, items):
        scaled = []
        for item in items:
            scaled.append(x * item)
        return scaled, sum(scaled)

    items = [1, 2]
    return Case(f, vector(), items, then=[lambda: items.append(3)])


@program(graphs=1)
def statements_in_a_row():
    def f(x):
        x = x + 1
        x = x + 2
        x = x + 3
        parts = [x.sum(0), x.sum(-1)]
        return parts, (x.mean(), x.mean())

    return Case(f, vector())
