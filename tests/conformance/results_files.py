"""Reads and writes the files under `results/`, one for each part and system."""

from __future__ import annotations

import json
import pathlib
import re

RESULTS = pathlib.Path(__file__).parent / "results"


def write(part: str, system: str, content: object) -> None:
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(content, indent=1, sort_keys=True) + "\n"
    # One line for a program's ways: a diff shows programs, not braces.
    text = re.sub(r"\[\s+([-\d,\snul]+?)\s+\]", lambda m: "[" + " ".join(m[1].split()) + "]", text)
    text = re.sub(r'\{\n   ("[^{}]*?)\n  \}', lambda m: "{" + " ".join(m[1].split()) + "}", text)
    (RESULTS / f"{part}-{system}.json").write_text(text)


def read(part: str, system: str) -> dict | None:
    file = RESULTS / f"{part}-{system}.json"
    return json.loads(file.read_text()) if file.exists() else None
