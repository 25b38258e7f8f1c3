"""A worker process that may crash or hang, and that answers in lines of JSON on a pipe of its own.

The module named is started with the pipe's descriptor as its first argument; its stdout is dropped, its stderr kept for
the report of a crash. Invariant: when the lines end, the process is dead and its end is known.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

_START_SECONDS = 120.0
_SILENCE_SECONDS = 40.0


class Worker:
    """Starts `python -m module descriptor arguments…` with `text` as its input."""

    def __init__(self, module: str, arguments: Sequence[str], text: str = ""):
        self._reader, writer = os.pipe()
        self._errors = b""
        self._hung = False
        tests_folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [tests_folder, environment.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", module, str(writer), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            pass_fds=(writer,),
        )
        os.close(writer)
        os.set_blocking(self._process.stderr.fileno(), False)
        self._process.stdin.write(text.encode())
        self._process.stdin.close()

    def lines(self) -> Iterator[Any]:
        """What the worker sends, until it ends or is silent for too long."""
        try:
            yield from self._read()
        finally:
            os.close(self._reader)
            if self._hung:
                self._stop()
            self._process.wait()
            self._keep_errors()
            self._process.stderr.close()

    def _stop(self) -> None:
        # An abort lets the fault handler say where it hung.
        self._process.send_signal(signal.SIGABRT)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _read(self) -> Iterator[Any]:
        buffer = b""
        deadline = time.monotonic() + _START_SECONDS
        while True:
            ready, _, _ = select.select([self._reader], [], [], 1.0)
            self._keep_errors()
            if not ready:
                if time.monotonic() > deadline:
                    self._hung = True
                    return
                continue
            chunk = os.read(self._reader, 65536)
            if not chunk:
                return
            deadline = time.monotonic() + _SILENCE_SECONDS
            buffer += chunk
            *lines, buffer = buffer.split(b"\n")
            yield from map(json.loads, lines)

    def _keep_errors(self) -> None:
        self._errors = (self._errors + (self._process.stderr.read() or b""))[-6000:]

    def why_it_ended(self) -> list[str]:
        """How a worker ended that did not finish, and the last lines that it wrote."""
        code = self._process.returncode
        if self._hung:
            reason = "hung: no answer for too long"
        else:
            reason = f"died: {signal.Signals(-code).name}" if code < 0 else f"died: exit status {code}"
        lines = self._errors.decode(errors="replace").strip().splitlines()
        fatal = next((n for n, line in enumerate(lines) if line.startswith("Fatal Python error")), None)
        return [reason, *(lines[-3:] if fatal is None else lines[fatal : fatal + 6])]


def reply(stream: Any, content: Any) -> None:
    """Sends one line, from inside the worker."""
    stream.write(json.dumps(content) + "\n")
    stream.flush()
