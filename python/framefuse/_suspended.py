"""What a compiled generator or coroutine function returns: a generator or coroutine that resumes the function's own one.

Between two suspensions the function's frame is captured as any frame is: each step is a part of the compiled function's call.
Invariant: what a caller can do with the object, and hears of one that nobody awaits, is as for the function's own.
"""

import inspect
import sys
import types

from framefuse import _C


class _Steps:
    """Iterates over `own`, or awaits it, under the compiled function."""

    __slots__ = ("_compiled", "_own", "_started")

    def __init__(self, compiled, own):
        self._compiled, self._own, self._started = compiled, own, False

    def __iter__(self):
        return self

    __await__ = __iter__

    def __next__(self):
        return self.send(None)

    def send(self, value):
        self._started = True
        return _C.resume(self._compiled, self._own.send, value)

    def throw(self, *error):
        self._started = True
        return _C.resume(self._compiled, self._own.throw, *error)

    def close(self):  # it throws, too, where it was suspended
        return _C.resume(self._compiled, self._own.close) if self._started else self._own.close()

    def __del__(self):
        if not self._started:
            self._own.close()  # it would say, too, that nobody awaited it


async def _coroutine(steps):
    return await steps


def _generator(steps):
    return (yield from steps)


def suspended(compiled, own):
    """Of the compiled function, and the generator or coroutine that the function made."""
    outer = (_coroutine if isinstance(own, types.CoroutineType) else _generator)(_Steps(compiled, own))
    outer.__name__, outer.__qualname__ = own.__name__, own.__qualname__
    return outer


def marked(compiled):
    """The compiled function, which inspect and asyncio take for a coroutine function where what it wraps is one."""
    wrapped = compiled.__wrapped__
    if inspect.iscoroutinefunction(wrapped):
        if sys.version_info >= (3, 12):
            inspect.markcoroutinefunction(compiled)
        if "asyncio" in sys.modules and sys.version_info < (3, 14):
            compiled._is_coroutine = sys.modules["asyncio"].coroutines._is_coroutine
    return compiled


def install():
    _C.set_suspended(suspended)


__all__ = ["install", "marked", "suspended"]
