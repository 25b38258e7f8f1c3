"""Frames of installed libraries: whether one is left to Python is asked again where the library's module changes."""

import importlib
import sys

import numpy as np
import pytest
import torch

import framefuse


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A package as pip installs it, that knows nothing of torch."""
    (tmp_path / "some_counts-1.0.dist-info").mkdir()
    package = tmp_path / "some_counts"
    package.mkdir()
    (package / "__init__.py").write_text("def twice(n):\n    return 2 * n\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("some_counts")
    sys.modules.pop("some_counts", None)


ROWS = 5


def test_a_library_learns_of_torch_and_forgets_it(library):
    def f(x):
        framefuse.graph_break()
        # numpy's own frames run as Python, and call the library's.
        return x * float(np.apply_along_axis(lambda row: library.twice(row[0]), 1, np.ones((ROWS, 2))).sum())

    compiled, x = framefuse.compile(f), torch.ones(3)

    def left_to_python():
        for _ in range(8):
            torch.testing.assert_close(compiled(x), f(x))
        before = framefuse.statistics()["eager_fallbacks.library"]
        compiled(x)
        return framefuse.statistics()["eager_fallbacks.library"] - before

    framefuse.reset()
    without = left_to_python()
    library.torch = torch
    assert left_to_python() == without - ROWS
    del library.torch
    assert left_to_python() == without
