"""Parses the command line, runs the models and prints what each did.

Invariant: what is printed last is a summary with counts.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import os
import time
import warnings
from typing import Any

import torch

from zoo import device, packages, results, table, zoo_model
from zoo.one_model import INFERENCE, MISSED, OK, SKIPPED, TOLD, TRAINING, run_model
from zoo.process import End, Limits, jobs, run_children
from zoo.zoo_model import ZooModel

SETS = ("own", "idioms", "transformers", "transformers5", "timm", "torchvision", "packages")
BACKENDS = ("fuse", "aten", "fx", "eager")


def main(arguments: list[str]) -> int:
    chosen = _parse(arguments)
    if chosen.page:
        print(f"wrote {table.write()}")
        return 0
    unknown = [name for name in chosen.backend.split(",") if name not in BACKENDS]
    if unknown:
        print(f"no backend {', '.join(unknown)}; there are {', '.join(BACKENDS)}")
        return 2
    if chosen.device != "cpu" and chosen.save:
        print("the page is about the CPU: --device goes without --save")
        return 2
    device.choose(chosen.device)
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    warnings.simplefilter("ignore")
    status = 0
    for set_name in [chosen.set] if chosen.set else SETS:
        status = max(status, _run_set(set_name, chosen))
    return status


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="models", description=__doc__)
    parser.add_argument("--set", choices=SETS, help="only this set (default: all)")
    parser.add_argument("--train", action="store_true", help="training too")
    parser.add_argument("--only-train", action="store_true", help="training, not inference")
    parser.add_argument("--backend", default="fuse,aten,fx", help="comma-separated; eager is the identity")
    parser.add_argument("--peer", action="store_true", help="also torch.compile, for its count of breaks")
    parser.add_argument("--jobs", type=jobs, default=1, help="models at a time (default 1)")
    parser.add_argument("--only", help="models whose name contains one of these, comma-separated; =NAME: that one")
    parser.add_argument("--part", default="0/1", help="N/M: every M-th model from the N-th on")
    parser.add_argument("--site", help="the folders with the packages, with colons between them (or the environment's FF_ZOO_SITE)")
    parser.add_argument("--seconds", type=float, default=120, help="processor time for each run (default 120)")
    parser.add_argument("--gigabytes", type=float, default=6, help="memory for each run (default 6)")
    parser.add_argument("--millions", type=float, help="refuse models with more millions of parameters than this")
    parser.add_argument("--device", choices=device.NAMES, default="cpu", help="where models run (default cpu)")
    parser.add_argument("--save", action="store_true", help="keep the rows and write docs/models.md")
    parser.add_argument("--list", action="store_true", help="only list the models")
    parser.add_argument("--page", action="store_true", help="only write docs/models.md from the rows that are kept")
    return parser.parse_args(arguments)


def _selected(models: list[ZooModel], chosen: argparse.Namespace) -> list[ZooModel]:
    if chosen.only:
        parts = chosen.only.split(",")
        exact = {part[1:] for part in parts if part.startswith("=")}
        parts = [part for part in parts if not part.startswith("=")]
        models = [m for m in models if m.name in exact or m.name.split(":")[0] in exact or any(p in m.name for p in parts)]
    first, step = map(int, chosen.part.split("/"))
    return models[first::step]


def _run_set(set_name: str, chosen: argparse.Namespace) -> int:
    packages.make_importable(set_name, chosen.site)
    if chosen.millions is not None:
        zoo_model.maximum[set_name] = chosen.millions
    _silence(set_name)
    models = _selected(importlib.import_module(f"zoo.sets_{set_name}").all_models(), chosen)
    if chosen.list:
        print("\n".join(m.name for m in models), f"\n{len(models)} models of {set_name}")
        return 0
    modes = [TRAINING] if chosen.only_train else [INFERENCE, TRAINING] if chosen.train else [INFERENCE]
    names = chosen.backend.split(",") + (["peer"] if chosen.peer else [])
    limits = Limits(chosen.seconds, chosen.gigabytes * 1e9)
    whole = Limits(chosen.seconds * (len(modes) * len(names) + 2), chosen.gigabytes * 1e9)

    def work(entry: ZooModel):
        return lambda reply: run_model(entry, modes, names, limits, reply)

    rows, start, file = [], time.monotonic(), results.RowFile(set_name) if chosen.save else None
    for name, reply in run_children([(m.name, work(m)) for m in models], whole, chosen.jobs):
        if isinstance(reply, End):
            if reply.kind == "done":
                continue
            status = SKIPPED if chosen.device == "cpu" else reply.kind  # nobody knows whether it was eager
            reply = {"status": status, "details": [f"eager: {reply.kind} {reply.text[:300]}"]}
        row = {"set": set_name, "model": name, **reply}
        rows.append(row)
        _show(row)
        if file:
            file.add(row)
    print(_summary(set_name, rows, time.monotonic() - start))
    if chosen.save:
        table.write()
    return 0 if all(row["status"] in (OK, MISSED, TOLD, SKIPPED) for row in rows) else 1


def _silence(set_name: str) -> None:
    if set_name.startswith("transformers"):
        import transformers

        transformers.logging.set_verbosity_error()


def _show(row: dict[str, Any]) -> None:
    about = f"{row.get('mode', ''):9} {row.get('backend', ''):5} {row['model']}"
    breaks = f", {row['breaks']} breaks" if row.get("breaks") else ""
    print(f"{row['status']:8} {about}{breaks} {row.get('seconds', '')}", flush=True)
    for detail in [*row.get("details", []), *row.get("bugs", [])][:3]:
        print(f"           {detail[:300]}", flush=True)
    if row["status"] == "missed":
        print(f"           {str(row['second'])[:400]}", flush=True)


def _summary(set_name: str, rows: list[dict[str, Any]], seconds: float) -> str:
    counts = collections.Counter(row["status"] for row in rows)
    parts = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    models = len({row["model"] for row in rows if row["status"] != SKIPPED})
    return f"{set_name}: {models} models, {len(rows)} rows in {seconds:.0f} s: {parts}"
