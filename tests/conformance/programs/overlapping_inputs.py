"""Inputs that lie in one storage: that overlap, that start somewhere else, that repeat elements, that may not be written.

A compiler that takes inputs for separate memory, the offset of the first call for that of all, or a read-only alias for
what it shows, is seen here.
"""

import types
import warnings

import numpy as np
import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


def cut(f, base, *parts, **settings):
    """Calls f with each of the parts of one base; a part is a function of it that gives the arguments."""
    first, *others = parts
    then = [lambda part=part: Args(*part(base)) for part in others]
    return Case(f, *first(base), observe=base, versions=True, then=then, **settings)


@program
def one_written_and_a_shifted_one_read():
    def f(a, b):
        a.add_(1)
        return a * b

    return cut(
        f,
        vector(9),
        lambda t: (t[:3], t[5:8]),
        lambda t: (t[:3], t[1:4]),
        lambda t: (t[1:4], t[:3]),
        lambda t: (t[:3], t[:3]),
        lambda t: (t[:5:2], t[1:6:2]),
    )


@program
def one_copied_into_a_shifted_one():
    def f(a, b):
        a.copy_(b.clone())
        b.mul_(2)
        a[0] = 7
        return a + b

    return cut(f, vector(9), lambda t: (t[:4], t[5:]), lambda t: (t[:4], t[2:6]), lambda t: (t[3:7], t[:4]))


@program
def three_that_overlap_by_twos():
    def f(a, b, c):
        a.add_(1)
        c.mul_(3)
        b.sub_(a)
        return a + b + c

    return cut(f, vector(12), lambda t: (t[:4], t[4:8], t[8:]), lambda t: (t[:4], t[2:6], t[4:8]))


@program
def read_only_both_times():
    def f(a, b):
        return a + b, a is b, a.view(-1), b[1:]

    return cut(f, vector(9), lambda t: (t[:3], t[4:7]), lambda t: (t[:3], t[2:5]), lambda t: (t[:3], t[:3]))


@program
def a_matrix_and_its_transpose():
    def f(a, b):
        a.mul_(2)
        return a + b, b[0]

    return cut(f, matrix(3, 3), lambda t: (t, matrix(3, 3).t()), lambda t: (t, t.t()), lambda t: (t.t(), t))


@program
def rows_and_columns_of_one_matrix():
    def f(a, b):
        a.add_(10)
        b.mul_(2)
        return a.sum() - b

    return cut(f, matrix(3, 3), lambda t: (t[0], t[1]), lambda t: (t[0], t[:, 0]), lambda t: (t[:, 2], t[2]))


@program
def the_base_and_a_part():
    def f(whole, part):
        part.add_(1)
        whole.mul_(2)
        part.zero_()
        return whole * 1

    return cut(f, vector(6), lambda t: (t, vector(3)), lambda t: (t, t[2:5]), lambda t: (t[1:], t[:3]))


@program
def with_other_types_of_one_storage():
    def f(a, b):
        a.add_(1)
        return b + 1, a * 2

    return cut(
        f, vector(4), lambda t: (t, vector(4).view(torch.int32)), lambda t: (t, t.view(torch.int32)), forward_only=True
    )


@program(whole=False)
def offsets_that_change():
    def f(a):
        return a * 2, a[1:], a.storage_offset() > 0

    return cut(f, vector(12), lambda t: (t[:4],), lambda t: (t[1:5],), lambda t: (t[8:],), lambda t: (t[:4],))


@program
def offsets_that_change_under_a_write():
    def f(a):
        a[1:].add_(a[:-1].sum())
        return a.sum()

    return cut(f, vector(12), lambda t: (t[:4],), lambda t: (t[1:5],), lambda t: (t[7:11],), lambda t: (t[1::3],))


@program(whole=False)
def offset_of_a_result_that_is_a_view():
    def f(a):
        return a[1:], a.view(2, 2)[1], a.as_strided((2,), (1,), a.storage_offset() + 1)

    return cut(f, vector(12), lambda t: (t[:4],), lambda t: (t[3:7],), lambda t: (t[5:9],))


@program
def strided_from_the_start_of_the_storage():
    def f(a):
        return a.as_strided((2, 2), (1, 2), 0) + 1, a.as_strided((3,), (2,)) * 2

    return cut(f, vector(12), lambda t: (t[:6],), lambda t: (t[2:8],), lambda t: (t[4:10],))


@program
def rows_that_repeat():
    def f(a):
        return a * 2, a.sum(), a.contiguous(), a.clone().add_(1)

    return cut(
        f, vector(3), lambda t: (t.expand(2, 3),), lambda t: (t[:1].expand(3),), lambda t: (t.clone().repeat(2, 1),)
    )


@program
def windows_that_overlap_themselves():
    def f(a):
        return a.sum(1), a * 2, a.t() @ a

    return cut(f, vector(9), lambda t: (t.unfold(0, 3, 1),), lambda t: (t.unfold(0, 3, 2),), lambda t: (t.view(3, 3),))


@program
def a_write_to_repeated_rows():
    def f(a):
        try:
            a.add_(1)
        except RuntimeError as error:
            return type(error).__name__
        return a * 2

    return cut(f, vector(3), lambda t: (t.clone().expand(1, 3),), lambda t: (t.expand(2, 3),), lambda t: (t,))


@program
def leaves_that_share_a_storage():
    def f(a, b):
        return (a * b).sum(), a.exp()

    def make(first, second):
        base = vector(6)
        return Args(base[first].requires_grad_(), base[second].requires_grad_())

    start = make(slice(0, 3), slice(3, 6))
    return Case(f, *start.args, then=[lambda: make(slice(0, 3), slice(2, 5)), lambda: make(slice(1, 4), slice(1, 4))])


@program
def an_input_that_is_a_detached_alias_of_the_other():
    def f(a, alias):
        alias.mul_(2)
        return a * 3, alias + 1

    def make(shares):
        a = vector().requires_grad_()
        return Args(a, a.detach() if shares else vector())

    return Case(f, *make(False).args, versions=True, then=[lambda: make(True), lambda: make(False)])


@program
def an_alias_kept_in_an_object():
    base = vector(6)
    o = types.SimpleNamespace(kept=base[:3], tables={"t": base[3:]})

    def f(x):
        x.add_(1)
        return o.kept * 2, o.tables["t"] * 3

    change = [lambda: Args(base[1:4]), lambda: Args(base[3:]), lambda: Args(vector())]
    return Case(f, vector(), observe=[o, base], versions=True, then=change)


@program
def read_only_view_of_a_dict():
    table = {"a": 1, "b": 2}
    shown = types.MappingProxyType(table)

    def f(x):
        before = shown["a"], len(shown)
        table["a"] = table["a"] + 1
        table["c"] = 5
        return x * shown["a"], before, list(shown), shown.get("c"), "c" in shown

    return Case(f, vector(), observe=[table, shown], then=[lambda: table.update(a=7), lambda: table.pop("c") and None])


@program
def read_only_view_of_a_dict_refuses():
    shown = types.MappingProxyType({"a": 1})

    def f(x):
        try:
            shown["a"] = 2
        except TypeError as error:
            return x * shown["a"], str(error)
        return x

    return Case(f, vector(), observe=shown)


@program(whole=False)
def read_only_views_of_a_class():
    cls = type("Made", (), {"n": 2})
    names = vars(cls)

    def f(x):
        before = names["n"]
        return x * names["n"], before, "m" in names

    return Case(f, vector(), then=[lambda: setattr(cls, "n", 3), lambda: setattr(cls, "m", 4)])


@program(whole=False)
def memory_that_is_read_only():
    numbers = np.arange(4, dtype=np.float32)
    numbers.flags.writeable = False
    data = bytearray(b"\x01\x02\x03\x04")
    shown = memoryview(data).toreadonly()

    def f(x):
        try:
            numbers[0] = 5
        except ValueError:
            x = x + 1
        data[0] = data[0] + 1
        return x * shown[0], shown.readonly, numbers.flags.writeable

    return Case(f, vector(), observe=[numbers, data])


@program
def a_tensor_over_memory_that_is_read_only():
    numbers = np.arange(4, dtype=np.float32)
    numbers.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        t = torch.from_numpy(numbers)

    def f(x):
        return x + t, t[1:], t.sum()

    return Case(f, vector(4), observe=[t, numbers], then=[lambda: Args(t), lambda: Args(t.flip(0))])


@program
def a_constant_that_an_input_shares_its_storage_with():
    kept = vector(4)

    def f(x):
        y = kept * 2
        x.add_(1)
        return y, kept * 3, x + kept

    return Case(f, vector(4), observe=kept, versions=True, then=[lambda: Args(kept), lambda: Args(kept.view(2, 2).view(4))])


@program(whole=False)
def storages_over_parts_of_one_array():
    def memory(first, second):
        array = np.arange(32, dtype=np.float32)
        return Args(torch.from_numpy(array[first : first + 8]), torch.from_numpy(array[second : second + 8]))

    def f(x, y):
        x.add_(1)
        y.mul_(3)
        return x + y

    array = np.arange(32, dtype=np.float32)
    stays = torch.from_numpy(array[:8])
    beside, behind = (Args(stays, torch.from_numpy(array[n : n + 8])) for n in (24, 5))
    places = [(0, 16), (0, 4), (16, 8), (8, 2), (0, 8), (4, 4)]
    then = [lambda: beside, lambda: behind, *(lambda p=p: memory(*p) for p in places)]
    return Case(f, *memory(0, 20).args, then=then, versions=True)
