"""Numpy's numbers and its arithmetic on them: values that are known while a capture is made."""

import collections
import math
import types

import numpy as np
import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


@program
def numbers_of_numpy():

    class Settings:
        pass

    s = Settings()
    s.scale = np.float32(2)
    s.n = np.int64(3)
    s.row = [np.float64(1.5), np.float16(0.5), np.bool_(True)]
    s.table = {np.int64(1): "one", 2: "two"}
    first = s.scale

    def f(x):
        total = x * s.scale + s.scale * x - np.float64(2) * x
        root = x / np.sqrt(64) + np.pi * np.exp(s.row[0]) + np.maximum(s.n, 2)
        size = int(np.prod(x.shape))
        return (
            total,
            root,
            x.reshape(np.prod((1, size))),
            x[: s.n - 1],
            float(s.scale),
            math.sqrt(s.n),
            s.n == 3,
            s.scale is first,
            isinstance(s.scale, np.floating),
            s.scale,
            np.mean([1, 2, size]),
            [r * 2 for r in s.row],
            s.table[1],
            s.table.get(np.int64(2)),
            torch.full((2,), s.row[0]),
            np.float32(0.1) + 1,
            sum(s.row),
            bool(s.row[2]),
            {s.n: 1}[3],
        )

    return Case(
        f,
        vector(),
        then=[
            lambda: setattr(s, "scale", np.float32(2)),
            lambda: setattr(s, "scale", np.float64(2)),
            lambda: setattr(s, "scale", np.float32("nan")),
            lambda: setattr(s, "scale", np.float32(-0.0)),
            lambda: setattr(s, "n", np.int32(3)),
            lambda: setattr(s, "n", 3),
            lambda: s.row.__setitem__(0, np.float64(2.5)),
        ],
    )


@program(whole=False)
def numpy_warns_each_time():

    def f(x, d):
        y = x + 1
        z = np.float32(1) / d
        return y * z, np.log(d), np.geterr()["divide"]

    return Case(f, vector(), np.float32(0), then=[lambda: Args(vector(), np.float32(2)), lambda: None])


@program(whole=False)
def the_text_of_numpys_numbers_is_a_setting():
    s = np.float64(3)

    def f(x):
        return x + 1, f"{s!r}", repr([s]), "%r" % s, "{}".format((s,)), str({"k": s})

    def older():
        np.set_printoptions(legacy="1.25")

    def restored():
        np.set_printoptions(legacy=False)

    return Case(f, vector(), then=[older, restored])


@program(whole=False)
def the_text_of_what_holds_numpys_numbers_is_a_setting():
    s = np.float64(3)
    row = collections.deque([s])

    def f(x):
        y = x + 1
        texts = [ascii(s), f"{s!a}", ascii((s,)), b"%a" % (s,), b"%r" % (s,), repr({s}), str(row)]
        texts += ["{}".format(row), "%s" % row, object.__str__(s), format({1: s}.values())]
        return y, texts, repr(ValueError(s)), f"{types.SimpleNamespace(k=s)}", repr(slice(s))

    def older():
        np.set_printoptions(legacy="1.25")

    def restored():
        np.set_printoptions(legacy=False)

    return Case(f, vector(), then=[older, restored])


@program
def a_number_that_is_kept_is_the_one_that_was_read():
    holder = types.SimpleNamespace(scale=2, kept=None)

    def f(x):
        holder.kept = holder.scale
        holder.scale = holder.scale
        return x + 1, holder.kept

    def other():
        holder.scale = np.float64(3)

    return Case(f, vector(), observe=holder, look=lambda: holder.kept is holder.scale, then=[other, other, other])


@program(whole=False)
def a_number_kept_in_a_class_is_the_one_that_was_read():
    class Settings:
        kept = None

    holder = types.SimpleNamespace(scale=2)

    def f(x):
        Settings.kept = holder.scale
        holder.scale = holder.scale
        return x + 1

    def other():
        holder.scale = np.float64(3)

    return Case(f, vector(), observe=[holder, Settings], then=[other, other, other])
