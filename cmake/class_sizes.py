"""How many methods and data members the classes of a C++ file declare.

It reads brackets and no grammar, so that it needs no compiler: a class body is split into declarations at its own level.
Invariant: what a class inherits, nested types (they count for themselves), friends, aliases, constants (static), macros
and functions that are deleted or defaulted count nothing.
"""

import re

import function_lengths

MAX_METHODS = 40
MAX_MEMBERS = 20
_HEAD = re.compile(r"\b(?:class|struct|union)\s+(?:\[\[[^\]]*\]\]\s*|alignas\s*\([^)]*\)\s*)?([\w:]+)[^;(){}=]*?\{")
_LABEL = re.compile(r"^\s*(?:(?:public|protected|private)\s*:(?!:)\s*)+")
_NOTHING = re.compile(r"(friend|using|typedef|enum|static_assert|struct|class|union|static)\b(?!.*\()|(friend|using|typedef|static_assert)\b")
_CLOSING = {"{": "}", "(": ")", "[": "]"}


def _past(text, at):
    """Behind the bracket that closes the one at `at`."""
    closing, depth = [], 0
    for i in range(at, len(text)):
        c = text[i]
        if c in _CLOSING:
            closing.append(_CLOSING[c])
        elif closing and c == closing[-1]:
            closing.pop()
            if not closing:
                return i + 1
    return len(text)


def _declarations(body):
    """The declarations of a class body, each with `{}` for what its braces hold."""
    at, text = 0, ""
    while at < len(body):
        c = body[at]
        if c == "{":
            at = _past(body, at)
            text += "{}"
            rest = body[at:].lstrip()
            if "(" in text and not _is_value(text) and rest[:1] not in (",", ";", "{"):  # a function's body ends its declaration
                yield text
                text = ""
        elif c == "(":
            end = _past(body, at)
            text += "(" + re.sub(r"[{};]", " ", body[at + 1 : end - 1]) + ")"
            at = end
        elif c == ";":
            yield text
            text, at = "", at + 1
        else:
            text += c
            at += 1


def _is_value(text):
    """Whether the last brace of a declaration is a value: of a member, or of a constructor's initialiser."""
    return bool(re.search(r"=\s*\{\}$", text)) and "operator" not in text


def _without_templates(text):
    """Without what stands in angle brackets, innermost first."""
    while (shorter := re.sub(r"<[^<>()]*(?:\([^()]*\))?[^<>()]*>", "", text)) != text:
        text = shorter
    return text


def _count(declaration):
    """(methods, members) of a declaration."""
    text = re.sub(r"\[\[.*?\]\]", "", _LABEL.sub("", declaration))
    text = _without_templates(re.sub(r"\btemplate\s*(?=<)", "", text)).strip()
    if not text or _NOTHING.match(text) or re.search(r"=\s*(delete|default)\s*$", text):
        return 0, 0
    before_value = re.split(r"(?<!operator)(?<![=!<>])=(?!=)|(?<!\))\{\}", text, maxsplit=1)[0].strip()
    before_value = re.sub(r"\b(alignas|decltype)\s*\([^()]*\)", "", before_value)
    if "(" in before_value and not re.search(r"\(\s*\*", before_value):
        name = before_value.partition("(")[0]
        is_macro = re.fullmatch(r"[A-Z_0-9]{3,}\s*", name) is not None
        return 0 if is_macro else 1, 0
    if not re.search(r"\w\s+[\w&*]|[&*]", before_value):
        return 0, 0  # a macro
    return 0, 1 + re.sub(r"\([^()]*\)|\[[^\]]*\]", "", text).count(",")


def classes(text):
    """(name, line, methods, members) of each class with a body."""
    text = function_lengths.blanked(text)
    for head in _HEAD.finditer(text):
        if text[: head.start()].rstrip().endswith(("enum", "<", ",")):
            continue
        brace = head.end() - 1
        counts = [_count(d) for d in _declarations(text[brace + 1 : _past(text, brace) - 1])]
        yield head[1], text.count("\n", 0, head.start()) + 1, sum(m for m, _ in counts), sum(m for _, m in counts)


def violations(path, lines, debts):
    """(line number, sentence) for each class that is over a limit, or not as large as the list of debts says."""
    for name, line, methods, members in classes("\n".join(lines)):
        debt = debts.get(f"{path}: {name}")
        if debt is not None:
            if (methods, members) != debt:
                yield line, f"{name} has {methods} methods and {members} members, cmake/debts.py says {debt}: it may only shrink"
            if methods <= MAX_METHODS and members <= MAX_MEMBERS:
                yield line, f"{name} is within the limits: take it out of cmake/debts.py"
        elif methods > MAX_METHODS or members > MAX_MEMBERS:
            limits = f"the limits are {MAX_METHODS} and {MAX_MEMBERS}"
            yield line, f"{name} has {methods} methods and {members} members; {limits}: split it by the state that it owns"
