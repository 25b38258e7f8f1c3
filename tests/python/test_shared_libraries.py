"""Which shared library our symbols come from. Torch's libraries export parts of a standard library of their own, made for another
version: on a CUDA build of torch 2.11 its `std::filesystem` ended the process."""

import os
import subprocess
import sys

import pytest

PROGRAM = "import framefuse, torch; print(framefuse.compile(lambda x: x + 1)(torch.ones(2)).sum().item())"


@pytest.mark.compiles_nothing("the child compiles")
@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux's loader")
def test_the_standard_library_is_the_systems():
    environment = {**os.environ, "LD_BIND_NOW": "1", "LD_DEBUG": "bindings"}
    run = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "4.0"
    ours = [line for line in run.stderr.splitlines() if "symbol `_ZNSt10filesystem" in line and "binding file" in line]
    ours = [line for line in ours if "framefuse/_C." in line.split(" to ")[0]]
    assert ours and all("libstdc++" in line.split(" to ")[1] for line in ours), ours[:3]
