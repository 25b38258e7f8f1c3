"""Numbers packed into bytes, and paths: C code of the standard library that reads its arguments only."""

import pathlib
import struct
import sys

from conformance.program import Args, Case, program
from conformance.sample import vector


@program
def numbers_packed_and_unpacked():
    def f(x, n):
        data = struct.pack("<If", n, 1.5)
        first, second = struct.unpack("<If", data)
        return x * first + second, data, struct.calcsize("<If"), struct.unpack_from("<f", data, 4)

    return Case(f, vector(), 3, then=[lambda: Args(vector(), 4)])


@program
def what_does_not_fit_in_bytes():
    def f(x, n):
        try:
            return x * len(struct.pack("<B", n))
        except struct.error as error:
            return x + 1, str(error)

    return Case(f, vector(), 3, then=[lambda: Args(vector(), 300)])


@program
def parts_of_a_path():
    root = pathlib.PurePosixPath("/models")

    def f(x, name):
        path = root / name / "weights.bin"
        return x * len(path.parts), path.stem, path.suffix, str(path.parent), path.name == "weights.bin"

    return Case(f, vector(), "tiny", then=[lambda: Args(vector(), "a/b")])


@program
def interned_texts():
    def f(x, text):
        return x * len(text), sys.intern(text + "x") is sys.intern(text + "x")

    return Case(f, vector(), "ab", then=[lambda: Args(vector(), "cd")])
