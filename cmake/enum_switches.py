"""Which switches over enumerations of ours have a `default`: there a case that is added later is lost in silence, while
the compiler (-Wswitch) speaks of one that a switch without `default` leaves out.

It reads brackets and no grammar. Invariant: an enumerator of ours is a label `k…`, with or without its enumeration's name;
other libraries' enumerations, which grow without us, numbers and characters may have a `default`, and
so may a switch whose `default` begins with FF_CHECK(false), TORCH_CHECK(false, …) or Fail(…): it is not silent.
"""

import re

import function_lengths

_SWITCH = re.compile(r"\bswitch\s*\(")
_OWN = re.compile(r"\bcase\s+(?!c10::|at::|torch::)(?:\w+::)*k[A-Z]\w*\s*:")
_DEFAULT = re.compile(r"\bdefault\s*:(?!:|\s*(?:FF|TORCH)_CHECK\(false\b|\s*Fail\()")


def _past(text, at, opening, closing):
    """Behind the bracket that closes the first one at or behind `at`."""
    depth = 0
    for found in re.compile(rf"[{opening}{closing}]").finditer(text, at):
        depth += 1 if found[0] == opening else -1
        if depth == 0:
            return found.end()
    return len(text)


def defaults(text):
    """The line of each `default` of a switch over an enumeration of ours."""
    text = function_lengths.blanked(text)
    spans = []  # of the braces, inner switches behind outer ones
    for found in _SWITCH.finditer(text):
        brace = text.find("{", _past(text, found.end() - 1, "(", ")"))
        spans.append((brace, _past(text, brace, "{", "}")))
    for begin, end in spans:
        own = list(text[begin:end])
        for inner, inner_end in spans:
            if begin < inner < end:
                own[inner - begin : inner_end - begin] = [c if c == "\n" else " " for c in text[inner:inner_end]]
        body = "".join(own)
        if _OWN.search(body):
            yield from (text.count("\n", 0, begin + d.start()) + 1 for d in _DEFAULT.finditer(body))


def violations(path, lines, debts):
    """(line number, sentence) for each such `default` of a file that has no debts, or others than the list of debts says."""
    found, debt = list(defaults("\n".join(lines))), debts.get(str(path))
    if debt is None:
        for line in found:
            yield line, "a `default` in a switch over an enumeration of ours: name the cases, so that a new one is missed by the compiler"
    elif len(found) != debt:
        yield 1, f"{len(found)} switches over enumerations have a `default`, cmake/debts.py says {debt}: it may only shrink"
