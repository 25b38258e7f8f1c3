"""save_cache and load_cache: what the disk cache has for this process, as one file beside a model (docs/cache.md)."""

import os
from typing import NamedTuple

from framefuse import _C


class CacheFile(NamedTuple):
    """What `save_cache` wrote: how many entries, and the SHA-256 of the file, which `load_cache` can be asked to check."""

    entries: int
    sha256: str


def save_cache(path: "str | os.PathLike[str]") -> CacheFile:
    """Write all that this process found in the disk cache, or put there, into one file.

    Run the model once before: what was not needed is not in the file. On the CPU nothing is kept, and the file has no
    entries. Raises `OSError` where the file cannot be written.
    """
    _C.wait_for_background()
    return CacheFile(*_C.save_cache(os.fspath(path)))


def load_cache(path: "str | os.PathLike[str]", *, sha256: "str | None" = None) -> int:
    """Have this process find the entries of a file of `save_cache`; returns how many there are.

    The file has machine code, which is run: load only files that come from where your program comes from. `sha256` is
    what `save_cache` returned; a file with another one is refused. Entries of other versions or devices are not used,
    and the log `cache` says so. Raises `ValueError` for a file that is damaged or refused, `OSError` for none.
    """
    return _C.load_cache(os.fspath(path), "" if sha256 is None else sha256.lower())
