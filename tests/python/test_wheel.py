"""The wheel holds all that it needs beside PyTorch: built, installed into a new environment, used from another folder."""

import os
import pathlib
import subprocess
import sys
import zipfile

import pytest
import torch

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = """
import pathlib, torch, framefuse

folder = pathlib.Path(framefuse.__file__).parent
loaded = {line.split()[-1] for line in open("/proc/self/maps") if "libabsl" in line or "framefuse/_C." in line}
assert loaded and all(pathlib.Path(file).parent == folder for file in loaded), loaded
x = torch.linspace(-1, 1, 64, requires_grad=True)
f = framefuse.compile(lambda x: (torch.sin(x) * x).sum(), backend="fuse", fullgraph=True)
f(x).backward()
assert torch.allclose(x.grad, torch.cos(x) * x + torch.sin(x)), x.grad
assert framefuse.statistics()["graphs"] == 1
print(folder)
"""


def run(*command, **options):
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=3600, **options)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    return result.stdout


@pytest.mark.compiles_nothing("it does not come to be imported")
def test_another_torch_gives_a_sentence():
    program = "import torch; torch.__version__ = '2.9.1+cpu'; import framefuse"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    built_for = ".".join(torch.__version__.split("+")[0].split(".")[:2])
    last = result.stderr.strip().splitlines()[-1]
    assert result.returncode == 1
    assert last.startswith(f"ImportError: this framefuse was built for torch {built_for}, and torch 2.9.1+cpu is installed: install torch=={built_for}.*")


@pytest.mark.nightly
def test_wheel(tmp_path):
    run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("framefuse-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"framefuse/py.typed", "framefuse/_C.pyi", "framefuse/_report.html.jinja", "framefuse/_built_for.py"} <= set(names)
    (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    assert f"Requires-Dist: torch=={'.'.join(torch.__version__.split('+')[0].split('.')[:2])}.*" in zipfile.ZipFile(wheel).read(metadata).decode()
    assert any(name.endswith("/NOTICE") for name in names) and any(name.endswith("LICENSE.absl") for name in names)
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    site = pathlib.Path(run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip())
    installed = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    assert str(pathlib.Path(torch.__file__).parents[1]) in installed
    (site / "packages_of_the_machine.pth").write_text("\n".join(installed) + "\n")
    run(python, "-m", "pip", "install", "--no-deps", "--no-index", "--ignore-installed", wheel)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    plain = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LD_LIBRARY_PATH", "FF_DEB_ROOT")}
    assert pathlib.Path(run(python, "-c", PROGRAM, cwd=elsewhere, env=plain).strip()) == site / "framefuse"
