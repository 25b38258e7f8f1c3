"""Operators on tensors, numbers and containers: binary, in place, reflected, comparisons, slices."""

import operator

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


@program(graphs=1)
def every_binary_operator():
    def f(x, y):
        return x + y, x - y, x * y, x / y, x // y, x % y, x**y, x @ y

    return Case(f, vector(), vector(3, 2.0))


@program
def reflected_with_numbers():
    def f(x):
        return 2 + x, 2 - x, 2 * x, 2 / x, 2 // x, 2 % x, 2**x, 1.5 - x

    return Case(f, leaf(), forward_only=True)


@program
def bitwise_and_shift():
    def f(a, b):
        return a & b, a | b, a ^ b, ~a, a << 1, a >> 1, 1 << b, 7 & a

    return Case(f, torch.arange(4), torch.arange(4) + 2)


@program
def unary_operators():
    def f(x, n):
        return -x, +x, abs(x), ~x.bool(), -n, +n, ~n, abs(-n), not n

    return Case(f, vector(), 5, then=[lambda: Args(vector(), 0)])


@program
def in_place_operators_on_tensor():
    def f(x):
        alias = x
        x += 1
        x *= 2
        x -= 3
        x /= 4
        return alias is x, x

    return Case(f, vector(), versions=True)


@program
def in_place_on_intermediate():
    def f(x):
        y = x + 1
        z = y
        y += 5
        y **= 2
        return y, z, y is z

    return Case(f, vector())


@program
def in_place_rebinding_int():
    def f(x, n):
        m = n
        m += 1
        m //= 2
        m <<= 3
        m |= 1
        m %= 7
        return x * m, n

    return Case(f, vector(), 11, then=[lambda: Args(vector(), 4)])


@program
def in_place_on_list_alias():
    def f(x, items):
        other = items
        other += [x + 1]
        other *= 2
        return other is items, len(items)

    return Case(f, vector(), [1])


@program
def tuple_augmented_makes_new():
    def f(x, t):
        u = t
        u += (x * 2,)
        return u is t, u, len(t)

    return Case(f, vector(), (1, 2))


@program
def tuple_item_augmented_raises_after_effect():
    def f(x, t):
        try:
            t[0] += [x + 1]
        except TypeError as error:
            return str(error), len(t[0])

    return Case(f, vector(), ([],))


@program
def comparison_chain():
    def f(x, a, b):
        if a < b <= 10 != a:
            x = x + 1
        return x, (a < b) == True, x > 1, x == x, x != 2  # noqa: E712

    return Case(f, vector(), 1, 10, then=[lambda: Args(vector(), 10, 10), lambda: Args(vector(), 10.0, 20)])


@program
def comparison_chain_evaluates_once():
    calls = []

    def value(n):
        calls.append(n)
        return n

    def f(x):
        inside = value(1) < value(5) < value(3) < value(100)
        return x if inside else x * 2

    return Case(f, vector())


@program
def identity_and_membership():
    def f(x, y, items):
        return x is y, x is not y, 3 in items, 4 not in items, x + (items is items)

    same = vector()
    return Case(f, same, same, [3, 5], then=[lambda: Args(same, vector(), [4])])


@program
def membership_of_tensor_in_list_by_identity():
    def f(x, y):
        items = [x, y]
        return x in items, items.index(x), x * len(items)

    return Case(f, vector(1), vector(1, 3.0))


@program
def slices_of_tensor():
    def f(m):
        return m[0], m[-1, ::2], m[:, 1:], m[..., 0], m[None], m[1:0], m[:, -2:]

    return Case(f, matrix(3, 4))


@program
def index_with_tensors():
    def f(m, i):
        return m[i], m[i, i], m[:, i], m[[0, 2]]

    return Case(f, matrix(3, 3), torch.tensor([2, 0, 1]))


@program(whole=False)
def index_with_mask():
    def f(m, mask):
        kept = m[mask]
        m[~mask] = 0.5
        return kept * 2, m.sum()

    return Case(f, matrix(3, 3), torch.tensor([True, False, True]))


@program
def setitem_on_tensor():
    def f(m):
        m[0] = 7.0
        m[:, 1] += 1
        m[1, 2] = m[0, 0]
        m[..., -1] *= 2
        return m.sum()

    return Case(f, matrix(3, 4), versions=True)


@program
def slices_of_sequences():
    def f(x, items, text):
        part = slice(1, None, 2)
        return x * len(items[part]), items[::-1], text[part], items[-2:], (1, 2, 3)[:-1]

    return Case(f, vector(), [1, 2, 3, 4, 5], "abcdef", then=[lambda: Args(vector(), [1], "z")])


@program
def slice_assignment():
    def f(x, items):
        items[1:3] = [x, x + 1, x + 2]
        items[::2] = [0] * len(items[::2])
        return len(items)

    return Case(f, vector(), [1, 2, 3, 4])


@program
def integer_and_float_arithmetic():
    def f(x, a, b):
        return (
            x * (a // b),
            a % b,
            divmod(a, b),
            a / b,
            a**b,
            -a // b,
            round(a / b, 2),
            a & 3 if isinstance(a, int) else None,
        )

    return Case(f, vector(), 17, 5, then=[lambda: Args(vector(), -17, 5), lambda: Args(vector(), 2.5, 2)])


@program(whole=False)
def division_by_zero():
    def f(x, n):
        y = x + 1
        return y * (10 // n)

    return Case(f, vector(), 0, then=[lambda: Args(vector(), 3), lambda: Args(vector(), 0)])


@program
def big_integers():
    def f(x, n):
        big = n**40
        return x + big % 97, big, hash(big) == hash(n**40)

    return Case(f, vector(), 7, then=[lambda: Args(vector(), 2**63)])


@program
def complex_numbers():
    def f(x):
        c = 1 + 2j
        return x * c.real + c.imag, abs(3 + 4j), c.conjugate(), torch.complex(x, x) * c

    return Case(f, vector(), forward_only=True)


@program
def string_operators():
    def f(x, text):
        return x * len(text + "!" * 3), "b" in text, text % () if "%" not in text else text % 3, text < "zz"

    return Case(f, vector(), "abc", then=[lambda: Args(vector(), "n=%d")])


@program
def dict_and_set_operators():
    def f(x, a, b):
        merged = a | b
        a |= {"z": x}
        return merged, {1, 2} & {2, 3}, {1} | {2}, {1, 2} - {2}, {1, 2} ^ {2, 3}, {1} <= {1, 2}

    return Case(f, vector(), {"p": 1}, {"q": 2})


@program
def operator_module_functions():
    def f(x, items):
        total = operator.add(x, 1)
        operator.setitem(items, 0, total)
        operator.iadd(items, [2])
        return operator.getitem(items, -1), operator.mul(total, 2), operator.itemgetter(0)(items), operator.truth(items)

    return Case(f, vector(), [0, 1])


@program
def operator_getters_and_callers():
    class Point:
        def __init__(self, value):
            self.value = value

        def scaled(self, by):
            return self.value * by

    point = Point(vector())

    def f(x):
        return operator.attrgetter("value")(point) + x, operator.methodcaller("scaled", 3)(point)

    return Case(f, vector(), observe=point, then=[lambda: setattr(point, "value", vector(3, 8.0))])


@program
def matmul_and_broadcast():
    def f(m, v):
        return m @ v, v @ m.T, m * v, (m + v[:, None].T).sum(0)

    return Case(f, matrix(3, 3), vector(), then=[lambda: Args(matrix(3, 3).double(), vector().double())])


@program
def scalar_promotion():
    def f(i, x):
        return i + 1, i + 1.5, i / 2, i * True, x + 2**40, i > 1.5, torch.add(i, x, alpha=2)

    return Case(f, torch.arange(3), vector())


@program
def bool_of_number_tensor_compare_mix():
    def f(x, n):
        mask = (x > n) & (x < n + 1)
        return mask, mask.any(), torch.where(mask, x, -x), mask.sum()

    return Case(f, vector(5), 1, then=[lambda: Args(vector(5), 1.5)])


@program
def hash_and_equality_of_numbers():
    def f(x, key):
        table = {1: "int", 2.5: "float", True: "bool"}
        return x + len(table), table[1], table.get(key)

    return Case(f, vector(), 1.0, then=[lambda: Args(vector(), 2.5), lambda: Args(vector(), "no")])


class Counter:
    def __init__(self):
        self.added = []

    def __iadd__(self, other):
        self.added.append(other)
        return self


@program
def in_place_operators_as_functions():
    items, counter = [1], Counter()

    def f(x, n):
        y = operator.iadd(x * 1, x)
        same = operator.imul(y, 2) is y
        operator.isub(y, x.detach())
        grown = operator.iadd(items, [n])
        n = operator.ilshift(n, 2)
        return y, same, grown is items, operator.iadd(counter, n) is counter, operator.ixor({1, 2}, {2, n}), abs(y), operator.abs(y)

    return Case(f, vector(), 3, observe=[items, counter])


class Told:
    """Each of whose attributes is looked up by Python, with output."""

    n = 3

    def __getattribute__(self, name):
        print("asked for", name)
        return object.__getattribute__(self, name)

    @property
    def inner(self):
        print("inner")
        return Told()

    def go(self, x):
        return x + self.n


@program(whole=False)
def methods_and_attributes_by_name_where_the_look_up_breaks():
    def f(x, told):
        x = operator.methodcaller("go", x)(told)
        x = x * operator.attrgetter("n")(told)
        x = x + operator.attrgetter("inner.n")(told)
        a, b = operator.attrgetter("n", "inner")(told)
        return x + a + b.n

    return Case(f, vector(), Told(), then=[lambda: None])


class Plain:
    n = 3

    def go(self, x):
        return x + self.n


@program(whole=False)
def methods_by_name_of_a_class_that_changes():
    plain = Plain()

    def f(x):
        return x + operator.methodcaller("go", 1)(plain) * operator.attrgetter("n.real")(plain)

    def change():
        Plain.__getattribute__ = lambda self, name: object.__getattribute__(self, name)

    def back():
        del Plain.__getattribute__

    return Case(f, vector(), then=[change, back])


class Subscripted:
    @classmethod
    def __class_getitem__(cls, key):
        return key + 1


class Meta(type):
    def __getattribute__(cls, name):
        print("asked a class for", name)
        return type.__getattribute__(cls, name)


class SubscriptedWithOutput(metaclass=Meta):
    @classmethod
    def __class_getitem__(cls, key):
        return key * 2


@program(whole=False)
def classes_with_subscripts():
    def f(x, n):
        return x * Subscripted[n] + SubscriptedWithOutput[n]

    return Case(f, vector(), 2, then=[lambda: Args(vector(), 3)])
