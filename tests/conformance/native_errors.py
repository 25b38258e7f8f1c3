"""What C++ code of torch says on the process's stderr, past Python's warnings.

A warning that no code of Python's can hear or filter is one that a user sees on a terminal. Invariant: only a stderr that
is a file can be read; of any other nothing is said.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

_WARNING = re.compile(rb"^\[W[^\]]*\] (.*)$", re.MULTILINE)  # behind date, time and place


def position() -> int | None:
    try:
        return os.lseek(2, 0, os.SEEK_END)
    except OSError:
        return None


def warnings_since(start: int | None) -> tuple[str, ...]:
    if start is None:
        return ()
    with contextlib.suppress(OSError):
        text = os.pread(2, 1 << 16, start)
        return tuple(said.decode(errors="replace")[:120] for said in _WARNING.findall(text))
    return ()


def new_file() -> int:
    return os.memfd_create("stderr")


@contextlib.contextmanager
def as_file() -> Iterator[None]:
    """A block in which stderr is a file that nobody else reads."""
    former, file = os.dup(2), new_file()
    os.dup2(file, 2)
    os.close(file)
    try:
        yield
    finally:
        os.dup2(former, 2)
        os.close(former)
