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


def test_template_strings_are_in_the_graph():
    names = defined(
        """
        from string.templatelib import Interpolation, Template

        def render(template):
            texts, total = [], 0
            for part in template:
                match part:
                    case str():
                        texts.append(part)
                    case Interpolation(value, text, conversion, spec):
                        texts.append(f"{text}/{conversion}/{spec}")
                        total = total + value
            return texts, total

        def f(x, n, width):
            y = x + 1
            t = t"a{y!r:>{width}}{n}b"
            texts, total = render(t)
            return y * 2, t, total, texts, t.strings, t.values[0] is y, t.interpolations[1].value + n, t"", render(t"{n}" + t"c{y}")

        def parts(result):
            template, empty = result[1], result[7]
            assert type(template) is Template and type(empty) is Template and list(empty) == []
            one, two = template.interpolations
            assert isinstance(one, Interpolation)
            said = [(i.expression, i.conversion, i.format_spec) for i in (one, two)]
            return repr((result[0], template.strings, one.value, two.value, said) + result[2:7] + result[8:])
        """
    )
    f, parts = names["f"], names["parts"]
    compiled = framefuse.compile(f, fullgraph=True)
    for n, width in [(1, 2), (5, 2), (5, 3), (2.5, "x"), (7, 2)]:
        assert parts(compiled(torch.ones(3), n, width)) == parts(f(torch.ones(3), n, width))


def test_template_strings_with_a_break_among_their_parts():
    names = defined(
        """
        def f(x, items):
            y = x + 1
            t = t"{y}{y.sum().tolist()}{items}{print('part')}"
            print(t.strings)
            u = t"{t}{items}"
            items.append(4)
            return t.values, str(u), t.interpolations[2].value is items, u.values[1] is items, u.values[0] is t
        """
    )
    f = names["f"]
    compiled = framefuse.compile(f)
    for _ in range(3):
        mine, eager = [1], [1]
        assert repr(compiled(torch.ones(3), mine)) == repr(f(torch.ones(3), eager)) and mine == eager


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
