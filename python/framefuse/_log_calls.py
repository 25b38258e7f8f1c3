"""Records of Python's logging in captured code: the entry emits them, if nothing that hears of them can tell when.

Invariant: `_log` stands for logging.Logger._log. What it looks at is guarded, since it is captured with the frame; C++
(symbolic/calls/log_calls.h) has the place of the call, and breaks where the frame changes what was looked at.
"""

import io
import logging
import time
import types

from framefuse import _C

_LOGGERS = (logging.Logger, logging.RootLogger)
_HANDLERS = (logging.StreamHandler, logging.FileHandler, logging.NullHandler, logging._StderrHandler)
_STYLES = (logging.PercentStyle, logging.StrFormatStyle, logging.StringTemplateStyle)
_STREAMS = (io.TextIOWrapper, io.StringIO, type(None))
# For each type of an argument one that formats like the others of its type.
_LIKE = {int: 0, float: 0.0, str: "", bool: False, type(None): None}


def _is_of_library(known):
    code = getattr(known.__init__ if isinstance(known, type) else known, "__code__", None)
    if code is None:
        return known in (time.localtime, object.__setattr__)
    return code.co_filename == logging.addLevelName.__code__.co_filename


# What was replaced before framefuse came is never what it was.
_AS_IT_IS = [
    (owner, name, getattr(owner, name) if _is_of_library(getattr(owner, name)) else object())
    for owner, names in (
        (logging.Logger, ("findCaller", "makeRecord", "handle", "callHandlers", "filter")),
        (logging.StreamHandler, ("handle", "acquire", "release", "emit", "flush", "format", "filter", "__setattr__")),
        (logging.FileHandler, ("emit", "_open")),
        (logging.NullHandler, ("handle", "emit")),
        (logging.Formatter, ("format", "formatTime", "formatMessage", "usesTime", "converter")),
        (logging.LogRecord, ("__init__", "getMessage")),
        (logging, ("LogRecord", "_logRecordFactory")),
    )
    for name in names
    if hasattr(owner, name)
]
_METHODS = ("findCaller", "makeRecord", "handle", "callHandlers", "filter", "emit", "format", "converter")


def _emit(logger, level, path, line, function, message, arguments):
    logger.handle(logger.makeRecord(logger.name, level, path, line, message, arguments, None, function, None, None))


def _has_own_methods(owner):
    attributes = vars(owner)
    return any(name in attributes for name in _METHODS)


def _flushes_plainly(handler):
    """Whether a flush of its own, if it has one, is a plain stream's, as transformers sets it."""
    attributes = vars(handler)
    if "flush" not in attributes:
        return True
    flush = attributes["flush"]
    return type(flush) is types.BuiltinMethodType and type(flush.__self__) in _STREAMS


def _is_plain_handler(handler, decides):
    if type(handler) not in _HANDLERS or handler.filters or _has_own_methods(handler) or not _flushes_plainly(handler):
        return False
    decides.extend((handler, handler.filters))
    if type(handler) is logging.NullHandler:
        return True
    formatter = handler.formatter
    if type(handler.stream) not in _STREAMS:
        return False
    if formatter is None:
        return True
    decides.extend((formatter, formatter._style))
    plain = type(formatter) is logging.Formatter and type(formatter._style) in _STYLES
    return plain and not formatter._style._defaults and not _has_own_methods(formatter)


def _hear_nothing_else(logger, decides):
    """Whether records of this logger reach handlers of the library alone; `decides` gets what decides that."""
    found = False
    while logger:
        if type(logger) not in _LOGGERS or logger.filters or _has_own_methods(logger):
            return False
        decides.extend((logger, logger.filters, logger.handlers))
        for handler in logger.handlers:
            found = True
            if not _is_plain_handler(handler, decides):
                return False
        if not logger.propagate:
            break
        logger = logger.parent
    return found or (logging.lastResort is not None and _is_plain_handler(logging.lastResort, decides))


def _formats(message, arguments):
    if type(message) is not str or any(type(argument) not in _LIKE for argument in arguments):
        return False
    if len(arguments) == 0:
        return True
    try:
        message % tuple(_LIKE[type(argument)] for argument in arguments)
    except (TypeError, ValueError, KeyError):
        return False
    return True


def log(self, level, msg, args, exc_info=None, extra=None, stack_info=False, stacklevel=1):
    """logging.Logger._log."""
    decides = []
    plain = exc_info is None and extra is None and stack_info is False and type(stacklevel) is int and stacklevel == 1
    if plain and logging._srcfile and all(getattr(owner, name, None) is known for owner, name, known in _AS_IT_IS):
        if _formats(msg, args) and _hear_nothing_else(self, decides):
            if _C.defer_log(_emit, logging._srcfile, tuple(decides), self, level, msg, args):
                return
    self._log(level, msg, args, exc_info=exc_info, extra=extra, stack_info=stack_info, stacklevel=stacklevel)
