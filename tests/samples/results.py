"""The rows that are kept: a file of JSON lines for each database, a line for each entry and dtype.

In a line, rows that are equal but for their form or backend stand once. Rows of a GPU stand in a folder of their own.
Invariant: the newest row of a key counts.
"""

from __future__ import annotations

import json
import pathlib
import platform
from collections.abc import Iterator
from typing import Any

import torch

from zoo import device
from zoo.results import without_folders

_KEY = ("db", "entry", "dtype", "form", "backend")
FOLDER = pathlib.Path(__file__).parent / "results"


def folder() -> pathlib.Path:
    """Of the rows of the chosen device."""
    return FOLDER if device.name == "cpu" else FOLDER / device.name


def path_of(database: str) -> pathlib.Path:
    return folder() / f"{database}.jsonl"


def key_of(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(row[name] for name in _KEY)


def packed(rows: list[dict[str, Any]]) -> str:
    """A line with the rows of one entry, dtype and build: forms and backends that did alike stand together."""
    together: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        usual = _usual(row["samples"])
        rest = {k: v for k, v in row.items() if k not in _KEY and k not in ("counts", "build") and v != usual.get(k)}
        together.setdefault(json.dumps(without_folders(rest)), []).append((row["form"], row["backend"]))
    lines: dict[tuple[str, str], list[str]] = {}
    for rest, places in together.items():
        for form in dict.fromkeys(form for form, _ in places):
            backends = " ".join(backend for other, backend in places if other == form)
            lines.setdefault((backends, rest), []).append(form)
    line = {name: rows[0][name] for name in ("db", "entry", "dtype", "build")}
    return json.dumps({**line, "rows": [[backends, "|".join(forms), json.loads(rest)] for (backends, rest), forms in lines.items()]})


def _usual(samples: int) -> dict[str, Any]:
    """What a row has if nothing else is kept."""
    return {"status": "ok", "reasons": {}, "detail": "", "right": samples, "whole": samples, "of": samples}


def unpacked(line: str) -> Iterator[dict[str, Any]]:
    content = json.loads(line)
    rows = content.pop("rows")
    for backends, forms, rest in rows:
        for form in forms.split("|"):
            for backend in backends.split():
                found = {**content, **_usual(rest["samples"]), **rest, "form": form, "backend": backend}
                yield {k: v for k, v in found.items() if k != "detail" or v}


def add(rows: list[dict[str, Any]]) -> None:
    """Appends the rows of one entry and dtype, so that a run that is stopped keeps what it has."""
    folder().mkdir(exist_ok=True)
    if rows:
        with open(path_of(rows[0]["db"]), "a") as file:
            file.write(packed([{**row, "build": versions()} for row in rows]) + "\n")


def read() -> list[dict[str, Any]]:
    newest: dict[tuple[str, ...], dict[str, Any]] = {}
    for path in sorted(folder().glob("*.jsonl")):
        for line in path.read_text().splitlines():
            newest.update((key_of(row), row) for row in unpacked(line))
    return list(newest.values())


def tidy() -> list[dict[str, Any]]:
    """Rewrites the files with the newest rows only, and returns those."""
    rows = read()
    grouped: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        grouped.setdefault((*key_of(row)[:3], row["build"]), []).append(row)
    for path in folder().glob("*.jsonl"):
        path.write_text("".join(packed(grouped[key]) + "\n" for key in sorted(grouped) if key[0] == path.stem))
    return rows


def versions() -> str:
    """The build that runs now."""
    return f"Python {platform.python_version()}, torch {torch.__version__.partition('+')[0]}"
