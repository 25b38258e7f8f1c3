"""set_logs and its relatives: which artifacts of the compiler's work are written to stderr."""

import contextlib
import os
from collections.abc import Iterator

from framefuse import _C


def list_logs() -> "dict[str, str]":
    """Return each log artifact's name and what it shows."""
    return dict(_C.log_artifacts())


def set_logs(*, all: "bool | None" = None, **artifacts: bool) -> None:
    """Switch log artifacts on or off: `set_logs(graph_breaks=True, guards=True)`, `set_logs(all=False)`.

    What is not named stays as it is; `all` is applied first. The environment variable FRAMEFUSE_LOGS="graph_breaks,guards"
    (or "all", "-bugs") does the same when framefuse is imported. `list_logs()` says what each artifact shows.
    """
    known = list_logs()
    for name, on in artifacts.items():
        if name not in known:
            raise ValueError(f"unknown log artifact '{name}'; the artifacts are: {', '.join(known)}, and all")
        if not isinstance(on, bool):
            raise TypeError(f"set_logs({name}=…) takes True or False, not {on!r}")
    if all is not None:
        if not isinstance(all, bool):
            raise TypeError(f"set_logs(all=…) takes True or False, not {all!r}")
        _C.enable_logs_from_text("all" if all else "-all")
    for name, on in artifacts.items():
        _C.set_log_enabled(name, on)


@contextlib.contextmanager
def capture_logs(*names: str) -> "Iterator[list[tuple[str, str]]]":
    """Collect log records instead of writing them: `with capture_logs("guards") as records: …`.

    `records` is a list of (artifact, text), filled when the block ends. The named artifacts (none: those that are on)
    are on inside the block; the switches are restored after it.
    """
    known = list_logs()
    for name in names:
        if name not in known:
            raise ValueError(f"unknown log artifact '{name}'; the artifacts are: {', '.join(known)}")
    records: "list[tuple[str, str]]" = []
    mask = _C.get_log_mask()
    for name in names:
        _C.set_log_enabled(name, True)
    _C.start_log_capture()
    try:
        yield records
    finally:
        records.extend(_C.stop_log_capture())
        _C.set_log_mask(mask)


def read_environment():
    text = os.environ.get("FRAMEFUSE_LOGS")
    if text:
        try:
            _C.enable_logs_from_text(text)
        except AttributeError as error:
            raise ValueError(f"FRAMEFUSE_LOGS: {error}") from None
