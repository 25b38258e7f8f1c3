"""Writes docs/samples.md and docs/samples_not_whole.md, or docs/samples_on_a_gpu.md, from the rows that are kept under `results/`.

Invariant: no number on the page is written by hand.
"""

from __future__ import annotations

import collections
import pathlib
import re
from collections.abc import Iterable
from typing import Any

from samples import results
from samples.one_entry import DATABASES, OK, RIGHT
from zoo import device

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "samples.md"
REASONS = PAGE.with_name("samples_not_whole.md")
GPU_PAGE = PAGE.with_name("samples_on_a_gpu.md")
_NAMES = {"op": "operators", "module": "modules", "optim": "optimizers"}
_PLAIN_FORMS = ("function", "function backward")

_HEAD = """# torch's own samples

Written by `./dev samples --save` from `tests/samples/results/`; don't edit it.

PyTorch keeps sample inputs for its operators, modules and optimizers (`op_db`, `module_db`, `optim_db` in `torch.testing`).
Each sample is run eagerly and compiled, in every form that it has: an operator as a function, a method, a Python operator,
in-place, with `out=`, with a backward pass, and with arguments that it must refuse; a module in evaluation and in training,
forward and backward; an optimizer for three compiled training steps. Each sample is captured afresh.

Compared are values, dtypes, shapes, strides, `requires_grad`, which memory is shared, gradients, what was written to inputs,
random numbers drawn, and the type of an exception. Where rounding differs, the same call in double precision says who is
nearer to the truth. What eager does not repeat (the content of `torch.empty`) is compared without its values.

```
./dev samples --db op --only =softmax,matmul --dtype float32   # some operators
./dev samples --db module --backend fuse                       # one backend
./dev samples --save                                           # everything, and this page
```

| status | means |
|---|---|
| ok | right, and one graph |
| not whole | right, but the graph broke, or a frame ran as Python |
| nothing compiled | right, without a break, but the graph is empty and eager runs operators |
| wrong | something differs |
| error, missing error, other error | an exception that eager does not raise, none where eager raises, one of another type |
| crash, timeout, memory | the process died, hung, or ate more than it may |

A row is one entry with one dtype in one form by one backend; it has the worst status of its samples.
What is not whole, and why: [samples that break](samples_not_whole.md).
"""

_REASONS_HEAD = """# Samples that break

Written by `./dev samples --save`, as [torch's own samples](samples.md), which says what the words mean; don't edit it.
"""

_GPU_HEAD = """# torch's own samples on a GPU

Written by `./dev samples --device cuda --page` from `tests/samples/results/cuda/`; don't edit it.

The samples' tensors are on the GPU, else all is as on [the CPU](samples.md). The processes share the work:

```
seq 0 14 | xargs -P 15 -I{} ./dev samples --device cuda --db op --samples 3 --save --part {}/15
./dev samples --device cuda --page
```
"""


def write() -> pathlib.Path:
    """Writes the pages of the chosen device; returns the first one's path."""
    rows = results.tidy()
    if device.name != "cpu":
        GPU_PAGE.write_text("\n".join((_GPU_HEAD, _summary(rows), _troubles(rows))).rstrip() + "\n")
        return GPU_PAGE
    for page, parts in (
        (PAGE, [_HEAD, _summary(rows), _targets(rows), _troubles(rows)]),
        (REASONS, [_REASONS_HEAD, _not_whole(rows), _empty(rows), _not_run(rows)]),
    ):
        page.write_text("\n".join(part for part in parts if part).rstrip() + "\n")
    return PAGE


def _table(header: list[str], lines: Iterable[list[Any]]) -> str:
    def line(cells: list[Any]) -> str:
        return "| " + " | ".join(str(cell).replace("|", "/").replace("\n", " ").replace("<", "&lt;") for cell in cells) + " |\n"

    return line(header) + "|" + "---|" * len(header) + "\n" + "".join(map(line, lines))


def _summary(rows: list[dict[str, Any]]) -> str:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = collections.defaultdict(list)
    for row in rows:
        groups[row["db"], row["dtype"]].append(row)
    backends = sorted({row["backend"] for row in rows})
    lines = []
    order = {name: number for number, name in enumerate(("float32", "float64", "bfloat16", "int64", "complex64"))}
    for (db, dtype), here in sorted(groups.items(), key=lambda g: (list(_NAMES).index(g[0][0]), order.get(g[0][1], 9))):
        counts = collections.Counter(row["status"] for row in here)
        others = ", ".join(f"{n} {status}" for status, n in sorted(counts.items()) if status not in RIGHT) or "none"
        samples, of, right = (sum(row[name] for row in here) for name in ("samples", "of", "right"))
        parts = [[row["status"] == OK for row in here if row["backend"] == backend] for backend in backends]
        entries = len({row["entry"] for row in here})
        whole = [f"{sum(part)} of {len(part)}" for part in parts]
        lines.append([_NAMES[db], dtype, entries, samples, of - samples, right, *whole, others])
    header = ["of", "dtype", "entries", "samples", "samples not run", "samples right", *(f"rows whole, {b}" for b in backends), "rows not right"]
    builds = collections.Counter(row["build"] for row in rows).most_common()
    which = "; ".join(f"{count} rows of {build}" for build, count in builds)
    return f"## Summary\n\n{which}. The rows are those of the last `--save`, not of the present code.\n\n" + _table(header, lines)


def _targets(rows: list[dict[str, Any]]) -> str:
    """The counts of pairs of an entry and a dtype, over all forms and backends."""
    lines = []
    for db, name in _NAMES.items():
        for title, forms in (("all forms", None), ("function, forward and backward", _PLAIN_FORMS)):
            here = [row for row in rows if row["db"] == db and (forms is None or row["form"] in forms)]
            if not here or (forms and db != "op"):
                continue
            pairs = {(row["entry"], row["dtype"]) for row in here}
            wrong = {(row["entry"], row["dtype"]) for row in here if row["status"] not in RIGHT}
            broken = {(row["entry"], row["dtype"]) for row in here if row["reasons"]}
            entries = {row["entry"] for row in here}
            names = {getattr(e, "name", "") for e in DATABASES[db].entries() if DATABASES[db].name_of(e) in entries}
            lines.append([name, title, len(names), len(entries), len(pairs), len(pairs - wrong), len(broken)])
    return "Pairs of an entry and a dtype, by all backends that were run:\n\n" + _table(
        ["of", "forms", "names", "entries", "pairs", "right in every row", "not whole in a row"], lines
    )


def _joined(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _troubles(rows: list[dict[str, Any]]) -> str:
    """What is not right; rows of one entry with the same first words together."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = collections.defaultdict(list)
    for row in rows:
        if row["status"] not in RIGHT:
            detail = re.sub(r"[-+]?\d[\d.e+-]*", "N", row.get("detail", "")[:120])
            found[row["entry"], row["status"], detail].append(row)
    lines = []
    for (entry, status, _), here in sorted(found.items(), key=lambda item: (item[0][1], item[0][0])):
        where = "; ".join(_joined(row[name] for row in here) for name in ("form", "dtype", "backend"))
        lines.append([status, entry, where, here[0].get("detail", "")[:260]])
    return "## Not right\n\n" + (_table(["status", "entry", "where", "what"], lines) if lines else "Nothing.\n")


def _not_whole(rows: list[dict[str, Any]]) -> str:
    """Reasons with the operator's name left out, the most frequent first; below each the entries, dtypes and forms."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        for reason in row["reasons"]:
            general = re.sub(r"\b[a-z_]+\.[\w.]*\w", "OPERATOR", re.sub(r": %\d+:.*", "", reason))
            found[general][row["entry"] if row["db"] == "op" else f"{row['entry']} ({row['db']})"].append(row)
    pairs = {reason: len({(e, r["dtype"]) for e, here in entries.items() for r in here}) for reason, entries in found.items()}
    text = "## Not whole\n\n" + _table(
        ["pairs", "rows", "entries", "reason"],
        ([pairs[r], sum(map(len, found[r].values())), len(found[r]), r] for r in sorted(found, key=lambda r: -pairs[r])),
    )
    for reason in sorted(found, key=lambda r: -pairs[r]):
        names = []
        for entry, here in sorted(found[reason].items()):
            names.append(f"{entry} ({'; '.join(_joined(row[n] for row in here) for n in ('form', 'dtype', 'backend'))})")
        text += f"\n**{_escaped(reason)}**: {_escaped(', '.join(names))}.\n"
    return text


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def _empty(rows: list[dict[str, Any]]) -> str:
    found = collections.defaultdict(list)
    for row in rows:
        if row["status"] == "nothing compiled":
            found[row["entry"]].append(row)
    if not found:
        return ""
    lines = ([entry, *(_joined(row[n] for row in here) for n in ("form", "dtype", "backend"))] for entry, here in sorted(found.items()))
    return "## Nothing compiled\n\n" + _table(["entry", "forms", "dtypes", "backends"], lines)


def _not_run(rows: list[dict[str, Any]]) -> str:
    found = {(row["entry"], row["dtype"], row["form"], row["skipped"][:120]) for row in rows if row.get("skipped")}
    if not found:
        return ""
    text = "## No samples\n\nThe samples themselves could not be made:\n\n"
    return text + _table(["entry", "dtype", "form", "why"], sorted(map(list, found)))
