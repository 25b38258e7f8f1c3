"""Regular expressions given as texts: the module re compiles each once, and keeps it."""

import re

from conformance.program import Args, Case, program
from conformance.sample import vector


@program
def found_where_it_is_not_known_yet():
    def f(x):
        parts = re.findall(r"\(([^)]*)\)|(\S+)#first", "b n (h d)")
        return x * (len(parts) + 1), parts

    return Case(f, vector(), then=[re.purge, lambda: None])


@program
def compiled_and_kept():
    kept = []

    def f(x, text):
        pattern = re.compile(r"(?P<name>[a-z]+)=(\d+)#kept", re.IGNORECASE)
        kept.append(pattern)
        match = pattern.search(text)
        return x * 2, match and match.groupdict(), pattern.groups

    return Case(
        f, vector(), "A=17#kept", look=lambda: [(p.pattern, p.flags) for p in kept], then=[lambda: Args(vector(), "none"), re.purge]
    )


@program(whole=False)
def that_is_none():
    def f(x):
        try:
            re.compile("(unclosed#none")
        except re.error as error:
            return x * 3, str(error), error.pos
        return x

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def that_python_warns_of():
    """A set in a set may come to mean something else: eager says so once, when it compiles it."""

    def f(x):
        return x + len(re.findall("[[a]#warned", "[a]#warned"))

    return Case(f, vector(), then=[re.purge])


@program(whole=False)
def after_the_cache_was_emptied():
    def f(x):
        return x * 2, re.sub(r"(\w)_(\w)#emptied?", r"\2-\1", "a_b#emptie")

    return Case(f, vector(), then=[re.purge, lambda: None, re.purge])


@program
def counted_by_kind():
    """A table of one's own that is keyed as re's is: by a type, a text and a number."""
    known = {(int, "b", 0): 5.0, "other": 1.0}

    def f(x, kind, name):
        try:
            return x * known[kind, name, 0]
        except KeyError:
            return x - 1, name

    def others(kind, name):
        return lambda: Args(vector(), kind, name)

    def put():
        known[str, "b", 0] = 7.0
        return Args(vector(), str, "b")

    return Case(f, vector(), str, "b", then=[others(int, "b"), put, others(bool, "b"), lambda: known.clear()])
