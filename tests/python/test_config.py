"""framefuse.config: attributes with types, errors that list the names, patch(), the environment."""

import framefuse
import pytest

pytestmark = pytest.mark.compiles_nothing("about settings and names")


def test_defaults(fresh_python):
    program = "from framefuse import config as c; print(c.recompile_limit, c.raise_on_bug, c.verify_metadata)"
    assert fresh_python(program) == "8 False False\n"


def test_set_and_patch():
    framefuse.config.recompile_limit = 3
    with framefuse.config.patch(recompile_limit=1, verbose=True):
        assert framefuse.config.recompile_limit == 1
        assert framefuse.config.verbose is True
    assert framefuse.config.recompile_limit == 3
    assert framefuse.config.verbose is False


def test_patch_restores_after_an_error():
    with pytest.raises(KeyError), framefuse.config.patch(verbose=True):
        raise KeyError
    assert framefuse.config.verbose is False


def test_unknown_names():
    with pytest.raises(AttributeError, match="unknown setting 'recompile_limits'.*did you mean 'recompile_limit'"):
        framefuse.config.recompile_limits = 3
    with pytest.raises(AttributeError, match="unknown setting 'foo'; the settings are: recompile_limit"):
        framefuse.config.foo


@pytest.mark.parametrize(("name", "value"), [("verbose", 1), ("recompile_limit", True), ("recompile_limit", "8")])
def test_wrong_type(name, value):
    with pytest.raises(TypeError, match=f"setting '{name}' takes"):
        setattr(framefuse.config, name, value)


def test_listed_and_documented():
    assert "recompile_limit" in dir(framefuse.config)
    assert "recompile_limit = 8  # " in repr(framefuse.config)
    assert all(text.endswith(".") for _, text, _ in framefuse._C.config_settings())


def test_environment(fresh_python):
    program = "import framefuse; print(framefuse.config.recompile_limit, framefuse.config.verbose)"
    assert fresh_python(program, FRAMEFUSE_CONFIG="recompile_limit=2,verbose=1") == "2 True\n"


def test_environment_with_a_wrong_name(fresh_python):
    program = """
try:
    import framefuse
except ValueError as error:
    print(error)
"""
    assert fresh_python(program, FRAMEFUSE_CONFIG="limit=2").startswith("FRAMEFUSE_CONFIG: unknown setting 'limit'")
