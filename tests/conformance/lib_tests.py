"""Runs CPython's own language tests with every test method compiled, and compares outcomes with the plain interpreter.

Each file runs in a worker process; a test that kills it is a crash and the next worker goes on behind it. What happened
to a test's frames (captured whole, broken, skipped) comes from the system's own counters. Invariant: no test is left
out: each one of a file has an outcome in both runs.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import unittest
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from conformance.runner import SystemChoice
from conformance.systems import System, make_system
from conformance.worker import Reply, Worker

FILES = (
    "abc augassign baseexception binop bool builtin call class closures code collections compare complex contextlib "
    "copy dataclasses decorators defaultdict deque descr descrtut dict dict_version dictcomps dictviews dynamic "
    "dynamicclassattribute enum enumerate eof except_star exception_group exception_hierarchy exception_variations "
    "exceptions extcall fstring float flufl format funcattrs functools genericalias genexps generators getopt global "
    "grammar hash heapq index int int_literal isinstance iter iterlen itertools keywordonlyarg lambda_ list listcomps "
    "long math metaclass named_expressions opcodes operator ordered_dict patma pep479 pep646_syntax "
    "positional_only_arg pow print property raise range reprlib richcmp scope set setcomps slice sort string "
    "string_literals subclassinit super syntax traceback tuple type_comments typechecks types unary unpack unpack_ex "
    "userdict userlist userstring weakref weakset with yield_from"
).split()


@dataclasses.dataclass
class FileRow:
    """One file's line in the table."""

    file: str
    tests: int = 0
    same: int = 0
    whole: int = 0
    broken: int = 0
    skipped: int = 0
    crashed: int = 0
    different: list[str] = dataclasses.field(default_factory=list)


def existing_files(select: Sequence[str] = ()) -> list[str]:
    """The listed files that this interpreter has, by test module name."""
    found = []
    for name in dict.fromkeys(FILES):
        if select and name not in select:
            continue
        try:
            known = importlib.util.find_spec(f"test.test_{name}") is not None
        except ImportError:
            known = False
        if known:
            found.append(name)
    return found


def run_file(name: str, choice: SystemChoice) -> FileRow:
    """Both runs of one file, compared."""
    plain = _outcomes(name, SystemChoice("python"))
    compiled = _outcomes(name, choice)
    row = FileRow(name, tests=len(plain))
    for test, (outcome, _) in plain.items():
        other, frames = compiled.get(test, ("missing", "skipped"))
        row.same += other == outcome
        if other == "crash":
            row.crashed += 1
        if other != outcome:
            row.different.append(f"{test}: {outcome} became {other}")
        row.whole += frames == "whole"
        row.broken += frames == "broken"
        row.skipped += frames == "skipped"
    return row


def _outcomes(name: str, choice: SystemChoice) -> dict[str, tuple[str, str]]:
    """By test: its outcome, and what happened to its frames."""
    outcomes: dict[str, tuple[str, str]] = {}
    finished = False
    while not finished:
        worker = Worker(lambda reply, first=len(outcomes): _work(reply, choice, name, first))
        started = None
        for line in worker.lines():
            if "start" in line:
                started = line["start"]
            elif "test" in line:
                outcomes[line["test"]] = (line["outcome"], line["frames"])
                started = None
            finished = finished or "finished" in line
        if not finished:
            if started is None:  # died outside of any test: the rest can't be run
                outcomes.setdefault("(module)", ("crash", "skipped"))
                return outcomes
            outcomes[started] = ("crash", "skipped")
    return outcomes


def _flat(suite: Any) -> Iterator[unittest.TestCase]:
    if isinstance(suite, unittest.TestCase):
        yield suite
    else:
        for part in suite:
            yield from _flat(part)


class _Reporting(unittest.TestResult):
    """Sends each test's outcome as one line."""

    def __init__(self, system: System, reply: Reply):
        super().__init__()
        self._system = system
        self._reply = reply
        self._outcome = "ok"
        self._before: dict[str, float] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._outcome = "ok"
        self._before = self._system.counters()
        self._reply({"start": test.id()})

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        after = self._system.counters()
        changes = {key: value - self._before.get(key, 0) for key, value in after.items()}
        frames = "skipped" if self._outcome == "skip" or not changes.get("captured") else "whole"
        if frames == "whole" and (changes.get("breaks") or changes.get("fallbacks")):
            frames = "broken"
        self._reply({"test": test.id(), "outcome": self._outcome, "frames": frames})

    def _note(self, outcome: str, error: Any = None) -> None:
        kind = f" {error[0].__name__}" if error else ""
        self._outcome = outcome + kind

    def addError(self, test: Any, err: Any) -> None:
        self._note("error", err)

    def addFailure(self, test: Any, err: Any) -> None:
        self._note("fail", err)

    def addSkip(self, test: Any, reason: str) -> None:
        self._note("skip")

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self._note("expected failure")

    def addUnexpectedSuccess(self, test: Any) -> None:
        self._note("unexpected success")

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self._note("subtest failed", err)


def _compile_method(test: unittest.TestCase, compile_: Callable[[Any], Any]) -> None:
    name = getattr(test, "_testMethodName", None)
    method = getattr(test, name, None) if name else None
    if method is not None and hasattr(method, "__func__"):
        test.__dict__[name] = compile_(method)


def _work(reply: Reply, choice: SystemChoice, name: str, first: int) -> None:
    system = make_system(choice.name, choice.backend)
    module = importlib.import_module(f"test.test_{name}")
    tests = list(_flat(unittest.defaultTestLoader.loadTestsFromModule(module)))[first:]
    for test in tests:
        _compile_method(test, system.compile)
    unittest.TestSuite(tests).run(_Reporting(system, reply))
    reply({"finished": True})
