"""Imports, and libraries that have nothing to do with tensors, are not captured: not as frames of their own, and not in pieces."""

import sys

import framefuse
import numpy as np
import pytest
import torch


@pytest.fixture
def x():
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def counted(function, *args, calls=3):
    """What `calls` calls of the compiled function added to the statistics; their results are those of Python."""
    expected = function(*args)
    compiled = framefuse.compile(function, backend="aten")
    before = framefuse.statistics()
    for _ in range(calls):
        torch.testing.assert_close(compiled(*args), expected)
    after = framefuse.statistics()
    return {name: after[name] - before[name] for name in after}


MODULE = """
import framefuse
def decorator(f):
    for name in ("a", "b"):
        globals()[name] = f
    return f
@decorator
def work(x):
    return x
def __getattr__(name):
    if name != "late":
        raise AttributeError(name)
    from {name}_inner import value
    return value
total = sum(i * i for i in range(10))
"""
INNER = """
def make():
    return [i for i in range(3)]
value = len(make())
"""


@pytest.fixture(params=["statement", "import_module", "attribute", "in a function that is called"])
def importing(request, tmp_path, monkeypatch):
    name = "imported_" + "".join(c for c in request.param if c.isalpha())
    (tmp_path / f"{name}.py").write_text(MODULE.format(name=name))
    (tmp_path / f"{name}_inner.py").write_text(INNER)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, name, raising=False)
    programs = {
        "statement": f"def f(x):\n    y = x + 1\n    import {name} as m\n    return y * m.total",
        "import_module": f"import importlib\ndef f(x):\n    y = x + 1\n    m = importlib.import_module({name!r})\n    return y * m.total",
        "attribute": f"import {name} as m\ndef f(x):\n    y = x + 1\n    return y * m.late * 95",
        "in a function that is called": f"def g():\n    from {name} import total\n    return total\ndef f(x):\n    y = x + 1\n    return y * g()",
    }
    namespace = {}
    exec(programs[request.param], namespace)
    yield namespace["f"]
    for module in [m for m in sys.modules if m.startswith(name)]:
        del sys.modules[module]


def test_modules_are_not_captured_while_they_are_imported(importing, x):
    compiled = framefuse.compile(importing, backend="aten")
    with framefuse.capture_logs("graph_breaks") as records:
        torch.testing.assert_close(compiled(x), (x + 1) * 285)
    inner = ("decorator", "make", "<module>", "<genexpr>")
    assert not [text for _, text in records if text.split(" in ", 1)[1].startswith(inner)]
    before = framefuse.statistics()
    torch.testing.assert_close(compiled(x), (x + 1) * 285)
    assert framefuse.statistics()["captures"] - before["captures"] <= 3


def test_a_compiled_function_that_a_module_calls_as_it_is_imported_is_compiled(tmp_path, monkeypatch, x):
    (tmp_path / "calls_at_import.py").write_text(
        "import framefuse, torch\n@framefuse.compile\ndef f(x):\n    return x * 2\nvalue = f(torch.ones(2))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    before = framefuse.statistics()
    import calls_at_import

    torch.testing.assert_close(calls_at_import.value, torch.full((2,), 2.0))
    assert framefuse.statistics()["graphs"] > before["graphs"]
    del sys.modules["calls_at_import"]


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_an_import_takes_no_other_library(fresh_python):
    """sympy alone takes 1.6 s, and every process would pay for it."""
    told = fresh_python(
        "import sys, torch\n"
        "before = set(sys.modules)\n"
        "import framefuse\n"
        "print({name.partition('.')[0] for name in set(sys.modules) - before} - {'framefuse', *sys.stdlib_module_names})\n"
        "print(sorted(name for name in set(sys.modules) - before if name.startswith('torch.')))\n"
    )
    assert told.split() == ["set()", "[]"]


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_torch_func_imports_without_capture(fresh_python):
    """Torch imports hundreds of files where a transform is first used."""
    told = fresh_python(
        "import torch, framefuse\n"
        "f = framefuse.compile(lambda x: torch.func.grad(lambda y: (y.sin() * y).sum())(x), backend='aten')\n"
        "f(torch.randn(3))\n"
        "print(framefuse.statistics()['attempts'])\n"
    )
    assert int(told) < 10


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_what_an_import_inside_changes_is_read_again(fresh_python):
    """The first Hessian imports modules that register node types, after the capture has read the registry."""
    told = fresh_python(
        "import torch, framefuse\n"
        "framefuse.config.raise_on_bug = True\n"
        "f = framefuse.compile(lambda x: torch.func.hessian(lambda y: (y * y.sin()).sum())(x))\n"
        "x = torch.ones(3)\n"
        "first = f(x)\n"
        "assert torch.equal(first, f(x)) and first[0, 0] > 0.2, first\n"
        "print(framefuse.statistics()['graphs'])\n"
    )
    assert int(told) > 0


# ---------------------------------------------------------------- libraries


def with_numpy(x):
    y = (x + 1).numpy()
    n = np.linalg.norm(y) + np.pad(y, 1).sum() + np.einsum("ij,ij->", y, y) + np.linalg.solve(np.eye(3), np.ones(3)).sum()
    return x * float(n)


def with_numpys_python_code(x):
    y = (x + 1).numpy()
    a, b = np.broadcast_arrays(np.eye(3, 4), y)
    n = np.average(a) + np.median(b) + np.percentile(y, 30) + np.trapezoid(y).sum() + np.rot90(y).sum() + np.cov(y).sum()
    return x * float(n)


@pytest.mark.parametrize("function", [with_numpy, with_numpys_python_code])
def test_libraries_run_in_one_piece(function, x):
    counts = counted(function, x, calls=4)
    assert counts["captures"] < 25 and counts["attempts"] < 50
    assert counts["eager_fallbacks"] == counts["eager_fallbacks.library"] > 0


def test_callbacks_of_the_users_are_captured(x):
    def f(x):
        framefuse.graph_break()
        total = x * 0

        def along(row):
            nonlocal total
            total = total + torch.sin(x) * float(row[0])
            return 0.0

        np.apply_along_axis(along, 1, np.ones((2, 2)))
        return total

    assert counted(f, x)["graphs"] > 0
    torch.testing.assert_close(framefuse.compile(f)(x), torch.sin(x) * 2)
