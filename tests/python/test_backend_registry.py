"""Names of backends: built in, registered, torch's; and what cannot be registered."""

import framefuse
import pytest
from framefuse import _backends

pytestmark = pytest.mark.compiles_nothing("about the registry of backends")


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    monkeypatch.setattr(_backends, "_registered", {})


def passthrough(gm, inputs):
    return gm.forward


def test_lists():
    assert framefuse.list_backends(torch_registry=False) == ["fuse", "aten"]
    names = framefuse.list_backends()
    assert {"eager", "aot_eager", "inductor"} <= set(names)
    assert len(names) == len(set(names))


def test_register_in_each_form():
    assert framefuse.register_backend(passthrough) is passthrough
    assert framefuse.register_backend(passthrough, name="same") is passthrough

    @framefuse.register_backend(name="mine")
    def other(gm, inputs):
        return gm.forward

    assert framefuse.list_backends(torch_registry=False) == ["fuse", "aten", "mine", "passthrough", "same"]
    assert _backends.resolve_backend("mine") == ("mine", other)


def test_cannot_be_registered():
    with pytest.raises(ValueError, match="built in"):
        framefuse.register_backend(passthrough, name="aten")
    framefuse.register_backend(passthrough, name="mine")
    with pytest.raises(ValueError, match="registered already"):
        framefuse.register_backend(lambda gm, inputs: gm, name="mine")
    with pytest.raises(TypeError, match="takes a callable"):
        framefuse.register_backend(3)


def test_callables_and_torchs_names():
    assert _backends.resolve_backend(passthrough) == ("passthrough", passthrough)
    name, function = _backends.resolve_backend("eager")
    assert name == "eager" and callable(function)
