"""Which modules of the package import one another in a ring: none may, not even inside of functions.

Invariant: `from framefuse import _x` and `from framefuse._x import name` are imports of `framefuse._x`; the package's __init__ is
no module here, since all of its submodules may be imported from it.
"""

import ast

PACKAGE = "framefuse"


def imported(text):
    """The names in the package that a module's text imports, wherever it does."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(filter(None, [PACKAGE if node.level else "", node.module or ""]))
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def ring(modules):
    """The modules of a ring among {name: text}, or []."""
    imports = {name: sorted({i for i in imported(text) if i in modules and i not in (name, PACKAGE)}) for name, text in modules.items()}
    done, under_way = set(), []

    def visit(name):
        if name in under_way:
            return under_way[under_way.index(name) :]
        if name in done:
            return []
        under_way.append(name)
        for other in imports[name]:
            if found := visit(other):
                return found
        done.add(under_way.pop())
        return []

    return next((found for name in modules if (found := visit(name))), [])


def modules_of(folder):
    """{name: text} of the package's modules."""
    named = {".".join((PACKAGE, *path.relative_to(folder).with_suffix("").parts)): path for path in sorted(folder.rglob("*.py"))}
    return {name.removesuffix(".__init__"): path.read_text(encoding="utf-8") for name, path in named.items()}
