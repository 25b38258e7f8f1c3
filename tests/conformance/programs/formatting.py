"""f-strings, format, % and str methods; __format__, __repr__ and __str__ of user classes."""

import sys

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


class Money:
    def __init__(self, amount, log=None):
        self.amount = amount
        self.log = log

    def __format__(self, spec):
        if self.log is not None:
            self.log.append(spec)
        return f"<{self.amount}|{spec}>"

    def __repr__(self):
        return f"Money({self.amount})"

    def __str__(self):
        return f"${self.amount}"


@program
def f_string_values():
    def f(x, n, name):
        return x * n, f"{name}={n:03d} {n!r} {name!s:>5} {n + 1} {{}} {n:>{n}}"

    return Case(f, vector(), 4, "n", then=[lambda: Args(vector(), 7, "other"), lambda: Args(vector(), 4, "é")])


@program
def f_string_self_documenting():
    def f(x, n):
        return x, f"{n=} {n * 2 = :>6}"

    return Case(f, vector(), 3)


@program
def f_string_of_tensor_metadata():
    def f(m):
        return m + 1, f"{m.shape} {m.dtype} {m.dim()} {m.device} {m.requires_grad} {tuple(m.stride())}"

    return Case(f, matrix(), then=[lambda: Args(matrix(4, 1).double())])


@program
def user_format_method():
    log = []

    def f(x, money):
        text = f"{money:>5} {money}"
        return x * len(log), text, format(money, "z"), "{:a}".format(money)

    return Case(f, vector(), Money(3, log), then=[lambda: Args(vector(), Money(4, log))])


@program
def repr_and_str_of_user_class():
    def f(x, money):
        return x, repr(money), str(money), f"{money!r}", f"{money!s}", "%s %r" % (money, money), [money].__repr__()

    return Case(f, vector(), Money(1))


@program
def percent_formatting():
    def f(x, n):
        return x, "%d %5.2f %s %%" % (n, n / 3, "t"), "%(a)s-%(b)x" % {"a": n, "b": 255}

    return Case(f, vector(), 7)


@program
def str_format_method():
    def f(x, n, items):
        return x, "{0} {1}".format(n, items), "{a[0]} {b.real}".format(a=items, b=n)

    return Case(f, vector(), 2, [5, 6])


@program
def string_methods():
    def f(x, text):
        parts = text.split(",")
        joined = "-".join(p.strip().title() for p in parts)
        return (
            x * len(parts),
            joined,
            text.partition(","),
            text.replace("a", "A", 1),
            text.startswith(("a", "b")),
            text.find("z"),
            text.encode().hex(),
            text.center(20, "*"),
            text.upper().casefold().isalpha(),
            text.translate({97: "4"}),
        )

    return Case(f, vector(), "ab, cd,ax", then=[lambda: Args(vector(), "q")])


@program
def string_iteration_and_index():
    def f(x, text):
        total = x
        for character in text:
            total = total + ord(character)
        return total, text[0], text[::-1], text * 2, max(text), "".join(sorted(text))

    return Case(f, vector(), "hello")


@program
def bytes_methods():
    def f(x, data):
        return x + data[0], data.decode(), data + b"!", data.split(b"b"), bytes([1, 2]), data.hex(), list(data)

    return Case(f, vector(), b"abc")


@program(whole=False)
def format_of_tensor_value():
    def f(x):
        y = x.sum()
        return f"{y:.2f} {y.item():.1f}", y

    return Case(f, vector(), then=[lambda: Args(vector(3, 7.0))])


@program(whole=False)
def repr_of_tensor():
    def f(x):
        y = x * 2
        return repr(y), str(x), y + 1

    return Case(f, vector())


@program
def ascii_and_conversions():
    def f(x):
        return (
            x,
            ascii("é"),
            f"{'é'!a}",
            int("12") + int("0x1f", 16),
            float("1e3"),
            bin(5),
            hex(255),
            oct(8),
            complex("1+2j"),
        )

    return Case(f, vector())


@program
def format_error():
    def f(x):
        texts = []
        for attempt in (lambda: f"{3:z}", lambda: f"{'a':d}", lambda: "{missing}".format(), lambda: "%d" % "a"):
            try:
                attempt()
            except Exception as error:
                texts.append((type(error).__name__, str(error)))
        return x, texts

    return Case(f, vector())


@program
def nested_f_strings():
    def f(x, width, items):
        return x, f"{'|'.join(f'{i:>{width}}' for i in items)}", f"{ {'a': 1}['a'] }", f"{(lambda v: v * 2)(3)}"

    return Case(f, vector(), 4, [1, 22])


@program
def long_string_building():
    def f(x):
        out = ""
        for i in range(20):
            out += str(i) if i % 3 else f"[{i}]"
        return x * len(out), out

    return Case(f, vector())


@program
def regular_expressions():
    import re

    pattern = re.compile(r"(\w)(\d+)")

    def f(x, text):
        found = pattern.match(text)
        n = int(found.group(2)) if found else 0
        return x * n, re.sub(r"\d", "#", text), re.findall("[a-z]", text)

    return Case(f, vector(), "k12", then=[lambda: Args(vector(), "none"), lambda: Args(vector(), "z3y4")])


@program
def textwrap_and_string_constants():
    import string
    import textwrap

    def f(x, text):
        return (
            x,
            textwrap.dedent(text),
            string.ascii_letters[:3],
            string.capwords("ab cd"),
            string.Template("$a").substitute(a=1),
        )

    return Case(f, vector(), "  a\n  b")


_LONG_NUMBER = 10**5000
_LONG_TEXT = "9" * 5000


@program(whole=False)
def digits_allowed_by_the_interpreter():
    before = sys.get_int_max_str_digits()

    def f(x):
        caught = []
        for convert, value in ((str, _LONG_NUMBER), (int, _LONG_TEXT)):
            try:
                caught.append(convert(value) is not None)
            except ValueError as error:
                caught.append(str(error))
        return x + 1, caught

    return Case(
        f,
        vector(),
        then=[
            lambda: sys.set_int_max_str_digits(0),
            lambda: sys.set_int_max_str_digits(700),
            lambda: sys.set_int_max_str_digits(before),
        ],
    )


@program
def ascii_of_what_is_made_inside():

    class Named:

        def __init__(self, name):
            self.name = name

        def __repr__(self):
            return "<" + self.name + ">"

    def f(x):
        made = Named("é")
        return x + 1, ascii("é"), ascii(made), f"{made!a:>12}", ascii([1, "ü"]), f"{'é'!a}"

    return Case(f, vector())


@program
def patterns_and_what_they_match():
    import re

    words = re.compile(r"(?P<first>[a-z]+)(\d+)?", re.IGNORECASE)

    def f(x, text):
        matches = [(m.group(0), m["first"], m.span(), m.groups("-"), m.lastgroup) for m in words.finditer(text)]
        upper = words.sub(lambda m: m.group(1).upper() + (m.group(2) or ""), text)
        if (found := words.search(text)) is not None and found.start() == 0:
            x = x + 1
        return (
            x * len(words.findall(text)),
            matches,
            upper,
            words.subn("_", text),
            words.split(text),
            words.fullmatch(text) is None,
            words.pattern,
            words.groups,
            re.escape("a.b"),
            bool(re.compile("a", re.ASCII).match("b")),
        )

    def recompiled():
        nonlocal words
        words = re.compile(r"(?P<first>\w)(x)?")

    return Case(
        f, vector(), "ab1 cd", then=[lambda: Args(vector(), "12 e5"), recompiled, lambda: re.purge(), lambda: None]
    )


@program(whole=False)
def templates_of_replacements_and_patterns_on_the_locale():
    import re

    doubled = re.compile("(a)(b)?")
    local = re.compile(rb"\w", re.LOCALE)

    def f(x, text):
        y = x + 1
        try:
            doubled.sub(r"\3", text)
        except re.error as e:
            y = y * len(str(e))
        return y, doubled.sub(r"<\1\g<0>>", text), local.findall(text.encode()), doubled.match(text)[0]

    return Case(f, vector(), "ab", then=[lambda: Args(vector(), "aab")])
