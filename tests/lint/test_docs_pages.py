"""The pages of docs/: short ones for the architecture, paths and names that exist, links that lead somewhere."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
ARCHITECTURE = sorted((ROOT / "docs" / "architecture").glob("*.md"))
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *ARCHITECTURE]
MAX_LINES = 80
TABLES = {"conformance", "models"}  # of results, written by programs
FOLDERS = {p.name for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith((".", "build"))}
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_NAME_IN_FILE = re.compile(r"`([^`\n]+)` in\s+`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^()\s]+)\)")


def paths_in(text):
    """The words in backticks that begin with a folder of the repository: paths, which may hold a * for several files."""
    for code in _CODE.findall(_FENCE.sub("", text)):
        for word in code.split():
            path = re.sub(r"(::\w.*|:\d+)$", "", word)
            if "/" in path and path.split("/")[0] in FOLDERS:
                yield path


def missing_paths(text):
    return [path for path in paths_in(text) if not (any(ROOT.glob(path)) if "*" in path else (ROOT / path).exists())]


def names_that_are_not_there(text):
    """Of `Class::Name` in `file`: names that the file does not have."""
    for name, path in _NAME_IN_FILE.findall(_FENCE.sub("", text)):
        file, words = ROOT / path, re.findall(r"\w+", name)
        if "/" not in path or not file.is_file() or not words:
            continue
        if words[-1] not in re.findall(r"\w+", file.read_text(encoding="utf-8")):
            yield f"{name} in {path}"


def broken_links(page, text):
    """Relative links to no file, or to no heading of their file."""
    for link in _LINK.findall(_CODE.sub("", _FENCE.sub("", text))):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, heading = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (heading and heading not in headings(target.read_text(encoding="utf-8"))):
            yield link


def headings(text):
    lines = [line.lstrip("#").strip().lower() for line in _FENCE.sub("", text).splitlines() if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", line).replace(" ", "-") for line in lines}


def test_there_are_pages():
    assert len(ARCHITECTURE) >= 15
    index = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert [p.name for p in ARCHITECTURE if f"(architecture/{p.name})" not in index] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in TABLES], ids=lambda p: p.name)
def test_pages_are_short(page):
    assert len(page.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_paths_and_links_exist(page):
    text = page.read_text(encoding="utf-8")
    assert missing_paths(text) == []
    assert list(names_that_are_not_there(text)) == []
    assert list(broken_links(page, text)) == []


@pytest.mark.parametrize(
    "text, missing",
    [
        ("see `guards/guard.h`", []),
        ("see `guards/no_such_file.h`", ["guards/no_such_file.h"]),
        ("run `tests/evaluator/lib_test.py --all tests/nothing.py`", ["tests/nothing.py"]),
        ("`tests/lint/test_rules.py::test_includes`, `guards/guard.h:12`, `symbolic/tracing/`", []),
        ("`symbolic/calls/class_*.cpp`, `symbolic/calls/nothing_*.cpp`", ["symbolic/calls/nothing_*.cpp"]),
        ("`a/b`, `n/2`, `(n + k - 1) / k`", []),
        ("```\n`guards/no_such_file.h`\n```", []),
    ],
)
def test_what_is_a_path(text, missing):
    assert missing_paths(text) == missing


def test_what_is_a_name_in_a_file():
    text = "`GuardSet::Add` in `guards/guard_set.cpp`, `GuardSet::NoSuchName` in\n`guards/guard_set.cpp`, `x` in `y`"
    assert list(names_that_are_not_there(text)) == ["GuardSet::NoSuchName in guards/guard_set.cpp"]


def test_what_is_a_broken_link(tmp_path):
    (tmp_path / "there.md").write_text("# There\n## The words: `a` of it\n")
    text = "# A\n[1](there.md) [2](nothing.md) [3](#a) [4](#b) [5](https://x.y/z) [6](there.md#the-words-a-of-it) [7](there.md#x)\n"
    page = tmp_path / "page.md"
    page.write_text(text)
    assert list(broken_links(page, text)) == ["nothing.md", "#b", "there.md#x"]


def names_to_rename(text):
    """(names, places) of each row of the table whose meaning is not the one that stays."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 5 and cells[4] not in ("stays", "rename to"):
            yield [re.findall(r"\w+", name)[-1] for name in _CODE.findall(cells[1]) if re.fullmatch(r"[\w:]+(\(.*\))?", name)], _CODE.findall(cells[2])


def words_that_are_gone(text):
    """Names of the table that no file of their row has: they were renamed, and leave the table."""
    for names, places in names_to_rename(text):
        paths = [ROOT / place for place in places]
        files = [file for path in paths for file in (path.rglob("*.*") if path.is_dir() else [path] if path.is_file() else []) if file.suffix in (".h", ".cpp", ".def")]
        words = {word for file in files for word in re.findall(r"\w+", file.read_text(encoding="utf-8"))}
        yield from (name for name in names if name not in words)


def test_words_that_were_renamed_leave_the_vocabulary():
    text = (ROOT / "docs" / "names_to_change.md").read_text(encoding="utf-8")
    assert sum(len(names) for names, _ in names_to_rename(text)) > 50
    assert list(words_that_are_gone(text)) == []


def test_what_is_a_word_that_is_gone():
    row = "| x | `GuardSet::Add`, `NoSuchName` | `guards/guard.h` | m | `y` |\n| **x** | `NoName` | `guards/` | m | stays |"
    assert list(words_that_are_gone(row)) == ["NoSuchName"]
