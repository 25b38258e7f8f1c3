"""Tries mutations: each is built, its killers are run, and the outcome says which of them failed.

Killers must pass on the build as it stands: one that fails there would kill anything. Invariant: whatever is made lies in a
temporary folder that is removed after it.
"""

from __future__ import annotations

import concurrent.futures
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterable

from mutations import killers
from mutations.build_folder import BuildFolder, DoesNotBuild
from mutations.killers import BadKiller, Run
from mutations.mutation import Malformed, Mutation
from mutations.results import ERROR, MACHINE, NOT_HERE, SURVIVED, UNIT, Outcome

LIMIT = 180.0  # seconds for a killer


def has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


class Trials:
    """`units`: run the units' killers also where the machine's killed it."""

    def __init__(self, build: BuildFolder, limit: float = LIMIT, keep_going: bool = False):
        self.build = build
        self.limit = limit
        self.cuda = has_cuda()
        self.show: Callable[[str], None] = lambda text: print(text, flush=True)
        self._broken: dict[str, str] = {}  # killers that fail without a bug

    def killers_here(self, mutation: Mutation) -> list[str]:
        machine = mutation.machine if self.cuda or mutation.needs != "cuda" else ()
        return [*machine, *mutation.unit]

    def check_killers(self, mutations: Iterable[Mutation], jobs: int) -> int:
        """Runs every killer on the build as it stands; returns how many failed there."""
        wanted = sorted({killer for mutation in mutations for killer in self.killers_here(mutation)})
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for killer, told in zip(wanted, pool.map(self._fails_without_bug, wanted)):
                if told:
                    self._broken[killer] = told
                    self.show(f"fails without a bug: {killer}\n         {told}")
        return len(self._broken)

    def _fails_without_bug(self, killer: str) -> str:
        with tempfile.TemporaryDirectory(prefix="mutation") as scratch:
            try:
                run = killers.run(killer, self.build.path, pathlib.Path(scratch), self.limit)
            except BadKiller as error:
                return str(error)
        return "" if run.status == "passed" else run.told or run.status

    def try_all(self, mutations: list[Mutation], jobs: int) -> list[Outcome]:
        outcomes = []
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for outcome in pool.map(self.try_one, mutations):
                outcomes.append(outcome)
                self.show(outcome.line())
        return outcomes

    def try_one(self, mutation: Mutation) -> Outcome:
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="mutation") as folder:
            outcome = self._tried(mutation, pathlib.Path(folder), start)
        return outcome

    def _tried(self, mutation: Mutation, folder: pathlib.Path, start: float) -> Outcome:
        def end(status: str, killer: str = "", run: Run | None = None, told: str = "") -> Outcome:
            told = run.told if run else told
            return Outcome(mutation.name, status, killer, told, bool(run and run.status == "hung"), time.monotonic() - start)

        here = self.killers_here(mutation)
        if not here:
            return end(NOT_HERE)
        broken = [self._broken[killer] for killer in here if killer in self._broken]
        if broken:
            return end(ERROR, told=f"a killer fails without the bug: {broken[0]}")
        made: set[str] = set()
        try:
            for killer in here:
                targets = tuple(t for t in killers.targets_of(killer) if t not in made)
                if targets:
                    self.build.plant(mutation, targets, folder)
                    made.update(targets)
                    self._check_import(folder, targets)
                run = killers.run(killer, folder, folder, self.limit)
                if run.status != "passed":
                    return end(MACHINE if killer in mutation.machine else UNIT, killer, run)
        except (DoesNotBuild, BadKiller, Malformed) as error:
            return end(ERROR, told=str(error))
        return end(SURVIVED)

    def _check_import(self, folder: pathlib.Path, targets: tuple[str, ...]) -> None:
        """A module that cannot be loaded would be killed by anything."""
        if killers.PACKAGE not in targets:
            return
        command = [killers.sys.executable, "-c", "import torch, framefuse._C"]
        status, output = killers.run_limited(command, folder, killers.environment_of(folder), self.limit)
        if status:
            raise DoesNotBuild(f"cannot be imported: {output[-500:]}")
