"""framefuse.config: attributes with types, errors that list the names, patch(), the environment."""

import framefuse
import pytest
import torch

compiles_nothing = pytest.mark.compiles_nothing("about settings and names")


@compiles_nothing
def test_defaults(fresh_python):
    program = "from framefuse import config as c; print(c.recompile_limit, c.raise_on_bug, c.verify_metadata)"
    assert fresh_python(program) == "8 False False\n"


@compiles_nothing
def test_set_and_patch():
    framefuse.config.recompile_limit = 3
    with framefuse.config.patch(recompile_limit=1, verbose=True):
        assert framefuse.config.recompile_limit == 1
        assert framefuse.config.verbose is True
    assert framefuse.config.recompile_limit == 3
    assert framefuse.config.verbose is False


@compiles_nothing
def test_patch_restores_after_an_error():
    with pytest.raises(KeyError), framefuse.config.patch(verbose=True):
        raise KeyError
    assert framefuse.config.verbose is False


@compiles_nothing
def test_unknown_names():
    with pytest.raises(AttributeError, match="unknown setting 'recompile_limits'.*did you mean 'recompile_limit'"):
        framefuse.config.recompile_limits = 3
    with pytest.raises(AttributeError, match="unknown setting 'foo'; the settings are: recompile_limit"):
        framefuse.config.foo


@compiles_nothing
@pytest.mark.parametrize(("name", "value"), [("verbose", 1), ("recompile_limit", True), ("recompile_limit", "8")])
def test_wrong_type(name, value):
    with pytest.raises(TypeError, match=f"setting '{name}' takes"):
        setattr(framefuse.config, name, value)


@compiles_nothing
def test_listed_and_documented():
    assert "recompile_limit" in dir(framefuse.config)
    assert "recompile_limit = 8  # " in repr(framefuse.config)
    assert all(text.endswith(".") for _, text, _ in framefuse._C.config_settings())


@compiles_nothing
def test_unknown_variables_of_the_environment(fresh_python):
    program = """
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import framefuse
print([str(w.message) for w in seen if "framefuse" in str(w.message)])
"""
    told = fresh_python(program, FRAMEFUSE_LOG="fusion", FRAMEFUSE_LOGS="fusion")
    assert told == "[\"framefuse: the environment variable FRAMEFUSE_LOG means nothing (did you mean 'FRAMEFUSE_LOGS'?)\"]\n"


@compiles_nothing
def test_environment(fresh_python):
    program = "import framefuse; print(framefuse.config.recompile_limit, framefuse.config.verbose)"
    assert fresh_python(program, FRAMEFUSE_CONFIG="recompile_limit=2,verbose=1") == "2 True\n"


@compiles_nothing
def test_environment_with_a_wrong_name(fresh_python):
    program = """
try:
    import framefuse
except ValueError as error:
    print(error)
"""
    assert fresh_python(program, FRAMEFUSE_CONFIG="limit=2").startswith("FRAMEFUSE_CONFIG: unknown setting 'limit'")


@compiles_nothing
@pytest.mark.parametrize(("name", "value", "least"), [("recompile_limit", -1, 0), ("break_at", -2, -1)])
def test_values_out_of_range(name, value, least):
    before = getattr(framefuse.config, name)
    with pytest.raises(ValueError, match=f"setting '{name}' takes {least} or more, not {value}"):
        setattr(framefuse.config, name, value)
    assert getattr(framefuse.config, name) == before


@compiles_nothing
def test_environment_with_a_value_out_of_range(fresh_python):
    program = """
try:
    import framefuse
except ValueError as error:
    print(error)
"""
    assert fresh_python(program, FRAMEFUSE_CONFIG="recompile_limit=-3") == "FRAMEFUSE_CONFIG: setting 'recompile_limit' takes 0 or more, not -3\n"
    assert "FRAMEFUSE_AS_TORCH_COMPILE is 0 or 1, not 'yes'" in fresh_python(program, FRAMEFUSE_AS_TORCH_COMPILE="yes")


@compiles_nothing
def test_every_setting_has_its_type():
    declared = framefuse._config.Config.__annotations__
    assert declared == {name: type(initial) for name, _, initial in framefuse._C.config_settings()}


def test_limit_and_name_of_one_object():
    framefuse.reset()
    few = framefuse.compile(lambda x, kind: x + len(kind), recompile_limit=2, name="the encoder")
    many = framefuse.compile(lambda x, kind: x + len(kind))
    before = framefuse.statistics()
    with framefuse.capture_logs("recompiles") as records, pytest.warns(RuntimeWarning, match="of the encoder runs as Python.*recompile_limit is 2"):
        for n in range(1, 5):
            few(torch.ones(2), "x" * n)
            many(torch.ones(2), "x" * n)
    assert framefuse.statistics()["captures"] - before["captures"] == 2 + 4
    assert sum("of the encoder" in text for name, text in records if name == "recompiles") == 1


@compiles_nothing
@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"recompile_limit": -1}, "recompile_limit must be 0 or more, not -1"),
        ({"recompile_limit": True}, "recompile_limit must be None or an int, not True"),
        ({"name": 3}, "name must be None or a str, not 3"),
    ],
)
def test_wrong_limits_and_names(settings, error):
    with pytest.raises((TypeError, ValueError), match=error):
        framefuse.compile(torch.sin, **settings)
