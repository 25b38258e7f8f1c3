"""The build folder as it stands, and programs made from it with one source file replaced.

A changed source is compiled by its own command from compile_commands.json, and each program that wants it is linked again
by its own command from ninja, both into another folder. In a link the changed object comes before the libraries, so that
the one in the library is not taken. Invariant: neither the tree nor the build folder is written to.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

from mutations.mutation import ROOT, Mutation

# What a bug leaves unused is no error of ours. Other options stay, or precompiled headers would not fit.
_COMPILE_OPTIONS = ("-w",)
_LINK_OPTIONS = ("-Wl,--strip-debug",)
_FOLDERS_OF_PACKAGE = "python/framefuse"


class DoesNotBuild(Exception):
    """The mutation is no program: an error of the list."""


class BuildFolder:
    def __init__(self, path: pathlib.Path):
        self.path = path.resolve()
        listing = json.loads((self.path / "compile_commands.json").read_text())
        self._compile = {str(pathlib.Path(entry["file"])): entry for entry in listing}
        self._links: dict[str, list[str]] = {}

    def plant(self, mutation: Mutation, targets: tuple[str, ...], into: pathlib.Path) -> None:
        """Makes the targets with the bug in them, laid out in `into` as in the build folder."""
        self._copy_package(into)
        if mutation.file.startswith(_FOLDERS_OF_PACKAGE):
            name = pathlib.PurePath(mutation.file).relative_to("python")
            (into / "package" / name).write_text(mutation.mutated_text(), encoding="utf-8")
            return
        planted = into / mutation.file
        planted.parent.mkdir(parents=True, exist_ok=True)
        planted.write_text(mutation.mutated_text(), encoding="utf-8")
        instead = self._compiled(str(ROOT / mutation.file), planted)
        for target in targets:
            self._linked(target, instead, into)

    def _copy_package(self, into: pathlib.Path) -> None:
        """Everything but the module is copied; the module is a link until another is linked in its place."""
        if (into / "package").exists():
            return
        shutil.copytree(self.path / "package", into / "package", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        for module in (self.path / "package" / "framefuse").glob("*.so"):
            (into / "package" / "framefuse" / module.name).symlink_to(module)

    def _compiled(self, source: str, planted: pathlib.Path) -> tuple[str, str]:
        """Compiles the changed source. Returns the object's path in the build and that of the new one."""
        if source not in self._compile:
            raise DoesNotBuild(f"{source} is not compiled by itself")
        entry = self._compile[source]
        command = without_launcher(entry.get("arguments") or shlex.split(entry["command"]))
        at = command.index("-o") + 1
        former, command[at] = command[at], str(planted.with_suffix(".o"))
        command[command.index("-c") + 1] = str(planted)
        self._run([*command, *_COMPILE_OPTIONS, "-iquote", os.path.dirname(source)], entry["directory"])
        return former, command[at]

    def _link(self, target: str) -> list[str]:
        if target not in self._links:
            listing = subprocess.run(
                ["ninja", "-C", self.path, "-t", "commands", target], capture_output=True, text=True, check=True
            ).stdout
            parts = [part for part in listing.splitlines()[-1].split(" && ") if " -o " in part]
            if len(parts) != 1:
                raise DoesNotBuild(f"ninja says for {target}: {listing[:500]}")
            self._links[target] = shlex.split(parts[0])
        return list(self._links[target])

    def _linked(self, target: str, instead: tuple[str, str], into: pathlib.Path) -> None:
        former, planted = instead
        command = self._link(target)
        at = command.index("-o") + 1
        output = into / command[at]
        output.parent.mkdir(parents=True, exist_ok=True)
        output.unlink(missing_ok=True)
        command[at] = str(output)
        if former in command:
            command[command.index(former)] = planted
        else:
            libraries = [n for n, word in enumerate(command) if re.search(r"\.a$", word)]
            if not libraries:
                raise DoesNotBuild(f"{target} is not made of {former}")
            command.insert(libraries[0], planted)
        self._run([*command, *_LINK_OPTIONS], str(self.path))

    def _run(self, command: list[str], where: str) -> None:
        done = subprocess.run(command, cwd=where, capture_output=True, text=True)
        if done.returncode:
            raise DoesNotBuild((done.stderr or done.stdout)[-3000:])


def without_launcher(command: list[str]) -> list[str]:
    """The compiler's own command: a planted bug's object is wanted once."""
    for at, word in enumerate(command):
        if re.search(r"(^|/)(c\+\+|g\+\+|clang\+\+|cc|gcc|clang)(-\d+)?$", word):
            return command[at:]
    return command


def default_build() -> pathlib.Path:
    return pathlib.Path(os.environ.get("FF_BUILD_DIR", ROOT / "build"))
