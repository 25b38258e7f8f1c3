"""Parses the command line, runs the entries in child processes and prints what each did.

Invariant: a child that dies is a row; the forms after the one that killed it are run in another child.
"""

from __future__ import annotations

import argparse
import collections
import functools
import gc
import os
import time
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from samples import page, results, systems
from samples.one_entry import DATABASES, RIGHT, Runner, selected
from zoo import device
from zoo.process import End, Limits, Work, jobs, run_children

BACKENDS = ("fuse", "aten", "fx", "eager")
_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in DATABASES["op"].DTYPES}


def main(arguments: list[str]) -> int:
    chosen = _parse(arguments)
    if chosen.page:
        device.choose(chosen.device, forks=False)
        print(f"wrote {page.write()}")
        return 0
    unknown = set(chosen.backend.split(",")) - set(BACKENDS) or set(chosen.dtype.split(",")) - set(_DTYPES)
    if unknown:
        print(f"unknown: {', '.join(unknown)}; backends are {', '.join(BACKENDS)}; dtypes are {', '.join(_DTYPES)}")
        return 2
    if chosen.dynamic and chosen.save:
        print("the page is about plain sizes: --dynamic goes without --save")
        return 2
    device.choose(chosen.device, forks=False)
    prepare()
    rows, start = [], time.monotonic()
    for database in [chosen.db] if chosen.db else DATABASES:
        rows += run_database(database, chosen)
    print(summary(rows, time.monotonic() - start))
    if chosen.save and chosen.part == "0/1":  # parts run at once: `--page` comes behind the last
        print(f"wrote {page.write()}")
    return 0 if all(row["status"] in RIGHT for row in rows) else 1


def prepare() -> None:
    """One thread: a forked child waits for ever for the threads of its parent's OpenMP pool."""
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    warnings.simplefilter("ignore")


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="samples", description=__doc__)
    parser.add_argument("--db", choices=tuple(DATABASES), help="only this database (default: all)")
    parser.add_argument("--only", default="", help="entries whose name contains one of these, comma-separated; =NAME: that one")
    parser.add_argument("--backend", default="fuse,aten,fx", help="comma-separated; eager is the identity")
    parser.add_argument("--dtype", default=",".join(_DTYPES), help="comma-separated (default: all five)")
    parser.add_argument("--part", default="0/1", help="N/M: every M-th entry from the N-th on")
    parser.add_argument("--samples", type=int, default=0, help="at most so many samples of each form, evenly spread (default 0: all)")
    parser.add_argument("--jobs", type=jobs, default=1, help="entries at a time (default 1)")
    parser.add_argument("--seconds", type=float, default=300, help="processor time for each entry and dtype (default 300)")
    parser.add_argument("--gigabytes", type=float, default=6, help="memory for each entry and dtype (default 6)")
    parser.add_argument("--device", choices=device.NAMES, default="cpu", help="where the samples' tensors are (default cpu)")
    parser.add_argument("--dynamic", action="store_true", help="all sizes symbolic: a form's samples share what was captured for the ones before")
    parser.add_argument("--save", action="store_true", help="keep the rows and write docs/samples.md (with --part: without the page)")
    parser.add_argument("--page", action="store_true", help="only write docs/samples.md, or that of --device, from the rows that are kept")
    return parser.parse_args(arguments)


def run_database(database: str, chosen: argparse.Namespace, make_system: Any = None) -> list[dict[str, Any]]:
    """Runs the chosen entries; returns a row for each entry, dtype, form and backend."""
    first, step = map(int, chosen.part.split("/"))
    dtypes = [_DTYPES[name] for name in chosen.dtype.split(",")]
    waiting = selected(database, dtypes, [part for part in chosen.only.split(",") if part], first, step)
    names = {id(entry): DATABASES[database].name_of(entry) for entry, _ in waiting}
    keys = {(names[id(entry)], str(dtype).removeprefix("torch.")): (entry, dtype) for entry, dtype in waiting}
    backends = chosen.backend.split(",")
    if make_system is None:
        make_system = functools.partial(systems.make_system, dynamic=True if getattr(chosen, "dynamic", False) else None)
        systems.warm_up(backends, make_system.keywords["dynamic"])
        gc.freeze()  # a child that collects garbage would copy all of this process's memory
    limits = Limits(chosen.seconds, chosen.gigabytes * 1e9)
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {key: [] for key in keys}

    def work(key: tuple[str, str]):
        skip = [[row["backend"], row["form"]] for row in rows[key]]
        runner = Runner(make_system, chosen.samples)
        return lambda reply: runner.run(database, *keys[key], backends, skip, reply)

    ahead = list(keys)
    while ahead:  # another round for those whose process died
        again, at = [], {}
        works = ((key, work(key)) for key in ahead)
        # torch's databases begin to use a GPU when they are imported: a forked child could not use it. A crash ends the run.
        replies = run_children(works, limits, chosen.jobs) if device.name == "cpu" else _run_here(works)
        for key, reply in replies:
            about = {"db": database, "entry": key[0], "dtype": key[1]}
            if isinstance(reply, End):
                dead = reply.kind != "done"
                if dead:
                    rows[key].append({**about, **_dead(reply, at.get(key))})
                    _show(rows[key][-1])
                if dead and at.get(key):
                    again.append(key)
                elif chosen.save:
                    results.add(rows[key])
            elif "at" in reply:
                at[key] = reply["at"]
            else:
                at.pop(key, None)
                rows[key].append({**about, **reply})
                _show(rows[key][-1])
        ahead = again
    return [row for found in rows.values() for row in found]


def _run_here(works: Iterable[tuple[Any, Work]]) -> Iterator[tuple[Any, Any]]:
    """As run_children, in this process: `--part` divides the entries among processes."""
    for key, work in works:
        replies: list[Any] = []
        work(replies.append)
        yield from ((key, reply) for reply in replies)
        yield key, End("done")


def _dead(end: End, at: list | None) -> dict[str, Any]:
    backend, form, number, count = at or ["", "before the first sample", 0, 0]
    row = {"backend": backend or "none", "form": form, "status": end.kind, "samples": number + 1, "of": count}
    return {**row, "right": number, "whole": 0, "detail": f"sample {number}: {end.text[:500]}"}


def _show(row: dict[str, Any]) -> None:
    if row["status"] not in RIGHT:
        about = f"{row['db']} {row['entry']} {row['dtype']} {row['backend']} {row['form']}"
        print(f"{row['status']:8} {about} ({row['right']} of {row['samples']} right)\n           {row.get('detail', '')[:600]}", flush=True)


def summary(rows: list[dict[str, Any]], seconds: float) -> str:
    counts = collections.Counter("skipped" if row.get("skipped") else row["status"] for row in rows)
    parts = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    entries, samples = len({(row["db"], row["entry"]) for row in rows}), sum(row["samples"] for row in rows)
    return f"{entries} entries, {len(rows)} rows, {samples} samples in {seconds:.0f} s: {parts}"
