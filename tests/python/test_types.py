"""What type checkers say of the package: compile and disable keep types, modes, stances and settings are checked.

Runs mypy where it is installed.
"""

import importlib.util
import re
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
    first = next(number for number, line in enumerate(_PROGRAM.splitlines(), 1) if "fast" in line)
    lines = [int(re.search(r"\.py:(\d+):", line)[1]) for line in errors if "program.py" in line]
    assert sorted(set(lines)) == list(range(first, first + _WRONG_LINES)), output
