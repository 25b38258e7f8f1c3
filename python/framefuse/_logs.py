"""set_logs and its relatives: which artifacts of the compiler's work are told, through Python's `logging`.

Each artifact has a logger, `framefuse.<name>`; the artifact's switch says whether records are made, levels and handlers what becomes of
them. C++ stores a record and calls `_deliver` where user code may run (python/log_relay.h), in the order of writing.
Invariant: what a handler raises does not reach compiled code.
"""

import _thread
import atexit
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Iterator

from framefuse import _C

# What tells that something is not as the user asked for.
_WARNINGS = ("bugs", "fallbacks")
_STANDARD_STREAMS = ("stdout", "stderr", "__stdout__", "__stderr__")


def list_logs() -> "dict[str, str]":
    """Return each log artifact's name and what it shows."""
    return dict(_C.log_artifacts())


def set_logs(*names: str, all: "bool | None" = None, **artifacts: bool) -> None:
    """Switch log artifacts on or off: `set_logs(graph_breaks=True, guards=True)`, `set_logs("+recompiles", all=False)`.

    What is not named stays as it is; `all` is applied first. A name may have a `-` before it (off) or a `+` (on, with longer
    texts), and several stand in one text with commas. Names of `TORCH_LOGS` are taken, too. The environment variable
    FRAMEFUSE_LOGS="graph_breaks,+recompiles" (or "all", "-bugs") does the same when framefuse is imported. `list_logs()` says
    what each artifact shows. A record goes to the logger `framefuse.<name>`, and to stderr unless that is done already.

    Raises `ValueError` for a name that there is not, with the list of those that there are, and `TypeError` for other values than
    True and False; then nothing is changed.
    """
    aliases = dict(_C.log_aliases())
    for name, on in artifacts.items():
        _check_name(name)
        if not isinstance(on, bool):
            raise TypeError(f"set_logs({name}=…) takes True or False, not {on!r}")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"set_logs() takes names of artifacts, not {name!r}")
    if all is not None and not isinstance(all, bool):
        raise TypeError(f"set_logs(all=…) takes True or False, not {all!r}")
    words = [] if all is None else ["all" if all else "-all"]
    words += names
    words += [aliases.get(name, name) if on else "-" + name for name, on in artifacts.items()]
    _enable(",".join(words))


@contextlib.contextmanager
def capture_logs(*names: str) -> "Iterator[list[tuple[str, str]]]":
    """Collect log records instead of writing them: `with capture_logs("guards") as records: …`.

    `records` is a list of (artifact, text), filled when the block ends; loggers see none of them. The named artifacts (none:
    those that are on) are on inside the block; the switches are restored after it. Raises `ValueError` for a name that there
    is not.
    """
    for name in names:
        _check_name(name.lstrip("+-"))
    records: "list[tuple[str, str]]" = []
    mask = _C.get_log_mask()
    _enable(",".join(names))
    _C.start_log_capture()
    try:
        yield records
    finally:
        records.extend(_C.stop_log_capture())
        _C.set_log_mask(mask)


def _check_name(name):
    if name == "all":
        return
    known = list_logs()
    if name not in known and name not in dict(_C.log_aliases()):
        raise ValueError(f"unknown log artifact '{name}'; the artifacts are: {', '.join(known)}, and all")


def _enable(text):
    try:
        _C.enable_logs_from_text(text)
    except AttributeError as error:
        raise ValueError(str(error)) from None


# ---------------------------------------------------------------- to Python's logging


class _ToStderr(logging.StreamHandler):
    """Writes to what sys.stderr is at the moment, unless the user's own handlers show the record there."""

    def __init__(self):
        logging.Handler.__init__(self)

    @property
    def stream(self):
        return sys.stderr

    def emit(self, record):
        if self.stream is not None and not _is_shown(record.name):
            super().emit(record)


def _is_shown(name):
    """Whether a handler that is not ours writes the logger's records to a standard stream."""
    shown = [getattr(sys, stream) for stream in _STANDARD_STREAMS]
    logger = logging.getLogger(name)
    while logger is not None:
        for handler in logger.handlers:
            if not isinstance(handler, _ToStderr) and getattr(handler, "stream", None) in shown:
                return True
        logger = logger.parent if logger.propagate else None
    return False


class _Formatter(logging.Formatter):
    """`[framefuse artifact] [2/1] text`, with the compile id if there is one; in a distributed program `[framefuse artifact rank 1] …`."""

    def format(self, record):
        rank = os.environ.get("RANK")
        id = getattr(record, "compile_id", "")
        where = f" rank {rank}" if rank else ""
        return f"[framefuse {record.name.rpartition('.')[2]}{where}] {f'[{id}] ' if id else ''}{record.getMessage()}"


def _deliver(records):
    """Hand (artifact, text, thread's identity, time, compile id) records to their loggers; C++ calls it."""
    for name, text, thread, created, compile_id in records:
        try:
            _log(name, text, thread, created, compile_id)
        except KeyboardInterrupt:
            _thread.interrupt_main()  # it is the program's, and raised where that goes on
        except BaseException:
            sys.unraisablehook(_Unraisable(*sys.exc_info(), f"a handler of the logger framefuse.{name} raised", None))


def _log(name, text, thread, created, compile_id):
    logger = logging.getLogger(f"framefuse.{name}")
    level = logging.WARNING if name in _WARNINGS else logging.INFO
    if not logger.isEnabledFor(level):
        return
    record = logger.makeRecord(logger.name, level, "(framefuse)", 0, "%s", (text,), None)
    record.created, record.msecs = created, (created % 1) * 1000
    record.thread = thread
    record.compile_id = compile_id
    record.threadName = next((t.name for t in threading.enumerate() if t.ident == thread), record.threadName)
    logger.handle(record)


class _Unraisable:
    """What sys.unraisablehook takes."""

    def __init__(self, exc_type, exc_value, exc_traceback, err_msg, object):
        self.exc_type, self.exc_value, self.exc_traceback = exc_type, exc_value, exc_traceback
        self.err_msg, self.object = err_msg, object


def install():
    """Give the loggers a handler for stderr and let C++ deliver to them. FRAMEFUSE_LOGS_DIRECT=1: C++ writes by itself, at once."""
    if os.environ.get("FRAMEFUSE_LOGS_DIRECT") == "1":
        return
    logger = logging.getLogger("framefuse")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)  # the switches decide, and not the root's level
    handler = _ToStderr()
    form = os.environ.get("FRAMEFUSE_LOGS_FORMAT")
    handler.setFormatter(logging.Formatter(form) if form else _Formatter())
    logger.addHandler(handler)
    _C.start_log_relay(_deliver)
    atexit.register(_C.stop_log_relay)


def read_environment():
    text = os.environ.get("FRAMEFUSE_LOGS")
    if text:
        try:
            _enable(text)
        except ValueError as error:
            raise ValueError(f"FRAMEFUSE_LOGS: {error}") from None
