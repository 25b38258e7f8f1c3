"""Killers: the commands that must fail on a planted bug, how each is run, and what its exit says.

    programs …, fuzz …, rewrites …, libtest …   a part of tests/conformance, on framefuse
    samples …                                   tests/samples
    gtest TARGET FILTER [NAME=VALUE …]          a GoogleTest program of the build, with these in its environment
    pytest NODE …                               Python tests
    unittest MODULE[.CLASS.TEST]                tests of the evaluator, as CTest runs them

A word NAME=VALUE at the end of one of the machine's stands in its environment, too.

The machine is what knows nothing of the code under test: conformance, samples and every test with `fuzz` in its name.
Invariant: an exit that says the command itself was wrong is an error, not a kill.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

from mutations.mutation import ROOT

CONFORMANCE = ("programs", "fuzz", "rewrites", "libtest")
MACHINE = (*CONFORMANCE, "samples")
UNITS = ("gtest", "pytest", "unittest")

PACKAGE = "framefuse_C"
# The Python tests that drive a module of their own; every other folder of tests/ imports the package.
MODULES = {"guards": "ff_guards_testing", "graph": "ff_graph_testing", "tracing": "ff_tracing_testing"}

# Python's own files are written nowhere: trees are read only here.
_ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "FF_NIGHTLY": ""}

# What says that something was run at all.
_RAN = {
    "programs": r"programs, [1-9]\d* runs",
    "rewrites": r"programs, [1-9]\d* runs",
    "fuzz": r", [1-9]\d* program-calls",
    "libtest": r"files, [1-9]\d* tests",
    "samples": r", [1-9]\d* samples in",
    "gtest": r"\[  PASSED  \] [1-9]",
    "pytest": r"[1-9]\d* passed",
    "unittest": r"Ran [1-9]\d* test",
}
_SETTING = re.compile(r"[A-Z][A-Z_]*=")
# Lines that say what went wrong.
_TELLING = re.compile(r"^(wrong|crash|less|broke|hung|died|memory|FAILED|ERROR|\[  FAILED  \]|Fail|E  |FAIL|.*failures?$|.*Error)", re.IGNORECASE)


class BadKiller(Exception):
    """The command is not one, names what is not there, or ran nothing."""


@dataclasses.dataclass(frozen=True)
class Run:
    """How a killer ended: `passed`, `failed` (also by a signal), `hung`; `told` is a line of what it printed."""

    status: str
    told: str
    seconds: float


def _split(killer: str) -> tuple[list[str], dict[str, str]]:
    """Its words, and what stands in its environment."""
    words = shlex.split(killer)
    settings = [word for word in words if _SETTING.match(word)]
    return [word for word in words if word not in settings], dict(setting.split("=", 1) for setting in settings)


def targets_of(killer: str) -> tuple[str, ...]:
    """Names of the build's targets that it runs."""
    kind, *words = shlex.split(killer)
    if kind in MACHINE:
        return (PACKAGE,)
    if kind == "gtest":
        return (words[0],)
    if kind == "unittest":
        return ("ff_evaluator_testing",)
    folders = {pathlib.PurePath(word).parts[1] for word in words if word.startswith("tests/")}
    return tuple(sorted({MODULES.get(folder, PACKAGE) for folder in folders}))


def is_machine(killer: str) -> bool:
    """Whether it is of the machine: no test of the code's parts, unless it makes its cases up at random."""
    return killer.split()[0] in MACHINE or "fuzz" in " ".join(killer.split()[1:]).lower()


def unknown_names(killer: str) -> list[str]:
    """What it names that is not there: programs, files of tests, GoogleTest suites. The commands need no build."""
    (kind, *words), _ = _split(killer)
    if kind not in (*MACHINE, *UNITS):
        return [kind]
    if kind == "gtest":
        return [] if _suite_exists(words[1]) else [words[1]]
    if kind == "pytest":
        return [word for word in words if not (ROOT / word.split("::")[0]).is_file() or not _test_exists(word)]
    if kind == "unittest":
        return [word for word in words if not (ROOT / "tests/evaluator" / (word.split(".")[0] + ".py")).is_file()]
    if kind == "programs":
        return [word for word in _selected(words) if not any(word in name for name in _names_of_programs())]
    return []


@functools.cache
def _names_of_programs() -> list[str]:
    """As their files have them: importing these needs the package."""
    files = (ROOT / "tests/conformance/programs").glob("*.py")
    return [f"{f.stem}/{name}" for f in files for name in re.findall(r"^def (\w+)\(\):", f.read_text(encoding="utf-8"), re.MULTILINE)]


def _selected(words: list[str]) -> list[str]:
    """Arguments that are neither options nor their values: all options of `programs` here have one."""
    return [word for n, word in enumerate(words) if not word.startswith("--") and not (n and words[n - 1].startswith("--"))]


def _test_exists(node: str) -> bool:
    file, *parts = node.split("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    return all(re.search(rf"^\s*(def|class) {re.escape(part.split('[')[0])}\b", text, re.MULTILINE) for part in parts)


def _suite_exists(gtest_filter: str) -> bool:
    """Whether tests/ has a suite of that name, and a test where one is named in full."""
    suite, _, test = gtest_filter.split(":")[0].partition(".")
    suite, test = (re.escape(name.strip("*").split("/")[-1]) for name in (suite, test))
    pattern = re.compile(rf"^(TEST\w*|INSTANTIATE_TEST_SUITE_P)\(\w*{suite}\w*, {test}", re.MULTILINE)
    return any(pattern.search(file.read_text(encoding="utf-8")) for file in (ROOT / "tests").glob("*/*_test.cpp"))


def command_of(killer: str, folder: pathlib.Path) -> list[str]:
    """The command line; `folder` is laid out as the build folder is."""
    (kind, *words), _ = _split(killer)
    if kind in CONFORMANCE:
        system = [] if "--system" in words else ["--system", "framefuse"]
        return [sys.executable, str(ROOT / "tests/conformance"), kind, *system, *words]
    if kind == "samples":
        return [sys.executable, str(ROOT / "tests/samples"), *words]
    if kind == "gtest":
        programs = sorted(folder.glob(f"tests/*/{words[0]}"))
        if len(programs) != 1:
            raise BadKiller(f"{killer}: no program {words[0]}")
        return [str(programs[0]), f"--gtest_filter={words[1]}"]
    if kind == "pytest":
        return [sys.executable, "-m", "pytest", "-x", "--tb=line", *words]
    if kind == "unittest":
        return [sys.executable, "-m", "unittest", *words]
    raise BadKiller(f"{killer}: unknown kind of killer")


def environment_of(folder: pathlib.Path, killer: str = "") -> Mapping[str, str]:
    return {
        **os.environ,
        **_ENVIRONMENT,
        **_split(killer)[1],
        "PYTHONPATH": str(folder / "package"),
        "FF_BUILD_DIR": str(folder),
        "FF_EVALUATOR_TESTING_DIR": str(folder / "tests/evaluator"),
    }


def run(killer: str, folder: pathlib.Path, scratch: pathlib.Path, limit: float) -> Run:
    """Runs it against what is in `folder`."""
    command = command_of(killer, folder)
    if killer.startswith("fuzz "):
        command += ["--folder", str(scratch / "found")]
    where = ROOT / "tests/evaluator" if killer.startswith("unittest") else ROOT
    start = time.monotonic()
    status, output = run_limited(command, where, environment_of(folder, killer), limit)
    seconds = time.monotonic() - start
    if status is None:
        return Run("hung", f"no end after {limit:.0f} s", seconds)
    kind = killer.split()[0]
    usage = (2, 4, 5) if kind in (*MACHINE, "pytest") else (5,)
    if status in usage or status in (126, 127):
        raise BadKiller(f"{killer}: exit status {status}\n{output[-2000:]}")
    if status == 0:
        if not re.search(_RAN[kind], output):
            raise BadKiller(f"{killer}: nothing was run\n{output[-2000:]}")
        return Run("passed", "", seconds)
    return Run("failed", _what_is_told(status, output), seconds)


def run_limited(command: list[str], where: pathlib.Path, environment: Mapping[str, str], limit: float) -> tuple[int | None, str]:
    """Exit status (None: took too long) and output; its children end with it."""
    process = subprocess.Popen(
        command, cwd=where, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=limit)
        status: int | None = process.returncode
    except subprocess.TimeoutExpired:
        status = None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    if status is None:
        output, _ = process.communicate()
    return status, output.decode(errors="replace")


def _what_is_told(status: int, output: str) -> str:
    if status < 0:
        return f"died of {signal.Signals(-status).name}"
    lines = [line.strip() for line in output.splitlines()]
    telling = [number for number, line in enumerate(lines) if _TELLING.match(line)]
    if not telling:
        return next((line for line in reversed(lines) if line), "")[:200]
    first = telling[0]
    return " ".join(lines[first : first + 2]).replace(str(ROOT) + "/", "")[:200]
