"""How long the functions of a C++ file are: lines from a body's opening brace to its closing one, as clang-tidy's
readability-function-size counts them.

It reads braces and no grammar, so that it needs no compiler: a body is a brace after parentheses, in a namespace or class.
Invariant: comments, strings and preprocessor lines are blanks to it; a lambda is part of the function that it stands in.
"""

import re

MAX_LINES = 60
_IGNORED = re.compile(
    r'R"(?P<mark>[^()\s]*)\(.*?\)(?P=mark)"'  # raw strings
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\''
    r"|//(?:\\\n|[^\n])*|/\*.*?\*/|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
_SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b(?![^<]*>)")
_NAME = re.compile(r"(~?[\w:]+|operator\s*\S+?)\s*\(")


def blanked(text):
    """The text with what is ignored as blanks; lines stay lines."""
    return _IGNORED.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def _kind_of(head):
    """What a brace opens, at the level of namespaces and classes: "scope", "body" or "value"."""
    head = re.sub(r"\btemplate\s*<[^;{]*?>\s*(?=\w)", "", head, count=1)
    before_parenthesis, parenthesis, _ = head.partition("(")
    if _SCOPE.search(before_parenthesis) and not re.search(r"\)\s*(const|noexcept|override|final|->|$|:)", head):
        return "scope"
    if not parenthesis or re.search(r"(?<!operator)(?<![=!<>])=(?!=)", before_parenthesis):
        return "scope" if not head.strip() else "value"
    return "body"


def functions(text):
    """(name, line of the opening brace, lines) of each function body."""
    text = blanked(text)
    head_at = parentheses = line = last = 0
    opened = name = None
    scopes, outside = [], 0  # what each open brace is; how many of them are no scope
    for found in re.finditer(r"[{}();]", text):
        at, c = found.start(), found[0]
        line, last = line + text.count("\n", last, at), at
        kind = ""
        if c == "{":
            head = text[head_at:at]
            kind = "inner" if outside or parentheses else _kind_of(head)
            scopes.append(kind)
            outside += kind != "scope"
            if kind == "body":
                opened, name = line, (_NAME.search(head) or [None, "?"])[1]
        elif c == "}" and scopes:
            kind = scopes.pop()
            outside -= kind != "scope"
            if kind == "body" and not re.match(r"\s*[,{]", text[at + 1 : at + 200]):  # else a member's initial value
                yield name, opened + 1, line - opened
                kind = "scope"
        elif not outside:
            parentheses += (c == "(") - (c == ")")
        if kind == "scope" or (c == ";" and not outside and not parentheses):
            head_at = at + 1


def violations(lines):
    """(line number, sentence) for each function that is too long."""
    for name, line, length in functions("\n".join(lines)):
        if length > MAX_LINES:
            yield line, f"{name} has {length} lines; the limit is {MAX_LINES}: split it by idea"
