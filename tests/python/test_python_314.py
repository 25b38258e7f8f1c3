"""What Python 3.14 added: template strings, annotations that are computed when asked for, tagged references in frames."""

import gc
import sys
import textwrap

import framefuse
import pytest
import torch

pytestmark = pytest.mark.skipif(sys.version_info < (3, 14), reason="needs Python 3.14")


def check(function, *arguments):
    compiled = framefuse.compile(function)
    for _ in range(3):
        assert repr(compiled(*arguments)) == repr(function(*arguments))


def defined(source):
    names = {"torch": torch, "sys": sys}
    exec(textwrap.dedent(source), names)
    return names


def test_template_strings():
    names = defined(
        """
        def f(x):
            y = x + 1
            t = t"a{y.sum()!r:>5}b{x}"
            return y * 2, t.strings, t.values[1] is x, t.interpolations[0].format_spec
        """
    )
    check(names["f"], torch.ones(3))


def test_annotations_with_an_effect_are_computed_once_and_in_order():
    names = defined(
        """
        log = []

        def note(v):
            log.append(v)
            return int

        def outer(a: note("outer")):
            return a

        def f(x):
            y = x * 3
            log.append("before")
            result = y, outer.__annotations__, y + 1
            log.append("after")
            return result
        """
    )
    x = torch.ones(3)
    y, annotations, z = framefuse.compile(names["f"])(x)
    assert names["log"] == ["before", "outer", "after"]
    assert annotations == {"a": int} and torch.equal(z, x * 3 + 1) and torch.equal(y, x * 3)


def test_annotations_that_only_name_types_break_nothing():
    def f(x):
        def g(a: int, b: torch.Tensor) -> float:
            return a

        return x + len(g.__annotations__), g.__annotations__, g.__annotate__.__qualname__

    compiled = framefuse.compile(f, fullgraph=True)
    assert repr(compiled(torch.ones(2))) == repr(f(torch.ones(2)))


def test_values_written_through_f_locals():
    def f(x):
        frame = sys._getframe()
        z, w, v = x + 1, 5, [x]
        frame.f_locals["z"] = 7
        frame.f_locals["w"] = None
        frame.f_locals["v"] = w is None
        return x * 2, z, w, v

    check(f, torch.ones(3))


def test_collections_while_frames_hold_plain_pointers():
    def numbers(n):
        for i in range(n):
            try:
                gc.collect()
                yield [i]
            finally:
                gc.collect()

    def f(x):
        for (i,) in numbers(3):
            x = x + i
            gc.collect()
        return x

    check(f, torch.ones(3))


def test_an_error_goes_on_at_its_own_line_after_a_break_in_exit():
    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, traceback):
            print("leaving")
            return False

    def f(x):
        with Manager():
            y = x + 1
            raise ValueError(y.sum().item())

    def lines(function):
        with pytest.raises(ValueError) as raised:
            function(torch.ones(3))
        return [entry.lineno + 1 for entry in raised.traceback if entry.name == "f"]

    assert lines(framefuse.compile(f)) == lines(f)
