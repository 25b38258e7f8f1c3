"""The trace: what was compiled and why, as JSON lines that C++ writes (common/trace.h). docs/trace.md describes them."""

import atexit
import contextlib
import json
import os
import pathlib
import platform
import sys
import threading
from collections.abc import Iterator
from typing import Any

import torch

from framefuse import _C, _torch_trace

VERSION = 1  # of the lines
Event = dict[str, Any]


def install(version: str) -> None:
    """Say what process this is, and where FRAMEFUSE_TRACE asks for a trace."""
    header = {
        "version": VERSION,
        "framefuse": version,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "rank": os.environ.get("RANK", ""),
        "program": " ".join(sys.orig_argv),
    }
    _C.set_trace_header(json.dumps(header)[1:-1])
    atexit.register(_C.write_trace_uses)
    _torch_trace.follow()
    folder = os.environ.get("FRAMEFUSE_TRACE")
    if folder:
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise ValueError(f"FRAMEFUSE_TRACE: {error}") from None
        _C.set_config("trace_dir", os.path.abspath(folder))  # the first compilation opens the file


@contextlib.contextmanager
def collect() -> "Iterator[list[Event]]":
    """Collect the events of this thread; the list is filled when the block ends."""
    events: "list[Event]" = []
    collector = _C.start_trace_collector()
    try:
        yield events
    finally:
        _C.write_trace_uses()
        events.extend(event for event in map(json.loads, _C.stop_trace_collector(collector)) if event["thread"] == threading.get_ident())


def read(folder: "str | os.PathLike[str]") -> "list[list[Event]]":
    """The events of each process that wrote into the folder, in the order of their beginning; `folder` may be one file.

    The last line of a process that was ended in the middle of it is left out. Raises `ValueError` for what is no trace.
    """
    path = pathlib.Path(folder)
    files = [path] if path.is_file() else sorted(path.glob("*.jsonl"))
    if not files:
        raise ValueError(f"{path} holds no trace: no file *.jsonl is there")
    processes = [events for events in map(_events_of, files) if events]
    return sorted(processes, key=lambda events: events[0]["time"])


def _events_of(file: pathlib.Path) -> "list[Event]":
    lines = file.read_text(encoding="utf-8").splitlines()
    events: "list[Event]" = []
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line)
        except ValueError:
            if number == len(lines):
                break
            raise ValueError(f"{file}:{number} is no line of a trace") from None
        if not isinstance(event, dict) or "event" not in event:
            raise ValueError(f"{file}:{number} is no line of a trace")
        if event["event"] == "process" and event.get("version") != VERSION:
            raise ValueError(f"{file} is a trace of version {event.get('version')}; this framefuse reads version {VERSION}")
        events.append(event)
    return events
