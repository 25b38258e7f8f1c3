"""What every package-level test needs: settings, log switches and stance as they were before it, internal errors raised,
and the metadata of every graph recomputed and FX graphs run on fakes."""

import framefuse
import pytest


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
