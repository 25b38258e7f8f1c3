"""Splits long work over processes, each with its own workers, and brings back what each sends.

A shard is forked before any worker exists and ends with its work. Invariant: what comes back is ordered as if one
process had done everything; a shard that dies is an error, since only workers may crash.
"""

from __future__ import annotations

import dataclasses
import json
import os
import selectors
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from conformance.judge import Verdict
from conformance.runner import Job, SystemChoice, run_jobs


def run_jobs_sharded(
    jobs: Sequence[Job], choice: SystemChoice, shards: int, progress: Callable[[Verdict], None] = lambda verdict: None
) -> list[Verdict]:
    """As run_jobs, by that many processes at a time; jobs are dealt out in turn."""
    if shards <= 1:
        return run_jobs(jobs, choice, progress)
    by_job: dict[int, Verdict] = {}

    def work(shard: int, send: Callable[[Any], None]) -> None:
        run_jobs(jobs[shard::shards], choice, lambda verdict: send(dataclasses.asdict(verdict)))

    done = [0] * shards
    for shard, line in each_line(shards, work):
        verdict = Verdict(**line)
        by_job[shard + done[shard] * shards] = verdict
        done[shard] += 1
        progress(verdict)
    return [by_job[n] for n in range(len(jobs))]


def each_line(shards: int, work: Callable[[int, Callable[[Any], None]], None]):
    """Yields (shard, what it sent) as it comes; `work(shard, send)` runs in a process of its own."""
    selector = selectors.DefaultSelector()
    processes = {}
    for shard in range(shards):
        reader, writer = os.pipe()
        process = os.fork()
        if process == 0:
            _run_shard(shard, work, writer)
        os.close(writer)
        processes[shard] = process
        selector.register(reader, selectors.EVENT_READ, [shard, b""])
    while selector.get_map():
        for key, _ in selector.select():
            shard, rest = key.data
            chunk = os.read(key.fd, 65536)
            if not chunk:
                selector.unregister(key.fd)
                os.close(key.fd)
                _, status = os.waitpid(processes[shard], 0)
                if status:
                    raise RuntimeError(f"shard {shard} ended with status {os.waitstatus_to_exitcode(status)}")
                continue
            *lines, key.data[1] = (rest + chunk).split(b"\n")
            for line in lines:
                yield shard, json.loads(line)


def _run_shard(shard: int, work: Callable[[int, Callable[[Any], None]], None], writer: int) -> None:
    status = 1
    try:

        def send(content: Any) -> None:
            data = (json.dumps(content) + "\n").encode()
            while data:
                data = data[os.write(writer, data) :]

        work(shard, send)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        # No exit handlers: they are the parent's.
        os._exit(status)
