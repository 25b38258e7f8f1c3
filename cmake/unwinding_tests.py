"""Where code asks whether an attempt is unwinding. A break sets an error that no handler matches, so what failed is told by
the result as of any other error; the evaluator alone asks, before it looks for a handler (BreakController::SetUnwindError).

It reads lines and no grammar: each use of the flag counts.
"""

import re

MAY_ASK = ("tests/", "symbolic/evaluator/", "symbolic/journals/break_controller.")
_FLAG = re.compile(r"\bunwinding\b")
_COMMENT = re.compile(r"(?<!:)//.*")
_TEXT = re.compile(r'"[^"]*"')


def tests(lines):
    """The line of each use of the flag."""
    for number, line in enumerate(lines, 1):
        yield from (number for _ in _FLAG.finditer(_TEXT.sub("", _COMMENT.sub("", line))))


def violations(path, lines, debts):
    """(line number, sentence) for each test in a file that has no debts, or others than the list of debts says."""
    if str(path).startswith(MAY_ASK):
        return
    found, debt = list(tests(lines)), debts.get(str(path))
    if debt is None:
        for line in found:
            yield line, "asks whether the attempt unwinds: the result of what failed says so"
    elif len(found) != debt:
        yield 1, f"{len(found)} tests of unwinding, cmake/debts.py says {debt}: they may only shrink"
