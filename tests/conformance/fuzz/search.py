"""Runs fuzzed programs, shrinks what fails, writes it down as a program.

A seed says the program, the backend of those that take turns, and how it is run: called again after each change, in a
thread, with a break forced somewhere. Invariant: a seed gives the same program and the same verdict in every process; a
written one fails as the draft did.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import pathlib
import random
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence

from conformance.fuzz.grammar import Draft, make_draft
from conformance.judge import WRONG, Verdict, judge
from conformance.observation import observe
from conformance.program import Case, Program
from conformance.snapshot import Tolerance, first_differences
from conformance.systems import PlainPython, System
from conformance.ways import WAYS

# A forced break lies before one of the first instructions.
_FORCED_UP_TO = 120
_FILL_MEMORY = -6  # M_PERTURB of the GNU C library


@dataclasses.dataclass(frozen=True)
class Manner:
    """How a program is run."""

    way: str = "twice"
    break_at: int | None = None
    for_devices: bool = False  # graphs are rewritten as for a GPU


def manner_of(seed: int) -> Manner:
    source = random.Random(f"manner {seed}")
    roll = source.random()
    if roll < 0.06:
        return Manner("thread")
    if roll < 0.14:
        return Manner(break_at=source.randrange(_FORCED_UP_TO))
    return Manner(for_devices=roll < 0.3)


@dataclasses.dataclass
class Finding:
    """A program that failed: as small as it could be made, with its differences."""

    draft: Draft
    verdict: Verdict
    system: str = ""


@dataclasses.dataclass
class Search:
    """What a run of the fuzzer did. `captures` and `graphs` are what the systems say of themselves."""

    programs: int = 0
    calls: int = 0
    captures: int = 0
    graphs: int = 0
    seconds: float = 0.0  # of this process on a core
    findings: list[Finding] = dataclasses.field(default_factory=list)

    def calls_per_second(self) -> float:
        return self.calls / self.seconds if self.seconds else 0.0


def build_program(draft: Draft) -> Program:
    """Compiles a draft's text to a program; the registry does not learn of it."""
    module = types.ModuleType(f"<fuzz {draft.seed}>")
    for former in [name for name in sys.modules if name.startswith("<fuzz ")]:
        del sys.modules[former]
    sys.modules[module.__name__] = module  # dataclasses look for it
    exec(compile(draft.render(), module.__name__, "exec"), vars(module))
    factory = getattr(module, f"seed_{draft.seed}")
    name = f"fuzz/seed_{draft.seed}"
    return Program(name, "fuzz", factory, False, None, None, (), None, (3, 11))  # type: ignore[arg-type]


def verdict_of(draft: Draft, system: System) -> Verdict:
    manner = manner_of(draft.seed)
    forced: contextlib.AbstractContextManager = contextlib.nullcontext()
    # A piece of a long loop for each turn of it would take minutes.
    if manner.break_at is not None and system.forces_breaks() and not draft.has_long_loop():
        forced = system.break_before(manner.break_at)
    with forced, system.rewriting_for_devices() if manner.for_devices else contextlib.nullcontext():
        return judge(build_program(draft), manner.way, system)


def fails(draft: Draft, system: System) -> Verdict | None:
    """The verdict if the system gets the program wrong."""
    try:
        verdict = verdict_of(draft, system)
    except Exception:
        return None
    return verdict if verdict.status == WRONG else None


def shrink(draft: Draft, still_fails: Callable[[Draft], bool]) -> Draft:
    """Drops changes, statements and slots one by one while the program still fails."""
    improved = True
    while improved:
        improved = False
        for smaller in _smaller_drafts(draft):
            if _is_valid(smaller) and still_fails(smaller):
                draft, improved = smaller, True
                break
    return draft


def _smaller_drafts(draft: Draft):
    for index in reversed(range(len(draft.changes))):
        yield draft.without_change(index)
    for index in reversed(range(len(draft.statements))):
        yield draft.without_statement(index)
        if len(shorter := _without_block(draft.statements[index])) < len(draft.statements[index]):
            statements = [*draft.statements[:index], shorter, *draft.statements[index + 1 :]]
            yield dataclasses.replace(draft, statements=statements)
    for index in reversed(range(len(draft.slots))):
        smaller = draft.without_slot(index)
        if smaller is not None:
            yield smaller


def _without_block(lines: list[str]) -> list[str]:
    """A statement's inner lines, where it is a block around them."""
    if not lines or not lines[0].startswith(("try:", "if ", "for _ in", "with torch.no_grad", "def inner")):
        return lines
    inner = []
    for line in lines[1:]:
        if line and not line.startswith("    "):
            break
        inner.append(line[4:])
    return [line for line in inner if line != "return r"]


def _is_valid(draft: Draft) -> bool:
    try:
        return isinstance(build_program(draft).factory(), Case)
    except Exception:
        return False


def _is_observable(draft: Draft) -> bool:
    """Whether plain Python's run can be looked at: torch itself fails on some tensors whose base was replaced."""
    try:
        verdict_of(draft, PlainPython())
    except Exception:
        return False
    return True


def _is_reproducible(draft: Draft) -> bool:
    """Whether plain Python gives the same twice: torch reads memory that nobody wrote where an index has none (a meta
    tensor). The two runs find other bytes there."""
    filled = iter((0x55, 0xAA))
    program, way = build_program(draft), WAYS[manner_of(draft.seed).way]
    pictures = []
    for byte in filled:
        with filled_memory(byte):
            pictures.append(observe(program.build, way, lambda f: f).lines)
    return not first_differences(*pictures, Tolerance(0.0, 0.0))


@contextlib.contextmanager
def filled_memory(byte: int) -> Iterator[None]:
    """Memory comes from the allocator with a byte in each place, where the C library can do so."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", lambda option, value: 0)
    set_option(_FILL_MEMORY, byte)
    try:
        yield
    finally:
        set_option(_FILL_MEMORY, 0)


def run(
    systems: System | Sequence[System],
    first_seed: int,
    enough: Callable[[Search], bool],
    found: Callable[[Finding], None] = lambda finding: None,
    started: Callable[[int], None] = lambda seed: None,
) -> Search:
    """Tries seeds from `first_seed` on until it is enough; the systems take turns. `started` is told each seed, for the
    crash report."""
    turns = [systems] if isinstance(systems, System) else list(systems)
    search = Search()
    start = time.process_time()
    seed = first_seed
    while not enough(search):
        started(seed)
        system, draft = turns[seed % len(turns)], make_draft(seed)
        seed += 1
        if not _is_valid(draft):
            continue
        try:
            verdict = verdict_of(draft, system)
        except Exception as error:
            if not _is_observable(draft):
                continue
            verdict = Verdict(f"fuzz/seed_{draft.seed}", "twice", WRONG, [f"harness: {type(error).__name__}: {error}"[:300]])
        if verdict.status == WRONG and not _is_reproducible(draft):
            continue
        search.programs += 1
        search.calls += len(draft.changes) + 2
        if verdict.work is not None:
            search.captures += verdict.work["captures"]
            search.graphs += verdict.work["graphs"]
        if verdict.status == WRONG:
            finding = _shrunk(draft, verdict, system, started)
            search.findings.append(finding)
            found(finding)
        search.seconds = time.process_time() - start
    return search


def _shrunk(draft: Draft, verdict: Verdict, system: System, started: Callable[[int], None]) -> Finding:
    def still_fails(smaller: Draft) -> bool:
        started(draft.seed)  # a sign of life; the shrunk drafts keep the seed
        return fails(smaller, system) is not None

    smallest = shrink(draft, still_fails)
    return Finding(smallest, fails(smallest, system) or verdict, system.label())


def write_program(finding: Finding, folder: pathlib.Path, system: System) -> pathlib.Path:
    """Keeps a finding as a program file, to be moved under programs/ when its cause is repaired."""
    folder.mkdir(parents=True, exist_ok=True)
    first = finding.verdict.details[0].replace('"', "'").replace("\\", "/")[:80]
    path = folder / f"found_{finding.draft.seed}.py"
    manner = manner_of(finding.draft.seed)
    how = f"{finding.system or system.label()}, {manner.way}"
    how += f", a break before instruction {manner.break_at}" if manner.break_at is not None else ""
    path.write_text(finding.draft.render(f"Fuzzer's seed {finding.draft.seed} on {how}: {first}"))
    return path
