"""Strings that a later call has otherwise: what they are compared with is guarded, not what they are."""

from conformance.program import Args, Case, program
from conformance.sample import vector


class _Word(str):
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = str.__hash__


@program
def names_that_change():
    def f(x, name):
        if name == "first" or "second" != name != "third":
            x = x + 1
        return x * 2 if name in ("a", "b") else x

    return Case(f, vector(3), "first", then=[lambda t=t: Args(vector(3), t) for t in ("a", "x", "y", "second", "b", "third", "z", "first")])


@program(whole=False)
def names_of_another_class():
    def f(x, name):
        return x * 2 if name == "first" else x + 1, name in ("a", "b")

    return Case(f, vector(3), "x", then=[lambda t=t: Args(vector(3), t) for t in (_Word("y"), "z", None, 3, b"first", "first")])


@program
def names_that_are_kept_after_all():
    kept = []

    def f(x, name):
        if name != "first":
            kept.append(name)
        return x * len(name)

    return Case(f, vector(3), "x", then=[lambda t=t: Args(vector(3), t) for t in ("y", "zz", "first", "x")], observe=kept)
