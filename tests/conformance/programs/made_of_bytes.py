"""Objects of C types that a function makes, fills and reads: texts, bytes, hashes, spans of time."""

import array
import base64
import datetime
import hashlib
import io
import zlib

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


@program
def text_that_is_written():
    def f(x, rows):
        with io.StringIO() as text:
            for row in range(rows):
                text.write(f"row {row};")
            text.writelines(["a", "b"])
            label = text.getvalue()
        return x + len(label), label

    return Case(f, vector(8), 2, then=[lambda: Args(vector(8), 3), lambda: None])


@program
def key_of_a_cache():
    seen = {}

    def f(x, name):
        digest = hashlib.sha256(name.encode())
        digest.update(b"more")
        key = digest.hexdigest()
        seen[key] = seen.get(key, 0) + 1
        return x * seen[key], hashlib.md5(b"abc", usedforsecurity=False).digest(), base64.b64encode(name.encode())

    return Case(f, vector(8), "a", then=[lambda: Args(vector(8), "b"), lambda: Args(vector(8), "a")])


@program
def numbers_in_an_array():
    def f(x, scale):
        numbers = array.array("d", [1.0, 2.0])
        numbers.append(scale)
        numbers[0] = 4.0
        return x * sum(numbers) + len(numbers) + zlib.crc32(numbers.tobytes()) % 7

    return Case(f, vector(8), 2.5, then=[lambda: Args(vector(8), 3.5), lambda: None])


@program
def spans_of_time():
    def f(x, seconds):
        span = datetime.timedelta(seconds=seconds) * 2 + datetime.timedelta(days=1)
        return x + span.total_seconds(), span > datetime.timedelta(hours=2), span.days

    return Case(f, vector(8), 30, then=[lambda: Args(vector(8), 60), lambda: None])


@program(whole=False)
def objects_from_outside():
    text, digest, numbers = io.StringIO(), hashlib.sha256(b"a"), array.array("d", [1.0])

    def f(x):
        text.write("more")
        digest.update(b"more")
        numbers.append(2.0)
        return x * sum(numbers) + len(text.getvalue()), digest.hexdigest()

    return Case(f, vector(8), then=[lambda: None, lambda: numbers.append(3.0)])


@program(whole=False)
def text_that_lives_on():
    def f(x):
        text = io.StringIO()
        text.write("a")
        torch._dynamo.graph_break()
        text.write("b")
        return x + len(text.getvalue()), text

    return Case(f, vector(8), then=[lambda: None])
