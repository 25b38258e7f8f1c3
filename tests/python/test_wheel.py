"""The wheel holds all that it needs beside PyTorch: built, installed into a new environment, used from another folder."""

import importlib.util
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


def matrix_script():
    spec = importlib.util.spec_from_file_location("wheel_matrix", ROOT / ".ci" / "wheel_matrix.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def machine(asked):
    """Of a machine with 3.11 (torch 2.13 in it), 3.12 and a 3.13 without a GIL, where pip has torch 2.13 alone."""

    def ask(command, **options):
        command = list(map(str, command))
        asked.append((command, options))
        python = pathlib.Path(command[0]).name
        if command[0] == "/none/python3.12":
            raise FileNotFoundError("no such file")
        if command[1:2] == ["-c"] and "version_info" in command[2]:
            return {"python3.11": "3.11 0", "python3.12": "3.12 0", "python3.13t": "3.13 1"}[python]
        if command[1:2] == ["-c"] and "torch.__version__" in command[2]:
            if python == "python3.11":
                return "2.13"
            raise subprocess.CalledProcessError(1, command, "ModuleNotFoundError: torch")
        if "pip" in command and any(part.startswith("torch==") for part in command) and "torch==2.13.*" not in command:
            raise subprocess.CalledProcessError(1, command, "WARNING: slow\nERROR: No matching distribution found\nnotice: new pip")
        return ""

    return ask


@pytest.mark.compiles_nothing("about interpreters that are not there")
def test_the_matrix_says_what_it_skips_and_why():
    script, asked = matrix_script(), []
    ask = machine(asked)
    found, refused = script.interpreters(["/none/python3.12", "/a/python3.11", "/a/python3.12", "/b/python3.12", "/a/python3.13t"], ask)
    assert found == {"3.11": "/a/python3.11", "3.12": "/a/python3.12"}
    assert refused == {"/none/python3.12": "does not run: no such file", "/a/python3.13t": "is built without a GIL"}
    rows = list(script.matrix(["3.11", "3.12", "3.13"], ["2.11", "2.13"], found, True, ask))
    none = "pip has no torch 2.11 for it: ERROR: No matching distribution found"
    assert rows == [
        ("3.11", "2.11", "skipped", none),
        ("3.11", "2.13", "found", "/a/python3.11"),
        ("3.12", "2.11", "skipped", none),
        ("3.12", "2.13", "found", "/a/python3.12"),
        ("3.13", "2.11", "skipped", "no Python 3.13 was found (name one in FF_PYTHONS)"),
        ("3.13", "2.13", "skipped", "no Python 3.13 was found (name one in FF_PYTHONS)"),
    ]
    assert all("--dry-run" in command for command, _ in asked if "install" in command)


@pytest.mark.compiles_nothing("builds nothing")
def test_a_pair_passes_only_with_a_wheel_that_ran(tmp_path, monkeypatch):
    script, asked = matrix_script(), []
    monkeypatch.setattr(script, "ROOT", tmp_path)
    plain, makes, where = machine(asked), [], ["/site/framefuse/__init__.py"]

    def ask(command, **options):
        if str(command[-1]) == "wheel":
            dist = pathlib.Path(options["env"]["FF_DIST"])
            dist.mkdir(parents=True, exist_ok=True)
            for name in makes:
                (dist / name).write_text("")
        if len(command) > 2 and "import framefuse" in str(command[2]):
            assert "PYTHONPATH" not in options["env"] and not pathlib.Path(options["cwd"]).is_relative_to(tmp_path / "python")
            return where[0]
        return plain(command, **options)

    def outcome():
        return script.one_pair("/a/python3.11", "2.13", False, ask)

    assert outcome() == ("failed", "./dev wheel made 0 wheels")
    makes.append("framefuse-1-cp311.whl")
    assert outcome() == ("passed", str(tmp_path / "dist" / "torch2.13" / "framefuse-1-cp311.whl"))
    where[0] = str(tmp_path / "python" / "framefuse" / "__init__.py")
    assert outcome()[0] == "failed"
    assert script.one_pair("/a/python3.12", "2.11", False, ask)[0] == "skipped"
    assert any(command[-1].endswith("framefuse-1-cp311.whl") and "--no-index" in command for command, _ in asked)


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
