"""A worker process that may crash or hang, and that answers in lines of JSON on a pipe of its own.

It is forked, so that torch is imported once; its stdout is dropped, its stderr kept to report a crash. Invariant:
when the lines end, the process is dead and its end is known.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance import native_errors

# A worker hangs if it is silent for this much of its own processor time, or for this long a wait (asleep for ever): on
# a busy machine a slow worker must not look like a hanging one.
_SILENT_PROCESSOR_SECONDS = 30.0
_SILENT_SECONDS = 300.0

Reply = Callable[[Any], None]


class Worker:
    """Runs `work(reply)` in a child process; what it replies comes out of `lines`."""

    def __init__(self, work: Callable[[Reply], None]):
        self._reader, writer = os.pipe()
        self._errors = native_errors.new_file()
        self._last_errors = b""
        self._hung = False
        self._status = 0
        sys.stdout.flush()
        sys.stderr.flush()
        self._process = os.fork()
        if self._process == 0:
            _run_child(work, writer, self._errors)
        os.close(writer)

    def lines(self) -> Iterator[Any]:
        """What the worker sends, until it ends or is silent for too long."""
        try:
            yield from self._read()
        finally:
            os.close(self._reader)
            if self._hung:
                self._stop()
            _, self._status = os.waitpid(self._process, 0)
            self._last_errors = self._read_errors()
            os.close(self._errors)

    def _stop(self) -> None:
        # An abort lets the fault handler say where it hung.
        os.kill(self._process, signal.SIGABRT)
        for _ in range(50):
            time.sleep(0.1)
            if os.waitid(os.P_PID, self._process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return
        os.kill(self._process, signal.SIGKILL)

    def _read(self) -> Iterator[Any]:
        buffer = b""
        since, used = time.monotonic(), 0.0
        while True:
            ready, _, _ = select.select([self._reader], [], [], 1.0)
            if not ready:
                silent = self._processor_seconds() - used
                if silent > _SILENT_PROCESSOR_SECONDS or time.monotonic() - since > _SILENT_SECONDS:
                    self._hung = True
                    return
                continue
            chunk = os.read(self._reader, 65536)
            if not chunk:
                return
            since, used = time.monotonic(), self._processor_seconds()
            buffer += chunk
            *lines, buffer = buffer.split(b"\n")
            yield from filter(None, map(json.loads, lines))  # null: a sign of life

    def _processor_seconds(self) -> float:
        with open(f"/proc/{self._process}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        user, system = int(fields[11]), int(fields[12])
        return (user + system) / os.sysconf("SC_CLK_TCK")

    def _read_errors(self) -> bytes:
        return os.pread(self._errors, 6000, max(0, os.fstat(self._errors).st_size - 6000))

    def why_it_ended(self) -> list[str]:
        """How a worker ended that did not finish, and the last lines that it wrote."""
        if self._hung:
            reason = "hung: no answer for too long"
        elif os.WIFSIGNALED(self._status):
            reason = f"died: {signal.Signals(os.WTERMSIG(self._status)).name}"
        else:
            reason = f"died: exit status {os.waitstatus_to_exitcode(self._status)}"
        lines = self._last_errors.decode(errors="replace").strip().splitlines()
        fatal = next((n for n, line in enumerate(lines) if line.startswith("Fatal Python error")), None)
        return [reason, *(lines[-3:] if fatal is None else lines[fatal : fatal + 16])]


def _run_child(work: Callable[[Reply], None], writer: int, errors: int) -> None:
    status = 1
    try:
        os.dup2(errors, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        faulthandler.enable(file=sys.stderr)
        # The parent's pool of threads was not forked with it: a parallel region would wait for it for ever.
        torch.set_num_threads(1)

        def reply(content: Any) -> None:
            os.write(writer, (json.dumps(content) + "\n").encode())

        work(reply)
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        # No exit handlers: they are the parent's.
        os._exit(status)
