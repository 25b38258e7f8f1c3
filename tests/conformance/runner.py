"""Runs many judgements, isolated in worker processes that may crash or hang.

The parent sends a list of jobs to a worker and reads one line a start and one line a verdict; when a worker dies or is
silent for too long, the job that it had started is a crash, and a new worker takes the rest. Invariant: every job sent
yields exactly one verdict.
"""

from __future__ import annotations

import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from conformance.judge import CRASH, OK, WRONG, Verdict, judge
from conformance.program import all_programs
from conformance.systems import make_system

_SILENCE_SECONDS = 120.0

Job = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class SystemChoice:
    """Which system a worker makes."""

    name: str
    backend: str | None = None


def run_jobs(
    jobs: Sequence[Job], choice: SystemChoice, progress: Callable[[Verdict], None] = lambda verdict: None
) -> list[Verdict]:
    """One verdict for each job, in order."""
    verdicts: list[Verdict] = []
    while len(verdicts) < len(jobs):
        for verdict in _run_worker(list(jobs[len(verdicts) :]), choice):
            verdicts.append(verdict)
            progress(verdict)
    return verdicts


def _run_worker(jobs: list[Job], choice: SystemChoice):
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "conformance.runner", str(writer), choice.name, choice.backend or ""]
    tests_folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [tests_folder, environment.get("PYTHONPATH")]))
    worker = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        pass_fds=(writer,),
    )
    os.close(writer)
    os.set_blocking(worker.stderr.fileno(), False)
    try:
        worker.stdin.write(json.dumps(jobs).encode())
        worker.stdin.close()
        yield from _read_verdicts(reader, worker, jobs)
    finally:
        os.close(reader)
        if worker.poll() is None:
            worker.kill()
        worker.wait()
        worker.stderr.close()


def _read_verdicts(reader: int, worker: subprocess.Popen, jobs: list[Job]):
    buffer, done, errors = b"", 0, b""
    deadline = time.monotonic() + _SILENCE_SECONDS
    while done < len(jobs):
        ready, _, _ = select.select([reader], [], [], 1.0)
        errors = (errors + (worker.stderr.read() or b""))[-2000:]
        chunk = os.read(reader, 65536) if ready else None
        if chunk:
            deadline = time.monotonic() + _SILENCE_SECONDS
            buffer += chunk
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                yield Verdict(**json.loads(line))
                done += 1
        elif chunk == b"" or time.monotonic() > deadline:
            yield _crash_verdict(jobs[done], worker, errors, hung=chunk is None)
            return


def _crash_verdict(job: Job, worker: subprocess.Popen, errors: bytes, hung: bool) -> Verdict:
    if hung:
        reason = f"hung: no verdict for {_SILENCE_SECONDS:.0f} s"
    else:
        code = worker.wait()
        reason = f"died: {signal.Signals(-code).name}" if code < 0 else f"died: exit status {code}"
    errors += worker.stderr.read() or b""
    last = errors.decode(errors="replace").strip().splitlines()[-3:]
    return Verdict(job[0], job[1], CRASH, [reason, *last])


def _work(reply_descriptor: int, choice: SystemChoice) -> None:
    jobs: list[Job] = [tuple(job) for job in json.load(sys.stdin)]
    programs = {p.name: p for p in all_programs()}
    system = make_system(choice.name, choice.backend)
    with os.fdopen(reply_descriptor, "w") as replies:
        for name, way in jobs:
            try:
                verdict = judge(programs[name], way, system)
            except Exception as error:  # the judge itself failed: a finding about the harness, not to be lost
                verdict = Verdict(name, way, WRONG, [f"harness: {type(error).__name__}: {error}"[:300]])
            replies.write(json.dumps(dataclasses.asdict(verdict)) + "\n")
            replies.flush()


def count_by_status(verdicts: Sequence[Verdict]) -> dict[str, int]:
    counts: dict[str, int] = {OK: 0}
    for verdict in verdicts:
        counts[verdict.status] = counts.get(verdict.status, 0) + 1
    return counts


if __name__ == "__main__":
    _work(int(sys.argv[1]), SystemChoice(sys.argv[2], sys.argv[3] or None))
