"""A compiler that compiles nothing must fail the tests that are about compiling.

The slice has files of each kind. Invariant: a test counts as about compiling unless it is marked compiles_nothing, and
one that is skipped counts for nothing.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.compiles_nothing("runs in a process of its own")

_FOLDER = pathlib.Path(__file__).parent
_SLICE = (
    "test_backend_registry", "test_compile_arguments", "test_compiled_module", "test_cond", "test_control",
    "test_copies_of_compiled", "test_explain_report", "test_hooks", "test_logs", "test_refusals", "test_state_and_breaks",
)  # fmt: skip


def test_a_compiler_that_compiles_nothing_fails():
    files = [str(_FOLDER / f"{name}.py") for name in _SLICE]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not nightly and not compiles_nothing"]
    run = subprocess.run(
        [*command, "--tb=no", "-rp", *files],
        env={**os.environ, "FF_IDENTITY": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    counts = {kind: int(count) for count, kind in re.findall(r"(\d+) (passed|failed|error)", run.stdout.splitlines()[-1])}
    assert counts.get("failed", 0) > 100, run.stdout[-2000:] + run.stderr[-2000:]
    passed = re.findall(r"^PASSED (\S+)", run.stdout, re.MULTILINE)
    assert len(passed) <= 0.05 * sum(counts.values()), passed
