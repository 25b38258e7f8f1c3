"""The rows that were saved: a file of JSON lines for each set, the newest row of a key counts."""

from __future__ import annotations

import json
import pathlib
import platform
import re
from typing import Any

import torch

_PATH = re.compile(r"""/(?:[^\s/'"():]+/)+([^\s/'"():]+/[^\s/'"():]+)""")
FOLDER = pathlib.Path(__file__).parent / "results"


def key_of(row: dict[str, Any]) -> tuple[str, str, str, str]:
    return row["set"], row["model"], row.get("mode", ""), row.get("backend", "")


def without_folders(value: Any) -> Any:
    """The value with the last two parts only of each path in its texts: where a machine keeps its files is not for the page."""
    if isinstance(value, str):
        return _PATH.sub(r"\1", value)
    if isinstance(value, list):
        return [without_folders(item) for item in value]
    return {key: without_folders(item) for key, item in value.items()} if isinstance(value, dict) else value


class RowFile:
    """Rows are written as they come, so that a run that is stopped keeps what it has."""

    def __init__(self, set_name: str):
        FOLDER.mkdir(exist_ok=True)
        self._path = FOLDER / f"{set_name}.jsonl"
        self._about = {"python": platform.python_version(), "torch": torch.__version__.partition("+")[0]}

    def add(self, row: dict[str, Any]) -> None:
        with open(self._path, "a") as file:
            file.write(json.dumps(without_folders({**row, **self._about})) + "\n")


def read() -> list[dict[str, Any]]:
    """The newest row of each key; a model that is run again is no longer skipped."""
    newest: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    for path in sorted(FOLDER.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            set_name, model, mode, backend = key_of(row)
            if row["status"] == "skipped":
                gone = [k for k in newest if k[:2] == (set_name, model) and (not mode or k[2] == mode)]
            else:
                gone = [(set_name, model, "", ""), (set_name, model, mode, "")]
            for key in gone:
                newest.pop(key, None)
            newest[key_of(row)] = row
    return list(newest.values())


def tidy() -> None:
    """Rewrites the files with the newest rows only; reasons of breaks are kept once where the backends agree."""
    rows = read()
    of_aten = {key_of(row)[:3]: row for row in rows if row.get("backend") == "aten"}
    for row in rows:
        same = of_aten.get(key_of(row)[:3])
        if row.get("backend") in ("fuse", "fx") and same is not None and same.get("breaks") == row.get("breaks"):
            row.pop("reasons", None)
    for path in FOLDER.glob("*.jsonl"):
        lines = [json.dumps(row) for row in rows if row["set"] == path.stem]
        path.write_text("\n".join(lines) + "\n" if lines else "")
