"""What torch warns of once a process breaks no graph after it was said, and is said where eager says it."""

import subprocess
import sys
import textwrap
import warnings

import pytest
import torch

import framefuse


def said(call):
    """Uses the warning up, as a call of eager's does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call()


def index_reduce(x, source):
    return (x * 2).index_reduce(0, torch.arange(3), source, "mean") + 1


def cross_and_qr(x, y):
    z = torch.cross(x, y)
    q, r = torch.qr(z + 3 * torch.eye(3))
    return z, (q @ r).abs()


def to_real(x, y):
    return x.to(torch.complex64).mul(2j).to(torch.float32) + y


def searched_with_gaps(x, y):
    return torch.searchsorted(torch.arange(9.0).view(3, 3), x.t()) + y


def to_half(x, y):
    return (x + y).to(torch.complex32).real.float()


@pytest.mark.parametrize("backend", ["fuse", "aten", "eager"])
@pytest.mark.parametrize("function", [index_reduce, cross_and_qr, to_real, searched_with_gaps, to_half])
def test_no_break_for_what_was_said(function, backend):
    x, y = torch.randn(3, 3), torch.randn(3, 3)
    said(lambda: function(x, y))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        eager = function(x, y)
        compiled = framefuse.compile(function, backend=backend, fullgraph=True)(x, y)
    torch.testing.assert_close(compiled, eager)
    assert not seen
    assert not torch.is_warn_always_enabled()


def test_it_breaks_while_all_is_said_each_time():
    x, y = torch.randn(3, 3), torch.randn(3, 3)
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            framefuse.compile(cross_and_qr)(x, y)
    finally:
        torch.set_warn_always(False)
    assert len(seen) == 2


def test_what_is_said_each_time_breaks():
    f = framefuse.compile(lambda x: x.std(0) + 1)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        f(torch.ones(1, 3))
        f(torch.ones(1, 3))
    assert len(seen) == 2


_FIRST = """
    import warnings
    import torch
    import framefuse

    def f(x, y):
        z = x * 2
        w = torch.cross(z, y)
        return w.index_reduce(0, torch.arange(3), y, "mean")

    x, y = torch.randn(3, 3), torch.randn(3, 3)
    compiled = framefuse.compile(f)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            result = compiled(x, y)
            print([(str(w.message)[:11], w.lineno) for w in seen])
    assert not torch.is_warn_always_enabled()
    framefuse.reset()
    torch.testing.assert_close(framefuse.compile(f, fullgraph=True)(x, y), result)
"""


@pytest.mark.compiles_nothing("a process of its own does")
def test_the_first_call_says_it_once_at_its_line():
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(_FIRST)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["[('Using torch', 8), ('index_reduc', 9)]", "[]"], run.stdout
