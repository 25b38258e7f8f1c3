"""Parses the command line of `./dev mutations`, tries the chosen mutations and says what became of them.

Invariant: what is printed last is a summary with counts.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import random
import time

from mutations import results
from mutations.build_folder import BuildFolder, default_build
from mutations.mutation import Mutation, all_mutations
from mutations.results import ERROR, MACHINE, SURVIVED, UNIT
from mutations.trial import LIMIT, Trials


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    every = all_mutations()
    chosen = select(every, options)
    if options.list:
        for mutation in chosen:
            print(f"{mutation.name:45} {mutation.about}")
        print(f"{len(chosen)} mutations")
        return 0
    if not chosen:
        print("no such mutation")
        return 2
    start = time.monotonic()
    trials = Trials(BuildFolder(pathlib.Path(options.build)), options.seconds)
    if not options.trust_killers:
        trials.check_killers(chosen, options.jobs)
    outcomes = trials.try_all(chosen, options.jobs)
    if options.save:
        results.save(outcomes, {mutation.name for mutation in every})
    counts = collections.Counter(outcome.status for outcome in outcomes)
    parts = [f"{counts[status]} {text}" for status, text in _SUMMARY.items()]
    print(f"{len(outcomes)} planted bugs in {time.monotonic() - start:.0f} s: {', '.join(parts)}")
    return 1 if counts[SURVIVED] or counts[ERROR] else 0


_SUMMARY = {
    MACHINE: "killed by the machine",
    UNIT: "by unit tests only",
    SURVIVED: "survived",
    ERROR: "errors of the list",
    results.NOT_HERE: "not for this machine",
}


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutations", description=__doc__)
    parser.add_argument("--list", action="store_true", help="only list them")
    parser.add_argument("--only", default="", help="those whose name contains one of these, comma-separated")
    parser.add_argument("--random", type=int, default=0, help="so many, by the seed")
    parser.add_argument("--seed", default=None, help="for --random (default: another one each time; it is printed)")
    parser.add_argument("--shard", default="1/1", help="I/N: every N-th one from the I-th on, which is 1 to N")
    parser.add_argument("--jobs", type=int, default=1, help="at a time (default 1)")
    parser.add_argument("--seconds", type=float, default=LIMIT, help=f"for each killer (default {LIMIT:.0f})")
    parser.add_argument("--build", default=str(default_build()), help="the build folder (default FF_BUILD_DIR, or build/)")
    parser.add_argument("--trust-killers", action="store_true", help="don't run the killers without a bug first")
    parser.add_argument("--save", action="store_true", help="keep the outcomes (results/mutations.json), for docs/conformance.md")
    return parser.parse_args(arguments)


def select(every: list[Mutation], options: argparse.Namespace) -> list[Mutation]:
    parts = [part for part in options.only.split(",") if part]
    chosen = [m for m in every if not parts or any(part in m.name for part in parts)]
    first, step = map(int, options.shard.split("/"))
    chosen = chosen[first - 1 :: step]
    if options.random:
        seed = options.seed if options.seed is not None else str(random.randrange(10**6))
        print(f"--random {options.random} --seed {seed}", flush=True)
        chosen = random.Random(seed).sample(chosen, min(options.random, len(chosen)))
    return chosen
