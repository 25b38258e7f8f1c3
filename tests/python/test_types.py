"""What type checkers say of the package: compile and disable keep types, modes, stances and settings are checked.

Runs mypy and pyright (or basedpyright, with node) where they are installed.
"""

import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.compiles_nothing("type checks a program")

_PROGRAM = '''
import framefuse
from torch import nn

@framefuse.compile
def plain(x: int) -> str:
    return str(x)

@framefuse.compile(mode="reduce-overhead", recompile_limit=3, name="f")
def with_settings(x: int) -> str:
    return str(x)

@framefuse.disable(reason="slow")
def apart(x: int) -> str:
    return str(x)

reveal_type(plain)
reveal_type(with_settings)
reveal_type(apart)
reveal_type(framefuse.disable(plain))
reveal_type(framefuse.compile(nn.Linear(2, 2)))
reveal_type(framefuse.config.recompile_limit)
with framefuse.as_torch_compile(), framefuse.set_stance("force_eager"), framefuse.config.patch(verbose=True):
    framefuse.set_logs("+recompiles", guards=True)

framefuse.compile(plain, mode="fast")
framefuse.set_stance("eager")
framefuse.config.recompile_limit = "8"
framefuse.config.recompile_limits = 8
framefuse.compile(plain, recompile_limit="2")
'''
_REVEALED = [
    "def (x: int) -> str",
    "def (x: int) -> str",
    "def (x: int) -> str",
    "def (x: int) -> str",
    "torch.nn.modules.linear.Linear",
    "int",
]
_WRONG_LINES = 5


def test_mypy(tmp_path):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    file = tmp_path / "program.py"
    file.write_text(_PROGRAM)
    command = [sys.executable, "-m", "mypy", "--no-incremental", "--follow-imports=silent", "--cache-dir", str(tmp_path), str(file)]
    output = subprocess.run(command, capture_output=True, text=True, timeout=600).stdout
    revealed = re.findall(r'Revealed type is "(.*)"', output)
    assert [text.replace("builtins.", "") for text in revealed] == _REVEALED, output
    errors = [line for line in output.splitlines() if ": error:" in line]
    lines = [int(re.search(r"\.py:(\d+):", line)[1]) for line in errors if "program.py" in line]
    assert sorted(set(lines)) == _wrong_lines(), output


def _wrong_lines():
    first = next(number for number, line in enumerate(_PROGRAM.splitlines(), 1) if "fast" in line)
    return list(range(first, first + _WRONG_LINES))


def _pyright():
    """The command, or None."""
    for name in ("pyright", "basedpyright"):
        if shutil.which(name) is not None:
            return [name]
    found = importlib.util.find_spec("basedpyright")
    node = shutil.which("node")
    return [node, str(pathlib.Path(found.origin).parent / "index.js")] if found is not None and node is not None else None


def test_pyright(tmp_path):
    command = _pyright()
    if command is None:
        pytest.skip("pyright is not installed")
    (tmp_path / "program.py").write_text(_PROGRAM)
    folders = {str(pathlib.Path(importlib.util.find_spec(name).origin).resolve().parents[1]) for name in ("framefuse", "torch")}
    settings = {"include": ["program.py"], "extraPaths": sorted(folders), "typeCheckingMode": "standard"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run([*command, "--outputjson", "-p", str(tmp_path)], capture_output=True, text=True, timeout=600)
    found = json.loads(done.stdout)["generalDiagnostics"]
    revealed = [re.search(r'is "(.*)"', d["message"])[1] for d in found if d["severity"] == "information"]
    assert revealed == ["(x: int) -> str"] * 4 + ["Linear", "int"], done.stdout
    assert sorted({d["range"]["start"]["line"] + 1 for d in found if d["severity"] == "error"}) == _wrong_lines(), done.stdout
