"""Who hears from torch.compiler.is_compiling() that code is captured: users, torch, and libraries where they are to."""

import importlib
import sys

import pytest
import torch

import framefuse

LIBRARY = """
import torch

def told(x):
    return x * 2 if torch.compiler.is_compiling() else x * 3

class Model(torch.nn.Module):
    def forward(self, x):
        return told(x)
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A package as pip installs it: its dist-info stands beside its folder."""
    (tmp_path / "some_library-1.0.dist-info").mkdir()
    package = tmp_path / "some_library" / "models"
    package.mkdir(parents=True)
    (tmp_path / "some_library" / "__init__.py").write_text("")
    (package / "__init__.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("some_library.models")
    for name in ("some_library", "some_library.models"):
        sys.modules.pop(name, None)


def mine(x):
    return x * 2 if torch.compiler.is_compiling() else x * 3


@pytest.mark.parametrize("backend", ["aten", lambda graph, inputs: graph.forward])
def test_a_library_does_what_it_does_eagerly(library, backend):
    x = torch.ones(3)
    compiled = framefuse.compile(library.Model(), backend=backend, fullgraph=True)
    assert torch.equal(compiled(x), library.Model()(x))
    assert torch.equal(compiled(x), x * 3)


def test_the_users_own_code_is_told():
    x = torch.ones(3)
    assert torch.equal(framefuse.compile(mine, fullgraph=True)(x), x * 2)


def test_an_object_of_its_own(library):
    x = torch.ones(3)
    told = framefuse.compile(library.told, tell_libraries=True, fullgraph=True)
    not_told = framefuse.compile(library.told, tell_libraries=False, fullgraph=True)
    for _ in range(2):  # they share no entries
        assert torch.equal(told(x), x * 2)
        assert torch.equal(not_told(x), x * 3)


def test_the_setting(library):
    x = torch.ones(3)
    with framefuse.config.patch(tell_libraries=True):
        told = framefuse.compile(library.told, fullgraph=True)
    assert torch.equal(told(x), x * 2)  # as it was when the object was made
    assert torch.equal(framefuse.compile(library.told, fullgraph=True)(x), x * 3)


def test_editable_projects_are_the_users_own(tmp_path, monkeypatch):
    """Their dist-info is elsewhere, an egg-info may stand beside them."""
    (tmp_path / "my_project.egg-info").mkdir()
    (tmp_path / "my_project.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path))
    x = torch.ones(3)
    assert torch.equal(framefuse.compile(importlib.import_module("my_project").told, fullgraph=True)(x), x * 2)


@pytest.mark.compiles_nothing("the argument is refused")
def test_a_bad_value():
    with pytest.raises(TypeError, match="tell_libraries must be True or False"):
        framefuse.compile(mine, tell_libraries=1)
