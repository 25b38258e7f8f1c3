"""Rules of this project that no formatter checks: sizes of files, functions and classes, exhaustive switches, header comments, names, includes,
what must not be committed.

Run by `./dev lint`. Prints one line a violation, exits 1 if there is one.
"""

import pathlib
import re
import subprocess
import sys

import class_sizes
import debts
import enum_switches
import function_lengths
import import_rules
import include_rules
import one_definition
import operator_names
import unwinding_tests

MAX_LINES = 500
CODE = {".h", ".cpp", ".py", ".def", ".cu"}
CPP = {".h", ".cpp", ".def", ".cu"}
MAY_BE_LARGE = {"tests"}  # classes there, and switches
MAY_USE_PYBIND11 = {pathlib.Path(f"python/{name}") for name in ("bindings.cpp", "package_bindings.cpp", "package_bindings.h", "binding_values.h")}  # and the modules that Python tests of C++ parts load
VERSION_CONDITION = re.compile(r"\bPY_(VERSION_HEX|MAJOR_VERSION|MINOR_VERSION)\b")
# CPython's private names and headers.
PRIVATE_API = re.compile(r"\b_Py|\bPy_BUILD_CORE|\bpycore_|\binternal/")
FORBIDDEN_INCLUDE = re.compile(r"#include\s*[<\"](torch/extension\.h|pybind11/.*)[>\"]")


def tracked_files(root):
    listing = subprocess.run(["git", "-C", root, "ls-files"], check=True, capture_output=True, text=True).stdout
    return [pathlib.Path(line) for line in listing.splitlines()]


def has_header_comment(root, path, lines):
    if path.suffix == ".cpp" and (root / path.with_suffix(".h")).exists():
        return True  # the header says it
    if path.suffix == ".py":
        body = [line for line in lines if line.strip() and not line.startswith("#!")]
        return not body or body[0].lstrip().startswith(('"""', 'r"""', "#"))
    return not lines or lines[0].startswith(("//", "/*"))


def violations(root, path):
    text = (root / path).read_text(encoding="utf-8")
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        yield f"{len(lines)} lines; the limit is {MAX_LINES}: split by duty"
    if not has_header_comment(root, path, lines):
        yield "no comment at the top that says what the file is"
    if "util" in path.stem:
        yield "the name says nothing: call it by what it does"
    if path.suffix in CPP:
        for number, message in [*include_rules.violations(path, lines), *function_lengths.violations(lines)]:
            yield f"line {number}: {message}"
    if path.suffix in CPP and path.parts[0] not in MAY_BE_LARGE:
        yield from large_or_silent(path, lines)
    if path.suffix in CPP:
        for number, message in operator_names.violations(path, lines, debts.OPERATOR_NAMES):
            yield f"line {number}: {message}"
        for number, message in unwinding_tests.violations(path, lines, debts.UNWINDING):
            yield f"line {number}: {message}"
    for number, line in enumerate(lines, 1):
        if path.suffix in CPP and VERSION_CONDITION.search(line) and "versions" not in path.parts:
            yield f"line {number}: Python version condition outside frame_eval/versions/"
        if path.suffix in CPP and "versions" not in path.parts and PRIVATE_API.search(line):
            yield f"line {number}: private API of CPython outside frame_eval/versions/ (see private_api.h)"
        include = FORBIDDEN_INCLUDE.search(line)
        if include and (path not in MAY_USE_PYBIND11 and path.name != "testing_module.cpp" or "extension" in include[1]):
            yield f"line {number}: {include[1]} does not belong here"
        if path.suffix in {".h", ".cpp"} and re.search(r"\b(TODO|FIXME|XXX)\b", line):
            yield f"line {number}: a note to do something; do it or file an issue"
        if re.search(r"^\s*(//|#).*\bOwner:", line):
            yield f"line {number}: an owner; the folder says whose it is"


def large_or_silent(path, lines):
    """What debts.py may list: classes over the limits, switches that lose a case in silence."""
    for number, message in class_sizes.violations(path, lines, debts.CLASSES):
        yield f"line {number}: {message}"
    for number, message in enum_switches.violations(path, lines, debts.DEFAULTS):
        yield f"line {number}: {message}"


def paid_debts(root):
    """A sentence for each debt of a class or file that is gone."""
    for name in debts.CLASSES:
        file, _, of = name.partition(": ")
        text = (root / file).read_text(encoding="utf-8") if (root / file).is_file() else ""
        if all(found != of for found, *_ in class_sizes.classes(text)):
            yield f"cmake/debts.py: there is no {name}"
    for file in [*debts.DEFAULTS, *debts.OPERATOR_NAMES, *debts.UNWINDING]:
        if not (root / file).is_file():
            yield f"cmake/debts.py: there is no {file}"


def main(root):
    count = 0
    for message in paid_debts(root):
        print(message)
        count += 1
    if ring := include_rules.cycle():
        print(f"cmake/include_rules.py: {' -> '.join(ring)} is a ring")
        count += 1
    if ring := import_rules.ring(import_rules.modules_of(root / "python" / import_rules.PACKAGE)):
        print(f"python: {' -> '.join(ring)} import one another in a ring")
        count += 1
    shipped = [path for path in tracked_files(root) if path.suffix in {".h", ".cpp"} and path.parts[0] not in {"tests", "benchmarks", "examples"}]
    for message in one_definition.violations({path: (root / path).read_text(encoding="utf-8") for path in shipped if (root / path).is_file()}):
        print(message)
        count += 1
    for path in tracked_files(root):
        if path.suffix not in CODE or not (root / path).is_file():
            continue
        for message in violations(root, path):
            print(f"{path}: {message}")
            count += 1
    if count:
        print(f"{count} violations")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
