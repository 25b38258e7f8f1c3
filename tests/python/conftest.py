"""What every package-level test needs: settings, log switches and stance as they were before it, internal errors raised,
and the metadata of every graph recomputed and FX graphs run on fakes.

A compiler that compiles nothing gives the right results, too. So a test passes only if something was compiled during it,
unless it is marked `compiles_nothing("why")`, and then only if nothing was. With FF_IDENTITY=1 framefuse.compile returns
what it is given: then every test that isn't marked must fail, and test_identity.py says so.
"""

import os

import framefuse
import identity
import pytest

if os.environ.get("FF_IDENTITY") == "1":
    identity.install()


def pytest_configure(config):
    config.addinivalue_line("markers", "compiles_nothing(why): nothing is compiled in the test's own process")


_COMPILED_BEFORE = pytest.StashKey()
_graphs_given_as_text = 0
_compile_graph_text = framefuse._C.compile_graph_text


def _count_and_compile_graph_text(*args, **keywords):
    global _graphs_given_as_text
    _graphs_given_as_text += 1
    return _compile_graph_text(*args, **keywords)


framefuse._C.compile_graph_text = _count_and_compile_graph_text


def compiled_so_far():
    """What framefuse did with frames and graphs that it was given; it only grows, whatever a test resets."""
    counts = framefuse.statistics()
    return sum(counts[name] for name in ("attempts", "hits", "eager_fallbacks")) + _graphs_given_as_text


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    item.stash[_COMPILED_BEFORE] = compiled_so_far()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    result = yield
    worked = compiled_so_far() > item.stash[_COMPILED_BEFORE]
    mark = item.get_closest_marker("compiles_nothing")
    if mark is None and not worked:
        pytest.fail("nothing was compiled during the test; is it marked compiles_nothing(why)?", pytrace=False)
    if mark is not None and worked:
        pytest.fail(f"the test is marked compiles_nothing({mark.args[0]!r}), but something was compiled", pytrace=False)
    return result


@pytest.fixture(autouse=True)
def restored_state():
    settings = {name: getattr(framefuse.config, name) for name, _, _ in framefuse._C.config_settings()}
    mask, stance = framefuse._C.get_log_mask(), framefuse._C.get_stance()
    framefuse.config.raise_on_bug = True
    framefuse.config.verify_metadata = True
    framefuse.config.verify_fx = True
    yield
    for name, value in settings.items():
        setattr(framefuse.config, name, value)
    framefuse._C.set_log_mask(mask)
    framefuse._C.set_stance(stance)


@pytest.fixture
def fresh_python(tmp_path):
    """Run a program in a new interpreter, in another directory; returns its stdout, fails with its stderr."""
    import os
    import subprocess
    import sys

    def run(program, **environment):
        result = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run
