"""Writes docs/models.md from the rows that are kept under `results/`.

Invariant: no number on the page is written by hand.
"""

from __future__ import annotations

import collections
import pathlib
import re
from typing import Any

from zoo import results

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "models.md"
_COLUMNS = [(mode, backend) for mode in ("inference", "training") for backend in ("fuse", "aten", "fx")]

_HEAD = """# The model zoo

Written by `./dev models --save` from `tests/zoo/results/`; don't edit it.

Every model class of three packages is built at a tiny size with random weights and run eagerly and compiled, each model and
each backend in a process of its own: three calls, the third with another batch size, in inference and in training. Outputs,
gradients of all parameters and buffers are compared with eager's; where rounding differs, the same model in double precision
says who is nearer to the truth. A transformers architecture is run with one head;
`transformers` has those of version 4, `transformers5` those of 5. The set `packages` has small programs over
many other packages, as their users write them (`tests/zoo/sets_packages.py`); those that are not there are skipped. The
set `idioms` has what people write most, of torch, numpy and Python alone (`tests/zoo/idioms_of_torch.py` and its like).

```
./dev models --set transformers --train                 # one set, inference and training, all three backends
./dev models --set timm --only vision_transformer       # models by name
./dev models --train --jobs 16 --save                   # everything, and this page
./dev models --set transformers --only =bert --peer     # also torch.compile's count of breaks
./dev models --set idioms --train --peer                 # some 130 idioms, torch.compile beside
./dev models --set packages --train --site A:B          # with the packages that the folders A and B have
```

| status | means |
|---|---|
| ok | right, and the second call ran what the first captured |
| missed | right, but the second call, with the same arguments, captured something again |
| told | not as eager, but as eager is when `torch.compiler.is_compiling()` says yes: the model's own code does something else then |
| rounding | right when compiled in double precision, but in single precision several times further from that than eager is |
| nothing compiled | right, but no graph had an operation |
| wrong | an output, a gradient or a buffer differs |
| error | an exception that eager does not raise |
| crash, timeout, memory | the process died, hung, or ate more than it may |

The number after it is how often the graph broke in the first call. `fx` is a backend that runs the FX graph as it is.
"""


def write() -> pathlib.Path:
    """Writes the page; returns its path."""
    results.tidy()
    rows = results.read()
    parts = [_HEAD, _summary(rows), _troubles(rows), _breaks(rows), _misses(rows)]
    for set_name in dict.fromkeys(row["set"] for row in rows):
        parts.append(_set_part(set_name, [row for row in rows if row["set"] == set_name]))
    PAGE.write_text("\n".join(part for part in parts if part).rstrip() + "\n")
    return PAGE


def _table(header: list[str], lines: list[list[Any]]) -> str:
    text = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    text += ["| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines]
    return "\n".join(text) + "\n"


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _compiled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if (row.get("mode"), row.get("backend")) in _COLUMNS]


def _summary(rows: list[dict[str, Any]]) -> str:
    lines = []
    for set_name in dict.fromkeys(row["set"] for row in rows):
        for mode, backend in _COLUMNS:
            here = [r for r in rows if (r["set"], r.get("mode"), r.get("backend")) == (set_name, mode, backend)]
            if not here:
                continue
            counts = collections.Counter(row["status"] for row in here)
            whole = sum(row["status"] in ("ok", "missed") and not row.get("breaks") for row in here)
            python = sum(row["fallbacks"][1] > 0 for row in here if len(row.get("fallbacks", ())) > 1)
            right = counts["ok"] + counts["missed"]
            others = {k: v for k, v in counts.items() if k not in ("ok", "missed")}
            text = ", ".join(f"{v} {k}" for k, v in sorted(others.items())) or "none"
            lines.append([set_name, mode, backend, len(here), right, counts["missed"], whole, python, text])
    header = ["set", "mode", "backend", "models", "right", "of these missed", "of these whole", "a frame ran as Python in the second call", "not right"]
    versions = sorted({f"Python {row.get('python')}, torch {row.get('torch')}" for row in rows})
    return f"## Summary\n\n{'; '.join(versions)}. A set's rows are those of its last `--save`: sets may be of different builds.\n\n" + _table(header, lines) + _peer(rows)


def _peer(rows: list[dict[str, Any]]) -> str:
    peer = {(r["set"], r["model"], r["mode"]): r for r in rows if r.get("backend") == "peer"}
    if not peer:
        return ""
    ours = {(r["set"], r["model"], r["mode"]): r for name in ("fx", "fuse", "aten") for r in rows if r.get("backend") == name}
    both = [key for key in peer if key in ours and "breaks" in peer[key] and "breaks" in ours[key]]
    whole = {key for key in both if not peer[key]["breaks"] and peer[key]["status"] != "error"}
    mine = {key for key in both if not ours[key]["breaks"]}
    errors = sum(r["status"] == "error" for r in peer.values())
    return (
        f"\nOf {len(both)} models and modes that were run under torch.compile too, it captures {len(whole)} whole, framefuse {len(mine)}, "
        f"and {len(whole & mine)} of torch.compile's {len(whole)}; {errors} of its {len(peer)} runs end with an exception that eager does not raise.\n"
    )


def _troubles(rows: list[dict[str, Any]]) -> str:
    """What is not right, rows with the same text together."""
    found: dict[tuple[str, str, str], list[str]] = collections.defaultdict(list)
    for row in _compiled(rows):
        if row["status"] not in ("ok", "missed"):
            detail = (row.get("details") or [""])[0]
            found[row["model"], row["status"], detail[:300]].append(f"{row['mode']} {row['backend']}")
    lines = [[status, model, ", ".join(where), detail] for (model, status, detail), where in found.items()]
    bugs = collections.Counter(bug.splitlines()[0][:300] for row in _compiled(rows) for bug in row.get("bugs", []))
    text = "## Not right\n\n" + (_table(["status", "model", "where", "what"], sorted(lines)) if lines else "Nothing.\n")
    if bugs:
        text += "\nInternal errors that were survived:\n\n" + _table(["runs", "text"], [[n, t] for t, n in bugs.most_common()])
    return text


def _breaks(rows: list[dict[str, Any]]) -> str:
    """Reasons of breaks by the number of models that have one; the backends break alike, one is counted."""
    models: dict[str, set[tuple[str, str]]] = collections.defaultdict(set)
    firsts: dict[str, set[tuple[str, str]]] = collections.defaultdict(set)
    places: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    counted = [row for row in rows if row.get("backend") == "aten"]
    for row in counted:
        for n, (text, place, count) in enumerate(row.get("reasons", [])):
            reason = re.sub(r"\bof( type)? [A-Z]\w+$", r"of\1 some class", text)
            if n == 0:
                firsts[reason].add((row["set"], row["model"]))
            models[reason].add((row["set"], row["model"]))
            places[reason][place] += count
    lines = [
        [len(models[reason]), len(firsts[reason]), sum(places[reason].values()), reason, "; ".join(p for p, _ in places[reason].most_common(2))]
        for reason in sorted(models, key=lambda reason: (-len(firsts[reason]), -len(models[reason])))
    ]
    about = "What breaks first often makes the others: what was made before a break is from outside after it.\n\n"
    return "## Why graphs broke (backend aten)\n\n" + about + _table(["models", "the first in", "breaks", "reason", "most often at"], lines[:80])


def _misses(rows: list[dict[str, Any]]) -> str:
    models: dict[str, set[str]] = collections.defaultdict(set)
    for row in _compiled(rows):
        for text in row["second"]["misses"] if row["status"] == "missed" else []:
            where, _, why = text.partition("\n")
            reasons = dict.fromkeys(line.strip() for line in why.splitlines() if "called from " not in line)
            models[f"{_short(where)}: {'; '.join(reasons)[:160]}"].add(row["model"])
    if not models:
        return ""
    lines = [[len(found), text] for text, found in sorted(models.items(), key=lambda item: -len(item[1]))]
    return "## Why the second call captured again\n\n" + _table(["models", "what and why"], lines[:40])


def _short(where: str) -> str:
    """`recompiling NAME (FILE:LINE)` with the end of the path only."""
    head, _, path = where.partition("(")
    return f"{head.removeprefix('recompiling ').strip()} ({'/'.join(path.split('/')[-2:])}"


def _set_part(set_name: str, rows: list[dict[str, Any]]) -> str:
    by_model: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    skipped = []
    for row in rows:
        if row["status"] == "skipped":
            skipped.append([row["model"], row.get("mode", ""), (row.get("details") or [""])[0][:160]])
        elif (row["mode"], row["backend"]) in _COLUMNS:
            by_model.setdefault(row["model"], {})[row["mode"], row["backend"]] = row
    header = ["model", "parameters", *(f"{mode} {backend}" for mode, backend in _COLUMNS)]
    lines = []
    for model, cells in sorted(by_model.items()):
        parameters = next((row["parameters"] for row in cells.values() if "parameters" in row), "")
        lines.append([model, parameters, *(_status(cells.get(column)) for column in _COLUMNS)])
    text = f"## {set_name}\n\n{len(by_model)} models.\n\n" + _table(header, lines)
    if skipped:
        text += f"\nNot run, because eager could not be built or run here ({len(skipped)}):\n\n"
        text += _table(["model", "mode", "why"], sorted(skipped))
    return text


def _status(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    breaks = row.get("breaks")
    return f"{row['status']}, {breaks}" if breaks else row["status"]
