"""Child processes that may crash, hang or eat memory, and answer in lines of JSON.

They are forked, so that packages are imported once. Invariant: when `run_children` yields an end, that process is dead.
"""

from __future__ import annotations

import ctypes
import dataclasses
import faulthandler
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any

# On a busy machine a slow child must not look like one that hangs: its own processor time counts, and this many times
# as much of the wall's.
_WALL_FACTOR = 5
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_PR_SET_PDEATHSIG = 1

Reply = Callable[[Any], None]
Work = Callable[[Reply], None]


@dataclasses.dataclass
class Limits:
    seconds: float = 120.0
    bytes: float = 6e9


@dataclasses.dataclass
class End:
    """How a child ended: kind is "done", "crash", "timeout" or "memory"; the text is for people."""

    kind: str
    text: str = ""


def jobs(text: str) -> int:
    """For argparse: how many children run at a time. None would run nothing and look like success."""
    count = int(text)
    if count < 1:
        raise ValueError(f"{count} jobs run nothing")
    return count


class Child:
    """One running child."""

    def __init__(self, work: Work, limits: Limits):
        self._limits = limits
        self.reader, writer = os.pipe()
        self._errors_reader, errors_writer = os.pipe()
        self._rest, self._errors, self._stopped = b"", b"", ""
        self._since = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        self._process = os.fork()
        if self._process == 0:
            os.close(self.reader)
            _run(work, writer, errors_writer)
        os.close(writer)
        os.close(errors_writer)
        os.set_blocking(self._errors_reader, False)

    def read(self) -> list[Any] | None:
        """The replies that have come, None once there will be no more."""
        chunk = os.read(self.reader, 1 << 20)
        if not chunk:
            return None
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [json.loads(line) for line in lines]

    def enforce(self) -> None:
        """Stops the child if it is past a limit."""
        self._keep_errors()
        if self._stopped:
            return
        seconds, size = self._used()
        wall = time.monotonic() - self._since
        if size > self._limits.bytes:
            self._stop("memory", signal.SIGKILL)
        elif seconds > self._limits.seconds or wall > _WALL_FACTOR * self._limits.seconds:
            self._stop("timeout", signal.SIGABRT)  # an abort lets the fault handler say where it was

    def finish(self) -> End:
        if self._stopped:  # what an abort does not end is killed
            for _ in range(50):
                if os.waitid(os.P_PID, self._process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    break
                time.sleep(0.1)
            else:
                os.kill(self._process, signal.SIGKILL)
        _, status = os.waitpid(self._process, 0)
        self._keep_errors()
        os.close(self.reader)
        os.close(self._errors_reader)
        if self._stopped:
            return End(self._stopped, self._last_lines())
        if os.WIFSIGNALED(status):
            return End("crash", f"{signal.Signals(os.WTERMSIG(status)).name} {self._last_lines()}")
        if status:
            return End("crash", f"exit status {os.waitstatus_to_exitcode(status)} {self._last_lines()}")
        return End("done")

    def _stop(self, why: str, number: int) -> None:
        self._stopped = why
        os.kill(self._process, number)

    def _used(self) -> tuple[float, float]:
        try:
            with open(f"/proc/{self._process}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            return 0.0, 0.0
        return (int(fields[11]) + int(fields[12])) / _TICKS, int(fields[21]) * _PAGE

    def _keep_errors(self) -> None:
        try:
            while chunk := os.read(self._errors_reader, 1 << 16):
                self._errors = (self._errors + chunk)[-20000:]
        except BlockingIOError:
            pass

    def _last_lines(self) -> str:
        lines = self._errors.decode(errors="replace").strip().splitlines()
        fatal = next((n for n, line in enumerate(lines) if line.startswith("Fatal Python error")), None)
        if fatal is None:
            return " | ".join(lines[-4:])
        return " | ".join(lines[max(0, fatal - 3) : fatal + 9])


def run_children(works: Iterable[tuple[Any, Work]], limits: Limits, jobs: int = 1) -> Iterator[tuple[Any, Any]]:
    """Runs (key, work) pairs, `jobs` at a time; yields (key, reply) and at last (key, End) for each."""
    waiting = iter(works)
    running: dict[int, tuple[Any, Child]] = {}
    exhausted = False
    while running or not exhausted:
        while not exhausted and len(running) < jobs:
            following = next(waiting, None)
            if following is None:
                exhausted = True
                break
            child = Child(following[1], limits)
            running[child.reader] = (following[0], child)
        if not running:
            return
        ready, _, _ = select.select(list(running), [], [], 0.2)
        for _, child in running.values():
            child.enforce()
        for reader in ready:
            key, child = running[reader]
            replies = child.read()
            if replies is None:
                del running[reader]
                yield key, child.finish()
            else:
                yield from ((key, reply) for reply in replies)


def _run(work: Work, writer: int, errors: int) -> None:
    status = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(errors, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        faulthandler.enable(file=sys.stderr)

        def reply(content: Any) -> None:
            data = (json.dumps(content) + "\n").encode()
            while data:
                data = data[os.write(writer, data) :]

        work(reply)
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)  # no exit handlers: they are the parent's
