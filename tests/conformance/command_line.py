"""Parses the command line and runs the parts of the truth machine.

Each command is one function that returns the exit status. Invariant: what is printed last is a summary with counts.
"""

from __future__ import annotations

import argparse
import pathlib
import time

from conformance import results
from conformance.judge import BROKE, CRASH, LESS, OK, SKIPPED, WRONG, Verdict
from conformance.program import Program, all_programs
from conformance.rewrites import REWRITES, rewritten
from conformance.runner import Job, SystemChoice, count_by_status
from conformance.shards import run_jobs_sharded
from conformance.systems import SYSTEMS, why_not_available
from conformance.ways import WAYS


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="conformance", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    _add_programs(commands)
    _add_fuzz(commands)
    _add_rewrites(commands)
    _add_lib_tests(commands)
    nightly = commands.add_parser("nightly", help="every part, long, with the results files and the page written")
    _add_system(nightly)
    nightly.set_defaults(run=_nightly)
    page = commands.add_parser("page", help="write docs/conformance.md from the results")
    page.set_defaults(run=_page)
    chosen = parser.parse_args(arguments or ["programs"])
    if not hasattr(chosen, "run"):
        parser.print_help()
        return 2
    return chosen.run(chosen)


def _add_system(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--system", choices=SYSTEMS, default="framefuse", help="the system under test")
    parser.add_argument("--backend", default=None, help="framefuse's backend (default aten; of fuzz: aten, fuse and fx in turn)")
    parser.add_argument("--shards", type=int, default=1, help="processes at a time (not for libtest; default 1)")


def _add_programs(commands) -> None:
    parser = commands.add_parser("programs", help="run the programs in the ways of running")
    _add_system(parser)
    parser.add_argument("--ways", default=",".join(WAYS), help="comma-separated (default: all)")
    parser.add_argument("--verbose", action="store_true", help="print every difference as it is found")
    parser.add_argument("--save", action="store_true", help="write the results file that the page is made from")
    parser.add_argument("--list", action="store_true", help="only list the programs")
    parser.add_argument("--failures", default=None, help="write the failures as a list to this file")
    parser.add_argument("select", nargs="*", help="keep programs whose name contains one of these")
    parser.set_defaults(run=_programs)


def _add_fuzz(commands) -> None:
    parser = commands.add_parser("fuzz", help="random programs, state changed at random between calls")
    _add_system(parser)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--calls", type=int, default=5000, help="program-calls to make (default 5000)")
    parser.add_argument("--folder", default="found", help="where failing programs are written, shrunk")
    parser.add_argument("--save", action="store_true", help="write the results file that the page is made from")
    parser.set_defaults(run=_fuzz)


def _add_rewrites(commands) -> None:
    parser = commands.add_parser("rewrites", help="each program written another way")
    _add_system(parser)
    parser.add_argument("--rewrites", default=",".join(REWRITES), help="comma-separated (default: all)")
    parser.add_argument("--save", action="store_true", help="write the results file that the page is made from")
    parser.add_argument("--failures", default=None, help="write the failures as a list to this file")
    parser.add_argument("--verbose", action="store_true", help="print every difference as it is found")
    parser.add_argument("select", nargs="*", help="keep programs whose name contains one of these")
    parser.set_defaults(run=_rewrites)


def _add_lib_tests(commands) -> None:
    parser = commands.add_parser("libtest", help="CPython's Lib/test with every test method compiled")
    _add_system(parser)
    parser.add_argument("--save", action="store_true", help="write the results file that the page is made from")
    parser.add_argument("select", nargs="*", help="file names without test_ (default: all listed)")
    parser.set_defaults(run=_lib_tests)


def jobs_for(programs: list[Program], ways: list[str]) -> list[Job]:
    return [(p.name, way) for p in programs for way in ways if way not in p.not_ways]


def _programs(chosen: argparse.Namespace) -> int:
    selected = all_programs(chosen.select)
    if chosen.list:
        for p in selected:
            print(f"{p.name:55} {'whole' if p.whole else 'may break'}")
        print(f"{len(selected)} programs")
        return 0
    reason = why_not_available(chosen.system)
    if reason:
        print(f"can't run: {reason}")
        return 2
    ways = chosen.ways.split(",")
    unknown = [w for w in ways if w not in WAYS]
    if unknown:
        print(f"no way {', '.join(unknown)}; there are {', '.join(WAYS)}")
        return 2
    start = time.monotonic()
    choice = SystemChoice(chosen.system, chosen.backend)
    show, so_far = _printer(chosen.verbose), []

    def progress(verdict: Verdict) -> None:
        show(verdict)
        so_far.append(verdict)
        if chosen.failures and len(so_far) % 50 == 0:
            results.write_failures(chosen.failures, choice, so_far)

    verdicts = run_jobs_sharded(jobs_for(selected, ways), choice, chosen.shards, progress)
    longest = sorted(verdicts, key=lambda v: v.seconds)[:-4:-1]
    print("longest: " + ", ".join(f"{v.program} [{v.way}] {v.seconds:.1f} s" for v in longest))
    print(_summary(verdicts, len(selected), time.monotonic() - start))
    if chosen.save:
        results.save_programs(choice, verdicts)
    if chosen.failures:
        results.write_failures(chosen.failures, choice, verdicts)
    return 1 if any(v.status in (LESS, WRONG, CRASH) for v in verdicts) else 0


def _lib_tests(chosen: argparse.Namespace) -> int:
    from conformance import lib_tests

    reason = why_not_available(chosen.system)
    if reason:
        print(f"can't run: {reason}")
        return 2
    choice = SystemChoice(chosen.system, chosen.backend)
    rows = []
    for name in lib_tests.existing_files(chosen.select):
        row = lib_tests.run_file(name, choice)
        rows.append(row)
        counts = f"{row.same}/{row.tests} same, {row.whole} whole, {row.broken} broken, {row.skipped} skipped"
        print(f"test_{name:28} {counts}, {row.crashed} crashed", flush=True)
        for line in row.different[:5]:
            print(f"    {line[:200]}", flush=True)
    tests, same = sum(r.tests for r in rows), sum(r.same for r in rows)
    print(f"{len(rows)} files, {tests} tests, {same} with the same outcome, {sum(r.crashed for r in rows)} crashed")
    if chosen.save:
        results.save_lib_tests(choice, rows)
    return 0 if same == tests else 1


def _rewrites(chosen: argparse.Namespace) -> int:
    reason = why_not_available(chosen.system)
    if reason:
        print(f"can't run: {reason}")
        return 2
    start = time.monotonic()
    jobs: list[Job] = []
    for program in all_programs(chosen.select):
        for rewrite in chosen.rewrites.split(","):
            other = rewritten(program, rewrite)
            if other is not None:
                jobs += [(other.name, "twice")] + ([(other.name, "fullgraph")] if program.whole else [])
    choice = SystemChoice(chosen.system, chosen.backend)
    verdicts = run_jobs_sharded(jobs, choice, chosen.shards, _printer(chosen.verbose))
    print(_summary(verdicts, len({v.program for v in verdicts}), time.monotonic() - start))
    if chosen.save:
        results.save_rewrites(choice, verdicts)
    if chosen.failures:
        results.write_failures(chosen.failures, choice, verdicts)
    return 1 if any(v.status in (LESS, WRONG, CRASH) for v in verdicts) else 0


def _fuzz(chosen: argparse.Namespace) -> int:
    from conformance.fuzz.coverage import coverage_lines
    from conformance.fuzz.run_in_workers import fuzz

    reason = why_not_available(chosen.system)
    if reason:
        print(f"can't run: {reason}")
        return 2
    choice = SystemChoice(chosen.system, chosen.backend)
    outcome = fuzz(
        choice,
        chosen.seed,
        chosen.calls,
        pathlib.Path(chosen.folder),
        lambda text: print(text[:300], flush=True),
        chosen.shards,
    )
    rate = outcome.calls / outcome.seconds if outcome.seconds else 0
    print(
        f"{outcome.programs} programs, {outcome.calls} program-calls, {rate:.0f} a second of a core, "
        f"{outcome.graphs} graphs, {len(outcome.failures)} failures"
    )
    for line in coverage_lines(outcome.coverage.rows()):
        print(line)
    if chosen.save:
        results.save_fuzz(choice, chosen.seed, outcome)
    return 1 if outcome.failures else 0


def _printer(verbose: bool):
    """Prints a program's first failure in full, its further ones as one word each."""
    shown: set[tuple[str, str]] = set()

    def show(verdict: Verdict) -> None:
        if verdict.status in (OK, SKIPPED):
            return
        known = (verdict.program, verdict.status) in shown
        shown.add((verdict.program, verdict.status))
        print(f"{verdict.status:6} {verdict.way:14} {verdict.program}", flush=True)
        if verbose or not known:
            most = None if verdict.status == CRASH else 4 if verbose else 2
            for detail in verdict.details[:most]:
                print(f"           {detail[:300]}", flush=True)

    return show


def _summary(verdicts: list[Verdict], programs: int, seconds: float) -> str:
    counts = count_by_status(verdicts)
    parts = ", ".join(f"{counts.get(s, 0)} {s}" for s in (OK, BROKE, LESS, WRONG, CRASH, SKIPPED))
    wrong = len({v.program for v in verdicts if v.status in (WRONG, CRASH)})
    return f"{programs} programs, {len(verdicts)} runs in {seconds:.0f} s: {parts}; {wrong} programs wrong in some way"


def _nightly(chosen: argparse.Namespace) -> int:
    system = ["--system", chosen.system, "--save", "--shards", str(chosen.shards)] + (["--backend", chosen.backend] if chosen.backend else [])
    parts = (["programs"], ["rewrites"], ["fuzz", "--calls", "200000"], ["libtest"])
    status = max(main([*part, *system]) for part in parts)
    main(["page"])
    return status


def _page(chosen: argparse.Namespace) -> int:
    from conformance import page

    print(f"wrote {page.write()}")
    return 0
